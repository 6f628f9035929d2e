//! Submitters that use a few exclusive keys again and again, at the same time.
//!
//! Owns what they submit and what they were told. Promises that each submission is repeated until
//! it is accepted or refused, and a sentence for each contradiction between that and the ledger.
//! They work through the clerks' kind of link: only faults of the servers hit them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use client::{Client, Error, Receipt, Submission};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clerk::client;
use super::faults::now_ms;
use super::load::{CURRENCY, any};
use super::verdict::{EXCUSES, Found};

/// What their ids begin with.
const PREFIX: &str = "key-";
/// How many submit at the same time.
const SUBMITTERS: usize = 4;
/// How many keys they share.
const KEYS: u32 = 3;
/// The pause of one between two submissions, in milliseconds.
const PAUSE_MS_MAX: u64 = 300;
/// One of so many is a hold that is left to expire, so that its key is in use for a while.
const HELD_ONE_OF: u32 = 6;
/// When such a hold expires.
const EXPIRES_AFTER: Duration = Duration::from_secs(2);
/// How long the last submission may take after the end.
const LAST_LIMIT: Duration = Duration::from_secs(60);
/// The pause between two attempts of one submission.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a submitter was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the ledger; told at this moment, in Unix milliseconds.
    Accepted(i64),
    /// This other transaction has the key.
    InUse(String),
    /// An answer that must never be given.
    Odd(String),
    /// No answer in time.
    Unknown,
}

impl Answer {
    /// Its name in the report.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Answer::Accepted(_) => "accepted",
            Answer::InUse(_) => "key in use",
            Answer::Odd(_) => "odd",
            Answer::Unknown => "unknown",
        }
    }
}

/// A submission with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// Its id.
    pub id: String,
    /// Its key.
    pub key: String,
    /// Signed changes, debit first.
    pub legs: Vec<(String, i64)>,
    /// Whether it is on hold, until it expires.
    pub held: bool,
    /// What the submitter was told in the end.
    pub answer: Answer,
}

impl Keyed {
    fn new(seed: u64, submitter: usize, number: u32) -> Keyed {
        let mut rng =
            StdRng::seed_from_u64(seed ^ (submitter as u64 + 1) << 40 ^ u64::from(number));
        let value = rng.random_range(1..=50);
        let (from, to) = (any(&mut rng), any(&mut rng));
        let to = if to == from { "hot0".to_owned() } else { to };
        Keyed {
            id: format!("{PREFIX}{submitter}-{number:06}"),
            key: format!("shared-{}", rng.random_range(0..KEYS)),
            legs: vec![(from, -value), (to, value)],
            held: rng.random_range(0..HELD_ONE_OF) == 0,
            answer: Answer::Unknown,
        }
    }

    fn submission(&self) -> Submission {
        let legs = self.legs.iter().map(|(account, amount)| (account.as_str(), *amount));
        let plain = Submission::legs(legs)
            .in_currency(CURRENCY)
            .with_id(self.id.as_str())
            .with_exclusive_key(self.key.as_str());
        match self.held {
            true => plain.held().hold_expires_at(SystemTime::now() + EXPIRES_AFTER),
            false => plain,
        }
    }
}

/// Submits until it is told to stop; returns everything that was submitted.
///
/// # Errors
/// When the environment makes no sense.
pub async fn submit(
    env: BTreeMap<String, String>,
    seed: u64,
    stop: watch::Receiver<bool>,
) -> Result<Vec<Keyed>, String> {
    let client = Arc::new(client(&env, "chaos-keys").await?);
    let mut submitters: JoinSet<Vec<Keyed>> = (0..SUBMITTERS)
        .map(|submitter| one(client.clone(), seed, submitter, stop.clone()))
        .collect();
    let mut all = Vec::new();
    while let Some(some) = submitters.join_next().await {
        all.extend(some.map_err(|panic| panic.to_string())?);
    }
    client.close().await;
    Ok(all)
}

async fn one(
    client: Arc<Client>,
    seed: u64,
    submitter: usize,
    mut stop: watch::Receiver<bool>,
) -> Vec<Keyed> {
    let mut submitted = Vec::new();
    for number in 0.. {
        let mut keyed = Keyed::new(seed, submitter, number);
        let pause = Duration::from_millis(now_ms().unsigned_abs() % PAUSE_MS_MAX);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = tokio::time::sleep(pause) => {}
        }
        keyed.answer = until_told(&client, keyed.submission(), &stop).await;
        submitted.push(keyed);
    }
    submitted
}

/// Submits the same again until it is known what became of it.
async fn until_told(
    client: &Client,
    submission: Submission,
    stop: &watch::Receiver<bool>,
) -> Answer {
    let mut stopped_at = None;
    loop {
        if let Some(answer) = understood(client.submit(submission.clone()).await) {
            return answer;
        }
        if *stop.borrow() {
            let since = stopped_at.get_or_insert_with(Instant::now);
            if since.elapsed() > LAST_LIMIT {
                return Answer::Unknown;
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// What an attempt proves; `None` if nothing.
fn understood(told: Result<Receipt, Error>) -> Option<Answer> {
    match told {
        Ok(_) => Some(Answer::Accepted(now_ms())),
        Err(Error::KeyInUse { holder, .. }) => Some(Answer::InUse(holder)),
        Err(Error::Unavailable { .. }) => None,
        Err(error) => Some(Answer::Odd(error.to_string())),
    }
}

/// The contradictions between one submission, its answer and the database.
#[must_use]
pub fn of_keyed(keyed: &Keyed, found: Option<&Found>) -> Option<String> {
    let broken = |rule: &str| Some(format!("{rule}: {keyed:?}, {found:?}"));
    let found = match (&keyed.answer, found) {
        (Answer::Odd(_), _) => return broken("a submission with a key got an odd answer"),
        (Answer::InUse(_), None) | (Answer::Unknown, None) => return None,
        (Answer::InUse(_), Some(_)) => {
            return broken("its key was in use, and it is in the ledger");
        }
        (Answer::Accepted(_), None) => return broken("accepted with its key, and lost"),
        (Answer::Accepted(_) | Answer::Unknown, Some(found)) => found,
    };
    let reason = found.reason.as_str();
    let excused = EXCUSES.contains(&reason) || keyed.held && reason == "hold_expired";
    if found.key.as_ref() != Some(&keyed.key)
        || found.hold != keyed.held
        || !found.has_legs(&keyed.legs)
    {
        broken("accepted with its key, with other content")
    } else if !found.is_final() {
        broken("accepted with its key, and never came to an end")
    } else if found.is_done() && keyed.held {
        broken("nobody has confirmed it, and it is done")
    } else if !found.is_done() && !excused {
        broken("accepted with its key, and canceled without a cause")
    } else {
        None
    }
}

/// All pairs that had one key at the same time for certain: each was accepted before the other was
/// decided. And everybody who was refused because of a transaction that never had the key.
#[must_use]
pub fn of_keys(all: &[Keyed], found: &HashMap<String, Found>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut undecided: BTreeMap<&str, Vec<(i64, i64, &str)>> = BTreeMap::new();
    for keyed in all {
        match &keyed.answer {
            Answer::Accepted(told_ms) => {
                let decided_ms = found.get(&keyed.id).and_then(|found| found.decided_ms);
                if let Some(decided_ms) = decided_ms.filter(|decided_ms| decided_ms > told_ms) {
                    let of_key = undecided.entry(&keyed.key).or_default();
                    of_key.push((*told_ms, decided_ms, &keyed.id));
                }
            }
            Answer::InUse(holder) => {
                let has_key = |found: &Found| found.key.as_ref() == Some(&keyed.key);
                if *holder == keyed.id || !found.get(holder).is_some_and(has_key) {
                    broken.push(format!("{keyed:?}: {holder} never had this key"));
                }
            }
            Answer::Odd(_) | Answer::Unknown => {}
        }
    }
    for (key, mut of_key) in undecided {
        of_key.sort_unstable();
        let mut last: Option<(i64, i64, &str)> = None;
        for one in of_key {
            if let Some(before) = last.filter(|before| before.1 > one.0) {
                broken.push(format!("{key} was in use twice: by {before:?} and {one:?}"));
            }
            if last.is_none_or(|before| before.1 < one.1) {
                last = Some(one);
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(id: &str, answer: Answer) -> Keyed {
        let legs = vec![("a".into(), -3), ("b".into(), 3)];
        Keyed { id: id.into(), key: "k".into(), legs, held: false, answer }
    }

    fn found(id: &str, state: &str, decided_ms: i64) -> Found {
        Found {
            id: id.into(),
            state: state.into(),
            legs: vec![("a".into(), -3), ("b".into(), 3)],
            key: Some("k".into()),
            decided_ms: Some(decided_ms),
            ..Found::default()
        }
    }

    #[test]
    fn a_submission_can_be_made_again_and_keys_are_shared() {
        let all: Vec<Keyed> = (0..100).map(|number| Keyed::new(1, 0, number)).collect();
        assert_eq!(all[7], Keyed::new(1, 0, 7));
        let keys: std::collections::HashSet<_> = all.iter().map(|keyed| &keyed.key).collect();
        assert_eq!(keys.len(), KEYS as usize);
        assert!(
            all.iter().any(|keyed| keyed.held) && all.iter().all(|k| k.legs[0].0 != k.legs[1].0)
        );
    }

    #[test]
    fn what_was_accepted_ends_and_what_was_refused_is_not_there() {
        let (accepted, refused) = (Answer::Accepted(1), Answer::InUse("s".into()));
        let done = found("t", "done", 5);
        assert_eq!(of_keyed(&keyed("t", accepted.clone()), Some(&done)), None);
        assert_eq!(of_keyed(&keyed("t", refused.clone()), None), None);
        assert_eq!(of_keyed(&keyed("t", Answer::Unknown), None), None);
        let expired =
            Found { hold: true, reason: "hold_expired".into(), ..found("t", "canceled", 5) };
        let held = Keyed { held: true, ..keyed("t", accepted.clone()) };
        assert_eq!(of_keyed(&held, Some(&expired)), None);

        for (keyed, found, said) in [
            (keyed("t", refused), Some(done.clone()), "is in the ledger"),
            (keyed("t", accepted.clone()), None, "lost"),
            (keyed("t", accepted.clone()), Some(found("t", "held", 5)), "never came to an end"),
            (keyed("t", accepted.clone()), Some(found("t", "canceled", 5)), "without a cause"),
            (keyed("t", accepted.clone()), Some(expired), "other content"),
            (held, Some(Found { hold: true, ..done.clone() }), "nobody has confirmed"),
            (keyed("t", accepted), Some(Found { key: None, ..done }), "other content"),
            (keyed("t", Answer::Odd("why".into())), None, "odd answer"),
        ] {
            let broken = of_keyed(&keyed, found.as_ref());
            assert!(broken.as_ref().is_some_and(|broken| broken.contains(said)), "{broken:?}");
        }
    }

    #[test]
    fn two_that_had_one_key_at_the_same_time_are_found() {
        let all = |told: [i64; 3]| {
            ["s", "t", "u"]
                .into_iter()
                .zip(told)
                .map(|(id, told)| keyed(id, Answer::Accepted(told)))
        };
        let ended = |decided: [i64; 3]| -> HashMap<String, Found> {
            let found = ["s", "t", "u"].into_iter().zip(decided);
            found.map(|(id, ms)| (id.to_owned(), found_of(id, ms))).collect()
        };
        let judged = |told, decided| of_keys(&all(told).collect::<Vec<_>>(), &ended(decided)).len();
        assert_eq!(judged([1, 5, 9], [5, 9, 12]), 0);
        assert_eq!(judged([1, 5, 9], [6, 9, 12]), 1);
        assert_eq!(judged([1, 5, 9], [20, 6, 12]), 2, "within the first");
        assert_eq!(judged([6, 5, 9], [5, 9, 12]), 0, "told after it was decided");
    }

    fn found_of(id: &str, decided_ms: i64) -> Found {
        found(id, "done", decided_ms)
    }

    #[test]
    fn somebody_is_refused_only_because_of_one_that_had_the_key() {
        let refused = [keyed("t", Answer::InUse("s".into()))];
        let had = HashMap::from([("s".to_owned(), found("s", "done", 5))]);
        assert!(of_keys(&refused, &had).is_empty());
        assert_eq!(of_keys(&refused, &HashMap::new()).len(), 1);
    }
}
