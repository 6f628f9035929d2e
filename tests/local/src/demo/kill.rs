//! The crash in the demo: kills a worker that holds transactions, and tells the recovery.
//!
//! Runs beside the submission. Once enough transfers have reached a final state it kills a worker
//! and asks which transactions that worker held; when it held none, the next worker follows, twice
//! at most, and one worker is always left. The recovery is the time from the kill to the end of the
//! last transaction that was in flight then. Both moments are on the database's clock, which may be
//! another machine's. Fails when a worker has ended unasked, or when a transaction that a killed
//! worker held is lost or not final.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::console::{Failure, say};
use mongodb::Database;
use mongodb::bson::{DateTime, doc};

use super::producer::{Producer, Stats, Transaction};
use super::workers::Workers;

/// Which share of the transfers is final when the worker is killed, in percent.
const KILL_AT_PERCENT: u64 = 40;
const KILLS_MAX: usize = 3;
const POLL: Duration = Duration::from_millis(50);
const FINAL: [&str; 2] = ["done", "canceled"];

/// What became of the crash.
#[derive(Clone, Debug, Default)]
pub struct Kill {
    /// The workers that were killed.
    pub killed: Vec<String>,
    /// The transactions that the last of them held.
    pub held: Vec<String>,
    /// When it was killed, on the database's clock.
    pub at: Option<DateTime>,
    /// Transfers a second until then.
    pub rate_before: Option<f64>,
}

/// How long it took until nothing of a killed worker was in flight any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recovery {
    /// Nothing was in flight at the kill, or nobody was killed.
    NothingInFlight,
    /// All that was in flight was ended by statements that the worker had sent before the kill.
    SentBefore,
    /// So many seconds from the kill to the end of the last transaction.
    Took(f64),
}

impl Kill {
    /// Waits for the moment, and kills. Ends without a kill when the submission is over before.
    ///
    /// # Errors
    /// When a worker has ended unasked, or a call of the producer fails.
    pub async fn beside(
        over: &AtomicBool,
        producer: &Producer<'_>,
        workers: &mut Workers,
        database: &Database,
        transfers: usize,
    ) -> Result<Kill, Failure> {
        let begun = Instant::now();
        let mut kill = Kill::default();
        loop {
            tokio::time::sleep(POLL).await;
            if over.load(Ordering::Relaxed) {
                return Ok(kill);
            }
            let count = final_count(&producer.stats().await?);
            if count * 100 >= KILL_AT_PERCENT * transfers as u64 {
                kill.rate_before = Some(count as f64 / begun.elapsed().as_secs_f64());
                break;
            }
            workers.require_all()?;
        }
        for index in victims(workers.count()) {
            kill.at = Some(server_now(database).await?);
            let name = workers.kill(index)?;
            kill.held = producer.in_flight(&name).await?;
            say(format!("killed {name} (SIGKILL): it held {} transactions", kill.held.len()));
            kill.killed.push(name);
            if !kill.held.is_empty() || over.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(kill)
    }

    /// The time from the kill until the last of the held transactions was final. `found` are those
    /// transactions as they are now.
    ///
    /// # Errors
    /// When one of them is missing or not final.
    pub fn recovery(&self, found: &[Transaction]) -> Result<Recovery, Failure> {
        let (Some(at), Some(worker)) = (self.at, self.killed.last()) else {
            return Ok(Recovery::NothingInFlight);
        };
        let open = found.iter().filter(|one| !FINAL.contains(&one.state.as_str())).count();
        if found.len() != self.held.len() || open > 0 {
            return Err(Failure(format!(
                "of {} transactions that {worker} held, {} were found and {open} are not final",
                self.held.len(),
                found.len()
            )));
        }
        let mut last = None;
        for one in found {
            let moment = DateTime::parse_rfc3339_str(&one.last_modified).map_err(|error| {
                Failure(format!("{}: lastModified {:?}: {error}", one.id, one.last_modified))
            })?;
            last = last.max(Some(moment));
        }
        let Some(last) = last else { return Ok(Recovery::NothingInFlight) };
        // The server dates a write when it begins. One that the worker had sent may begin before
        // the kill and take effect after it.
        let took_ms = last.timestamp_millis() - at.timestamp_millis();
        Ok(if took_ms <= 0 {
            Recovery::SentBefore
        } else {
            Recovery::Took(took_ms as f64 / 1000.0)
        })
    }
}

/// The time on the clock by which transactions are dated.
async fn server_now(database: &Database) -> Result<DateTime, Failure> {
    let failed = |why: String| Failure(format!("the database does not say its time: {why}"));
    let hello = database.run_command(doc! { "hello": 1 }).await;
    let hello = hello.map_err(|error| failed(error.to_string()))?;
    hello.get_datetime("localTime").copied().map_err(|error| failed(error.to_string()))
}

fn final_count(stats: &Stats) -> u64 {
    FINAL.iter().filter_map(|state| stats.states.get(*state)).sum()
}

/// Which workers to kill, one after the other, until one held something: never all of them.
fn victims(workers: usize) -> impl Iterator<Item = usize> {
    let first = usize::from(workers > 1);
    (0..workers).cycle().skip(first).take(KILLS_MAX.min(workers.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(id: &str, state: &str, last_modified: &str) -> Transaction {
        let [id, state, last_modified] = [id, state, last_modified].map(str::to_owned);
        Transaction { id, state, last_modified }
    }

    fn kill_of(held: &[&str]) -> Kill {
        Kill {
            killed: vec!["demo-worker-2".to_owned()],
            held: held.iter().map(|id| (*id).to_owned()).collect(),
            at: Some(DateTime::from_millis(500)),
            rate_before: None,
        }
    }

    #[test]
    fn one_worker_is_always_left() {
        let victims = [1, 2, 3, 4, 9].map(|workers| victims(workers).collect::<Vec<_>>());
        assert_eq!(victims, [vec![], vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 2, 3]]);
    }

    #[test]
    fn the_recovery_lasts_until_the_last_held_transaction_is_final() {
        let found = [
            transaction("a", "canceled", "1970-01-01T00:00:03.25Z"),
            transaction("b", "done", "1970-01-01T00:00:01Z"),
        ];
        let recovery = kill_of(&["a", "b"]).recovery(&found).expect("both are final");
        assert_eq!(recovery, Recovery::Took(2.75));
        for kill in [kill_of(&[]), Kill::default()] {
            assert_eq!(kill.recovery(&[]).expect("nothing is open"), Recovery::NothingInFlight);
        }
    }

    #[test]
    fn a_recovery_is_never_negative() {
        for moment in ["1970-01-01T00:00:00.3Z", "1970-01-01T00:00:00.5Z"] {
            let found = [transaction("a", "done", moment)];
            let recovery = kill_of(&["a"]).recovery(&found).expect("it is final");
            assert_eq!(recovery, Recovery::SentBefore);
        }
    }

    #[test]
    fn a_held_transaction_that_is_lost_or_open_is_a_failure() {
        let done = transaction("a", "done", "1970-01-01T00:00:01Z");
        let open = transaction("b", "applied", "1970-01-01T00:00:01Z");
        let lost = kill_of(&["a", "b"]).recovery(std::slice::from_ref(&done));
        let text = lost.expect_err("b is missing").to_string();
        assert!(text.ends_with("held, 1 were found and 0 are not final"), "{text}");
        let text = kill_of(&["a", "b"]).recovery(&[done, open]).expect_err("b is open");
        assert!(text.to_string().ends_with("2 were found and 1 are not final"), "{text}");
    }
}
