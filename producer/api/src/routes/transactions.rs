//! What is done with transactions: submitting, reading, deciding.

use axum::http::StatusCode;
use ledger::transaction::ReasonCode;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};

use super::{each_transaction, get, in_two_steps, post, transaction, waiting};
use crate::export::Form;
use crate::operation::{Operation, Run, name_schema, reference};
use crate::param::{Param, string};
use crate::problem::Code;
use crate::tokens::Scope;
use crate::view::{HoldToConfirm, NamedTransaction, NewCapture, NewTransaction, Transaction};
use crate::{bulk, decisions, export, holds, submissions, transactions};

pub(super) fn all() -> Vec<Operation> {
    vec![
        submit(),
        submit_batch(),
        list(),
        export_csv(),
        export_json_lines(),
        show(),
        cancel(),
        confirm(),
        release(),
        reschedule(),
        reverse(),
        confirm_batch(),
        release_batch(),
        cancel_batch(),
    ]
}

fn submit() -> Operation {
    let example = json!({
        "id": "rent-2026-11", "source": "alice", "destination": "bob", "value": 1250,
    });
    let hold = json!({
        "id": "card-1", "source": "alice", "destination": "bob", "value": 1250,
        "hold": true, "holdExpiresAt": "2027-11-01T00:00:00Z", "exclusiveKey": "alice-for-bob",
    });
    let key = "Instead of an id in the body: a text of your own, at most 200 bytes, with or without quotes";
    in_two_steps("/v1/transactions", "submit", |call| Box::pin(submissions::submit(call)))
        .about(
            "Submit a transaction",
            "It has an id in the body or an Idempotency-Key, and not both. Either lives for ever: the same \
             content again changes nothing and is answered with today's state and Idempotent-Replayed. \
             Other content is refused with the fields that differ, under an id with 409, under a key with \
             422. An id belongs to the ledger. A key belongs to the name of its token, and a key of a \
             single transaction has nothing in common with the same key of an array; the id is made from \
             all of them.",
        )
        .needs(Scope::Submit)
        .of_accounts()
        .params([Param::header("Idempotency-Key", key, name_schema().build())])
        .takes::<NewTransaction>(
            reference::<NewTransaction>(),
            vec![("one", example), ("hold", hold)],
        )
        .may(&[Code::Conflict, Code::KeyInUse, Code::KeyReused, Code::Refused, Code::Lacking])
}

fn submit_batch() -> Operation {
    let array = json!([
        { "id": "fee-1", "source": "alice", "destination": "bank", "value": "3" },
        { "id": "split-1", "legs": [
            { "account": "alice", "amount": -30 },
            { "account": "bob", "amount": 10 },
            { "account": "carol", "amount": 20 },
        ] },
    ]);
    let key = "A text of your own, at most 200 bytes, for the array; then its items need no ids";
    post("/v1/batch", "submitBatch", |call| Box::pin(bulk::submit(call)))
        .about(
            "Submit an array of transactions",
            "It is answered with 200 when each item was looked at, and may be sent again as a whole. Under \
             an Idempotency-Key the id of an item is made from the name of the token, the key, the \
             item's content and its occurrence (it is the n-th item with this content), so items may be \
             reordered. An item that was refused may be corrected or left out when the array is sent \
             again under its key. If an array lacks or changes an item that was accepted under its key, nothing is \
             written, and the answer is 422 with the ids. An item may have an id in its body, which \
             belongs to the ledger.",
        )
        .needs(Scope::Submit)
        .of_accounts()
        .params(waiting())
        .params([Param::header("Idempotency-Key", key, name_schema().build())])
        .takes::<NewTransaction>(array_of::<NewTransaction>(), vec![("array", array)])
        .gives::<bulk::Submitted>(StatusCode::OK, "Each item of the array was looked at")
        .may(&[Code::KeyReused])
}

/// What a list of transactions is asked for.
fn filter() -> [Param; 7] {
    let reasons = string().enum_values(Some(ReasonCode::ALL.map(ReasonCode::as_str)));
    [
        Param::text("state", "Only these states, separated by commas", string().build()),
        Param::text(
            "account",
            "Only those in flight on this account, and those that have ended and name it",
            name_schema().build(),
        ),
        Param::moment("since", "Only those created since then"),
        Param::moment("until", "Only those created before then"),
        Param::moment("endedSince", "Only those that workers have ended since then"),
        Param::moment("endedUntil", "Only those that workers have ended before then"),
        Param::text("reason", "Only those that are canceled for this reason", reasons.build()),
    ]
}

fn list() -> Operation {
    get("/v1/transactions", "listTransactions", |call| Box::pin(transactions::list(call)))
        .about(
            "List transactions, newest first",
            "Newest created first. Filters may be combined, but for `initial` and `scheduled` with \
                 an account. Of an account there are first those in flight, then the others by their \
                 ends; with `endedSince` or `endedUntil` there are only those that have ended, by \
                 their ends; of those that have ended together, the canceled ones come before those \
                 that are done. What no index knows is looked for, for a fifth of a second: a page \
                 may have fewer items than `limit`, or none, and still a `next`; then \
                 `lookedUntil` says how far it has looked. `prev` leads to the page before. A cursor is \
                 good for the same filters only. A token that is bound to accounts has to name one of them.",
        )
        .needs(Scope::Read)
        .of_accounts()
        .params(filter())
        .params(Param::paged_both_ways())
        .gives::<transactions::Transactions>(StatusCode::OK, "A page")
        .may(&[Code::Refused, Code::Lacking])
}

/// A file of all that a filter names.
fn a_file(path: &'static str, name: &'static str, form: Form, run: Run) -> Operation {
    get(path, name, run)
        .needs(Scope::Read)
        .of_accounts()
        .params(filter())
        .gives_text(form.content_type(), "All of them")
        .may(&[Code::Refused, Code::Lacking])
}

/// What is told of a file after what it holds.
macro_rules! a_file {
    ($holds:literal) => {
        concat!(
            "All that the filters name, in the order of the list: ",
            $holds,
            " It comes piece by piece, for as long as that takes. If it is cut off, the answer ends \
             without its last chunk, which programs tell as an error. Some exports run at the same \
             time; beyond that it is answered with 429."
        )
    };
}

fn export_csv() -> Operation {
    a_file("/v1/export/transactions.csv", "exportCsv", Form::Csv, |call| {
        Box::pin(export::csv(call))
    })
    .about(
        "Export transactions as CSV",
        a_file!(
            "the first line has the names of the columns, and legs, captures and metadata are JSON. A \
             text that a spreadsheet would take for a formula begins with an apostrophe."
        ),
    )
}

fn export_json_lines() -> Operation {
    a_file("/v1/export/transactions.jsonl", "exportJsonLines", Form::JsonLines, |call| {
        Box::pin(export::json_lines(call))
    })
    .about(
        "Export transactions as lines of JSON",
        a_file!("each line is what `GET /v1/transactions/{id}` answers."),
    )
}

fn show() -> Operation {
    get("/v1/transactions/{id}", "showTransaction", |call| Box::pin(transactions::show(call)))
        .about(
            "Show a transaction",
            "With `wait`, the answer comes as soon as it has ended or is held, and else after so \
                 many seconds: `state` says how it stands.",
        )
        .params(waiting())
        .needs(Scope::Read)
        .or_of_own(Scope::Submit)
        .of_accounts()
        .gives::<Transaction>(StatusCode::OK, "The transaction")
        .may(&[Code::NotFound])
}

fn cancel() -> Operation {
    in_two_steps("/v1/transactions/{id}/cancel", "cancel", |call| {
        Box::pin(transactions::cancel(call))
    })
    .about(
        "Take a transaction back before it is applied",
        "A worker undoes what it has posted. Doing it again changes nothing.",
    )
    .act("transaction.cancel", transaction)
    // Who has submitted it takes back his own word, by which no money moves.
    .needs(Scope::Operate)
    .or_of_own(Scope::Submit)
    .of_accounts()
    .may(&[Code::NotFound, Code::WrongState, Code::Refused])
}

fn release() -> Operation {
    in_two_steps("/v1/transactions/{id}/release", "release", |call| Box::pin(holds::release(call)))
        .about("Release a hold", "All that is held goes home. Doing it again changes nothing.")
        .act("hold.release", transaction)
        .needs(Scope::Hold)
        .of_accounts()
        .may(&[Code::NotFound, Code::WrongState, Code::Refused])
}

fn reschedule() -> Operation {
    post("/v1/transactions/{id}/reschedule", "reschedule", |call| {
        Box::pin(transactions::reschedule(call))
    })
    .about(
        "Change when a scheduled transaction is due",
        "The moment must be before its expiresAt. Doing it again changes nothing.",
    )
    .act("transaction.reschedule", transaction)
    .needs(Scope::Operate)
    .of_accounts()
    .takes::<transactions::Reschedule>(
        reference::<transactions::Reschedule>(),
        vec![("moment", json!({ "notBefore": "2026-11-02T08:00:00Z" }))],
    )
    .gives::<Transaction>(StatusCode::OK, "It is rescheduled; this is what it is now")
    .may(&[Code::NotFound, Code::WrongState, Code::Refused])
}

fn reverse() -> Operation {
    in_two_steps("/v1/transactions/{id}/reverse", "reverse", |call| {
        Box::pin(transactions::reverse(call))
    })
    .about(
        "Take an applied transaction back by a new one",
        "The answer is about the new one. Doing it again makes no second one.",
    )
    .act("transaction.reverse", transaction)
    .needs(Scope::Reverse)
    .of_accounts()
    .may(&[Code::NotFound, Code::WrongState, Code::Refused, Code::Conflict])
}

fn confirm() -> Operation {
    let confirm: Run = |call| Box::pin(holds::confirm(call));
    let legs = json!({ "captured": [
        { "account": "alice", "amount": -20 },
        { "account": "bob", "amount": 5 },
        { "account": "carol", "amount": 15 },
    ] });
    in_two_steps("/v1/transactions/{id}/confirm", "confirm", confirm)
        .about(
            "Confirm a hold",
            "What is captured is paid, and what is not goes home. Without a body all of it is captured. A \
             hold is confirmed once, and before it expires: the same capture again changes nothing and is \
             answered with today's state and Idempotent-Replayed, another one is refused.",
        )
        .act_of_people("hold.confirm", transaction)
        .needs(Scope::Hold)
        .of_accounts()
        .may_take::<NewCapture>(vec![("part", json!({ "value": 1000 })), ("legs", legs)])
        .may(&[Code::NotFound, Code::WrongState, Code::AlreadyConfirmed, Code::Refused])
}

/// What is told of an array whose items are each treated as the request for one would be.
macro_rules! as_alone {
    ($does:literal) => {
        concat!(
            "Each as its own request would ",
            $does,
            " it. It is answered with 200 when each item was looked at, and may be sent again as a \
             whole. What is not reached within the time of the request is told as not tried."
        )
    };
}

/// Decisions on an array of transactions: a status for each.
fn in_an_array(path: &'static str, name: &'static str, scope: Scope, run: Run) -> Operation {
    post(path, name, run)
        .needs(scope)
        .params(waiting())
        .gives::<decisions::Decisions>(StatusCode::OK, "Each item of the array was looked at")
}

/// A schema of arrays of a type.
fn array_of<T: ToSchema>() -> RefOr<Schema> {
    // An item that breaks a rule is refused by itself: the array is answered with 200 all the same.
    RefOr::T(Schema::Array(ArrayBuilder::new().items(reference::<T>()).build()))
}

fn confirm_batch() -> Operation {
    let run: Run = |call| Box::pin(decisions::confirm(call));
    let array = json!([{ "id": "card-1", "value": 1000 }, { "id": "card-2" }]);
    in_an_array("/v1/batch/confirm", "confirmBatch", Scope::Hold, run)
        .about(
            "Confirm an array of holds",
            concat!(
                as_alone!("confirm"),
                " An item without an amount captures all; one whose amount is null is refused."
            ),
        )
        .act_of_people("hold.confirm", each_transaction)
        .takes::<HoldToConfirm>(array_of::<HoldToConfirm>(), vec![("array", array)])
}

fn release_batch() -> Operation {
    let run: Run = |call| Box::pin(decisions::release(call));
    let array = json!([{ "id": "card-1" }, { "id": "card-2" }]);
    in_an_array("/v1/batch/release", "releaseBatch", Scope::Hold, run)
        .about("Release an array of holds", as_alone!("release"))
        .act("hold.release", each_transaction)
        .takes::<NamedTransaction>(array_of::<NamedTransaction>(), vec![("array", array)])
}

fn cancel_batch() -> Operation {
    let run: Run = |call| Box::pin(decisions::cancel(call));
    let array = json!([{ "id": "rent-2026-11" }, { "id": "card-2" }]);
    in_an_array("/v1/batch/cancel", "cancelBatch", Scope::Operate, run)
        .about("Take an array of transactions back before they are applied", as_alone!("cancel"))
        .act("transaction.cancel", each_transaction)
        .takes::<NamedTransaction>(array_of::<NamedTransaction>(), vec![("array", array)])
}
