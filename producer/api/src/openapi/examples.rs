//! An answer of each operation, as the document shows it.
//!
//! All of them tell of the same few accounts and transactions, which the examples of the bodies
//! name, too.

use serde_json::{Value, json};

/// An answer in JSON of the operation of this name with this status.
pub(super) fn of(operation: &str, status: u16) -> Option<Value> {
    Some(match (operation, status) {
        ("submit" | "confirm", 200) => stands("rent-2026-11", "done"),
        ("submit" | "confirm" | "replayParked", 202) => stands("rent-2026-11", "initial"),
        ("reverse", 200) => stands("reverse:rent-2026-11", "done"),
        ("reverse", 202) => stands("reverse:rent-2026-11", "initial"),
        ("cancel" | "discardParked", 200) => canceled("requested", "canceled on request"),
        ("release", 200) => canceled("released", "released on request"),
        ("cancel" | "release" | "discardParked", 202) => stands("rent-2026-11", "canceling"),
        ("replayParked", 200) => stands("rent-2026-11", "done"),
        ("submitBatch", 200) => batch(),
        ("confirmBatch", 200) => decisions("pending", Some(false)),
        ("releaseBatch", 200) => decisions("canceling", Some(false)),
        ("cancelBatch", 200) => decisions("canceling", None),
        ("listTransactions", 200) => json!({ "items": [transaction()], "next": "eyJ2IjoxfQ" }),
        ("showTransaction", 200) => transaction(),
        ("reschedule", 200) => json!({
            "id": "rent-2026-12", "state": "scheduled", "source": "alice", "destination": "bob",
            "value": "1250", "notBefore": "2026-12-01T06:00:00Z",
            "submittedNotBefore": "2026-12-01T00:00:00Z", "createdAt": "2026-11-29T09:00:00.12Z",
        }),
        ("createAccount", 201) => paid_account(),
        ("createAccount" | "showAccount" | "unfreeze", 200) => account("open"),
        ("setFloor", 200) => with_floor("-50000"),
        ("freeze", 200) => account("frozen"),
        ("close", 200) => account("closed"),
        ("listAccounts", 200) => {
            json!({ "items": [account("open")], "next": "eyJ2IjoxfQ", "prev": "eyJ2IjowfQ" })
        }
        ("statement", 200) => statement(),
        ("listEvents", 200) => events(),
        ("overview", 200) => overview(),
        ("stats", 200) => json!({
            "states": { "done": 1_204, "canceled": 17, "initial": 3 },
            "reasons": { "insufficient_funds": 16, "requested": 1 },
            "estimated": false,
            "ageSeconds": 4,
        }),
        ("audit", 200) => json!({
            "ok": true, "accounts": 4, "transactions": 1_224, "inFlight": 3, "resting": 0,
            "parked": 0, "violationCount": 0, "violations": [], "unexplainedAccounts": 0,
            "unexplained": [], "snapshot": true, "moments": 1, "seconds": 0.21,
        }),
        ("listDeadLetters", 200) => json!({
            "count": 1, "complete": true,
            "groups": [{ "reason": "kills_worker", "count": 1 }], "items": [letter()],
        }),
        ("showDeadLetter", 200) => report("stays"),
        ("replayDeadLetter", 200) => report("replayed"),
        ("discardDeadLetter", 200) => report("discarded"),
        ("listParked", 200) => json!({ "items": [{
            "id": "rent-2026-11", "state": "initial", "code": "transaction_unwritable",
            "message": "the database refuses its claim: `value` is a text; write a number",
            "at": "2026-11-29T09:00:07Z",
        }] }),
        ("listActs", 200) => acts(),
        ("showWorker" | "drainWorker", 200) => json!({
            "worker": "settle-1", "drained": true, "since": "2026-11-29T09:00:00Z", "by": "ada",
            "reason": "its machine is to be replaced",
            "workersLeft": ["settle-1 finishes 12 transactions"],
        }),
        ("resumeWorker", 200) => json!({
            "worker": "settle-1", "drained": false, "since": "2026-11-29T09:20:00Z", "by": "ada",
            "workersLeft": [],
        }),
        ("showSettlement" | "pause", 200) => json!({
            "paused": true, "since": "2026-11-29T09:00:00Z", "by": "ada",
            "reason": "the price list is wrong", "workersLeft": [],
        }),
        ("resume", 200) => json!({
            "paused": false, "since": "2026-11-29T09:20:00Z", "by": "ada", "workersLeft": [],
        }),
        ("openapi", 200) => json!({ "openapi": "3.1.0", "info": { "title": "Tandem" } }),
        _ => return None,
    })
}

fn stands(id: &str, state: &str) -> Value {
    json!({ "id": id, "state": state })
}

fn canceled(code: &str, message: &str) -> Value {
    json!({
        "id": "rent-2026-11", "state": "canceled", "reason": { "code": code, "message": message },
    })
}

fn batch() -> Value {
    json!({
        "summary": { "submitted": 1, "known": 0, "refused": 1, "failed": 0 },
        "items": [
            { "index": 0, "id": "fee-1", "status": 202, "replayed": false, "state": "initial" },
            {
                "index": 1, "id": "split-1", "status": 422, "replayed": false,
                "problem": {
                    "type": "urn:tandem:problem:invalid",
                    "title": "A field breaks a rule; correct it",
                    "status": 422,
                    "detail": "legs: the amounts must sum to zero, and sum to 1",
                    "errors": [{
                        "detail": "the amounts must sum to zero, and sum to 1", "pointer": "#/legs",
                    }],
                },
            },
        ],
    })
}

fn decisions(state: &str, replayed: Option<bool>) -> Value {
    let mut decided = json!({ "index": 0, "id": "card-1", "status": 202, "state": state });
    if let Some(replayed) = replayed {
        decided["replayed"] = replayed.into();
    }
    json!({
        "summary": { "decided": 1, "refused": 1, "failed": 0 },
        "items": [
            decided,
            {
                "index": 1, "id": "card-2", "status": 404,
                "problem": {
                    "type": "urn:tandem:problem:not-found",
                    "title": "Nothing has this name",
                    "status": 404,
                    "detail": "card-2: no such transaction",
                },
            },
        ],
    })
}

fn transaction() -> Value {
    json!({
        "id": "rent-2026-11", "state": "done", "source": "alice", "destination": "bob",
        "value": "1250", "metadata": { "order": "o-17" }, "submittedBy": "shop",
        "application": "worker-1", "attempts": 1,
        "createdAt": "2026-11-29T09:00:00.12Z", "lastModified": "2026-11-29T09:00:00.151Z",
    })
}

fn account(status: &str) -> Value {
    json!({
        "id": "alice", "status": status, "balance": "1000", "available": "1000",
        "pendingDebits": "0", "pendingCredits": "0", "floor": "0", "openingBalance": "1000",
        "marks": 0, "createdAt": "2026-11-29T08:59:00.5Z",
    })
}

fn paid_account() -> Value {
    let mut account = account("open");
    for field in ["balance", "available", "openingBalance"] {
        account[field] = "0".into();
    }
    account["openingTransfer"] = stands("open:alice", "initial");
    account
}

fn with_floor(floor: &str) -> Value {
    let mut account = account("open");
    account["floor"] = floor.into();
    account["available"] = "51000".into();
    account["floorChange"] = json!({
        "at": "2026-11-29T09:30:00Z", "from": "0", "reason": "credit line until May", "by": "office",
    });
    account
}

fn statement() -> Value {
    json!({
        "account": "alice", "opening": "2250",
        "items": [{
            "id": "rent-2026-11", "bookedAt": "2026-11-29T09:00:00.151Z", "amount": "-1250",
            "balance": "1000", "counterparties": ["bob"],
        }],
        "closing": "1000",
    })
}

fn events() -> Value {
    json!({
        "items": [{
            "number": 1, "at": "2026-11-29T09:00:00.151Z",
            "event": {
                "id": "rent-2026-11", "state": "done", "source": "alice", "destination": "bob",
                "value": "1250", "metadata": { "order": "o-17" },
                "createdAt": "2026-11-29T09:00:00.12Z",
            },
        }],
        "next": 1, "last": true,
    })
}

fn acts() -> Value {
    json!({ "items": [{
        "id": "0199e6a0-0000-7000-8000-000000000000", "at": "2026-11-29T09:10:00Z",
        "what": "account.freeze", "on": { "kind": "account", "ids": ["alice"] },
        "who": {
            "name": "office", "person": "olivia@example", "via": "console", "from": "192.0.2.7",
            "claimed": false,
        },
        "reason": "her phone was stolen",
        "ended": { "at": "2026-11-29T09:10:00.01Z", "result": "ok", "message": "it is done" },
    }] })
}

fn letter() -> Value {
    json!({
        "id": "0b7c4f51", "reason": "kills_worker", "detail": "its worker died with it 3 times",
        "diedAt": "2026-11-29T09:00:07Z", "body": "{\"ids\":[\"rent-2026-11\"]}",
    })
}

fn report(outcome: &str) -> Value {
    json!({
        "letter": letter(),
        "transactions": [{ "id": "rent-2026-11", "is": "waiting" }],
        "outcome": outcome,
    })
}

fn overview() -> Value {
    let none = json!({ "count": 0, "capped": false });
    json!({
        "at": "2026-11-29T09:00:02Z", "everyMs": 2_000, "problems": [],
        "rate": { "settled": 812.5, "done": 810.0, "canceled": 2.5 },
        "latencyMs": { "p50": 14.0, "p99": 31.0 },
        "states": {
            "scheduled": none, "initial": { "count": 3, "capped": false }, "pending": none,
            "held": none, "applied": none, "canceling": none, "ageMs": 400,
        },
        "oldest": { "id": "fee-1", "state": "initial", "ageMs": 20 },
        "backlog": { "transactions": 3, "capped": false, "oldestMs": 20, "clearsInS": 0 },
        "due": null, "workers": [], "workersLeftOut": 0,
        "queues": [{ "key": "work", "name": "tandem.work.v1", "messages": 3, "consumers": 1 }],
        "refusals": { "insufficient_funds": 2 }, "refusalsOverS": 900, "dead": null,
        "parked": none, "eventsDue": none, "foreign": [], "harmfulIndexes": [],
        "connections": {
            "mongodb": { "up": true, "since": null, "dataAgeMs": 400, "problem": null },
            "amqp": { "up": true, "since": null, "dataAgeMs": 400, "problem": null },
        },
        "points": [],
    })
}
