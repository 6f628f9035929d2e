//! What is wrong, in words: what it is, why, what to do, and where to read more. Pure.
//!
//! Owns the sentences and the thresholds. Promises that each kind stands in the list at most once,
//! the worst first, and that nothing is said of what is not known.

use bson::DateTime;
use ledger::remedy::Remedy;

use super::flow::Totals;
use super::types::{Activity, HarmfulIndex, Overview, Pause, Problem, Severity, Worker};

/// As the alert `TandemOldestTransactionIsOld`.
const OLD_MS: u64 = 120_000;
/// How long nothing may be settled while something waits.
const QUIET_MS: u64 = 30_000;
/// How long what waits may take.
const CLEARS_S: u64 = 600;
/// For how long what is due may stay, and the same one be the first of it. Workers look every few
/// seconds, and behind a long queue move a step every half minute.
const LATE_MS: u64 = 60_000;
/// As the alert `TandemManyRefusals`: more than so many, and that share of all.
const REFUSALS: u64 = 20;
const REFUSALS_SHARE: f64 = 0.2;
/// A producer that dies once leaves fewer, as a rule.
const FORGOTTEN: u64 = 20;
/// A worker connects to the broker within this time after its start, as a rule.
const STARTING_MS: i64 = 5_000;
/// So many names stand in a sentence.
const NAMES: usize = 3;

/// The sections of the runbook.
pub mod links {
    macro_rules! links {
        ($($name:ident = $section:literal),* $(,)?) => {
            $(pub const $name: &str = concat!("operating.md#", $section);)*
            #[cfg(test)]
            pub const ALL: &[&str] = &[$($name),*];
        };
    }
    links! {
        NOTHING_SETTLED = "nothing-is-settled",
        OLDEST = "the-oldest-transaction-is-old",
        BACKLOG = "the-backlog-grows",
        PARKED = "transactions-are-parked",
        DEAD = "dead-letters",
        PAUSED = "settlement-is-paused",
        DRAINED = "a-worker-is-drained",
        WORKERS = "workers-die-or-stall",
        MONGODB = "mongodb-is-slow-or-away",
        RABBITMQ = "rabbitmq-is-away-or-blocked",
        EVENTS = "events-are-not-delivered",
        REFUSALS = "many-refusals",
        FORGOTTEN = "transactions-wait-for-the-sweep",
        UPGRADING = "upgrading",
        GROUND = "foreign-documents-and-indexes",
    }
}

/// What is wrong. `denied` is what the database's user may not read.
pub fn problems(
    overview: &Overview,
    totals: &Totals,
    quiet_ms: u64,
    denied: Option<&str>,
) -> Vec<Problem> {
    let mut all: Vec<Problem> = [
        mongodb(overview),
        amqp(overview),
        paused(overview),
        drained(overview),
        no_worker(overview),
        nothing_settled(overview, quiet_ms),
        due(overview),
        silent(overview),
        without_broker(overview),
        parked(overview),
        dead(overview),
        events(overview),
        oldest(overview),
        backlog(overview),
        denied.map(rights),
        refusals(totals),
        forgotten(totals),
        versions(overview),
        removing(overview),
        refusing(overview),
        foreign(overview),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|problem| problem.severity);
    all
}

fn mongodb(overview: &Overview) -> Option<Problem> {
    let connection = &overview.connections.mongodb;
    (!connection.up && connection.since.is_some()).then(|| Problem {
        code: "mongodb_away",
        severity: Severity::Critical,
        title: "MongoDB does not answer".to_owned(),
        cause: away(connection.problem.as_deref(), connection.data_age_ms),
        remedy:
            "Look at the database: is its primary up, and is its disk full? Nothing is lost, and \
                 workers go on by themselves when it is back."
                .to_owned(),
        link: links::MONGODB,
    })
}

fn amqp(overview: &Overview) -> Option<Problem> {
    let connection = &overview.connections.amqp;
    (!connection.up && connection.since.is_some()).then(|| Problem {
        code: "amqp_away",
        severity: Severity::Critical,
        title: "RabbitMQ does not answer".to_owned(),
        cause: away(connection.problem.as_deref(), connection.data_age_ms),
        remedy: "Look at the broker: is it up, and has it an alarm for memory or disk? Nothing is \
                 lost: what is submitted meanwhile is settled when it is back."
            .to_owned(),
        link: links::RABBITMQ,
    })
}

fn away(problem: Option<&str>, age_ms: Option<u64>) -> String {
    let problem = problem.unwrap_or("there is no answer");
    match age_ms {
        Some(age_ms) => format!("{problem}. What is shown of it is {} old.", duration(age_ms)),
        None => format!("{problem}. Nothing is known of it yet."),
    }
}

/// What follows from a pause is not told beside it: that nothing is settled, and that more and more
/// waits.
fn paused(overview: &Overview) -> Option<Problem> {
    let pause = overview.pause.as_ref()?;
    Some(Problem {
        code: "settlement_paused",
        severity: Severity::Warning,
        title: format!("Settlement has been paused for {}", duration(pause.since_ms)),
        cause: format!("{} has paused it at {}: {}.", pause.by, pause.since, pause.reason),
        remedy: format!(
            "When what was wrong is mended, {} lets it go on. Until then what is submitted is accepted \
             and waits.",
            Remedy::Resume
        ),
        link: links::PAUSED,
    })
}

/// Nothing is settled while all workers are drained; what follows from that is not told beside it.
fn drained(overview: &Overview) -> Option<Problem> {
    let is_drained = |worker: &&Worker| worker.activity == Activity::Drained;
    let drained: Vec<&Worker> = overview.workers.iter().filter(is_drained).collect();
    let first = drained.first()?;
    let told = |drain: &Pause| {
        format!("{} has drained {} at {}: {}", drain.by, first.name, drain.since, drain.reason)
    };
    let cause = first.drain.as_ref().map(told);
    let cause = cause.unwrap_or_else(|| format!("{} says that it is drained", first.name));
    let others = and_more(drained.len());
    let resume = Remedy::ResumeWorker(&first.name);
    let waits = overview.backlog.is_some_and(|backlog| backlog.transactions > 0);
    let waits = waits || overview.due.is_some();
    Some(match (all_drained(overview), waits) {
        (false, _) => Problem {
            code: "worker_drained",
            severity: Severity::Info,
            title: counted(drained.len() as u64, "worker is drained", "workers are drained"),
            cause: format!("{cause}{others}. Other workers settle what comes."),
            remedy: format!("When it is to settle again, run {resume}."),
            link: links::DRAINED,
        },
        (true, waits) => Problem {
            code: "all_workers_drained",
            severity: if waits { Severity::Critical } else { Severity::Warning },
            title: "Nothing is settled: all workers are drained".to_owned(),
            cause: format!("{cause}{others}."),
            remedy: format!(
                "Run {resume}, or start another worker. Until then what is submitted is accepted and \
                 waits."
            ),
            link: links::DRAINED,
        },
    })
}

/// Whether there are workers, and each of them is drained or about to end.
fn all_drained(overview: &Overview) -> bool {
    let here = || overview.workers.iter().filter(is_here);
    here().any(|worker| worker.activity == Activity::Drained)
        && here().all(|worker| match worker.activity {
            Activity::Drained | Activity::Draining => true,
            Activity::Working | Activity::Paused | Activity::Standby => false,
            Activity::Silent | Activity::Stopped => false,
        })
}

/// Whether somebody has said that something is to be settled now.
fn goes_on(overview: &Overview) -> bool {
    overview.pause.is_none() && !all_drained(overview)
}

fn is_here(worker: &&Worker) -> bool {
    match worker.activity {
        Activity::Working
        | Activity::Paused
        | Activity::Drained
        | Activity::Standby
        | Activity::Draining => true,
        Activity::Silent | Activity::Stopped => false,
    }
}

/// How many consume the work queue, as far as the broker says it.
fn consumers(overview: &Overview) -> u64 {
    let work = overview.queues.iter().flatten().find(|queue| queue.key == "work");
    work.filter(|_| overview.connections.amqp.up).map_or(0, |queue| queue.consumers)
}

fn no_worker(overview: &Overview) -> Option<Problem> {
    if !overview.connections.mongodb.up || overview.workers.iter().any(|worker| is_here(&worker)) {
        return None;
    }
    let consumers = consumers(overview);
    if consumers > 0 {
        return Some(Problem {
            code: "workers_unseen",
            severity: Severity::Info,
            title: "Workers do not say how they are".to_owned(),
            cause: format!(
                "{} the work queue, and none has written to the collection `tandem.workers`: they are of \
                 an older version, or may not write there.",
                counted(consumers, "worker consumes", "workers consume")
            ),
            remedy: format!(
                "Bring the workers up to date. If MongoDB has users, run {}. They settle all the \
                 same.",
                Remedy::Roles
            ),
            link: links::UPGRADING,
        });
    }
    let waits = overview.backlog.is_some_and(|backlog| backlog.transactions > 0);
    let waits = waits || overview.due.is_some();
    Some(Problem {
        code: "no_worker",
        severity: if waits { Severity::Critical } else { Severity::Warning },
        title: "No worker is there".to_owned(),
        cause: "No worker has said within the last seconds that it works, and none consumes the \
                queue."
            .to_owned(),
        remedy: "Start one. If it does not stay, its last line says why.".to_owned(),
        link: links::NOTHING_SETTLED,
    })
}

fn nothing_settled(overview: &Overview, quiet_ms: u64) -> Option<Problem> {
    let waits = overview.backlog.is_some_and(|backlog| backlog.transactions > 0);
    let is_old = overview.oldest.as_ref().is_some_and(|oldest| oldest.age_ms >= QUIET_MS);
    let works = overview.workers.iter().any(|worker| is_here(&worker));
    (goes_on(overview) && waits && is_old && works && quiet_ms >= QUIET_MS).then(|| Problem {
        code: "nothing_settled",
        severity: Severity::Critical,
        title: "Nothing is settled".to_owned(),
        cause: format!(
            "Transactions wait, workers are there, and none has come to its end for {}.",
            duration(quiet_ms)
        ),
        remedy: "Look whether workers and producers have the same TANDEM_QUEUE_PREFIX and \
                 TANDEM_DATABASE, and into the log of a worker. A queue that was lost is filled again \
                 after half a minute."
            .to_owned(),
        link: links::NOTHING_SETTLED,
    })
}

/// Many that are due at one moment are moved in steps, and the first of each step is another one.
fn due(overview: &Overview) -> Option<Problem> {
    let due = overview.due.filter(|due| due.late_ms >= LATE_MS)?;
    let works = overview.workers.iter().any(|worker| is_here(&worker)) || consumers(overview) > 0;
    let stays = due.still_ms >= LATE_MS || !works;
    (overview.connections.mongodb.up && goes_on(overview) && stays).then(|| Problem {
        code: "due_not_moved",
        severity: Severity::Critical,
        title: counted(
            due.count,
            "transaction is due and nobody moves it",
            "transactions are due and nobody moves them",
        ),
        cause: format!(
            "The moment of the first one was {} ago: it was scheduled until then, or has expired.",
            duration(due.late_ms)
        ),
        remedy: "Is a worker running? If so, look into its log. Workers of an older version leave alone \
                 what is scheduled or held: bring them up to date."
            .to_owned(),
        link: links::NOTHING_SETTLED,
    })
}

fn silent(overview: &Overview) -> Option<Problem> {
    let has_successor =
        |name: &str| overview.workers.iter().any(|worker| worker.name == name && is_here(&worker));
    let silent = overview.workers.iter().filter(|worker| worker.activity == Activity::Silent);
    let silent: Vec<&Worker> = silent.filter(|worker| !has_successor(&worker.name)).collect();
    let seen = silent.first()?;
    Some(Problem {
        code: "worker_silent",
        severity: Severity::Warning,
        title: counted(
            silent.len() as u64,
            "worker has fallen silent",
            "workers have fallen silent",
        ),
        cause: format!(
            "{} last seen {} ago: died, stalled, or without MongoDB.",
            names(&silent),
            duration(seen.seen_ms_ago)
        ),
        remedy: "Look at the log and start it again. Others take over what it held when its lease \
                 ends."
            .to_owned(),
        link: links::WORKERS,
    })
}

/// Whether it was last seen so soon after its start that it may not have connected yet.
fn is_starting(worker: &Worker) -> bool {
    let ms = |at: &str| DateTime::parse_rfc3339_str(at).ok().map(DateTime::timestamp_millis);
    let started = worker.started_at.as_deref().and_then(ms);
    let up = started.and_then(|started| Some(ms(&worker.seen_at)? - started));
    up.is_some_and(|up| up < STARTING_MS)
}

fn without_broker(overview: &Overview) -> Option<Problem> {
    let is_cut_off = |worker: &&Worker| is_here(worker) && !worker.broker && !is_starting(worker);
    let cut_off: Vec<&Worker> = overview.workers.iter().filter(is_cut_off).collect();
    (!cut_off.is_empty()).then(|| Problem {
        code: "worker_without_broker",
        severity: Severity::Warning,
        title: counted(
            cut_off.len() as u64,
            "worker does not reach RabbitMQ",
            "workers do not reach RabbitMQ",
        ),
        cause: format!("{} took no message since the connection broke.", names(&cut_off)),
        remedy:
            "If the broker is up, look at the network between the two and at the worker's log. It \
                 connects again by itself."
                .to_owned(),
        link: links::RABBITMQ,
    })
}

fn parked(overview: &Overview) -> Option<Problem> {
    let parked = overview.parked.filter(|parked| parked.count > 0)?;
    Some(Problem {
        code: "parked",
        severity: Severity::Warning,
        title: counted(parked.count, "transaction is parked", "transactions are parked"),
        cause:
            "Nobody could go on without a risk: a document can't be read or written, or it killed \
                its workers."
                .to_owned(),
        remedy: format!(
            "{} names the reasons. Repair what they name, then {}.",
            Remedy::ListParked,
            Remedy::UnparkNamed
        ),
        link: links::PARKED,
    })
}

fn dead(overview: &Overview) -> Option<Problem> {
    let dead = overview.dead.filter(|dead| dead.messages > 0)?;
    Some(Problem {
        code: "dead_letters",
        severity: Severity::Warning,
        title: counted(dead.messages, "message was given up", "messages were given up"),
        cause: "They stand for no transaction, are not ours, or killed their workers.".to_owned(),
        remedy: format!(
            "{} names the reasons; {} brings back what can be, and pays nothing twice.",
            Remedy::DeadLetters,
            Remedy::Replay
        ),
        link: links::DEAD,
    })
}

fn events(overview: &Overview) -> Option<Problem> {
    let due = overview.events_due.filter(|due| due.count > 0)?;
    Some(Problem {
        code: "events_due",
        severity: Severity::Warning,
        title: counted(due.count, "event is not delivered yet", "events are not delivered yet"),
        cause: "The broker has not confirmed them: it is away or slow, or the queue of a subscriber is \
                full."
            .to_owned(),
        remedy: "Look at the broker, and whether subscribers read their queues. The events are sent \
                 again by themselves."
            .to_owned(),
        link: links::EVENTS,
    })
}

fn oldest(overview: &Overview) -> Option<Problem> {
    let goes_on = goes_on(overview);
    let oldest = overview.oldest.as_ref().filter(|oldest| goes_on && oldest.age_ms >= OLD_MS)?;
    Some(Problem {
        code: "oldest_is_old",
        severity: Severity::Warning,
        title: format!("A transaction has waited for {}", duration(oldest.age_ms)),
        cause: format!(
            "{} is {}. Either more comes than is settled, or this one is stuck.",
            oldest.id, oldest.state
        ),
        remedy: format!(
            "{} says who has it and how often it was tried.",
            Remedy::Status(&oldest.id)
        ),
        link: links::OLDEST,
    })
}

fn backlog(overview: &Overview) -> Option<Problem> {
    let goes_on = goes_on(overview);
    let backlog =
        overview.backlog.filter(|backlog| goes_on && backlog.clears_in_s > Some(CLEARS_S))?;
    let least = if backlog.capped { "at least " } else { "" };
    Some(Problem {
        code: "backlog_is_long",
        severity: Severity::Warning,
        title: format!(
            "What waits takes {least}{}",
            duration(backlog.clears_in_s.unwrap_or_default().saturating_mul(1_000))
        ),
        cause: format!(
            "{least}{} transactions wait or are in flight, at the rate of this moment.",
            backlog.transactions
        ),
        remedy: "Look at the CPU of MongoDB first: if it is used up, more workers make it worse. \
                 Otherwise start another worker."
            .to_owned(),
        link: links::BACKLOG,
    })
}

fn rights(denied: &str) -> Problem {
    Problem {
        code: "not_permitted",
        severity: Severity::Warning,
        title: "Some of this can't be read".to_owned(),
        cause: denied.to_owned(),
        remedy: format!("Run {} as a user who may make roles.", Remedy::Roles),
        link: links::UPGRADING,
    }
}

fn refusals(totals: &Totals) -> Option<Problem> {
    let share = totals.canceled as f64 / totals.ended.max(1) as f64;
    (totals.canceled > REFUSALS && share > REFUSALS_SHARE).then(|| {
        let most = totals.refusals.iter().max_by_key(|(_, count)| **count);
        Problem {
            code: "many_refusals",
            severity: Severity::Info,
            title: format!("{:.0} % of all transactions are canceled", share * 100.0),
            cause: format!(
                "Most of them for `{}`, in what was seen of the last 15 minutes.",
                most.map_or("unknown", |(code, _)| code)
            ),
            remedy: format!(
                "{} shows them. Business as usual needs no remedy.",
                Remedy::ListRefused
            ),
            link: links::REFUSALS,
        }
    })
}

fn forgotten(totals: &Totals) -> Option<Problem> {
    (totals.forgotten > FORGOTTEN).then(|| Problem {
        code: "waited_for_the_sweep",
        severity: Severity::Info,
        title: format!("{} transactions waited for the sweep", totals.forgotten),
        cause: "They were inserted, and no message came for them, in what was seen of the last 15 \
                minutes: a producer has died or lost the broker, or it only inserts."
            .to_owned(),
        remedy: "Nothing is lost. A program that only inserts writes `unpublished: true` into its \
                 documents (`tandem.unpublished` under a schema): then a worker takes them up at once."
            .to_owned(),
        link: links::FORGOTTEN,
    })
}

fn removing(overview: &Overview) -> Option<Problem> {
    let harms = overview.harmful_indexes.iter().flatten().filter(|harm| harm.removes);
    let harms: Vec<&HarmfulIndex> = harms.collect();
    let first = harms.first()?;
    Some(Problem {
        code: "documents_are_removed",
        severity: Severity::Critical,
        title: "The server removes documents of the ledger".to_owned(),
        cause: format!("{}{}.", first.problem, and_more(harms.len())),
        remedy: format!(
            "Run the command that the sentence names, in mongosh. Workers stop until that is done, \
             and what was removed has to come from a backup. {} names all of them.",
            Remedy::Init
        ),
        link: links::GROUND,
    })
}

fn refusing(overview: &Overview) -> Option<Problem> {
    let harms = overview.harmful_indexes.iter().flatten().filter(|harm| !harm.removes);
    let harms: Vec<&HarmfulIndex> = harms.collect();
    let first = harms.first()?;
    Some(Problem {
        code: "writes_may_be_refused",
        severity: Severity::Warning,
        title: "An index may refuse what Tandem writes".to_owned(),
        cause: format!("{}{}.", first.problem, and_more(harms.len())),
        remedy: "Drop it, or accept it, as the sentence says: until then no program of Tandem \
                 starts."
            .to_owned(),
        link: links::GROUND,
    })
}

fn foreign(overview: &Overview) -> Option<Problem> {
    let foreign = overview.foreign.as_ref().filter(|all| !all.is_empty())?;
    let told = foreign.iter().map(|one| {
        let more = if one.documents.capped { " or more" } else { "" };
        format!(
            "{}{more} in `{}` (for example {})",
            one.documents.count, one.collection, one.example
        )
    });
    let told: Vec<String> = told.collect();
    Some(Problem {
        code: "foreign_documents",
        severity: Severity::Warning,
        title: "Somebody else writes into Tandem's collections".to_owned(),
        cause: format!("Tandem has not written {}.", told.join(", ")),
        remedy:
            "Tandem leaves them as they are. Move them to a collection of your own, and look which \
                 program writes there."
                .to_owned(),
        link: links::GROUND,
    })
}

fn and_more(count: usize) -> String {
    match count.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

fn versions(overview: &Overview) -> Option<Problem> {
    let here = overview.workers.iter().filter(is_here);
    let mut versions: Vec<&str> = here.map(|worker| worker.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    (versions.len() > 1).then(|| Problem {
        code: "versions_differ",
        severity: Severity::Info,
        title: "Workers of different versions run".to_owned(),
        cause: format!("There are {}.", versions[..versions.len().min(NAMES)].join(", ")),
        remedy: "Right while workers are replaced one by one. Otherwise bring them up to date."
            .to_owned(),
        link: links::UPGRADING,
    })
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn names(workers: &[&Worker]) -> String {
    let shown: Vec<&str> = workers.iter().take(NAMES).map(|worker| worker.name.as_str()).collect();
    match workers.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// For people, in one or two units.
pub fn duration(ms: u64) -> String {
    match ms / 1_000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::super::types::{
        Backlog, Connection, Count, Dead, Due, ForeignDocuments, Oldest, Queue,
    };
    use super::*;

    /// Nothing is wrong.
    fn well() -> Overview {
        let up = Connection {
            up: true,
            since: Some(String::new()),
            data_age_ms: Some(1),
            problem: None,
        };
        let mut overview = example();
        overview.pause = None;
        overview.connections.mongodb = up.clone();
        overview.connections.amqp = up;
        overview.workers[0].activity = Activity::Working;
        overview.backlog =
            Some(Backlog { transactions: 5, capped: false, oldest_ms: 0, clears_in_s: Some(1) });
        overview.oldest = None;
        overview.parked = None;
        overview.foreign = None;
        overview
    }

    fn harms(removes: bool) -> Option<Vec<HarmfulIndex>> {
        let (collection, problem) = ("transactions".to_owned(), "an index is wrong".to_owned());
        Some(vec![HarmfulIndex { collection, removes, problem }])
    }

    fn pause() -> Pause {
        let (since, by, reason) = (String::new(), "ada".to_owned(), "why".to_owned());
        Pause { since, since_ms: 60_000, by, reason }
    }

    fn codes(overview: &Overview, quiet_ms: u64) -> Vec<&'static str> {
        let all = problems(overview, &Totals::default(), quiet_ms, None);
        all.iter().map(|problem| problem.code).collect()
    }

    #[test]
    fn where_nothing_is_wrong_nothing_is_said() {
        assert_eq!(codes(&well(), 0), [""; 0]);
    }

    #[test]
    fn each_trouble_is_named_alone_and_says_what_to_do() {
        type Break = fn(&mut Overview);
        let one: [(&str, Break); 18] = [
            ("settlement_paused", |overview| overview.pause = Some(pause())),
            ("all_workers_drained", |overview| overview.workers[0].activity = Activity::Drained),
            ("worker_drained", |overview| {
                let mut other = overview.workers[0].clone();
                (other.activity, other.drain) = (Activity::Drained, Some(pause()));
                overview.workers.push(other);
            }),
            ("documents_are_removed", |overview| overview.harmful_indexes = harms(true)),
            ("writes_may_be_refused", |overview| overview.harmful_indexes = harms(false)),
            ("foreign_documents", |overview| {
                let documents = Count { count: 2, capped: false };
                let (collection, example) = ("tandem.events".to_owned(), "mine".to_owned());
                overview.foreign = Some(vec![ForeignDocuments { collection, documents, example }]);
            }),
            ("due_not_moved", |overview| {
                let (late_ms, still_ms) = (LATE_MS, LATE_MS);
                overview.due = Some(Due { count: 1, capped: false, late_ms, still_ms });
            }),
            ("mongodb_away", |overview| overview.connections.mongodb.up = false),
            ("amqp_away", |overview| overview.connections.amqp.up = false),
            ("no_worker", |overview| overview.workers.clear()),
            ("worker_without_broker", |overview| overview.workers[0].broker = false),
            ("parked", |overview| overview.parked = Some(Count { count: 1, capped: false })),
            ("dead_letters", |overview| overview.dead = Some(Dead { messages: 3 })),
            ("events_due", |overview| overview.events_due = Some(Count { count: 2, capped: true })),
            ("oldest_is_old", |overview| {
                let (id, state) = ("t".to_owned(), "pending".to_owned());
                overview.oldest = Some(Oldest { id, state, age_ms: OLD_MS });
            }),
            ("backlog_is_long", |overview| {
                let clears_in_s = Some(CLEARS_S + 1);
                overview.backlog =
                    Some(Backlog { transactions: 9, capped: false, oldest_ms: 0, clears_in_s });
            }),
            ("versions_differ", |overview| {
                let mut other = overview.workers[0].clone();
                other.version = "0.2.0".to_owned();
                overview.workers.push(other);
            }),
            ("workers_unseen", |overview| {
                overview.workers.clear();
                let (key, name) = ("work".to_owned(), String::new());
                overview.queues = Some(vec![Queue { key, name, messages: 0, consumers: 2 }]);
            }),
        ];
        for (code, change) in one {
            let mut overview = well();
            overview.queues = None;
            change(&mut overview);
            assert_eq!(codes(&overview, 0), [code]);
            let problem = problems(&overview, &Totals::default(), 0, None).remove(0);
            assert!(!problem.remedy.is_empty() && !problem.cause.is_empty(), "{problem:?}");
        }
    }

    #[test]
    fn a_worker_that_has_just_started_may_still_be_on_its_way_to_the_broker() {
        let mut overview = well();
        let worker = &mut overview.workers[0];
        worker.broker = false;
        worker.started_at = Some("2026-11-23T09:00:00Z".to_owned());
        worker.seen_at = "2026-11-23T09:00:04.999Z".to_owned();
        assert_eq!(codes(&overview, 0), [""; 0]);
        overview.workers[0].seen_at = "2026-11-23T09:00:05Z".to_owned();
        assert_eq!(codes(&overview, 0), ["worker_without_broker"]);
    }

    #[test]
    fn a_worker_that_was_started_again_is_not_missed() {
        let mut overview = well();
        let mut silent = overview.workers[0].clone();
        silent.activity = Activity::Silent;
        overview.workers.push(silent);
        assert_eq!(codes(&overview, 0), [""; 0]);
        overview.workers[0].name = "another".to_owned();
        assert_eq!(codes(&overview, 0), ["worker_silent"]);
    }

    #[test]
    fn a_ledger_that_rests_is_not_one_that_stands_still() {
        let mut overview = well();
        let (id, state) = ("t".to_owned(), "initial".to_owned());
        overview.oldest = Some(Oldest { id, state, age_ms: QUIET_MS });
        assert_eq!(codes(&overview, QUIET_MS), ["nothing_settled"]);
        assert_eq!(codes(&overview, QUIET_MS - 1), [""; 0], "it has settled something");
        overview.oldest = None;
        overview.backlog =
            Some(Backlog { transactions: 0, capped: false, oldest_ms: 0, clears_in_s: None });
        assert_eq!(codes(&overview, QUIET_MS), [""; 0], "there is nothing to settle");
    }

    #[test]
    fn what_follows_from_a_pause_is_not_told_beside_it_and_what_does_not_is() {
        let mut overview = well();
        let (id, state) = ("t".to_owned(), "initial".to_owned());
        overview.oldest = Some(Oldest { id, state, age_ms: OLD_MS });
        overview.due = Some(Due { count: 1, capped: false, late_ms: LATE_MS, still_ms: LATE_MS });
        let clears_in_s = Some(CLEARS_S + 1);
        overview.backlog =
            Some(Backlog { transactions: 9, capped: false, oldest_ms: 0, clears_in_s });
        assert_eq!(codes(&overview, QUIET_MS).len(), 4);
        overview.pause = Some(pause());
        overview.workers[0].activity = Activity::Paused;
        assert_eq!(codes(&overview, QUIET_MS), ["settlement_paused"]);
        overview.connections.amqp.up = false;
        assert_eq!(codes(&overview, QUIET_MS), ["amqp_away", "settlement_paused"]);
    }

    #[test]
    fn while_all_workers_are_drained_that_is_told_and_not_what_follows_from_it() {
        let mut overview = well();
        let (id, state) = ("t".to_owned(), "initial".to_owned());
        overview.oldest = Some(Oldest { id, state, age_ms: OLD_MS });
        overview.due = Some(Due { count: 1, capped: false, late_ms: LATE_MS, still_ms: LATE_MS });
        let other = overview.workers[0].clone();
        overview.workers.push(other);
        overview.workers[0].activity = Activity::Drained;
        overview.workers[0].drain = Some(pause());
        let all = codes(&overview, QUIET_MS);
        assert!(all.contains(&"worker_drained") && all.contains(&"nothing_settled"), "{all:?}");
        for activity in [Activity::Drained, Activity::Draining, Activity::Stopped] {
            overview.workers[1].activity = activity;
            assert_eq!(codes(&overview, QUIET_MS), ["all_workers_drained"], "{activity:?}");
        }
        let problem = problems(&overview, &Totals::default(), 0, None).remove(0);
        assert_eq!(problem.severity, Severity::Critical, "something waits");
        assert!(problem.cause.starts_with("ada has drained settle-2 at"), "{}", problem.cause);
        assert!(problem.remedy.contains("`producer workers resume settle-2`"), "{problem:?}");
    }

    #[test]
    fn what_is_due_and_moves_in_steps_is_no_trouble() {
        let mut overview = well();
        let due = |late_ms, still_ms| Some(Due { count: 9, capped: true, late_ms, still_ms });
        overview.due = due(600_000, LATE_MS - 1);
        assert_eq!(codes(&overview, 0), [""; 0], "another one was the first a moment ago");
        overview.workers.clear();
        assert_eq!(codes(&overview, 0), ["workers_unseen"], "they move it, and do not say so");
        overview.due = due(LATE_MS - 1, 0);
        overview.queues = None;
        assert_eq!(codes(&overview, 0), ["no_worker"], "a worker may come in time");
        overview.due = due(LATE_MS, 0);
        assert_eq!(codes(&overview, 0), ["no_worker", "due_not_moved"]);
        overview.connections.mongodb.up = false;
        assert_eq!(codes(&overview, 0), ["mongodb_away"], "nobody knows");
    }

    #[test]
    fn the_worst_comes_first_and_many_refusals_are_news() {
        let mut overview = well();
        overview.parked = Some(Count { count: 1, capped: false });
        overview.connections.amqp.up = false;
        let mut totals = Totals { ended: 100, canceled: 20, ..Totals::default() };
        let codes = |totals: &Totals| {
            let all = problems(&overview, totals, 0, Some("no"));
            all.iter().map(|problem| problem.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(&totals), ["amqp_away", "parked", "not_permitted"]);
        totals.canceled = 21;
        assert_eq!(codes(&totals), ["amqp_away", "parked", "not_permitted", "many_refusals"]);
    }

    #[test]
    fn programs_that_insert_and_do_not_say_so_are_named_and_a_producer_that_died_is_not() {
        let codes = |forgotten| {
            let totals = Totals { forgotten, ..Totals::default() };
            let all = problems(&well(), &totals, 0, None);
            all.iter().map(|problem| problem.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(20), [""; 0]);
        assert_eq!(codes(21), ["waited_for_the_sweep"]);
    }

    #[test]
    fn every_link_is_a_section_of_the_runbook() {
        let page = include_str!("../../../deploy/operating.md");
        let anchor = |line: &str| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            format!("operating.md#{}", words.replace(' ', "-"))
        };
        let sections = page.lines().filter(|line| line.starts_with('#')).map(anchor);
        let sections: Vec<String> = sections.collect();
        for link in links::ALL {
            assert!(sections.iter().any(|section| section == link), "{link}");
        }
    }
}
