//! Requests of the HTTP API: addresses, headers and bodies, at the functions that read them.
//!
//! An input is the name of an operation and its parameters on the first line, then headers, an
//! empty line, and the body.

use api::access::Access;
use api::decisions::{self, Decision};
use api::{
    Code, Problem, Received, accounts, bulk, events, holds, routes, submissions, transactions,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use client::{Capture, Rules, Submission};
use fuzz::json::{Json, crowds, leaves, write};
use fuzz::judge::{Memory, told, within};
use fuzz::transfers::{names, notation};
use fuzz::tree::{Tree, spoils};
use fuzz::{Verdict, bytes, judge, run};
use ledger::limits::NAME_BYTES_MAX;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::json_lines::{capture, floor, hold, opening, transfer};

/// A value of JSON takes at least two bytes, and some hundred as metadata.
const MEMORY: Memory = Memory { base: 64 << 10, per_byte: 192 };

#[test]
fn a_request_is_read_or_answered_with_what_is_wrong() {
    run("requests", &inputs(), check);
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let spoiled = |trees: BoxedStrategy<Json>| {
        let spoils = prop_oneof![1 => Just(Vec::new()), 1 => spoils(leaves(), names(), 3)];
        (trees, spoils).prop_map(|(tree, spoils)| write(&tree.spoiled(spoils)))
    };
    let many = vec(transfer(), 0..5).prop_map(Tree::List);
    let holds = vec(hold(), 0..5).prop_map(Tree::List);
    let batch = select(vec!["confirmBatch", "releaseBatch", "cancelBatch"]);
    let bodies = prop_oneof![
        1 => crowds().prop_map(|body| ("submitBatch", body)),
        40 => spoiled(transfer().boxed()).prop_map(|body| ("submit", body)),
        20 => spoiled(many.boxed()).prop_map(|body| ("submitBatch", body)),
        20 => spoiled(opening().boxed()).prop_map(|body| ("createAccount", body)),
        20 => spoiled(capture().boxed()).prop_map(|body| ("confirm", body)),
        20 => (batch, spoiled(holds.boxed())),
        20 => spoiled(floor().boxed()).prop_map(|body| ("setFloor", body)),
    ];
    let posted =
        (bodies, headers(), parameters(1)).prop_map(|((operation, body), headers, asked)| {
            let json = "Content-Type: application/json";
            format!("{operation}?{asked}\n{json}\n{headers}\n{body}").into_bytes()
        });
    let lists = select(vec!["listTransactions", "statement", "listAccounts", "listEvents"]);
    let asked = (lists, parameters(4), headers())
        .prop_map(|(operation, asked, headers)| format!("{operation}?{asked}\n{headers}\n"));
    let asked = asked.prop_map(String::into_bytes);
    (prop_oneof![1 => posted, 1 => asked], bytes::spoils())
        .prop_map(|(request, of_bytes)| bytes::spoiled(request, of_bytes))
}

fn headers() -> impl Strategy<Value = String> {
    let values = [
        "Idempotency-Key: k",
        "Idempotency-Key: \"a \\\"quoted\\\" key\"",
        "Idempotency-Key: \"open",
        "Prefer: wait=10",
        "Prefer: respond-async, wait=\"99999999999\"",
        "Last-Event-ID: 41",
        "Last-Event-ID: 18446744073709551615-18446744073709551615",
        "Content-Type: text/plain",
    ];
    let lines = prop_oneof![6 => Just(Vec::new()), 3 => vec(select(values.to_vec()), 1..3)];
    lines.prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())
}

/// Parameters: mostly those that lists have.
fn parameters(most: usize) -> impl Strategy<Value = String> {
    let good = select(vec![
        "limit=1",
        "limit=1000",
        "state=done",
        "state=initial,pending",
        "account=a%20b",
        "since=2026-11-01T00:00:00Z",
        "endedUntil=2026-11-01T00:00:00Z",
        "reason=requested",
        "from=2026-11-01T00:00:00%2B14:00",
        "to=9999-12-31T23:59:59.999999999Z",
        "wait=60",
        "after=17",
        "after=last",
        "currency=EUR",
        "metadata.order=17",
        "metadata[order]=17",
    ]);
    let odd = select(vec![
        "limit=0",
        "limit=1001",
        "limit=18446744073709551616",
        "wait=61",
        "after=-1",
        "after=18446744073709551616",
        "metadata.=x",
        "state=",
        "state=,",
        "since=0000-01-01T00:00:00Z",
        "reason=gone",
        "since=+999999999-01-01T00:00:00Z",
        "from=2026-02-30T00:00:00Z",
        "account=%00",
        "account=%ff%fe",
        "account=",
        "cursor=AAAA",
        "x",
        "=",
        "&&",
        "%",
    ]);
    let any = prop_oneof![
        8 => good.prop_map(str::to_owned),
        1 => odd.prop_map(str::to_owned),
        1 => names().prop_map(|name| format!("account={name}")),
    ];
    vec(any, 0..=most).prop_map(|all| all.join("&"))
}

/// An input taken apart.
fn taken_apart(input: &[u8]) -> Option<(&str, Received)> {
    let (head, body) = match input.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&input[..end], &input[end + 2..]),
        None => (input, &input[input.len()..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    // A server hands on only addresses of plain characters, and headers without control characters.
    let first = std::str::from_utf8(lines.next()?).ok()?;
    let (operation, asked) = first.split_once('?')?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        headers.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    let received = Received::new(String::new(), asked, headers, body.to_vec().into());
    Some((operation, received))
}

/// The operations whose requests are read here.
const KNOWN: [&str; 12] = [
    "submit",
    "submitBatch",
    "createAccount",
    "setFloor",
    "confirm",
    "confirmBatch",
    "releaseBatch",
    "cancelBatch",
    "listTransactions",
    "statement",
    "listAccounts",
    "listEvents",
];

fn check(input: &[u8]) -> Result<Verdict, String> {
    let Some((operation, received)) = taken_apart(input) else { return Ok(Verdict::REFUSED) };
    if !KNOWN.contains(&operation) {
        return Ok(Verdict::REFUSED);
    }
    if let Err(problem) = check_parameters(operation, &received) {
        return refused(&problem);
    }
    match operation {
        "submit" | "submitBatch" => submitted(operation, input, &received),
        "createAccount" => {
            match within(MEMORY, input, || accounts::account(&received, &notation(input)))? {
                Ok((account, from)) => {
                    from.as_deref().map_or(Ok(()), judge::name)?;
                    judge::account(&account).map(|()| Verdict::ACCEPTED)
                }
                Err(problem) => refused(&problem),
            }
        }
        "confirm" => match within(MEMORY, input, || holds::capture(&received, &notation(input)))? {
            Ok(capture) => captured(&capture).map(|()| Verdict::ACCEPTED),
            Err(problem) => refused(&problem),
        },
        "setFloor" => match within(MEMORY, input, || accounts::floor(&received, &notation(input)))?
        {
            Ok(floor) => {
                floor.floor.map_or(Ok(()), judge::amount)?;
                floor.currency.as_deref().map_or(Ok(()), judge::name)?;
                Ok(Verdict::ACCEPTED)
            }
            Err(problem) => refused(&problem),
        },
        "confirmBatch" => decided(Decision::Confirm, input, &received),
        "releaseBatch" => decided(Decision::Release, input, &received),
        "cancelBatch" => decided(Decision::Cancel, input, &received),
        "listTransactions" => match within(MEMORY, input, || transactions::filter(&received))? {
            Ok(filter) => {
                filter.account.as_deref().map_or(Ok(()), judge::name)?;
                page(&received)
            }
            Err(problem) => refused(&problem),
        },
        "statement" => match within(MEMORY, input, || accounts::period(&received))? {
            Ok(_) => page(&received),
            Err(problem) => refused(&problem),
        },
        "listAccounts" => page(&received),
        _ => followed(&received),
    }
}

fn captured(capture: &Capture) -> Result<(), String> {
    match capture {
        Capture::All => Ok(()),
        Capture::Value(value) => judge::amount(*value),
        Capture::Legs(legs) => legs.iter().try_for_each(|leg| judge::name(&leg.account)),
    }
}

fn decided(decision: Decision, input: &[u8], received: &Received) -> Result<Verdict, String> {
    let notation = notation(input);
    let read = || decisions::wishes(received, decision, ITEMS_MAX, &notation);
    let items = match within(MEMORY, input, read)? {
        Ok(items) => items,
        Err(problem) => return refused(&problem),
    };
    let mut verdict = Verdict::default();
    for item in items {
        let of_item = match item {
            Ok((id, capture)) => {
                judge::name(&id)?;
                captured(&capture).map(|()| Verdict::ACCEPTED)?
            }
            Err(problem) => refused(&problem)?,
        };
        verdict.accepted += of_item.accepted;
        verdict.refused += of_item.refused;
    }
    Ok(verdict)
}

fn page(received: &Received) -> Result<Verdict, String> {
    match received.limit() {
        Ok(1..=1_000) => Ok(Verdict::ACCEPTED),
        Ok(limit) => Err(format!("a page of {limit}")),
        Err(problem) => refused(&problem),
    }
}

fn followed(received: &Received) -> Result<Verdict, String> {
    let read = || {
        let filter = events::filter(received)?;
        events::after(received)?;
        events::last(received)?;
        Ok(filter)
    };
    match read() {
        Ok(filter) => {
            filter.account.as_deref().map_or(Ok(()), judge::name)?;
            filter.currency.as_deref().map_or(Ok(()), judge::name)?;
            page(received)
        }
        Err(problem) => refused(&problem),
    }
}

/// As the operation does: the wish to wait, then the body, item by item.
fn submitted(operation: &str, input: &[u8], received: &Received) -> Result<Verdict, String> {
    match received.wait() {
        Ok(wait) if wait.is_none_or(|wait| wait.limit.as_secs() <= 60) => {}
        Ok(wait) => return Err(format!("a wait of {wait:?}")),
        Err(problem) => return refused(&problem),
    }
    let rules = Rules::from(notation(input));
    let read = within(MEMORY, input, || match operation {
        "submit" => submissions::one(received, &Access::full(), &rules).map(|one| vec![Ok(one)]),
        _ => bulk::many(received, ITEMS_MAX, &Access::full(), &rules).map(|array| array.items),
    })?;
    let mut verdict = Verdict::default();
    match read {
        Err(problem) => return refused(&problem),
        Ok(items) => {
            for item in items {
                let of_item = match item {
                    Ok(submission) => taken(submission)?,
                    Err(problem) => refused(&problem)?,
                };
                verdict.accepted += of_item.accepted;
                verdict.refused += of_item.refused;
            }
        }
    }
    Ok(verdict)
}

/// The most items of an array here.
const ITEMS_MAX: usize = 10;

fn taken(submission: Submission) -> Result<Verdict, String> {
    match submission.into_order() {
        Ok(order) => {
            judge::name(&order.id)?;
            judge::body(&order.body).map(|()| Verdict::ACCEPTED)
        }
        Err(error) => refused(&error.into()),
    }
}

/// A problem has a sentence, and a rule that is broken has its field.
fn refused(problem: &Problem) -> Result<Verdict, String> {
    told(&problem.detail, &[""])?;
    let names_it = match problem.code {
        Code::Invalid => {
            problem.errors.len() == 1
                && problem.errors.iter().all(|error| !error.pointer.is_empty())
        }
        Code::Malformed | Code::UnsupportedMediaType | Code::TooLarge => !problem.detail.is_empty(),
        _ => false,
    };
    let short = problem.errors.iter().all(|error| error.pointer.len() <= 4 * NAME_BYTES_MAX);
    match names_it && short {
        true => Ok(Verdict::REFUSED),
        false => Err(format!("a problem that does not name what is wrong: {problem:?}")),
    }
}

/// Refuses parameters that the operation of this name does not have.
fn check_parameters(operation: &str, received: &Received) -> Result<(), Problem> {
    let found = routes::all().find(|found| found.name == operation);
    received.only(&found.expect("an operation of the API").params)
}
