//! One incident, from its start to its verdict.
//!
//! Owns the story: clients and operators go on all the time, while settlement is paused for the
//! backlog to come, the broker is killed, a replica and a worker are killed, and the broker comes
//! back. What everybody was told is compared with the ledger at rest. Fails when something that is
//! not under test does not do its part.

use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::http::Answer;
use harness::wait::wait_until;
use ledger::transaction::State;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::clients::{Client, Place};
use super::judge::{Deed, Ledger, Word, judge};
use super::operators::Operators;
use super::phase::Phase;
use super::probes;
use super::report::Report;
use super::seen::{Record, Told, word};
use super::stage::{ACCOUNTS, Stage, waiting};

/// How long everything is there at first, and how long it is watched after the broker's return, at
/// least; less where the broker is away for less than three minutes.
const CALM: Duration = Duration::from_secs(60);
/// How long settling what waited may take.
const SETTLE_LIMIT: Duration = Duration::from_secs(1_800);
/// How long what clients left may take to come to its end.
const REST_LIMIT: Duration = Duration::from_secs(180);
/// Between two lines of progress, and two looks at what waits.
const SAY_EVERY: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What to play.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the broker is away.
    pub away: Duration,
    /// How many transactions wait.
    pub waiting: usize,
    /// How many clients there are.
    pub clients: usize,
}

impl Options {
    /// How long a calm part lasts.
    #[must_use]
    pub fn calm(&self) -> Duration {
        CALM.min(self.away / 3)
    }
}

/// A run while it goes on.
struct Run {
    stage: Stage,
    place: Place,
    operators: Operators,
    record: Arc<Record>,
    begun: Instant,
    phases: Vec<(Phase, Duration)>,
}

/// Plays an incident.
///
/// # Errors
/// When a browser, a request of the run itself, or MongoDB fails.
///
/// # Panics
/// When a program or a server does not start.
pub async fn run(options: &Options) -> Result<Report, String> {
    let stage = Stage::start().await;
    let record = Arc::new(Record::default());
    let (address, tokens) = (stage.address(), stage.tokens.clone());
    let place = Place { address, tokens, accounts: ACCOUNTS, record: record.clone() };
    let home = stage.world.directory();
    let (url, home) = (format!("http://{address}"), home.display().to_string());
    first(&place).await?;
    let operators =
        Operators::start(&url, &stage.tokens.operator, options.waiting, &home, record.clone())?;
    let (stop, stopped) = watch::channel(false);
    let mut at_work = JoinSet::new();
    for number in 0..options.clients {
        at_work.spawn(Client::new(place.clone(), number).run(stopped.clone()));
    }
    for (number, replica) in (1..).zip(&stage.replicas) {
        at_work.spawn(probes::ask(number, replica.probes, record.clone(), stopped.clone()));
    }
    let saying = tokio::spawn(progress(record.clone()));
    let (begun, phases) = (Instant::now(), Vec::new());
    let mut run = Run { stage, place, operators, record, begun, phases };
    let settled_after = run.story(options).await?;
    stop.send_replace(true);
    while let Some(ended) = at_work.join_next().await {
        ended.map_err(|error| format!("a client broke down: {error}"))?;
    }
    saying.abort();
    run.conclude(options, settled_after).await
}

/// A transaction that operators can look at from the beginning.
async fn first(place: &Place) -> Result<(), String> {
    let transfer = json!({
        "id": "first", "source": "account-0000", "destination": "account-0001", "value": 1,
    });
    let (what, path) = ("the first one", ("POST", "/v1/transactions?wait=30"));
    let answer = place.ask(what, path, &place.tokens.shop, &transfer.to_string()).await;
    place.record.answer("first", Deed::Submit, word(answer.as_ref()));
    good("the first transaction", answer)
}

fn good(what: &str, answer: Option<Answer>) -> Result<(), String> {
    match answer {
        Some(answer) if answer.status == 200 => Ok(()),
        Some(Answer { status, body, .. }) => Err(format!("{what} was answered {status}: {body}")),
        None => Err(format!("{what} had no answer")),
    }
}

impl Run {
    /// Until all that waited is settled; how long after the broker's return that was.
    async fn story(&mut self, options: &Options) -> Result<Duration, String> {
        self.enter(Phase::Before).await?;
        sleep(options.calm()).await;
        self.enter(Phase::Gathering).await?;
        self.settlement("pause").await?;
        self.gather(options.waiting).await?;
        self.enter(Phase::Away).await?;
        self.stage.broker.kill();
        self.settlement("resume").await?;
        sleep(options.away / 2).await;
        self.sound(0)?;
        self.enter(Phase::Killed).await?;
        self.stage.replicas[0].kill();
        self.stage.workers[0].kill();
        sleep(options.away / 2).await;
        self.sound(1)?;
        self.stage.broker.up().await;
        self.enter(Phase::Back).await?;
        let back = Instant::now();
        // Whatever became of the operator who has paused it.
        self.settlement("resume").await?;
        self.settle().await?;
        let settled_after = back.elapsed();
        sleep(options.calm().saturating_sub(settled_after)).await;
        self.sound(1)?;
        Ok(settled_after)
    }

    async fn enter(&mut self, phase: Phase) -> Result<(), String> {
        self.phases.push((phase, self.begun.elapsed()));
        self.record.begin(phase);
        eprintln!("incident: {}", phase.name());
        self.operators.tell(phase).await
    }

    /// Whether nothing has ended that was not killed.
    fn sound(&mut self, killed: usize) -> Result<(), String> {
        match self.stage.ended(killed) {
            ended if ended.is_empty() => Ok(()),
            ended => Err(ended.join("; ")),
        }
    }

    /// Pauses settlement, or lets it go on.
    async fn settlement(&self, what: &str) -> Result<(), String> {
        let path = format!("/v1/settlement/{what}");
        let body = json!({ "reason": "an incident is played" }).to_string();
        let token = &self.place.tokens.operator;
        let name = format!("{what} by the run");
        let answer = self.place.ask(&name, ("POST", &path), token, &body).await;
        good(&format!("the request to {what} settlement"), answer)
    }

    /// Submits the backlog as a file.
    async fn gather(&self, count: usize) -> Result<(), String> {
        let file = self.stage.backlog(count);
        let submitted = self.stage.world.producer(&["submit", &file]).await;
        if !submitted.is_success() {
            return Err(format!("the backlog: {}{}", submitted.stdout, submitted.stderr));
        }
        (0..count).for_each(|number| {
            self.record.answer(&waiting(number), Deed::Submit, Word::Accepted);
        });
        Ok(())
    }

    /// Waits until nothing of the backlog is left.
    async fn settle(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let left = self.stage.unsettled().await?;
            if left == 0 {
                return Ok(());
            }
            if begun.elapsed() > SETTLE_LIMIT {
                return Err(format!("{left} are not settled {SETTLE_LIMIT:?} after the return"));
            }
            eprintln!("incident: {left} of the backlog are left");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Lets everything come to rest, and compares.
    async fn conclude(self, options: &Options, settled_after: Duration) -> Result<Report, String> {
        let Run { stage, place, operators, record, begun, phases } = self;
        operators.end().await?;
        let length = begun.elapsed();
        release_left(&stage, &place).await?;
        stage.world.wait_final(REST_LIMIT).await;
        let ledger = stage.ledger().await?;
        let mut problems = stage.world.problems().await;
        let audit = stage.world.audit().await;
        if !audit.is_success() {
            problems.push(format!("the audit: {}{}", audit.stdout, audit.stderr));
        }
        let Told { seen, answered, ends, lost, probes } = record.take();
        problems.extend(probes);
        let verdict = judge(&answered, &ends, &lost, &ledger);
        let Stage { world, broker, workers, replicas, .. } = stage;
        drop((workers, replicas));
        // The connections of the world were made before the broker died.
        world.with_fresh_publisher().await.finish().await;
        drop(broker);
        let (waiting, clients) = (options.waiting, options.clients);
        Ok(Report { phases, length, waiting, clients, settled_after, seen, verdict, problems })
    }
}

/// Releases what clients have left on hold, so that everything can come to its end.
async fn release_left(stage: &Stage, place: &Place) -> Result<(), String> {
    let held = async || -> Result<Vec<String>, String> {
        let ledger: Ledger = stage.ledger().await?;
        let held = ledger.into_iter().filter(|(_, stands)| stands.state == State::Held);
        Ok(held.map(|(id, _)| id).collect())
    };
    // What is to be held is not yet, where the last submissions wait for a worker.
    let states = [State::Initial, State::Pending];
    wait_until("nothing waits for workers", REST_LIMIT, async || {
        stage.world.count(&states).await == 0
    })
    .await;
    for id in held().await? {
        let path = format!("/v1/transactions/{id}/release");
        let token = &place.tokens.operator;
        let answer = place.ask("release by the run", ("POST", &path), token, "").await;
        place.record.answer(&id, Deed::Release, word(answer.as_ref()));
    }
    Ok(())
}

/// Says how far it is.
async fn progress(record: Arc<Record>) {
    let begun = Instant::now();
    loop {
        sleep(SAY_EVERY).await;
        let (seen, without) = record.counts();
        eprintln!(
            "incident: {} s, {}: {seen} requests and pages, {without} without an answer",
            begun.elapsed().as_secs(),
            record.phase().name()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calm_is_a_minute_and_shorter_in_a_short_incident() {
        let options =
            |seconds| Options { away: Duration::from_secs(seconds), waiting: 1, clients: 1 };
        assert_eq!(options(600).calm(), Duration::from_secs(60));
        assert_eq!(options(60).calm(), Duration::from_secs(20));
    }
}
