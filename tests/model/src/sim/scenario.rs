//! The start of a run: accounts with little money, transfers that compete for it, few workers.

use std::time::Duration;

use engine::EngineKind;
use ledger::LeaseMs;
use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, Terms, TransactionId};
use mongodb::bson::DateTime;
use rand::Rng;
use rand::rngs::StdRng;

use super::model::Books;
use super::odd::{Odd, Oddity};
use super::planted::Planted;

/// One submission and how far its producer has come.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Its id.
    pub id: TransactionId,
    /// What it asks for.
    pub body: Body,
    /// Its insert that is on its way.
    pub inserting: Option<u64>,
    /// The database has acknowledged it.
    pub accepted: bool,
    /// The last call that submitted it was refused, because another transaction had its key.
    pub refused: bool,
    /// Its id was published, or its producer died and left that to the sweeper.
    pub published: bool,
}

impl Submission {
    /// A submission that nobody has sent yet.
    #[must_use]
    pub fn new(id: TransactionId, body: Body) -> Submission {
        Submission { id, body, inserting: None, accepted: false, refused: false, published: false }
    }

    /// An answer arrived; it may be the one to this insert.
    pub fn answered(&mut self, operation: u64, ok: bool) {
        if self.inserting == Some(operation) {
            self.inserting = None;
            self.accepted |= ok;
        }
    }
}

/// How likely each kind of fault is in this run. Many runs have none of most kinds and many of the
/// others: that reaches cases that a mixture of all kinds never reaches.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Clients that give up on a request, or lose its answer.
    pub give_up: u32,
    /// Fail-overs.
    pub fail_over: u32,
    /// Killed workers.
    pub crash: u32,
    /// Stalled workers.
    pub stall: u32,
    /// Lost connections to the broker.
    pub disconnect: u32,
    /// Clients that cancel, reverse and submit twice, operators that freeze.
    pub clients: u32,
    /// Documents that become odd, and are mended.
    pub odd: u32,
    /// Requests that arrive after their client has given up.
    pub late: u32,
    /// How fast writes reach a majority.
    pub replicate: u32,
    /// How fast time passes compared with everything else: in small steps, and up to a moment at
    /// which something is due.
    pub tick: (u32, u32),
}

impl Profile {
    fn random(rng: &mut StdRng) -> Profile {
        let mut weight = || [0, 0, 1, 4][rng.random_range(0..4)];
        Profile {
            give_up: weight(),
            fail_over: weight(),
            crash: weight(),
            stall: weight(),
            disconnect: weight(),
            clients: weight(),
            odd: weight() / 2,
            late: 1 + weight(),
            replicate: 15,
            tick: [(1, 1), (3, 1), (6, 2)][rng.random_range(0..3)],
        }
    }
}

impl Profile {
    /// Requests are lost now and then and arrive late, and nothing else goes wrong: other faults
    /// would use up all that may happen.
    fn with_few_losses(self) -> Profile {
        Profile {
            give_up: 1,
            fail_over: 0,
            crash: 0,
            stall: 0,
            disconnect: 0,
            clients: 0,
            odd: 0,
            late: 1,
            ..self
        }
    }

    /// Where there are keys, a majority is slow in some runs: then reads show less than what stands
    /// in the way of an insert.
    fn with_slow_majorities(self, rng: &mut StdRng, planted: Option<Planted>) -> Profile {
        let keyed = planted.is_none_or(Planted::is_about_keys);
        let replicate = if keyed { [15, 15, 4, 1][rng.random_range(0..4)] } else { self.replicate };
        Profile { replicate, ..self }
    }
}

/// Everything that a seed decides before a run begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The books at the start.
    pub books: Books,
    /// What will be submitted.
    pub submissions: Vec<Submission>,
    /// How many workers, and which engine each of them has.
    pub workers: Vec<EngineKind>,
    /// How many batches a worker has in flight.
    pub lanes: usize,
    /// How many faults may happen.
    pub faults: u32,
    /// Which faults.
    pub profile: Profile,
    /// Lease and grace.
    pub lease: LeaseMs,
    /// How long an operation may run.
    pub op_limit: i64,
    /// The greatest error of the clock of the accounts' member.
    pub skew_max: i64,
    /// How long settlements wait for a ride.
    pub ride_wait: Duration,
    /// Whether the workers announce outcomes.
    pub events: bool,
}

impl Scenario {
    /// A scenario from a seed.
    #[must_use]
    pub fn random(rng: &mut StdRng, planted: Option<Planted>) -> Scenario {
        let names = ["a", "b", "c", "d"];
        let count = rng.random_range(2..=names.len());
        let mut books = Books::default();
        for name in &names[..count] {
            let mut account = Account::new(name, Amount::Int(rng.random_range(0..30)));
            if rng.random_bool(0.1) {
                account.floor = None;
            }
            if rng.random_bool(0.1) {
                account.status = Status::Frozen;
            }
            books.accounts.insert(account.id.clone(), account);
        }
        let held = match planted {
            Some(planted) if planted.is_about_holds() => 0.8,
            Some(_) => 0.0,
            None => [0.0, 0.0, 0.3, 0.8][rng.random_range(0..4)],
        };
        let timed = match planted {
            Some(planted) if planted.is_about_expiry() => 0.9,
            Some(_) => 0.0,
            None => [0.0, 0.0, 0.3, 0.8][rng.random_range(0..4)],
        };
        let keyed = match planted {
            Some(planted) if planted.is_about_keys() => 0.9,
            Some(_) => 0.0,
            None => [0.0, 0.0, 0.4, 0.9][rng.random_range(0..4)],
        };
        let submissions: Vec<_> = (0..rng.random_range(1..=6))
            .map(|number| {
                let id = format!("t{number}");
                let body = random_body(rng, &names[..count]);
                let body = with_moments(rng, body, timed);
                let body = perhaps_held(rng, body, held);
                Submission::new(id.as_str().into(), perhaps_keyed(rng, body, keyed))
            })
            .collect();
        let profile = Profile::random(rng).with_slow_majorities(rng, planted);
        books.odd = random_odd(rng, &names[..count], &submissions, profile.odd > 0);
        let (op_limit, skew_max) = ([20, 60, 200][rng.random_range(0..3)], 10);
        let grace = match planted {
            Some(Planted::GraceShorterThanTheOperation) => 1,
            _ => op_limit + skew_max,
        };
        let scenario = Scenario {
            books,
            submissions,
            workers: random_workers(rng),
            lanes: rng.random_range(1..=4),
            faults: rng.random_range(0..12),
            profile,
            lease: LeaseMs { lease: rng.random_range(20..200), grace },
            op_limit,
            skew_max,
            ride_wait: Duration::from_millis([0, 20, 100, 400][rng.random_range(0..4)]),
            // The other faults show sooner where nobody waits for confirms.
            events: match planted {
                None => rng.random_bool(0.7),
                Some(planted) => planted.is_about_events(),
            },
        };
        match planted {
            // The fault shows only if a late post arrives after the settlement and before its own
            // deadline: a long lease makes that possible.
            Some(Planted::UnknownPostResentAndSettledAtOnce) => Scenario {
                profile: Profile { tick: (1, 0), ..profile.with_few_losses() },
                faults: 12,
                ..scenario.with_a_long_lease()
            },
            Some(
                Planted::DoubtForgotten
                | Planted::RestForgetsTheDoubt
                | Planted::ConfirmLowersTheTakeover,
            ) => scenario.with_a_long_lease(),
            // They show only where a request of a call is lost, and the first only if it arrives
            // when much else has happened.
            Some(Planted::PlainInsertOfAKey | Planted::KeyReadTooEarly) => {
                let profile = Profile { clients: profile.clients, ..profile.with_few_losses() };
                Scenario { profile, faults: 12, ..scenario }
            }
            // It shows only in the moments after a fail-over, and where something is read at all.
            Some(Planted::ReadsBeforeTheirWrites) => {
                let calm = Profile { crash: 0, stall: 0, disconnect: 0, odd: 0, ..profile };
                let profile = Profile { fail_over: 4, give_up: 1, clients: 0, ..calm };
                let workers = vec![EngineKind::TwoPhase; scenario.workers.len()];
                Scenario { profile, workers, faults: 12, ..scenario }
            }
            _ => scenario,
        }
    }
}

impl Scenario {
    /// Nobody takes over before a late post may have arrived.
    fn with_a_long_lease(self) -> Scenario {
        Scenario {
            lease: LeaseMs { lease: 1_000, grace: 200 + self.skew_max },
            op_limit: 200,
            ride_wait: Duration::ZERO,
            ..self
        }
    }
}

/// Large contents and slow documents, which are there from the beginning; in some runs also
/// documents that can't be written or read.
fn random_odd(
    rng: &mut StdRng,
    accounts: &[&str],
    submissions: &[Submission],
    spoilt: bool,
) -> Odd {
    let mut odd = Odd::default();
    let (large, slow) = ([0.0, 0.0, 0.3][rng.random_range(0..3)], rng.random_bool(0.1));
    for submission in submissions {
        if rng.random_bool(large) {
            odd.spoil(submission.id.clone(), Oddity::Large);
        }
        if slow && rng.random_bool(0.3) {
            odd.spoil(submission.id.clone(), Oddity::Slow);
        }
        if spoilt && rng.random_bool(0.1) {
            let oddity = Oddity::OF_TRANSACTIONS[rng.random_range(0..2)];
            odd.spoil(submission.id.clone(), oddity);
        }
    }
    if slow && rng.random_bool(0.3) {
        odd.spoil(accounts[0].into(), Oddity::Slow);
    }
    if spoilt && rng.random_bool(0.3) {
        odd.spoil(accounts[0].into(), Oddity::OF_ACCOUNTS[rng.random_range(0..4)]);
    }
    odd
}

/// Two-phase workers, workers with native transactions, workers that choose, or a mixture.
fn random_workers(rng: &mut StdRng) -> Vec<EngineKind> {
    let native = [0.0, 0.0, 0.0, 0.5, 1.0][rng.random_range(0..5)];
    let count = rng.random_range(1..=3);
    let mut kind = || match rng.random_bool(native) {
        true if rng.random_bool(0.5) => EngineKind::Auto,
        true => EngineKind::Transaction,
        false => EngineKind::TwoPhase,
    };
    (0..count).map(|_| kind()).collect()
}

/// Puts a transaction on hold with this probability, for a while or without an end.
fn perhaps_held(rng: &mut StdRng, body: Body, probability: f64) -> Body {
    if !rng.random_bool(probability) {
        return body;
    }
    let begin = body.terms().not_before.map_or(0, DateTime::timestamp_millis);
    let end = begin + rng.random_range(50..3_000);
    let hold_expires_at = rng.random_bool(0.5).then(|| DateTime::from_millis(end));
    let terms = Terms { hold: true, hold_expires_at, ..body.terms().clone() };
    body.with_terms(terms).expect("a hold")
}

/// Gives a transaction with this probability an exclusive key, one of two.
fn perhaps_keyed(rng: &mut StdRng, body: Body, probability: f64) -> Body {
    // Without keys a seed gives the same run as it would if there were none.
    if probability == 0.0 || !rng.random_bool(probability) {
        return body;
    }
    let key = ["one key", "another key"][rng.random_range(0..2)];
    let terms = Terms { exclusive_key: Some(key.to_owned()), ..body.terms().clone() };
    body.with_terms(terms).expect("a key fits all terms")
}

/// What a client captures of a transaction with one debit: all of it, or a part of each credit.
pub(super) fn random_capture(rng: &mut StdRng, body: &Body) -> Vec<Leg> {
    let whole = rng.random_bool(0.3);
    let part = |rng: &mut StdRng, leg: &Leg| match leg.amount {
        Amount::Int(most) if most > 0 && !whole => rng.random_range(0..=most),
        Amount::Int(most) => most.max(0),
        Amount::Decimal(_) => 0,
    };
    let mut parts: Vec<i64> = body.legs().iter().map(|leg| part(rng, leg)).collect();
    if parts.iter().sum::<i64>() == 0 {
        return body.legs().to_vec();
    }
    let total: i64 = parts.iter().sum();
    for (leg, part) in body.legs().iter().zip(&mut parts) {
        if leg.amount.is_negative() {
            *part = -total;
        }
    }
    let leg =
        |(leg, part): (&Leg, i64)| Leg { account: leg.account.clone(), amount: Amount::Int(part) };
    body.legs().iter().zip(parts).map(leg).collect()
}

/// Gives a transaction with this probability a moment before which it is not due, one at which it
/// expires, or both.
fn with_moments(rng: &mut StdRng, body: Body, probability: f64) -> Body {
    if !rng.random_bool(probability) {
        return body;
    }
    let mut moment = |from: i64| {
        let ms = from + rng.random_range(1..1_000);
        rng.random_bool(0.6).then(|| DateTime::from_millis(ms))
    };
    let not_before = moment(0);
    let expires_at = moment(not_before.map_or(0, DateTime::timestamp_millis));
    body.with_terms(Terms { not_before, expires_at, ..Terms::default() }).expect("in their order")
}

fn random_body(rng: &mut StdRng, names: &[&str]) -> Body {
    let source = rng.random_range(0..names.len());
    let destination = (source + rng.random_range(1..names.len())) % names.len();
    let value = rng.random_range(1..16);
    let transfer = |to: &str| {
        Body::transfer(names[source], to, Amount::Int(value)).expect("two accounts, above zero")
    };
    if rng.random_bool(0.05) {
        return transfer("nobody");
    }
    let third = (0..names.len()).find(|index| ![source, destination].contains(index));
    match third.filter(|_| rng.random_bool(0.25)) {
        None => transfer(names[destination]),
        Some(third) => {
            let leg = |index: usize, amount: i64| Leg {
                account: names[index].into(),
                amount: Amount::Int(amount),
            };
            let legs = vec![leg(destination, value), leg(source, -value - 1), leg(third, 1)];
            Body::new(legs).expect("the legs sum to zero")
        }
    }
}
