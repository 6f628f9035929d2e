//! What is done with accounts.

use axum::http::StatusCode;
use client::{ActSubject, SubjectKind};
use serde_json::json;

use super::{account, get, post, waiting};
use crate::accounts;
use crate::operation::{Operation, Run, reference};
use crate::param::{Param, string};
use crate::problem::Code;
use crate::received::Received;
use crate::tokens::Scope;
use crate::view::{Account, NewAccount, NewFloor};

pub(super) fn all() -> Vec<Operation> {
    vec![
        create(),
        list(),
        show(),
        statement(),
        set_floor(),
        change(
            ("/v1/accounts/{id}/freeze", "freeze"),
            "account.freeze",
            |call| Box::pin(accounts::freeze(call)),
            "Refuse new postings until it is unfrozen",
        ),
        change(
            ("/v1/accounts/{id}/unfreeze", "unfreeze"),
            "account.unfreeze",
            |call| Box::pin(accounts::unfreeze(call)),
            "Take postings again",
        ),
        change(
            ("/v1/accounts/{id}/close", "close"),
            "account.close",
            |call| Box::pin(accounts::close(call)),
            "Refuse postings for good, with nothing left on it",
        ),
    ]
}

/// The account that a body would open, as far as it names one.
fn opened(received: &Received) -> ActSubject {
    let body = received.json().unwrap_or_default();
    ActSubject::of(SubjectKind::Account, body["account"].as_str())
}

fn create() -> Operation {
    let example = json!({ "account": "alice", "balance": 1000 });
    let paid = json!({ "account": "alice", "balance": 1000, "from": "capital" });
    post("/v1/accounts", "createAccount", |call| Box::pin(accounts::create(call)))
        .about(
            "Create an account",
            "The same again changes nothing. Another opening balance, floor or currency is \
             refused. A balance other than zero makes money, so that needs the scope `operate`, \
             too. With `from`, another account pays it: the account is opened with 0, and a transfer \
             of the id `open:` and its name pays the balance in, which needs the scope `submit`, \
             too, and money above the floor of that account. `openingTransfer` says what became of \
             it; where it is refused or canceled, the account stays open without the money. `wait` \
             is for that transfer.",
        )
        .act("account.open", opened)
        .needs(Scope::Accounts)
        .of_accounts()
        .takes::<NewAccount>(reference::<NewAccount>(), vec![("account", example), ("paid", paid)])
        .params(waiting())
        .gives::<Account>(StatusCode::CREATED, "It is new")
        .gives::<Account>(StatusCode::OK, "It was there already; this is what it is today")
        .may(&[Code::Conflict, Code::Refused, Code::NotFound])
}

fn list() -> Operation {
    get("/v1/accounts", "listAccounts", |call| Box::pin(accounts::list(call)))
        .about(
            "List accounts, by name",
            "A token that is bound to accounts gets only these; where ids are no texts, it is refused.",
        )
        .needs(Scope::Read)
        .of_accounts()
        .params(Param::paged())
        .gives::<accounts::Accounts>(StatusCode::OK, "A page")
        .may(&[Code::Refused])
}

fn show() -> Operation {
    get("/v1/accounts/{id}", "showAccount", |call| Box::pin(accounts::show(call)))
        .about(
            "Show an account",
            "With what may be spent now, and the transactions in flight on it.",
        )
        .needs(Scope::Read)
        .of_accounts()
        .gives::<Account>(StatusCode::OK, "The account")
        .may(&[Code::NotFound])
}

fn statement() -> Operation {
    get("/v1/accounts/{id}/statement", "statement", |call| Box::pin(accounts::statement(call)))
        .about(
            "Show what has happened to an account",
            "Its transactions that are done, in the order in which they were booked, with the \
             running balance; with `order=newest` from the newest back. `prev` leads to the page \
             before. Where the oldest come first, a page may have fewer items than `limit`, or none, \
             and still a `next`: what was booked a few seconds ago may not be certain yet. Where the \
             newest come first, what is booked meanwhile is above the first page. The balances of a \
             page are right as of one moment. What was booked before `from`, or before a page of the \
             newest, is read from sums that workers make of all that is older than some minutes.",
        )
        .needs(Scope::Read)
        .of_accounts()
        .params([
            Param::text(
                accounts::ORDER,
                "Which come first; `oldest` by default",
                string().enum_values(Some(["oldest", "newest"])).build(),
            ),
            Param::moment("from", "Only what was booked then or later"),
            Param::moment("to", "Only what was booked before"),
        ])
        .params(Param::paged_both_ways())
        .gives::<accounts::Statement>(StatusCode::OK, "A page of the statement")
        .may(&[Code::NotFound, Code::Refused, Code::Lacking])
}

fn set_floor() -> Operation {
    let example = json!({ "floor": -50000, "reason": "credit line until May" });
    post("/v1/accounts/{id}/floor", "setFloor", |call| Box::pin(accounts::set_floor(call)))
        .about(
            "Change the lowest balance that a debit may leave",
            "A floor above the balance is refused, with the highest one that the account takes now. \
             What transactions in flight and holds take out is out of the balance already. Doing it \
             again changes nothing, and is answered with Idempotent-Replayed.",
        )
        .act_with_body("account.floor", account)
        .needs(Scope::Accounts)
        .of_accounts()
        .takes::<NewFloor>(
            reference::<NewFloor>(),
            vec![("limit", example), ("unlimited", json!({ "floor": "none" }))],
        )
        .gives::<Account>(StatusCode::OK, "The account as it is now")
        .may(&[Code::NotFound, Code::Refused])
}

fn change(
    (path, name): (&'static str, &'static str),
    what: &'static str,
    run: Run,
    summary: &'static str,
) -> Operation {
    post(path, name, run)
        .about(summary, "Doing it again changes nothing.")
        .act(what, account)
        .needs(Scope::Accounts)
        .of_accounts()
        .gives::<Account>(StatusCode::OK, "The account as it is now")
        .may(&[Code::NotFound, Code::Refused])
}
