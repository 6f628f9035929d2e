//! The operations of the API: what `producer serve` offers, in the order of its page.

use std::sync::LazyLock;

use ::overview::types::Overview;
use axum::http::{Method, StatusCode};
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};

use super::answer::Answer;
use super::call::Call;
use super::operation::{Operation, Run, name_schema, reference};
use super::param::{Param, any_object, string};
use super::problem::{Code, Problem};
use super::received::WAIT_MAX_S;
use super::tokens::Scope;
use super::view::{Account, NewAccount, NewCapture, NewTransaction, Stands, Transaction};
use super::{
    accounts, bulk, events, holds, ledger, letters, openapi, overview, page, parked, submissions,
    transactions,
};

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    [about_transactions(), about_accounts(), about_the_ledger(), about_letters(), about_itself()]
        .into_iter()
        .flatten()
        .collect()
});

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter()
}

fn get(path: &'static str, name: &'static str, run: Run) -> Operation {
    Operation::new(Method::GET, path, name, run)
}

fn post(path: &'static str, name: &'static str, run: Run) -> Operation {
    Operation::new(Method::POST, path, name, run)
}

/// The wish to wait for the outcome.
fn waiting() -> [Param; 2] {
    [
        Param::number("wait", "Wait so many seconds for the outcome", 0, WAIT_MAX_S),
        Param::header("Prefer", "wait=SECONDS: the same as a wish (RFC 7240)", string().build()),
    ]
}

/// Answers of operations that may begin something: 200 when it has ended, 202 when not.
fn in_two_steps(operation: Operation) -> Operation {
    operation
        .gives::<Stands>(StatusCode::OK, "It has come to its end; this is its outcome")
        .gives::<Stands>(StatusCode::ACCEPTED, "It is durable and on its way")
        .params(waiting())
}

fn about_transactions() -> Vec<Operation> {
    vec![
        submit(),
        submit_batch(),
        get("/v1/transactions", "listTransactions", |call| Box::pin(transactions::list(call)))
            .about(
                "List transactions, newest first",
                "Filters may be combined, but for `initial` and `scheduled` with an account. Of an \
                 account there are first those in flight, then the others by their ends; of those \
                 that have ended together, the canceled ones come before those that are done. A \
                 page may have fewer items than `limit`, or none, and still a `next`. A cursor is \
                 good for the same filters only.",
            )
            .needs(Scope::Read)
            .params([
                Param::text("state", "Only these states, separated by commas", string().build()),
                Param::text(
                    "account",
                    "Only those in flight on this account, and those that have ended and \
                     name it",
                    name_schema().build(),
                ),
                Param::moment("since", "Only those created since then"),
            ])
            .params(Param::paged())
            .gives::<transactions::Transactions>(StatusCode::OK, "A page")
            .may(&[Code::Refused, Code::Lacking]),
        get("/v1/transactions/{id}", "showTransaction", |call| Box::pin(transactions::show(call)))
            .about(
                "Show a transaction",
                "With `wait`, the answer comes as soon as it has ended or is held, and else after so \
                 many seconds: `state` says how it stands.",
            )
            .params(waiting())
            .needs(Scope::Read)
            .gives::<Transaction>(StatusCode::OK, "The transaction")
            .may(&[Code::NotFound]),
        in_two_steps(post("/v1/transactions/{id}/cancel", "cancel", |call| {
            Box::pin(transactions::cancel(call))
        }))
        .about(
            "Take a transaction back before it is applied",
            "A worker undoes what it has posted. Doing it again changes nothing.",
        )
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::WrongState, Code::Refused]),
        confirm(),
        in_two_steps(post("/v1/transactions/{id}/release", "release", |call| {
            Box::pin(holds::release(call))
        }))
        .about("Release a hold", "All that is held goes home. Doing it again changes nothing.")
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::WrongState, Code::Refused]),
        post("/v1/transactions/{id}/reschedule", "reschedule", |call| {
            Box::pin(transactions::reschedule(call))
        })
        .about(
            "Change when a scheduled transaction is due",
            "The moment must be before its expiresAt. Doing it again changes nothing.",
        )
        .needs(Scope::Operate)
        .takes::<transactions::Reschedule>(
            reference::<transactions::Reschedule>(),
            vec![("moment", json!({ "notBefore": "2026-11-02T08:00:00Z" }))],
        )
        .gives::<Transaction>(StatusCode::OK, "It is rescheduled; this is what it is now")
        .may(&[Code::NotFound, Code::WrongState, Code::Refused]),
        in_two_steps(post("/v1/transactions/{id}/reverse", "reverse", |call| {
            Box::pin(transactions::reverse(call))
        }))
        .about(
            "Take an applied transaction back by a new one",
            "The answer is about the new one. Doing it again makes no second one.",
        )
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::WrongState, Code::Refused, Code::Conflict]),
    ]
}

fn confirm() -> Operation {
    let confirm: Run = |call| Box::pin(holds::confirm(call));
    let legs = json!({ "captured": [
        { "account": "alice", "amount": -20 },
        { "account": "bob", "amount": 5 },
        { "account": "carol", "amount": 15 },
    ] });
    in_two_steps(post("/v1/transactions/{id}/confirm", "confirm", confirm))
        .about(
            "Confirm a hold",
            "What is captured is paid, and what is not goes home. Without a body all of it is captured. A \
             hold is confirmed once, and before it expires: the same capture again changes nothing and is \
             answered with today's state and Idempotent-Replayed, another one is refused.",
        )
        .needs(Scope::Operate)
        .may_take::<NewCapture>(vec![("part", json!({ "value": 1000 })), ("legs", legs)])
        .may(&[Code::NotFound, Code::WrongState, Code::AlreadyConfirmed, Code::Refused])
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
    in_two_steps(post("/v1/transactions", "submit", |call| Box::pin(submissions::submit(call))))
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
        .params([Param::header("Idempotency-Key", key, name_schema().build())])
        .takes::<NewTransaction>(
            reference::<NewTransaction>(),
            vec![("one", example), ("hold", hold)],
        )
        .may(&[Code::Conflict, Code::KeyInUse, Code::KeyReused, Code::Refused, Code::Lacking])
}

fn submit_batch() -> Operation {
    // An item that breaks a rule is refused by itself: the array is answered with 200 all the same.
    let many = ArrayBuilder::new().items(reference::<NewTransaction>()).build();
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
        .params(waiting())
        .params([Param::header("Idempotency-Key", key, name_schema().build())])
        .takes::<NewTransaction>(RefOr::T(Schema::Array(many)), vec![("array", array)])
        .gives::<bulk::Submitted>(StatusCode::OK, "Each item of the array was looked at")
        .may(&[Code::KeyReused])
}

fn about_accounts() -> Vec<Operation> {
    let change = |path, name, run: Run, summary| {
        post(path, name, run)
            .about(summary, "Doing it again changes nothing.")
            .needs(Scope::Operate)
            .gives::<Account>(StatusCode::OK, "The account as it is now")
            .may(&[Code::NotFound, Code::Refused])
    };
    let example = json!({ "account": "alice", "balance": 1000 });
    vec![
        post("/v1/accounts", "createAccount", |call| Box::pin(accounts::create(call)))
            .about(
                "Create an account",
                "The same again changes nothing. Another opening balance, floor or currency is \
                 refused.",
            )
            .needs(Scope::Operate)
            .takes::<NewAccount>(reference::<NewAccount>(), vec![("account", example)])
            .gives::<Account>(StatusCode::CREATED, "It is new")
            .gives::<Account>(StatusCode::OK, "It was there already; this is what it is today")
            .may(&[Code::Conflict, Code::Refused, Code::NotFound]),
        get("/v1/accounts", "listAccounts", |call| Box::pin(accounts::list(call)))
            .about("List accounts, by name", "")
            .needs(Scope::Read)
            .params(Param::paged())
            .gives::<accounts::Accounts>(StatusCode::OK, "A page"),
        get("/v1/accounts/{id}", "showAccount", |call| Box::pin(accounts::show(call)))
            .about(
                "Show an account",
                "With what may be spent now, and the transactions in flight on it.",
            )
            .needs(Scope::Read)
            .gives::<Account>(StatusCode::OK, "The account")
            .may(&[Code::NotFound]),
        get("/v1/accounts/{id}/statement", "statement", |call| Box::pin(accounts::statement(call)))
            .about(
                "Show what has happened to an account",
                "Its transactions that are done, in the order in which they were booked, with the \
                 running balance. A page may have fewer items than `limit`, or none, and still a \
                 `next`: what was booked a few seconds ago may not be certain yet. What was booked \
                 before `from` is read from sums that workers make of all that is older than some \
                 minutes.",
            )
            .needs(Scope::Read)
            .params([
                Param::moment("from", "Only what was booked then or later"),
                Param::moment("to", "Only what was booked before"),
            ])
            .params(Param::paged())
            .gives::<accounts::Statement>(StatusCode::OK, "A page of the statement")
            .may(&[Code::NotFound, Code::Refused, Code::Lacking]),
        change(
            "/v1/accounts/{id}/freeze",
            "freeze",
            |call| Box::pin(accounts::freeze(call)),
            "Refuse new postings until it is unfrozen",
        ),
        change(
            "/v1/accounts/{id}/unfreeze",
            "unfreeze",
            |call| Box::pin(accounts::unfreeze(call)),
            "Take postings again",
        ),
        change(
            "/v1/accounts/{id}/close",
            "close",
            |call| Box::pin(accounts::close(call)),
            "Refuse postings for good, with nothing left on it",
        ),
    ]
}

/// Which ends a caller wants to hear of.
fn of_ends() -> [Param; 4] {
    let end = string().enum_values(Some(["done", "canceled"])).build();
    let currency = string().build();
    [
        Param::text("state", "Only this end", end),
        Param::text("account", "Only those that name this account", name_schema().build()),
        Param::text("currency", "Only those in this currency", currency),
        Param::family(
            events::METADATA,
            "`metadata.NAME=VALUE` or `metadata[NAME]=VALUE`: only those whose metadata has this \
             field with this value; a NAME with points leads into objects",
        ),
    ]
}

fn list_events() -> Operation {
    let after = string().pattern(Some("^([0-9]+|last)$")).build();
    let about = "After the end with this number: 0, which is the default, is the beginning, and \
                 `last` is after all that has ended; then the `next` of the page before";
    get("/v1/events", "listEvents", |call| Box::pin(events::list(call)))
        .about(
            "List what ended, in an order that never changes",
            "Each end has a number, from 1 on, without a gap. Who only follows the numbers misses \
             nothing, on any server and after any pause. With `wait`, an empty page waits for \
             what comes. A page looks at 10,000 ends at most, so with filters it may have fewer \
             items than `limit`, or none: `next` moves on all the same, and `last` says whether \
             there was more. It is no order of commits: what one worker has ended may have a \
             smaller number than what another one has ended some milliseconds before.",
        )
        .needs(Scope::Read)
        .params([Param::text("after", about, after), Param::limit()])
        .params(of_ends())
        .params(waiting())
        .gives::<events::Events>(StatusCode::OK, "A page")
        .may(&[Code::Lacking])
}

fn follow_events() -> Operation {
    let last = "The id of the last event that was received: what ended since comes first";
    get("/v1/events/stream", "followEvents", |call| Box::pin(events::follow(call)))
        .about(
            "Follow what ends",
            "Server-sent events `transaction.done` and `transaction.canceled`, in the order of \
             `GET /v1/events`; an event's id is its number there. The schema of the data is \
             `common/schemas/outcome.json`. Who comes back with `Last-Event-ID`, to any server, \
             gets what has ended since.",
        )
        .needs(Scope::Read)
        .params(of_ends())
        .params([Param::header("Last-Event-ID", last, string().build())])
        .gives_text("text/event-stream", "The events, without an end")
        .may(&[Code::Lacking])
}

fn about_the_ledger() -> Vec<Operation> {
    vec![
        list_events(),
        follow_events(),
        get("/v1/overview", "overview", |call| Box::pin(overview::show(call)))
            .about(
                "What operators look at first",
                "Rates, latency, what waits, workers, queues, and what is wrong, in words. It is \
                 looked at every two seconds while somebody asks, and for all who ask at once; an \
                 answer comes also while a server is away, with the age of what was known.",
            )
            .needs(Scope::Read)
            .gives::<Overview>(StatusCode::OK, "The newest look, and points of 15 minutes"),
        get("/v1/overview/stream", "watchOverview", |call| Box::pin(overview::follow(call)))
            .about(
                "Follow the overview",
                "Server-sent events. The first is `overview`, as `GET /v1/overview` tells it: take it in \
                 place of everything. Each `sample` after it is the same, but for `points`, which has \
                 only those that are new: append them. A client that comes back begins anew.",
            )
            .needs(Scope::Read)
            .gives_text("text/event-stream", "The events, without an end"),
        get("/v1/stats", "stats", |call| Box::pin(ledger::stats(call)))
            .about("Count transactions by state and reason", "The counts may be ten seconds old.")
            .needs(Scope::Read)
            .gives::<ledger::Stats>(StatusCode::OK, "The counts"),
        post("/v1/audit", "audit", |call| Box::pin(ledger::audit(call)))
            .about(
                "Check every rule of the ledger on every document",
                "It reads everything that is stored; what it says stands for one moment. One audit \
                 runs at a time.",
            )
            .needs(Scope::Operate)
            .params([Param::flag("atRest", "Count what is not final as a violation")])
            .gives::<ledger::Audit>(StatusCode::OK, "What it found")
            .long(),
    ]
}

fn about_letters() -> Vec<Operation> {
    vec![
        get("/v1/dead-letters", "listDeadLetters", |call| Box::pin(letters::list(call)))
            .about(
                "Count and list the messages that workers have given up",
                "Nothing is taken out of the queue.",
            )
            .needs(Scope::Operate)
            .params([
                Param::limit(),
                Param::text("reason", "Only letters with this reason", string().build()),
            ])
            .gives::<letters::Letters>(StatusCode::OK, "The letters")
            .long(),
        get("/v1/dead-letters/{id}", "showDeadLetter", |call| Box::pin(letters::show(call)))
            .about("Show a letter, and how its transactions stand", "")
            .needs(Scope::Operate)
            .gives::<letters::LookedAt>(StatusCode::OK, "The letter")
            .may(&[Code::NotFound])
            .long(),
        post("/v1/dead-letters/{id}/replay", "replayDeadLetter", |call| {
            Box::pin(letters::replay(call))
        })
        .about(
            "Bring the transactions of a letter back",
            "What waits is published, what is parked is unparked and published, what is in flight is \
             left to its worker. The letter goes when nothing of it is left.",
        )
        .needs(Scope::Operate)
        .gives::<letters::LookedAt>(StatusCode::OK, "It was replayed, and is out of the queue")
        .may(&[Code::NotFound, Code::Refused])
        .long(),
        post("/v1/dead-letters/{id}/discard", "discardDeadLetter", |call| {
            Box::pin(letters::discard(call))
        })
        .about("Take a letter out of the queue for good", "Its transactions stay as they are.")
        .needs(Scope::Operate)
        .gives::<letters::LookedAt>(StatusCode::OK, "It is out of the queue")
        .may(&[Code::NotFound])
        .long(),
        get("/v1/parked", "listParked", |call| Box::pin(parked::list(call)))
            .about("List the transactions that are set apart", "")
            .needs(Scope::Operate)
            .params([Param::limit()])
            .gives::<parked::AllParked>(StatusCode::OK, "The parked transactions"),
        in_two_steps(post("/v1/parked/{id}/replay", "replayParked", |call| {
            Box::pin(parked::replay(call))
        }))
        .about("Bring a parked transaction back", "Do it when what was wrong is mended.")
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::Refused]),
        in_two_steps(post("/v1/parked/{id}/discard", "discardParked", |call| {
            Box::pin(parked::discard(call))
        }))
        .about(
            "Give a parked transaction up",
            "It is canceled, and a worker undoes what it has posted.",
        )
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::WrongState, Code::Refused]),
    ]
}

fn about_itself() -> Vec<Operation> {
    vec![
        get("/v1/openapi.json", "openapi", |_| Box::pin(async { Ok(openapi::answer()) }))
            .about("This document", "")
            .gives_any::<super::problem::ProblemDetails>(
                StatusCode::OK,
                "An OpenAPI document",
                RefOr::T(any_object().into()),
            ),
        get("/v1", "page", |_| Box::pin(async { Ok(page::answer()) }))
            .about("A page about the API", "")
            .gives_text("text/html; charset=utf-8", "The page"),
        get("/metrics", "metrics", |call| Box::pin(metrics(call)))
            .about("Figures for Prometheus", "")
            .needs(Scope::Read)
            .gives_text("text/plain; version=0.0.4", "The figures"),
        get("/healthz", "healthz", |_| Box::pin(async { Ok(Answer::text("text/plain", "ok\n")) }))
            .about("Whether the server lives", "")
            .gives_text("text/plain", "It lives"),
        get("/readyz", "readyz", |call| Box::pin(ready(call)))
            .about("Whether submissions are taken", "")
            .gives_text("text/plain", "They are"),
    ]
}

async fn metrics(call: Call) -> Result<Answer, Problem> {
    Ok(Answer::text(
        "text/plain; version=0.0.4",
        call.api.metrics.page(call.api.gate.check().is_ok()),
    ))
}

async fn ready(call: Call) -> Result<Answer, Problem> {
    call.api.gate.check()?;
    call.api
        .client
        .store()
        .server_now()
        .await
        .map_err(|error| Problem::new(Code::Unavailable, format!("MongoDB: {error}")))?;
    Ok(Answer::text("text/plain", "ok\n"))
}
