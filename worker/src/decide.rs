//! What to do with a message: pure decisions, every case named.
//!
//! Owns what follows from each class of failure. [`admission`] decides on delivery, [`leftovers`] once the
//! engine has spoken. The acknowledger only carries out what is decided here.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use common::ledger::ServerMs;
use common::message::{BadId, Message, Parsed};
use common::queue::{SOLO, WORK};
use common::transaction::TransactionId;

use crate::engine::Outcome;

/// How often an id that is not in the database is looked up before its message is dead-lettered.
/// The document is inserted before its id is published, so this is garbage or a stale read.
pub const MISSING_TRIES_MAX: u32 = 5;

/// How often the worker of a message in the solo queue may die before the message is given up.
pub const STRIKES_MAX: u32 = 3;

/// Into how many pieces a message is cut whose ids failed together: as many as there are quarters of
/// a batch that was halved twice.
const APART_PIECES: usize = 4;

const MISSING_DELAY: Duration = Duration::from_secs(1);

/// The queue that a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Ordinary work, batched with its neighbours.
    Work,
    /// One message at a time.
    Solo,
}

impl Origin {
    /// The routing key of its queue.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Origin::Work => WORK,
            Origin::Solo => SOLO,
        }
    }
}

/// Why a message is dead-lettered, as a closed set for the `tandem-reason` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// It can't be read.
    Malformed,
    /// Its ids are not in the database.
    UnknownTransaction,
    /// Its worker died with it, again and again, while it was alone.
    KillsWorker,
}

impl DeadReason {
    /// All of them.
    pub const ALL: [DeadReason; 3] =
        [DeadReason::Malformed, DeadReason::UnknownTransaction, DeadReason::KillsWorker];

    /// The name in the header and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DeadReason::Malformed => "malformed",
            DeadReason::UnknownTransaction => "unknown_transaction",
            DeadReason::KillsWorker => "kills_worker",
        }
    }
}

/// What to do with a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Process it: in a batch from the work queue, alone from the solo queue.
    Process(Message),
    /// A sweeper's marker has come through the queue: published at this moment.
    Marker(ServerMs),
    /// Some of its ids are none that a transaction can have: give these up, and publish the others
    /// again to the queue of this origin.
    SortOut(Option<Message>, Origin, Vec<BadId>),
    /// It was delivered before and not finished: its turn comes alone, as these messages.
    Isolate(Vec<Message>),
    /// Give it up.
    Dead(DeadReason, String),
}

/// Decides on a delivery. What has been delivered before may have killed its worker, so it goes to
/// the solo queue, where one message is processed at a time. There it gets a strike for each death, first
/// as a whole, then id by id. The first strike may be the fault of a batch of the work queue; what has one
/// is processed while nothing else is (`turns`).
#[must_use]
pub fn admission(origin: Origin, redelivered: bool, body: &[u8]) -> Admission {
    let message = match Message::parse(body) {
        Ok(Parsed { message: Message { marker: Some(published), .. }, .. }) => {
            return Admission::Marker(published);
        }
        Ok(Parsed { message, bad }) if bad.is_empty() => message,
        Ok(Parsed { message, bad }) => {
            let good = (!message.ids.is_empty()).then_some(message);
            return Admission::SortOut(good, if redelivered { Origin::Solo } else { origin }, bad);
        }
        Err(problem) => return Admission::Dead(DeadReason::Malformed, problem),
    };
    match (origin, redelivered) {
        (Origin::Work | Origin::Solo, false) => Admission::Process(message),
        (Origin::Work, true) => Admission::Isolate(vec![message]),
        (Origin::Solo, true) if message.ids.len() > 1 => {
            let single = |id: &TransactionId| Message { ids: vec![id.clone()], ..message };
            Admission::Isolate(message.ids.iter().map(single).collect())
        }
        (Origin::Solo, true) if message.strikes.saturating_add(1) >= STRIKES_MAX => {
            let problem = format!("its worker died with it {STRIKES_MAX} times");
            Admission::Dead(DeadReason::KillsWorker, problem)
        }
        (Origin::Solo, true) => {
            let strikes = message.strikes.saturating_add(1);
            Admission::Isolate(vec![Message { strikes, ..message }])
        }
    }
}

/// What follows from a message once all its ids have an outcome. Nothing follows: acknowledge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// To publish again, each after its delay.
    pub retries: Vec<(Message, Duration, Cause)>,
    /// To publish to the solo queue, each after its delay: smaller messages than this one, until the
    /// culprit among them stands alone.
    pub apart: Vec<(Message, Duration)>,
    /// To publish again at once: what was too much for one batch.
    pub surplus: Vec<Message>,
    /// To dead-letter.
    pub dead: Option<(Message, DeadReason, String)>,
}

/// Why ids are published again, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Another claim owns them.
    NotMine,
    /// They failed in passing.
    Failed,
    /// They failed together, and go on with fewer others.
    Apart,
    /// They were too much for one batch.
    Surplus,
    /// They are not in the database (yet).
    Missing,
    /// The worker is shutting down.
    Shutdown,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 6] = [
        Cause::NotMine,
        Cause::Failed,
        Cause::Apart,
        Cause::Surplus,
        Cause::Missing,
        Cause::Shutdown,
    ];

    /// The name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::NotMine => "not_mine",
            Cause::Failed => "failed",
            Cause::Apart => "apart",
            Cause::Surplus => "surplus",
            Cause::Missing => "missing",
            Cause::Shutdown => "shutdown",
        }
    }
}

/// Decides what follows from a message. An id without an outcome counts as failed.
#[must_use]
pub fn leftovers(message: &Message, outcomes: &HashMap<TransactionId, Outcome>) -> Leftovers {
    let mut groups: BTreeMap<(Cause, i64), Vec<TransactionId>> = BTreeMap::new();
    let (mut missing, mut surplus, mut fitting) = (Vec::new(), Vec::new(), usize::MAX);
    for id in &message.ids {
        let key = match outcomes.get(id) {
            Some(Outcome::Final | Outcome::Parked | Outcome::Resting) => continue,
            Some(Outcome::Missing) => {
                missing.push(id.clone());
                continue;
            }
            Some(Outcome::Surplus { fits }) => {
                surplus.push(id.clone());
                fitting = fitting.min(*fits);
                continue;
            }
            Some(Outcome::NotMine { after_ms }) => (Cause::NotMine, *after_ms),
            Some(Outcome::Retry { after_ms }) => (Cause::Failed, *after_ms),
            Some(Outcome::Apart { after_ms }) => (Cause::Apart, *after_ms),
            None => (Cause::Failed, 1_000),
        };
        groups.entry(key).or_default().push(id.clone());
    }
    let mut left = Leftovers::default();
    let some = |ids: &[TransactionId]| Message { ids: ids.to_vec(), ..*message };
    for ((cause, after_ms), ids) in groups {
        let delay = Duration::from_millis(after_ms.max(0).unsigned_abs());
        if cause == Cause::Apart {
            let pieces = ids.chunks(message.ids.len().div_ceil(APART_PIECES));
            left.apart.extend(pieces.map(|ids| (some(ids), delay)));
        } else {
            left.retries.push((some(&ids), delay, cause));
        }
    }
    left.surplus.extend(surplus.chunks(fitting.max(1)).map(some));
    if !missing.is_empty() {
        let tries = message.tries.saturating_add(1);
        let message = Message { ids: missing, tries, ..*message };
        if tries >= MISSING_TRIES_MAX {
            let problem = format!("not in the database after {tries} looks");
            left.dead = Some((message, DeadReason::UnknownTransaction, problem));
        } else {
            left.retries.push((message, MISSING_DELAY, Cause::Missing));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(ids: &[&str]) -> Message {
        Message::new(ids.iter().map(|id| (*id).into()).collect())
    }

    #[test]
    fn what_was_delivered_before_is_isolated_and_never_with_its_neighbours() {
        let two = message(&["a", "b"]);
        let take = |origin, redelivered, message: &Message| {
            admission(origin, redelivered, &message.to_bytes())
        };
        assert_eq!(take(Origin::Work, false, &two), Admission::Process(two.clone()));
        assert_eq!(take(Origin::Work, true, &two), Admission::Isolate(vec![two.clone()]));
        assert_eq!(take(Origin::Solo, false, &two), Admission::Process(two.clone()));
        let singles = vec![message(&["a"]), message(&["b"])];
        assert_eq!(take(Origin::Solo, true, &two), Admission::Isolate(singles));
    }

    #[test]
    fn a_bad_id_is_given_up_alone_and_a_marker_is_told_apart() {
        let body = br#"{"ids":["a","bad\n","b"],"tries":2}"#;
        for (origin, redelivered, goes_to) in [
            (Origin::Work, false, Origin::Work),
            (Origin::Work, true, Origin::Solo),
            (Origin::Solo, false, Origin::Solo),
        ] {
            let Admission::SortOut(Some(good), to, bad) = admission(origin, redelivered, body)
            else {
                panic!("two of them are good")
            };
            assert_eq!(good, Message { tries: 2, ..message(&["a", "b"]) });
            assert_eq!((to, bad.len()), (goes_to, 1));
        }
        let all_bad = admission(Origin::Work, false, br#"{"ids":["bad\n"]}"#);
        assert!(matches!(all_bad, Admission::SortOut(None, Origin::Work, bad) if bad.len() == 1));
        let marker = Message::marker(7).to_bytes();
        assert_eq!(admission(Origin::Work, true, &marker), Admission::Marker(7));
    }

    #[test]
    fn a_message_alone_is_dead_after_its_last_strike() {
        let mut current = message(&["a"]);
        for strikes in 1..STRIKES_MAX {
            let Admission::Isolate(mut next) = admission(Origin::Solo, true, &current.to_bytes())
            else {
                panic!("strike {strikes} is not the last")
            };
            current = next.remove(0);
            assert_eq!(current.strikes, strikes);
        }
        let Admission::Dead(reason, _) = admission(Origin::Solo, true, &current.to_bytes()) else {
            panic!("that was the last strike")
        };
        assert_eq!(reason, DeadReason::KillsWorker);
    }

    #[test]
    fn only_final_ids_are_dropped() {
        let whole = message(&["done", "other", "failed", "gone", "unsaid"]);
        let outcomes = HashMap::from([
            ("done".into(), Outcome::Final),
            ("other".into(), Outcome::NotMine { after_ms: 9_000 }),
            ("failed".into(), Outcome::Retry { after_ms: 300 }),
            ("gone".into(), Outcome::Missing),
        ]);
        let left = leftovers(&whole, &outcomes);
        let kept: Vec<_> = left
            .retries
            .iter()
            .map(|(message, delay, cause)| (&*message.ids[0], delay.as_millis(), *cause))
            .collect();
        assert_eq!(
            kept,
            [
                ("other", 9_000, Cause::NotMine),
                ("failed", 300, Cause::Failed),
                ("unsaid", 1_000, Cause::Failed),
                ("gone", 1_000, Cause::Missing),
            ]
        );
        assert_eq!(left.dead, None);
    }

    #[test]
    fn what_failed_together_goes_on_in_smaller_messages_until_each_is_alone() {
        let mut whole = message(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
        let mut sizes = Vec::new();
        while whole.ids.len() > 1 {
            let outcome = |id: &TransactionId| (id.clone(), Outcome::Apart { after_ms: 300 });
            let outcomes = whole.ids.iter().map(outcome).collect();
            let left = leftovers(&whole, &outcomes);
            assert!(left.retries.is_empty() && left.surplus.is_empty());
            sizes.push(left.apart.iter().map(|(part, _)| part.ids.len()).collect::<Vec<_>>());
            whole = left.apart[0].0.clone();
        }
        assert_eq!(sizes, [vec![3, 3, 3], vec![1, 1, 1]]);
    }

    #[test]
    fn what_is_too_much_for_one_batch_comes_again_in_messages_that_fit_and_what_is_parked_does_not()
    {
        let whole = message(&["a", "b", "c", "d", "e"]);
        let surplus = |id: &str| (id.into(), Outcome::Surplus { fits: 2 });
        let mut outcomes: HashMap<_, _> = ["b", "c", "d"].map(surplus).into();
        outcomes.insert("a".into(), Outcome::Final);
        outcomes.insert("e".into(), Outcome::Parked);
        let left = leftovers(&whole, &outcomes);
        assert_eq!(left.surplus, [message(&["b", "c"]), message(&["d"])]);
        assert!(left.retries.is_empty() && left.apart.is_empty());
    }

    #[test]
    fn unknown_ids_are_dead_after_their_last_try_and_alone() {
        let whole = Message { tries: MISSING_TRIES_MAX - 1, ..message(&["done", "gone"]) };
        let outcomes =
            HashMap::from([("done".into(), Outcome::Final), ("gone".into(), Outcome::Missing)]);
        let left = leftovers(&whole, &outcomes);
        assert!(left.retries.is_empty());
        let (dead, reason, _) = left.dead.expect("the last try");
        assert_eq!(dead.ids, vec!["gone".into()]);
        assert_eq!(reason, DeadReason::UnknownTransaction);
    }
}
