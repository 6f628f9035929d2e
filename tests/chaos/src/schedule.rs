//! Which fault comes when: a pure function of a seed and a length.
//!
//! Promises that every kind comes once before any kind comes often, that one fault begins about
//! every four seconds, and that no target is hit again before it had time to recover. Faults of
//! different targets may overlap.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// How many workers run.
pub const WORKERS: usize = 4;
/// How many producers run.
pub const PRODUCERS: usize = 2;

/// The time between the beginnings of two faults, in milliseconds: little more than four seconds in
/// the mean.
const GAP_MS: std::ops::RangeInclusive<u64> = 2_000..=6_500;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A worker gets SIGKILL and is started again.
    WorkerKilled,
    /// A worker stands still for longer than lease and grace.
    WorkerStalled,
    /// A worker stands still for less.
    WorkerPaused,
    /// A producer gets SIGKILL and is started again with the same file.
    ProducerKilled,
    /// A producer stands still.
    ProducerStalled,
    /// The primary of the replica set gets SIGKILL and is started again.
    PrimaryKilled,
    /// The primary steps down.
    PrimaryStepsDown,
    /// A broker gets SIGKILL and is started again.
    BrokerKilled,
    /// The broker's administrator closes all connections.
    ConnectionsClosed,
    /// The work queue is deleted and declared again at once.
    QueueReplaced,
    /// The work queue is deleted and stays away for a while, unless somebody declares it.
    QueueDeleted,
    /// The broker's alarm for memory blocks everybody who publishes.
    MemoryAlarm,
    /// The same for its disk.
    DiskAlarm,
    /// A client takes messages of the work queue and goes away without an acknowledgement.
    MessagesLeft,
    /// All connections of one process are closed; new ones work.
    LinkCut,
    /// The same, and new ones are closed at once for a while.
    LinkRefused,
    /// Everything that one process sends or is sent arrives late.
    LinkSlow,
    /// The connections of one process stay open and nothing gets through.
    LinkHalfOpen,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 18] = [
        Kind::WorkerKilled,
        Kind::WorkerStalled,
        Kind::WorkerPaused,
        Kind::ProducerKilled,
        Kind::ProducerStalled,
        Kind::PrimaryKilled,
        Kind::PrimaryStepsDown,
        Kind::BrokerKilled,
        Kind::ConnectionsClosed,
        Kind::QueueReplaced,
        Kind::QueueDeleted,
        Kind::MemoryAlarm,
        Kind::DiskAlarm,
        Kind::MessagesLeft,
        Kind::LinkCut,
        Kind::LinkRefused,
        Kind::LinkSlow,
        Kind::LinkHalfOpen,
    ];

    /// The kinds that come again in the second half of a round: the short ones, so that the servers
    /// are up most of the time.
    const OFTEN: [Kind; 10] = [
        Kind::WorkerKilled,
        Kind::WorkerKilled,
        Kind::WorkerStalled,
        Kind::ProducerKilled,
        Kind::ProducerKilled,
        Kind::ConnectionsClosed,
        Kind::LinkCut,
        Kind::LinkCut,
        Kind::LinkSlow,
        Kind::LinkHalfOpen,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::WorkerKilled => "worker killed",
            Kind::WorkerStalled => "worker stalled",
            Kind::WorkerPaused => "worker paused",
            Kind::ProducerKilled => "producer killed",
            Kind::ProducerStalled => "producer stalled",
            Kind::PrimaryKilled => "primary killed",
            Kind::PrimaryStepsDown => "primary steps down",
            Kind::BrokerKilled => "broker killed",
            Kind::ConnectionsClosed => "connections closed",
            Kind::QueueReplaced => "queue replaced",
            Kind::QueueDeleted => "queue deleted",
            Kind::MemoryAlarm => "memory alarm",
            Kind::DiskAlarm => "disk alarm",
            Kind::MessagesLeft => "messages left",
            Kind::LinkCut => "link cut",
            Kind::LinkRefused => "link refused",
            Kind::LinkSlow => "link slow",
            Kind::LinkHalfOpen => "link half-open",
        }
    }

    /// How long it lasts, in milliseconds; zero for a fault of one moment. A killed process or
    /// server stays away for so long before it is started again.
    fn lasts_ms(self) -> std::ops::RangeInclusive<u64> {
        match self {
            Kind::WorkerKilled => 200..=3_000,
            Kind::WorkerStalled => 15_000..=20_000,
            Kind::WorkerPaused => 500..=9_000,
            Kind::ProducerKilled => 0..=1_500,
            Kind::ProducerStalled => 1_000..=16_000,
            Kind::PrimaryKilled => 2_000..=8_000,
            Kind::BrokerKilled => 500..=4_000,
            Kind::QueueDeleted => 500..=3_000,
            Kind::MemoryAlarm | Kind::DiskAlarm => 2_000..=6_500,
            Kind::LinkRefused => 1_000..=8_000,
            Kind::LinkSlow => 5_000..=15_000,
            Kind::LinkHalfOpen => 4_000..=25_000,
            Kind::PrimaryStepsDown
            | Kind::ConnectionsClosed
            | Kind::QueueReplaced
            | Kind::MessagesLeft
            | Kind::LinkCut => 0..=0,
        }
    }

    /// How long its target is left alone afterwards, in milliseconds.
    fn rest_ms(self) -> u64 {
        match self {
            Kind::PrimaryKilled => 15_000,
            Kind::PrimaryStepsDown => 10_000,
            Kind::BrokerKilled => 22_000,
            Kind::QueueReplaced | Kind::QueueDeleted => 10_000,
            Kind::ConnectionsClosed => 5_000,
            Kind::WorkerKilled
            | Kind::WorkerStalled
            | Kind::WorkerPaused
            | Kind::ProducerKilled
            | Kind::ProducerStalled
            | Kind::MemoryAlarm
            | Kind::DiskAlarm
            | Kind::MessagesLeft
            | Kind::LinkCut
            | Kind::LinkRefused
            | Kind::LinkSlow
            | Kind::LinkHalfOpen => 3_000,
        }
    }
}

/// Which links of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That to the database.
    Database,
    /// That to the broker.
    Broker,
    /// Both.
    Both,
}

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A worker, by number.
    Worker(usize),
    /// A producer, by number.
    Producer(usize),
    /// The replica set.
    Database,
    /// A broker, by number.
    Broker(usize),
    /// The links of a process: workers first, then producers.
    Link(usize, Side),
}

impl Target {
    /// Whether faults of these two targets must not overlap. All brokers count as one target: a
    /// majority of a cluster must stay.
    fn is_same(self, other: Target) -> bool {
        match (self, other) {
            (Target::Link(one, _), Target::Link(another, _)) => one == another,
            (Target::Broker(_), Target::Broker(_)) => true,
            (one, another) => one == another,
        }
    }
}

/// One planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins, from the first moment of the faults.
    pub at: Duration,
    /// What it is.
    pub kind: Kind,
    /// Whom it hits.
    pub target: Target,
    /// How long it lasts.
    pub lasts: Duration,
}

/// The faults for a run of this length, with so many brokers.
#[must_use]
pub fn schedule(seed: u64, length: Duration, brokers: usize) -> Vec<Fault> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut deck = Vec::new();
    let mut busy: Vec<(Target, u64)> = Vec::new();
    let mut faults = Vec::new();
    let mut at = rng.random_range(GAP_MS) / 2;
    while Duration::from_millis(at) < length {
        busy.retain(|(_, until)| *until > at);
        if deck.len() < Kind::OFTEN.len() {
            deck.extend(shuffled_deck(&mut rng));
        }
        let free = |target: Target| busy.iter().all(|(other, _)| !target.is_same(*other));
        let next = deck.iter().enumerate().find_map(|(place, kind)| {
            let target = target(*kind, &mut rng, brokers, free)?;
            Some((place, *kind, target))
        });
        if let Some((place, kind, target)) = next {
            deck.remove(place);
            let lasts = rng.random_range(kind.lasts_ms());
            busy.push((target, at + lasts + kind.rest_ms()));
            let (at, lasts) = (Duration::from_millis(at), Duration::from_millis(lasts));
            faults.push(Fault { at, kind, target, lasts });
        }
        at += rng.random_range(GAP_MS);
    }
    faults
}

/// Every kind once, then the frequent ones again.
fn shuffled_deck(rng: &mut StdRng) -> Vec<Kind> {
    let (mut first, mut second) = (Kind::ALL, Kind::OFTEN);
    first.shuffle(rng);
    second.shuffle(rng);
    first.into_iter().chain(second).collect()
}

/// A target of this kind that no other fault is hitting.
fn target(
    kind: Kind,
    rng: &mut StdRng,
    brokers: usize,
    free: impl Fn(Target) -> bool,
) -> Option<Target> {
    let mut targets: Vec<Target> = match kind {
        Kind::WorkerKilled | Kind::WorkerStalled | Kind::WorkerPaused => {
            (0..WORKERS).map(Target::Worker).collect()
        }
        Kind::ProducerKilled | Kind::ProducerStalled => {
            (0..PRODUCERS).map(Target::Producer).collect()
        }
        Kind::PrimaryKilled | Kind::PrimaryStepsDown => vec![Target::Database],
        Kind::BrokerKilled
        | Kind::ConnectionsClosed
        | Kind::QueueReplaced
        | Kind::QueueDeleted
        | Kind::MemoryAlarm
        | Kind::DiskAlarm
        | Kind::MessagesLeft => (0..brokers).map(Target::Broker).collect(),
        Kind::LinkCut | Kind::LinkRefused | Kind::LinkSlow | Kind::LinkHalfOpen => {
            let side = [Side::Database, Side::Broker, Side::Both][rng.random_range(0..3)];
            (0..WORKERS + PRODUCERS).map(|process| Target::Link(process, side)).collect()
        }
    };
    targets.shuffle(rng);
    targets.into_iter().find(|target| free(*target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(schedule(7, minutes(5), 1), schedule(7, minutes(5), 1));
        assert_ne!(schedule(7, minutes(5), 1), schedule(8, minutes(5), 1));
    }

    #[test]
    fn every_kind_comes_within_two_minutes() {
        for seed in 0..200 {
            let faults = schedule(seed, minutes(2), 1);
            for kind in Kind::ALL {
                assert!(faults.iter().any(|fault| fault.kind == kind), "seed {seed}: {kind:?}");
            }
        }
    }

    #[test]
    fn half_an_hour_has_more_than_three_hundred_faults() {
        for seed in 0..200 {
            let count = schedule(seed, minutes(28), 1).len();
            assert!((370..440).contains(&count), "seed {seed}: {count} faults");
        }
    }

    #[test]
    fn no_target_is_hit_while_it_is_coming_back() {
        for (seed, brokers) in [(1, 1), (2, 3)] {
            let faults = schedule(seed, minutes(30), brokers);
            for (index, one) in faults.iter().enumerate() {
                let until = one.at + one.lasts + Duration::from_millis(one.kind.rest_ms());
                let during = faults[index + 1..].iter().take_while(|other| other.at < until);
                for other in during {
                    assert!(!one.target.is_same(other.target), "{one:?} and {other:?}");
                }
            }
        }
    }

    #[test]
    fn some_stalls_outlast_every_lease_and_some_links_every_heartbeat() {
        let faults = schedule(3, minutes(10), 1);
        let longest = |kind| faults.iter().filter(|f| f.kind == kind).map(|f| f.lasts).max();
        assert!(longest(Kind::WorkerStalled) > Some(Duration::from_secs(14)));
        assert!(longest(Kind::LinkHalfOpen) > Some(Duration::from_secs(16)));
    }
}
