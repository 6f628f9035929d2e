//! What to do with a message: pure decisions, every case named.
//!
//! Owns what follows from each class of failure. [`admission`] decides on delivery, [`leftovers`]
//! once the engine has spoken. The acknowledger only carries out what is decided here.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use engine::Outcome;
use ledger::ServerMs;
use ledger::message::{BadId, Message, Parsed};
use ledger::transaction::TransactionId;
use queue::{SOLO, WORK};
use strum::{EnumCount, VariantArray};

/// How often an id that is not in the database is looked up before its message is dead-lettered.
/// The document is inserted before its id is published, so this is garbage or a stale read.
pub const MISSING_TRIES_MAX: u32 = 5;

/// How often the worker of a message in the solo queue may die before the message is given up.
pub const STRIKES_MAX: u32 = 3;

/// With how many transactions of a message that has all its strikes a worker must have died while
/// they were processed and nothing else was. One less than the strikes, because the first is given
/// to a message that ran beside others.
pub const LONE_DEATHS_MIN: u32 = STRIKES_MAX - 1;

/// Into how many pieces a message is cut whose ids failed together: as many as there are quarters
/// of a batch that was halved twice.
const APART_PIECES: usize = 4;

/// How often a message of the work queue may be delivered and not finished before it waits for a
/// place in the solo queue, also while the broker takes no publications. Until then it is processed
/// in the meantime.
pub const IN_PLACE_MAX: u32 = 6;

/// How many ids of messages that were delivered before are processed together: after one delivery
/// that nobody finished, and after two. One of them may have killed its worker, so each death
/// narrows the circle.
pub const SUSPECTS_TOGETHER: [usize; 2] = [512, 16];

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, VariantArray)]
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
    pub const ALL: [DeadReason; DeadReason::COUNT] =
        *DeadReason::VARIANTS.first_chunk().expect("as many as are counted");

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

/// Whether the broker takes what would have to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishing {
    /// It does, as far as is known.
    Open,
    /// It takes nothing now.
    Shut,
}

/// What to do with a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Process it: in a batch from the work queue, alone from the solo queue. Those of its ids that
    /// no transaction can have are given up.
    Process(Message, Vec<BadId>),
    /// A sweeper's marker has come through the queue: published at this moment.
    Marker(ServerMs),
    /// None of its ids is one that a transaction can have: give them up.
    Unusable(Vec<BadId>),
    /// It was delivered before and not finished: its turn comes alone. Those of its ids that no
    /// transaction can have are given up.
    Isolate(Isolation, Vec<BadId>),
    /// It can't be read, for this reason: give it up.
    Malformed(String),
    /// It has all its strikes: its transaction is judged. Those of its ids that no transaction can
    /// have are given up.
    Suspect(Suspect, Vec<BadId>),
}

/// A transaction with whose message workers died again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The transaction.
    pub id: TransactionId,
    /// What is published if it is innocent: one more turn alone.
    pub message: Message,
}

/// Whether a transaction with all its strikes has killed its workers. So often a worker has died
/// while it processed this transaction and nothing else; `None` where nobody can note that, and
/// then the strikes alone decide.
#[must_use]
pub fn kills(lone_deaths: Option<u32>) -> bool {
    lone_deaths.is_none_or(|deaths| deaths >= LONE_DEATHS_MIN)
}

/// How a message gets its turn alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// What is published to the solo queue.
    pub messages: Vec<Message>,
    /// What is processed where it is if the broker turns out to take no publications.
    pub instead: Option<Message>,
}

/// Decides on a delivery; `deliveries` tells how often it was delivered before. A message that was
/// delivered before may have killed its worker. The first times it is processed in small batches
/// ([`together_max`]), which needs no publication. Then it goes to the solo queue, where one
/// message is processed at a time, and where alone deaths count. There it gets a strike for each
/// death, first as a whole, then id by id; what has a strike is processed while nothing else is
/// (`isolation_lock`). While the broker takes no publications, it is processed alone where it is
/// ([`runs_alone`]), but only so often that the last strikes are given by the solo queue.
#[must_use]
pub fn admission(origin: Origin, deliveries: u32, room: Publishing, body: &[u8]) -> Admission {
    let (message, bad) = match Message::parse(body) {
        Ok(Parsed { message: Message { marker: Some(published), .. }, .. }) => {
            return Admission::Marker(published);
        }
        Ok(Parsed { message, bad }) if message.ids.is_empty() => return Admission::Unusable(bad),
        Ok(Parsed { message, bad }) => (message, bad),
        Err(problem) => return Admission::Malformed(problem),
    };
    match origin {
        Origin::Work => {
            let deliveries = message.deliveries.saturating_add(deliveries);
            let message = Message { deliveries, ..message };
            match together_max(deliveries) > 1 {
                true => Admission::Process(message, bad),
                false => {
                    let messages = vec![Message { deliveries: 0, ..message.clone() }];
                    let instead = (deliveries < IN_PLACE_MAX).then_some(message);
                    alone(Isolation { messages, instead }, bad, room)
                }
            }
        }
        Origin::Solo if deliveries == 0 => Admission::Process(message, bad),
        Origin::Solo => struck(message, bad, deliveries, room),
    }
}

/// Decides on a message whose worker died with it while it was alone.
fn struck(message: Message, bad: Vec<BadId>, deliveries: u32, room: Publishing) -> Admission {
    let strikes = message.strikes.saturating_add(1);
    let single = |id: &TransactionId| Message { ids: vec![id.clone()], ..message };
    let messages = match &message.ids[..] {
        [id] if strikes >= STRIKES_MAX => {
            let id = id.clone();
            return Admission::Suspect(Suspect { id, message }, bad);
        }
        [_alone] => vec![Message { strikes, ..message.clone() }],
        ids => ids.iter().map(single).collect(),
    };
    // The count is no strike: it rises also when a worker stops or loses its connection.
    let by_count = message.strikes.saturating_add(deliveries);
    let instead = (by_count < STRIKES_MAX).then_some(message);
    alone(Isolation { messages, instead }, bad, room)
}

/// Isolates a message, or has it processed where it is while the broker takes nothing.
fn alone(isolation: Isolation, bad: Vec<BadId>, room: Publishing) -> Admission {
    match (room, isolation) {
        (Publishing::Shut, Isolation { instead: Some(message), .. }) => {
            Admission::Process(message, bad)
        }
        (_, isolation) => Admission::Isolate(isolation, bad),
    }
}

/// Whether a message that was delivered so often before is processed while nothing else is.
#[must_use]
pub fn runs_alone(origin: Origin, deliveries: u32, message: &Message) -> bool {
    match origin {
        Origin::Work => together_max(message.deliveries) == 1,
        Origin::Solo => message.strikes > 0 || deliveries > 0,
    }
}

/// The most ids that may be in a batch with a message that was delivered so often before; one
/// message with more is a batch of its own.
#[must_use]
pub fn together_max(deliveries: u32) -> usize {
    match deliveries {
        0 => usize::MAX,
        1 => SUSPECTS_TOGETHER[0],
        2 => SUSPECTS_TOGETHER[1],
        _many => 1,
    }
}

/// What follows from a message once all its ids have an outcome. Nothing follows: acknowledge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// To publish again, each after its delay.
    pub retries: Vec<(Message, Duration, Cause)>,
    /// To publish to the solo queue, each after its delay: smaller messages than this one, until
    /// the culprit among them stands alone.
    pub apart: Vec<(Message, Duration)>,
    /// To publish again at once: what was too much for one batch.
    pub surplus: Vec<Message>,
    /// To dead-letter.
    pub dead: Option<(Message, DeadReason, String)>,
}

/// Why ids are published again, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount, VariantArray)]
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
    /// Settlement is paused, or this worker drained.
    Paused,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; Cause::COUNT] =
        *Cause::VARIANTS.first_chunk().expect("as many as are counted");

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
            Cause::Paused => "paused",
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
    use std::slice;

    use super::*;

    fn message(ids: &[&str]) -> Message {
        Message::new(ids.iter().map(|id| (*id).into()).collect())
    }

    fn take(origin: Origin, deliveries: u32, message: &Message) -> Admission {
        admission(origin, deliveries, Publishing::Open, &message.to_bytes())
    }

    fn process(message: &Message) -> Admission {
        Admission::Process(message.clone(), vec![])
    }

    /// What is published to isolate a message without bad ids.
    fn published(admitted: Admission) -> Vec<Message> {
        let Admission::Isolate(isolation, bad) = admitted else { panic!("{admitted:?}") };
        assert_eq!(bad, []);
        isolation.messages
    }

    #[test]
    fn what_was_delivered_before_is_processed_with_ever_fewer_others_and_then_alone() {
        let two = message(&["a", "b"]);
        let circles: Vec<_> = (0..5).map(together_max).collect();
        assert_eq!(circles, [usize::MAX, 512, 16, 1, 1]);
        for deliveries in 0..3 {
            let counted = Message { deliveries, ..two.clone() };
            assert_eq!(take(Origin::Work, deliveries, &two), process(&counted), "{deliveries}");
        }
        assert_eq!(published(take(Origin::Work, 3, &two)), slice::from_ref(&two));
        assert_eq!(take(Origin::Solo, 0, &two), process(&two));
        let singles = [message(&["a"]), message(&["b"])];
        assert_eq!(published(take(Origin::Solo, 1, &two)), singles);
    }

    #[test]
    fn while_nothing_can_be_published_a_message_is_processed_where_it_is_until_its_last_strike() {
        let shut = |origin, deliveries, message: &Message| {
            admission(origin, deliveries, Publishing::Shut, &message.to_bytes())
        };
        let (one, two) = (message(&["a"]), message(&["a", "b"]));
        let often = |deliveries| Message { deliveries, ..two.clone() };
        assert_eq!(shut(Origin::Work, 5, &two), process(&often(5)));
        assert!(runs_alone(Origin::Work, 5, &often(5)) && !runs_alone(Origin::Work, 2, &often(2)));
        let last = shut(Origin::Work, IN_PLACE_MAX, &two);
        assert_eq!(published(last), slice::from_ref(&two), "it waits");
        let struck = |strikes| Message { strikes, ..one.clone() };
        assert_eq!(shut(Origin::Solo, 2, &one), process(&one), "a count is no strike");
        assert!(runs_alone(Origin::Solo, 2, &one) && !runs_alone(Origin::Solo, 0, &one));
        let next = published(shut(Origin::Solo, STRIKES_MAX, &one));
        assert_eq!(next, [struck(1)], "waits for its first strike");
        let next = published(shut(Origin::Solo, 2, &struck(1)));
        assert_eq!(next, [struck(2)], "waits for its second");
    }

    #[test]
    fn what_is_to_be_isolated_says_what_is_processed_if_nothing_can_be_published() {
        let (one, two) = (message(&["a"]), message(&["a", "b"]));
        for (origin, deliveries, message) in [
            (Origin::Work, 3, &two),
            (Origin::Work, IN_PLACE_MAX, &two),
            (Origin::Solo, 1, &one),
            (Origin::Solo, 2, &two),
            (Origin::Solo, STRIKES_MAX, &one),
        ] {
            let Admission::Isolate(open, _) = take(origin, deliveries, message) else {
                panic!("{origin:?} {deliveries}: it is isolated")
            };
            let shut = admission(origin, deliveries, Publishing::Shut, &message.to_bytes());
            match open.instead {
                Some(instead) => assert_eq!(shut, process(&instead)),
                None => assert_eq!(published(shut), open.messages),
            }
        }
    }

    #[test]
    fn a_bad_id_is_given_up_alone_and_a_marker_is_told_apart() {
        let body = br#"{"ids":["a","bad\n","b"],"tries":2}"#;
        let good = Message { tries: 2, ..message(&["a", "b"]) };
        for (origin, deliveries) in [(Origin::Work, 0), (Origin::Work, 1), (Origin::Solo, 0)] {
            let admitted = admission(origin, deliveries, Publishing::Open, body);
            let Admission::Process(found, bad) = admitted else { panic!("two of them are good") };
            let good = Message { deliveries, ..good.clone() };
            assert_eq!((found, bad.len()), (good, 1));
        }
        let admitted = admission(Origin::Work, 3, Publishing::Open, body);
        let Admission::Isolate(isolation, bad) = admitted else { panic!("often delivered") };
        assert_eq!((isolation.messages, bad.len()), (vec![good], 1));
        let all_bad = admission(Origin::Work, 0, Publishing::Open, br#"{"ids":["bad\n"]}"#);
        assert!(matches!(all_bad, Admission::Unusable(bad) if bad.len() == 1));
        assert_eq!(take(Origin::Work, 1, &Message::marker(7)), Admission::Marker(7));
    }

    #[test]
    fn a_message_alone_is_dead_after_its_last_strike_and_by_no_count_of_deliveries() {
        let mut current = message(&["a"]);
        for strikes in 1..STRIKES_MAX {
            current = published(take(Origin::Solo, 900, &current)).remove(0);
            assert_eq!(current.strikes, strikes);
        }
        let Admission::Suspect(suspect, _) = take(Origin::Solo, 1, &current) else {
            panic!("that was the last strike")
        };
        assert_eq!(suspect, Suspect { id: current.ids[0].clone(), message: current.clone() });
        assert!(matches!(take(Origin::Work, 900, &current), Admission::Isolate(..)));
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
