//! What is asked: each operation of the API that reads, as its callers ask it.
//!
//! Owns the list. Each time another account, transaction or moment is drawn, so that no answer is
//! there from the time before. Pure.

use ledger::ServerMs;
use mongodb::bson::DateTime;
use rand::Rng;
use rand::rngs::StdRng;

use super::filled::Shape;

const HOUR_MS: ServerMs = 3_600_000;
const MINUTE_MS: ServerMs = 60_000;

/// When an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// With its end.
    End,
    /// With so many lines: the rest is given up.
    Lines(usize),
    /// With the first event of a stream: the rest is given up.
    Event,
}

/// One question, asked again and again.
pub(super) struct Asked {
    /// The operation's name in the description of the API, or `console`.
    pub(super) operation: &'static str,
    /// What is asked for, for people.
    pub(super) what: &'static str,
    /// When its answer has come.
    pub(super) until: Until,
    address: Address,
}

/// The address of the next question.
type Address = Box<dyn Fn(&mut StdRng) -> Question + Send + Sync>;

/// An address, and the header that comes with it.
pub(super) struct Question {
    /// The path with its parameters.
    pub(super) path: String,
    /// The header `Last-Event-ID`, if there is one.
    pub(super) after: Option<String>,
}

impl Asked {
    /// The next question.
    pub(super) fn question(&self, random: &mut StdRng) -> Question {
        (self.address)(random)
    }
}

/// What is in the ledger and has a name that only the server knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// A dead letter.
    pub(super) letter: String,
    /// The cursors of the second pages of all transactions, of all accounts and of the statement
    /// of the first account.
    pub(super) transactions: String,
    pub(super) accounts: String,
    pub(super) statement: String,
}

fn asked(
    operation: &'static str,
    what: &'static str,
    path: impl Fn(&mut StdRng) -> String + Send + Sync + 'static,
) -> Asked {
    let address = move |random: &mut StdRng| Question { path: path(random), after: None };
    Asked { operation, what, until: Until::End, address: Box::new(address) }
}

/// A question that is the same each time.
fn same(operation: &'static str, what: &'static str, path: impl Into<String>) -> Asked {
    let path = path.into();
    asked(operation, what, move |_| path.clone())
}

fn first(until: Until, asked: Asked) -> Asked {
    Asked { until, ..asked }
}

fn at(moment: ServerMs) -> String {
    DateTime::from_millis(moment).try_to_rfc3339_string().unwrap_or_default()
}

/// All of them.
pub(super) fn all(shape: Shape, found: &Found) -> Vec<Asked> {
    let lists = [transactions(shape, found), by_account(shape), accounts(shape, found)];
    let others = [statements(shape, found), ledger(shape, found), events(shape), exports(shape)];
    lists.into_iter().chain(others).chain([itself(), console(shape)]).flatten().collect()
}

/// A moment while the ledger was at work, at least so long before its end.
fn moment(shape: &Shape, random: &mut StdRng, before_ms: ServerMs) -> ServerMs {
    let last = (shape.end - before_ms).max(shape.moment(0) + 1);
    random.random_range(shape.moment(0)..last)
}

fn transaction(shape: &Shape, random: &mut StdRng) -> String {
    shape.id(random.random_range(0..shape.transactions))
}

fn transactions(shape: Shape, found: &Found) -> Vec<Asked> {
    const LIST: &str = "listTransactions";
    let cursor = format!("/v1/transactions?cursor={}", found.transactions);
    vec![
        same(LIST, "newest", "/v1/transactions"),
        same(LIST, "1,000 newest", "/v1/transactions?limit=1000"),
        same(LIST, "second page", cursor),
        same(LIST, "`state=done`", "/v1/transactions?state=done"),
        same(LIST, "`state=canceled`", "/v1/transactions?state=canceled"),
        same(LIST, "`state=initial,pending`", "/v1/transactions?state=initial,pending"),
        same(LIST, "`state=held`", "/v1/transactions?state=held"),
        same(LIST, "`state=scheduled`", "/v1/transactions?state=scheduled"),
        same(LIST, "a frequent reason", "/v1/transactions?reason=insufficient_funds"),
        same(LIST, "a reason that none has", "/v1/transactions?reason=account_closed"),
        asked(LIST, "created within an hour", move |random| {
            let since = moment(&shape, random, HOUR_MS);
            format!("/v1/transactions?since={}&until={}", at(since), at(since + HOUR_MS))
        }),
        asked(LIST, "created within an hour, canceled", move |random| {
            let since = moment(&shape, random, HOUR_MS);
            let (since, until) = (at(since), at(since + HOUR_MS));
            format!("/v1/transactions?state=canceled&since={since}&until={until}")
        }),
        asked(LIST, "ended within a minute", move |random| {
            let since = moment(&shape, random, MINUTE_MS);
            let (since, until) = (at(since), at(since + MINUTE_MS));
            format!("/v1/transactions?endedSince={since}&endedUntil={until}")
        }),
        asked(LIST, "ended before a moment, a reason that none has", move |random| {
            let until = at(moment(&shape, random, MINUTE_MS));
            format!("/v1/transactions?endedUntil={until}&reason=account_closed")
        }),
        asked("showTransaction", "any", move |random| {
            format!("/v1/transactions/{}", transaction(&shape, random))
        }),
        asked("showTransaction", "`wait=0`", move |random| {
            format!("/v1/transactions/{}?wait=0", transaction(&shape, random))
        }),
    ]
}

fn by_account(shape: Shape) -> Vec<Asked> {
    const LIST: &str = "listTransactions";
    let hot = format!("/v1/transactions?account={}", shape.names.account(0));
    let names = shape.names;
    vec![
        same(LIST, "of the hot account", hot.clone()),
        same(
            LIST,
            "of the hot account, a reason that none has",
            format!("{hot}&reason=account_closed"),
        ),
        asked(LIST, "of the hot account, created within an hour", {
            let hot = hot.clone();
            move |random| {
                let since = moment(&shape, random, HOUR_MS);
                format!("{hot}&since={}&until={}", at(since), at(since + HOUR_MS))
            }
        }),
        asked(LIST, "of the hot account, ended before a moment", move |random| {
            format!("{hot}&endedUntil={}", at(moment(&shape, random, MINUTE_MS)))
        }),
        asked(LIST, "of a busy account", move |random| {
            format!("/v1/transactions?account={}", names.account(shape.busy(random)))
        }),
        asked(LIST, "of a quiet account", move |random| {
            format!("/v1/transactions?account={}", names.account(shape.quiet(random)))
        }),
        asked(LIST, "of a quiet account, canceled", move |random| {
            let account = names.account(shape.quiet(random));
            format!("/v1/transactions?account={account}&state=canceled")
        }),
        same(
            LIST,
            "of an account without any",
            format!("/v1/transactions?account={}", names.account(shape.silent_from())),
        ),
    ]
}

fn accounts(shape: Shape, found: &Found) -> Vec<Asked> {
    let cursor = format!("/v1/accounts?cursor={}", found.accounts);
    vec![
        same("listAccounts", "first page", "/v1/accounts"),
        same("listAccounts", "1,000", "/v1/accounts?limit=1000"),
        same("listAccounts", "second page", cursor),
        same("showAccount", "hot", format!("/v1/accounts/{}", shape.names.account(0))),
        asked("showAccount", "any", move |random| {
            format!("/v1/accounts/{}", shape.names.account(random.random_range(0..shape.accounts)))
        }),
    ]
}

fn statements(shape: Shape, found: &Found) -> Vec<Asked> {
    const SHOWN: &str = "statement";
    let of =
        move |account: usize| format!("/v1/accounts/{}/statement", shape.names.account(account));
    vec![
        same(SHOWN, "hot, from its beginning", of(0)),
        same(SHOWN, "hot, 1,000 from its beginning", format!("{}?limit=1000", of(0))),
        same(SHOWN, "hot, second page", format!("{}?cursor={}", of(0), found.statement)),
        asked(SHOWN, "hot, from a moment", move |random| {
            format!("{}?from={}", of(0), at(moment(&shape, random, MINUTE_MS)))
        }),
        same(
            SHOWN,
            "hot, the last minute",
            format!("{}?from={}", of(0), at(shape.end - MINUTE_MS)),
        ),
        same(
            SHOWN,
            "hot, the first minute",
            format!("{}?to={}", of(0), at(shape.moment(0) + MINUTE_MS)),
        ),
        asked(SHOWN, "busy, from a moment", move |random| {
            let since = at(moment(&shape, random, MINUTE_MS));
            format!("{}?from={since}", of(shape.busy(random)))
        }),
        asked(SHOWN, "quiet, from its beginning", move |random| of(shape.quiet(random))),
        asked(SHOWN, "quiet, from a moment", move |random| {
            let since = at(moment(&shape, random, MINUTE_MS));
            format!("{}?from={since}", of(shape.quiet(random)))
        }),
    ]
}

fn ledger(shape: Shape, found: &Found) -> Vec<Asked> {
    const ACTS: &str = "listActs";
    let acted = shape.names.account(shape.silent_from());
    vec![
        same("stats", "all", "/v1/stats"),
        same("overview", "all", "/v1/overview"),
        first(Until::Event, same("watchOverview", "first event", "/v1/overview/stream")),
        same("showSettlement", "all", "/v1/settlement"),
        same("showWorker", "all", "/v1/workers/bench-1"),
        same(ACTS, "newest", "/v1/acts"),
        same(ACTS, "on an account", format!("/v1/acts?account={acted}")),
        same(ACTS, "of nobody", "/v1/acts?who=nobody"),
        same(ACTS, "of one name", "/v1/acts?what=account.freeze"),
        same(ACTS, "of the last hour", format!("/v1/acts?since={}", at(shape.end - HOUR_MS))),
        asked(ACTS, "on a transaction", move |random| {
            format!("/v1/acts?transaction={}", transaction(&shape, random))
        }),
        same("listParked", "first page", "/v1/parked"),
        same("listDeadLetters", "first page", "/v1/dead-letters"),
        same("listDeadLetters", "of a reason", "/v1/dead-letters?reason=kills_worker"),
        same("showDeadLetter", "one", format!("/v1/dead-letters/{}", found.letter)),
    ]
}

fn events(shape: Shape) -> Vec<Asked> {
    const LIST: &str = "listEvents";
    let after = move |random: &mut StdRng| random.random_range(0..shape.transactions);
    let quiet = move |random: &mut StdRng| shape.names.account(shape.quiet(random));
    vec![
        same(LIST, "from the beginning", "/v1/events"),
        asked(LIST, "after any", move |random| format!("/v1/events?after={}", after(random))),
        asked(LIST, "1,000 after any", move |random| {
            format!("/v1/events?limit=1000&after={}", after(random))
        }),
        same(LIST, "after the last, `wait=0`", "/v1/events?after=last&wait=0"),
        asked(LIST, "canceled", move |random| {
            format!("/v1/events?state=canceled&after={}", after(random))
        }),
        asked(LIST, "of the hot account", move |random| {
            format!("/v1/events?account={}&after={}", shape.names.account(0), after(random))
        }),
        asked(LIST, "of a quiet account", move |random| {
            format!("/v1/events?account={}&after={}", quiet(random), after(random))
        }),
        asked(LIST, "in a currency that none has", move |random| {
            format!("/v1/events?currency=EUR&after={}", after(random))
        }),
        asked(LIST, "by metadata that none has", move |random| {
            format!("/v1/events?metadata.color=red&after={}", after(random))
        }),
        Asked {
            operation: "followEvents",
            what: "first event after any",
            until: Until::Event,
            address: Box::new(move |random| Question {
                path: "/v1/events/stream".to_owned(),
                after: Some(after(random).to_string()),
            }),
        },
    ]
}

fn exports(shape: Shape) -> Vec<Asked> {
    let hot = shape.names.account(0);
    let csv = |what, query: String| {
        let path = format!("/v1/export/transactions.csv{query}");
        // The first line names the columns.
        first(Until::Lines(2), same("exportCsv", what, path))
    };
    let lines = |what, query: String| {
        let path = format!("/v1/export/transactions.jsonl{query}");
        first(Until::Lines(1), same("exportJsonLines", what, path))
    };
    let ended = format!("?endedSince={}", at(shape.end - HOUR_MS));
    vec![
        csv("first row", String::new()),
        csv("first row of the canceled", "?state=canceled".to_owned()),
        csv("first row of the hot account", format!("?account={hot}")),
        lines("first row", String::new()),
        lines("first row of the last hour", ended),
    ]
}

fn itself() -> Vec<Asked> {
    vec![
        same("openapi", "all", "/v1/openapi.json"),
        same("page", "all", "/v1"),
        same("metrics", "all", "/metrics"),
        same("healthz", "all", "/healthz"),
        same("readyz", "all", "/readyz"),
    ]
}

fn console(shape: Shape) -> Vec<Asked> {
    const PAGE: &str = "console";
    let names = shape.names;
    vec![
        same(PAGE, "overview", "/"),
        same(PAGE, "transactions", "/console/transactions"),
        same(PAGE, "canceled transactions", "/console/transactions?state=canceled"),
        asked(PAGE, "a transaction", move |random| {
            format!("/console/transaction?id={}", transaction(&shape, random))
        }),
        same(PAGE, "accounts", "/console/accounts"),
        same(PAGE, "the hot account", format!("/console/account?id={}", names.account(0))),
        asked(PAGE, "a quiet account", move |random| {
            format!("/console/account?id={}", names.account(shape.quiet(random)))
        }),
        same(PAGE, "letters", "/console/letters"),
        same(PAGE, "acts", "/console/acts"),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use harness::deployment::root;
    use rand::SeedableRng;
    use serde_json::Value;

    use super::*;
    use crate::names::Names;

    fn shape() -> Shape {
        let names = Names::default();
        Shape { accounts: 1_000, transactions: 20_000, seed: 3, end: 1_800_000_000_000, names }
    }

    #[test]
    fn every_operation_that_reads_is_asked() {
        let described = std::fs::read(root().join("common/schemas/openapi.json")).expect("a file");
        let described: Value = serde_json::from_slice(&described).expect("JSON");
        let paths = described["paths"].as_object().expect("paths").values();
        let reads: BTreeSet<String> = paths
            .filter_map(|path| Some(path.get("get")?["operationId"].as_str()?.to_owned()))
            .collect();
        let asked = all(shape(), &Found::default());
        let asked: BTreeSet<String> = asked.iter().map(|one| one.operation.to_owned()).collect();
        let missing: Vec<_> = reads.difference(&asked).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let unknown: Vec<_> = asked.difference(&reads).collect();
        assert_eq!(unknown, ["console"]);
    }

    #[test]
    fn no_question_is_twice_in_the_table_and_each_has_an_address_without_spaces() {
        let (mut random, mut seen) = (StdRng::seed_from_u64(1), BTreeSet::new());
        for one in all(shape(), &Found::default()) {
            assert!(seen.insert((one.operation, one.what)), "{} {}", one.operation, one.what);
            for _ in 0..20 {
                let path = one.question(&mut random).path;
                assert!(path.starts_with('/') && !path.contains(' '), "{path}");
            }
        }
    }

    #[test]
    fn moments_are_within_the_time_at_work_however_short_it_was() {
        let mut random = StdRng::seed_from_u64(1);
        for transactions in [200, 20_000, 10_000_000] {
            let shape = Shape { transactions, ..shape() };
            let moment = moment(&shape, &mut random, HOUR_MS);
            assert!((shape.moment(0)..=shape.end).contains(&moment));
        }
    }
}
