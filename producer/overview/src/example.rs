//! An overview with something of everything, as `example.json` says it: for the tests of what shows
//! one.

use std::collections::BTreeMap;

use super::types::{
    Activity, Backlog, Connection, Connections, Count, Dead, Due, ForeignDocuments, Latency,
    Oldest, Overview, Pause, Point, Problem, Queue, Rate, Severity, States, Worker,
};

fn problem() -> Problem {
    Problem {
        code: "worker_silent",
        severity: Severity::Warning,
        title: "1 worker has fallen silent".to_owned(),
        cause: "settle-2 was last seen 14 s ago: it has died, stalls, or does not reach MongoDB."
            .to_owned(),
        remedy: "Look at its log and start it again. Others take over what it held when its lease \
                 ends."
            .to_owned(),
        link: "operating.md#workers-die-or-stall",
    }
}

fn worker() -> Worker {
    Worker {
        id: "0d9e3a5b6f7c4f0e9f1f6f0a4e2b8c11".to_owned(),
        name: "settle-2".to_owned(),
        version: "0.1.0".to_owned(),
        engine: "auto".to_owned(),
        engine_now: "transaction".to_owned(),
        lanes: 2,
        batch_size: 2_000,
        started_at: Some("2026-11-23T08:00:00Z".to_owned()),
        seen_at: "2026-11-23T09:39:48.002Z".to_owned(),
        seen_ms_ago: 14_115,
        activity: Activity::Silent,
        holds: 3_900,
        messages: 40,
        settled: Some(0.0),
        done: 1_203_344,
        canceled: 731,
        broker: true,
        drain: Some(Pause {
            since: "2026-11-23T09:38:02.117Z".to_owned(),
            since_ms: 120_000,
            by: "ada".to_owned(),
            reason: "its machine is to be replaced".to_owned(),
        }),
    }
}

fn connections() -> Connections {
    Connections {
        mongodb: Connection {
            up: true,
            since: Some("2026-11-23T09:00:00.001Z".to_owned()),
            data_age_ms: Some(3),
            problem: None,
        },
        amqp: Connection {
            up: false,
            since: Some("2026-11-23T09:39:30.551Z".to_owned()),
            data_age_ms: Some(31_566),
            problem: Some("RabbitMQ: connection refused".to_owned()),
        },
    }
}

fn states() -> States {
    let count = |count| Count { count, capped: false };
    States {
        scheduled: count(320),
        held: count(1_204),
        initial: Count { count: 100_000, capped: true },
        pending: count(3_900),
        applied: count(1_800),
        canceling: count(0),
        age_ms: 6_100,
    }
}

/// What `example.json` says.
pub fn example() -> Overview {
    let point = |at: &str, settled, p50, p99| Point { at: at.to_owned(), settled, p50, p99 };
    let queue = Queue {
        key: "work".to_owned(),
        name: "tandem.work.v1".to_owned(),
        messages: 1_022,
        consumers: 2,
    };
    Overview {
        at: "2026-11-23T09:40:02.117Z".to_owned(),
        every_ms: 2_000,
        pause: Some(Pause {
            since: "2026-11-23T09:39:02.117Z".to_owned(),
            since_ms: 60_000,
            by: "ada".to_owned(),
            reason: "the price list is wrong".to_owned(),
        }),
        problems: vec![problem()],
        rate: Some(Rate { settled: 4_120.5, done: 4_100.0, canceled: 20.5 }),
        latency_ms: Some(Latency { p50: 210.0, p99: 480.0 }),
        states: Some(states()),
        oldest: Some(Oldest {
            id: "rent-2026-11".to_owned(),
            state: "initial".to_owned(),
            age_ms: 31_000,
        }),
        backlog: Some(Backlog {
            transactions: 105_700,
            capped: true,
            oldest_ms: 31_566,
            clears_in_s: Some(26),
        }),
        due: Some(Due { count: 12, capped: false, late_ms: 1_400, still_ms: 0 }),
        workers: vec![worker()],
        workers_left_out: 0,
        queues: Some(vec![queue]),
        refusals: BTreeMap::from([("insufficient_funds".to_owned(), 18_450)]),
        refusals_over_s: 900,
        dead: Some(Dead { messages: 0 }),
        parked: Some(Count { count: 2, capped: false }),
        events_due: Some(Count { count: 0, capped: false }),
        foreign: Some(vec![ForeignDocuments {
            collection: "tandem.events".to_owned(),
            documents: Count { count: 1, capped: false },
            example: "summer-party".to_owned(),
        }]),
        harmful_indexes: Some(vec![]),
        connections: connections(),
        points: vec![
            point("2026-11-23T09:39:58.110Z", None, None, None),
            point("2026-11-23T09:40:00.112Z", Some(4_120.5), Some(210.0), Some(480.0)),
        ],
    }
}
