//! Holds, schedules, expiry and exclusive keys: how many a second, and what they cost the transfers
//! of others.
//!
//! Each part has a database of its own, in which everything comes to its end and the books are
//! audited. Rates count from the first submission, from the first confirmation, or from the moment
//! at which what rests expires or is due, to the last end. Whether open holds cost others anything
//! is measured by turns, with as many open holds on a merchant that they pay, too, and without any.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use clap::builder::RangedI64ValueParser;
use client::{Capture, Client, Outcome, Submission};
use futures_util::stream::{self, StreamExt};
use harness::figures::percentile;
use harness::worker::Worker;
use harness::world::World;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::State;
use serde::Serialize;

/// How long a part may take to come to its end.
const LIMIT: Duration = Duration::from_secs(900);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Submissions of one call.
const AT_ONCE: usize = 1_000;
/// Clients that confirm at the same time.
const CONFIRMING: usize = 64;
/// Accounts that pay, and as many others whose money is on hold. None of those has more than a few
/// hundred holds.
const PAYERS: u32 = 10_000;
/// How often the transfers of others are measured with and without open holds.
const TURNS: usize = 3;
/// Single transfers that arrive each second while many are due.
const SINGLE_PER_SECOND: u64 = 100;
const MERCHANT: &str = "merchant";

/// Enough of something for a figure, and no more than one machine holds.
fn many() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(100..=1_000_000)
}

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// Holds that are made, confirmed, and made again to expire
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = many())]
    pub holds: u32,
    /// Holds that are open on one merchant while others settle
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = many())]
    pub open: u32,
    /// Transactions that are due at one moment
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = many())]
    pub due: u32,
    /// Submissions with an exclusive key
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = many())]
    pub keyed: u32,
    /// Transfers of others beside the open holds, in each of six runs
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = many())]
    pub others: u32,
    /// The worker's engine
    #[arg(long, value_name = "ENGINE", default_value = "two-phase")]
    pub engine: String,
}

/// What it came to.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// From the submission until they rest.
    pub holds_per_second: f64,
    /// From the first confirmation until all are `done`; each is a call of its own.
    pub confirms_per_second: f64,
    /// The same with one call for all of them.
    pub confirms_together_per_second: f64,
    /// From the moment at which all expire until all are `canceled`.
    pub expired_per_second: f64,
    /// From the moment at which all are due until all are `done`.
    pub due_per_second: f64,
    /// Transfers of others a second, without holds.
    pub others_alone: Vec<f64>,
    /// The same beside open holds on a merchant that they pay, too.
    pub others_beside_holds: Vec<f64>,
    /// The median of the ratios, each of a run beside holds by the run without just before.
    pub beside_holds_ratio: f64,
    /// p50 and p99 of single transfers from submission to `done`, with nothing else to do.
    pub alone_ms: [f64; 2],
    /// The same while many become due.
    pub while_due_ms: [f64; 2],
    /// Submissions a second, each with an exclusive key of its own, until they are durable.
    pub keyed_per_second: f64,
    /// The same without keys.
    pub plain_per_second: f64,
    /// What did not come to its end, and what the audit says.
    pub problems: Vec<String>,
}

/// Measures everything; `said` is told what begins.
///
/// # Panics
/// When a server or a program does not run.
pub async fn measure(plan: &Plan, said: impl Fn(&str)) -> Report {
    let mut report = Report::default();
    said("making holds, and confirming them");
    confirmed(plan, &mut report).await;
    said("letting holds expire");
    expired(plan, &mut report).await;
    said("others beside open holds");
    for _ in 0..TURNS {
        let alone = others(plan, 0, &mut report.problems).await;
        let beside = others(plan, plan.open, &mut report.problems).await;
        report.others_alone.push(alone);
        report.others_beside_holds.push(beside);
    }
    let pairs = report.others_beside_holds.iter().zip(&report.others_alone);
    let ratios: Vec<f64> = pairs.map(|(beside, alone)| beside / alone).collect();
    report.beside_holds_ratio = median(&ratios);
    said("many that are due at one moment");
    due(plan, &mut report).await;
    said("exclusive keys");
    keyed(plan, &mut report).await;
    report
}

/// A database, a worker and a client.
struct Setting {
    world: World,
    worker: Worker,
    client: Client,
}

impl Setting {
    async fn new(plan: &Plan) -> Setting {
        let world = World::new().await;
        let names: Vec<String> = (0..PAYERS).flat_map(|n| [payer(n), holder(n)]).collect();
        let names = names.iter().map(String::as_str).chain([MERCHANT]);
        let open = |name: &str| Account::new(name, Amount::Int(1_000_000_000));
        let accounts: Vec<Account> = names.map(open).collect();
        for accounts in accounts.chunks(AT_ONCE) {
            world.open(accounts).await;
        }
        let flags = BTreeMap::from([("--engine".to_owned(), plan.engine.clone())]);
        let worker = world.worker("holds").only_flags(flags).start().await;
        let client = world.client().await;
        Setting { world, worker, client }
    }

    async fn submit(&self, submissions: impl Iterator<Item = Submission>) {
        let submissions: Vec<Submission> = submissions.collect();
        for part in submissions.chunks(AT_ONCE) {
            for receipt in self.client.submit_all(part.to_vec()).await {
                receipt.expect("it is taken");
            }
        }
    }

    /// Waits until the worker has brought so many into a state. Its metrics say so, so that nobody
    /// asks the database meanwhile.
    async fn until(&self, state: State, count: u32, problems: &mut Vec<String>) {
        let begun = Instant::now();
        loop {
            let metrics = self.worker.metrics().await;
            let moved = metrics.sum("tandem_transitions_total", &[("state", state.as_str())]);
            if moved >= f64::from(count) {
                return;
            }
            if begun.elapsed() > LIMIT {
                problems.push(format!("only {moved} of {count} became {state}"));
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn finish(self, problems: &mut Vec<String>) {
        let audit = self.world.audit().await;
        if !audit.is_success() {
            problems.push(audit.stdout);
        }
        self.client.close().await;
        drop(self.worker);
        self.world.finish().await;
    }
}

fn payer(number: u32) -> String {
    format!("payer-{}", number % PAYERS)
}

fn holder(number: u32) -> String {
    format!("holder-{}", number % PAYERS)
}

fn rate(count: u32, since: Instant) -> f64 {
    f64::from(count) / since.elapsed().as_secs_f64()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 50).unwrap_or(0.0)
}

fn hold(number: u32) -> Submission {
    Submission::transfer(&holder(number), MERCHANT, 10).with_id(format!("hold-{number}")).held()
}

async fn confirmed(plan: &Plan, report: &mut Report) {
    let setting = Setting::new(plan).await;
    let begun = Instant::now();
    setting.submit((0..plan.holds).map(hold)).await;
    setting.until(State::Held, plan.holds, &mut report.problems).await;
    report.holds_per_second = rate(plan.holds, begun);
    let begun = Instant::now();
    let capture = Capture::Value(Amount::Int(7));
    stream::iter(0..plan.holds)
        .for_each_concurrent(CONFIRMING, |number| {
            let (client, capture) = (setting.client.clone(), capture.clone());
            async move {
                let id = format!("hold-{number}");
                client.confirm(&id, &capture).await.expect("it is held");
            }
        })
        .await;
    setting.until(State::Done, plan.holds, &mut report.problems).await;
    report.confirms_per_second = rate(plan.holds, begun);
    let more = plan.holds..2 * plan.holds;
    setting.submit(more.clone().map(hold)).await;
    setting.until(State::Held, 2 * plan.holds, &mut report.problems).await;
    let wishes = more.map(|number| (format!("hold-{number}").as_str().into(), capture.clone()));
    let begun = Instant::now();
    for decided in setting.client.confirm_all(wishes).await {
        decided.expect("it is held");
    }
    setting.until(State::Done, 2 * plan.holds, &mut report.problems).await;
    report.confirms_together_per_second = rate(plan.holds, begun);
    setting.finish(&mut report.problems).await;
}

async fn expired(plan: &Plan, report: &mut Report) {
    let setting = Setting::new(plan).await;
    // Long enough for all of them to rest before.
    let wait = Duration::from_secs(10) + Duration::from_millis(u64::from(plan.holds));
    let (end, at) = (SystemTime::now() + wait, Instant::now() + wait);
    setting.submit((0..plan.holds).map(|number| hold(number).hold_expires_at(end))).await;
    setting.until(State::Held, plan.holds, &mut report.problems).await;
    if Instant::now() > at {
        report.problems.push("holds expired before all of them were made".to_owned());
    }
    tokio::time::sleep_until(at.into()).await;
    setting.until(State::Canceled, plan.holds, &mut report.problems).await;
    report.expired_per_second = rate(plan.holds, at);
    setting.finish(&mut report.problems).await;
}

/// The rate of transfers between payers and to the merchant, beside so many open holds.
async fn others(plan: &Plan, open: u32, problems: &mut Vec<String>) -> f64 {
    let setting = Setting::new(plan).await;
    setting.submit((0..open).map(hold)).await;
    setting.until(State::Held, open, problems).await;
    let transfer = |number: u32| {
        let (from, to) = (number.wrapping_mul(7), number.wrapping_mul(13) + 1);
        let to = if number.is_multiple_of(4) { MERCHANT.to_owned() } else { payer(to) };
        let from = if payer(from) == to { payer(from + 1) } else { payer(from) };
        Submission::transfer(&from, &to, 1)
    };
    let begun = Instant::now();
    setting.submit((0..plan.others).map(transfer)).await;
    setting.until(State::Done, plan.others, problems).await;
    let rate = rate(plan.others, begun);
    setting.finish(problems).await;
    rate
}

async fn due(plan: &Plan, report: &mut Report) {
    let setting = Setting::new(plan).await;
    report.alone_ms = singles(&setting, Instant::now() + Duration::from_secs(5), "before").await;
    let wait = Duration::from_secs(10) + Duration::from_micros(u64::from(plan.due) * 100);
    let (moment, at) = (SystemTime::now() + wait, Instant::now() + wait);
    let scheduled = |number: u32| {
        Submission::transfer(&payer(number), MERCHANT, 1)
            .with_id(format!("due-{number}"))
            .not_before(moment)
    };
    setting.submit((0..plan.due).map(scheduled)).await;
    if Instant::now() > at {
        report.problems.push("some were due before all of them were submitted".to_owned());
    }
    tokio::time::sleep_until(at.into()).await;
    let before = setting.worker.metrics().await;
    let before = before.sum("tandem_transitions_total", &[("state", State::Done.as_str())]);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let settled = plan.due + before as u32;
    // Single transfers count, too, so the rate errs a little on the high side.
    let (mut problems, mut rate_of_due) = (Vec::new(), 0.0);
    let all = async {
        setting.until(State::Done, settled, &mut problems).await;
        rate_of_due = rate(plan.due, at);
    };
    let beside = singles(&setting, at + Duration::from_secs(10), "beside");
    let (_, while_due) = tokio::join!(all, beside);
    (report.due_per_second, report.while_due_ms) = (rate_of_due, while_due);
    report.problems.append(&mut problems);
    setting.finish(&mut report.problems).await;
}

async fn keyed(plan: &Plan, report: &mut Report) {
    let setting = Setting::new(plan).await;
    let plain = |number| Submission::transfer(&payer(number), MERCHANT, 1);
    let begun = Instant::now();
    setting.submit((0..plan.keyed).map(plain)).await;
    report.plain_per_second = rate(plan.keyed, begun);
    let keyed = |number: u32| plain(number).with_exclusive_key(format!("key-{number}"));
    let begun = Instant::now();
    setting.submit((0..plan.keyed).map(keyed)).await;
    report.keyed_per_second = rate(plan.keyed, begun);
    setting.until(State::Done, 2 * plan.keyed, &mut report.problems).await;
    setting.finish(&mut report.problems).await;
}

/// p50 and p99 of single transfers that arrive by a schedule until then.
async fn singles(setting: &Setting, until: Instant, name: &str) -> [f64; 2] {
    let between = Duration::from_secs(1) / u32::try_from(SINGLE_PER_SECOND).unwrap_or(1);
    let (begun, mut asked) = (Instant::now(), Vec::new());
    for number in 0_u32.. {
        let arrives = begun + between * number;
        if arrives > until {
            break;
        }
        tokio::time::sleep_until(arrives.into()).await;
        let client = setting.client.clone();
        let single = Submission::transfer(&payer(number), &payer(number + 1), 1)
            .with_id(format!("single-{name}-{number}"));
        asked.push(tokio::spawn(async move {
            let id = single.id().to_owned();
            client.submit(single).await.expect("it is taken");
            let outcome = client.outcome(&id).await.expect("it comes to its end");
            assert_eq!(outcome, Outcome::Done);
            arrives.elapsed().as_secs_f64() * 1_000.0
        }));
    }
    let mut took = Vec::new();
    for single in asked {
        took.push(single.await.expect("nothing panics"));
    }
    took.sort_by(f64::total_cmp);
    [50, 99].map(|percent| percentile(&took, percent).unwrap_or(0.0))
}
