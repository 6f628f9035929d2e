//! Clerks cancel and reverse single transactions, reschedule what is scheduled, and confirm and
//! release holds, while rows are being submitted and settled.
//!
//! They work at the same time, through a link of their own that nobody cuts; faults of the servers
//! hit it as well. Their answers are kept and judged. A request that failed proves nothing: what is
//! asked is asked again until it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Amount, Canceled, Capture, Client, Config, Decided, Error, Leg, Standing, State};
use mongodb::bson::DateTime;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// How long a clerk keeps trying in one go.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many clerks there are.
const CLERKS: usize = 24;
/// What can't be decided yet is looked at again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
/// How long the clerks ask again.
const ASK_LIMIT: Duration = Duration::from_secs(150);

/// What the clerks are asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What.
    pub task: Task,
    /// How long they wait before.
    pub after: Duration,
}

/// What one clerk does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Cancels it.
    Cancel(String),
    /// Puts off or forward what is scheduled, to this moment in Unix milliseconds.
    Reschedule(String, i64),
    /// Reverses it.
    Reverse(String),
    /// Confirms a hold with so much of each leg.
    Confirm(String, Vec<(String, i64)>),
    /// Releases a hold.
    Release(String),
}

/// The answer that a clerk got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is canceled, or will be.
    Canceled(String),
    /// It can't be canceled any more: it is done, or will be.
    TooLate(String),
    /// It is due at this moment now.
    Rescheduled(String, i64),
    /// It can't be rescheduled to this moment: it is not scheduled any more.
    NotRescheduled(String, i64),
    /// It can't be rescheduled to this moment, because it would always expire.
    WouldExpire(String, i64),
    /// It is taken back by this other transaction.
    Reversed(String, String),
    /// The hold is confirmed, with so much of each leg.
    Confirmed(String, Vec<(String, i64)>),
    /// The hold can't be confirmed: it is canceled or expired.
    NotConfirmed(String),
    /// The hold is released, or was canceled otherwise.
    Released(String),
    /// The hold can't be released: it was confirmed.
    NotReleased(String),
    /// An answer that must never be given.
    Odd(String, String),
}

impl Answered {
    /// The transactions that it is about.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        match self {
            Answered::Reversed(id, by) => vec![id.clone(), by.clone()],
            Answered::Canceled(id)
            | Answered::TooLate(id)
            | Answered::Rescheduled(id, _)
            | Answered::NotRescheduled(id, _)
            | Answered::WouldExpire(id, _)
            | Answered::Confirmed(id, _)
            | Answered::NotConfirmed(id)
            | Answered::Released(id)
            | Answered::NotReleased(id)
            | Answered::Odd(id, _) => vec![id.clone()],
        }
    }
}

impl Answered {
    /// Its name in the report, if it is about what is scheduled.
    #[must_use]
    pub fn about_schedule(&self) -> Option<&'static str> {
        match self {
            Answered::Rescheduled(..) => Some("rescheduled"),
            Answered::NotRescheduled(..) => Some("not scheduled any more"),
            Answered::WouldExpire(..) => Some("would always expire"),
            Answered::Canceled(_)
            | Answered::TooLate(_)
            | Answered::Reversed(..)
            | Answered::Confirmed(..)
            | Answered::NotConfirmed(_)
            | Answered::Released(_)
            | Answered::NotReleased(_)
            | Answered::Odd(..) => None,
        }
    }
}

/// The clerks' connections.
pub struct Clerks {
    client: Client,
    free: Semaphore,
}

/// A client of its own for somebody at work.
///
/// # Errors
/// When its environment makes no sense.
pub(super) async fn client(env: &BTreeMap<String, String>, name: &str) -> Result<Client, String> {
    let of = |name: &str| env.get(name).cloned().unwrap_or_default();
    let config = Config::new(of("TANDEM_MONGODB_URI"), of("TANDEM_AMQP_URL"))
        .database(of("TANDEM_DATABASE"))
        .queue_prefix(of("TANDEM_QUEUE_PREFIX"))
        .name(name)
        .give_up_after(PATIENCE)
        .notes(|_| {});
    Client::open(&config).await.map_err(|error| error.to_string())
}

impl Clerks {
    /// Connects by the same environment as a program.
    ///
    /// # Errors
    /// When it makes no sense.
    pub async fn new(env: &BTreeMap<String, String>) -> Result<Clerks, String> {
        let client = client(env, "chaos-clerks").await?;
        Ok(Clerks { client, free: Semaphore::new(CLERKS) })
    }

    /// They do what they are asked until the channel is closed; returns the answers.
    pub async fn run(self: Arc<Clerks>, mut asks: mpsc::UnboundedReceiver<Ask>) -> Vec<Answered> {
        let (mut under_way, mut answered) = (JoinSet::new(), Vec::new());
        loop {
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => { under_way.spawn(self.clone().work_on(ask)); }
                    None => break,
                },
                Some(one) = under_way.join_next() => {
                    answered.extend(one.expect("a clerk never panics"));
                }
            }
        }
        while let Some(one) = under_way.join_next().await {
            answered.extend(one.expect("a clerk never panics"));
        }
        answered
    }

    /// The answer, if there is one in time.
    async fn work_on(self: Arc<Clerks>, Ask { task, after }: Ask) -> Option<Answered> {
        tokio::time::sleep(after).await;
        let begun = Instant::now();
        loop {
            {
                let _clerk = self.free.acquire().await.ok()?;
                match self.attempt(&task).await {
                    Attempt::Answered(answer) => return Some(answer),
                    Attempt::Failed => return None,
                    Attempt::Later if begun.elapsed() > ASK_LIMIT => return None,
                    Attempt::Later => {}
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn attempt(&self, task: &Task) -> Attempt {
        match task {
            Task::Cancel(id) => canceled(id, self.client.cancel(id).await),
            Task::Reschedule(id, ms) => {
                let moment = DateTime::from_millis(*ms).to_system_time();
                rescheduled(id, *ms, self.client.reschedule(id, moment).await)
            }
            Task::Reverse(id) => match self.client.reverse(id).await {
                Ok(by) => Attempt::Answered(Answered::Reversed(id.clone(), by.id.to_string())),
                Err(_) => Attempt::Failed,
            },
            Task::Confirm(id, captured) => {
                let legs = captured.iter().map(|(account, amount)| Leg {
                    account: account.as_str().into(),
                    amount: Amount::Int(*amount),
                });
                confirmed(id, self.client.confirm(id, &Capture::Legs(legs.collect())).await)
            }
            Task::Release(id) => released(id, self.client.release(id).await),
        }
    }

    /// Releases what still rests at the end. Whether that has succeeded, the next look shows.
    pub async fn sweep(&self, id: &str) {
        let _ = self.client.release(id).await;
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.client.close().await;
    }
}

/// How one attempt ended.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Answered(Answered),
    /// A server was away, or it is not held or submitted yet: ask again.
    Later,
    /// It is not asked again.
    Failed,
}

fn canceled(id: &str, told: Result<Canceled, Error>) -> Attempt {
    Attempt::Answered(match told {
        Ok(_) => Answered::Canceled(id.to_owned()),
        Err(Error::WrongState { state: State::Applied | State::Done, .. }) => {
            Answered::TooLate(id.to_owned())
        }
        // It is not submitted yet, or was just now.
        Err(Error::NotFound { .. } | Error::Refused { .. } | Error::Unavailable { .. }) => {
            return Attempt::Later;
        }
        Err(error) => Answered::Odd(id.to_owned(), error.to_string()),
    })
}

fn rescheduled(id: &str, ms: i64, told: Result<Standing, Error>) -> Attempt {
    Attempt::Answered(match told {
        Ok(_) => Answered::Rescheduled(id.to_owned(), ms),
        Err(Error::WrongState { state, problem, .. }) => match state {
            State::Scheduled => Answered::Odd(id.to_owned(), problem.to_owned()),
            State::Initial
            | State::Pending
            | State::Held
            | State::Applied
            | State::Canceling
            | State::Done
            | State::Canceled => Answered::NotRescheduled(id.to_owned(), ms),
        },
        Err(Error::Refused { problem, .. }) if problem.contains("would always expire") => {
            Answered::WouldExpire(id.to_owned(), ms)
        }
        // It is not submitted yet, or was just now.
        Err(Error::NotFound { .. } | Error::Refused { .. } | Error::Unavailable { .. }) => {
            return Attempt::Later;
        }
        Err(error) => Answered::Odd(id.to_owned(), error.to_string()),
    })
}

fn confirmed(id: &str, decided: Result<Decided, Error>) -> Attempt {
    Attempt::Answered(match decided {
        Ok(decided) => {
            let whole = |amount: Amount| match amount {
                Amount::Int(amount) => amount,
                Amount::Decimal(_) => i64::MIN,
            };
            let leg = |leg: &Leg| (leg.account.to_string(), whole(leg.amount));
            Answered::Confirmed(id.to_owned(), decided.captured.iter().map(leg).collect())
        }
        Err(Error::WrongState { state, problem, .. }) => match state {
            State::Scheduled | State::Initial | State::Pending => return Attempt::Later,
            // One that is held and can't be confirmed has expired.
            State::Held | State::Canceling | State::Canceled => {
                Answered::NotConfirmed(id.to_owned())
            }
            State::Applied | State::Done => Answered::Odd(id.to_owned(), problem.to_owned()),
        },
        Err(Error::Unavailable { .. }) => return Attempt::Later,
        Err(error) => Answered::Odd(id.to_owned(), error.to_string()),
    })
}

fn released(id: &str, decided: Result<Decided, Error>) -> Attempt {
    Attempt::Answered(match decided {
        Ok(_) => Answered::Released(id.to_owned()),
        Err(Error::WrongState { state, problem, .. }) => match state {
            // Not held yet, or confirmed: that shows when it is decided.
            State::Scheduled | State::Initial | State::Pending => return Attempt::Later,
            State::Applied | State::Done => Answered::NotReleased(id.to_owned()),
            State::Held | State::Canceling | State::Canceled => {
                Answered::Odd(id.to_owned(), problem.to_owned())
            }
        },
        Err(Error::Unavailable { .. }) => return Attempt::Later,
        Err(error) => Answered::Odd(id.to_owned(), error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(state: State) -> Result<Decided, Error> {
        Err(Error::WrongState { id: "t".into(), state, problem: "why" })
    }

    #[test]
    fn every_answer_about_a_hold_is_understood() {
        use State::{Applied, Canceled, Canceling, Done, Held, Initial, Pending};
        for state in [Initial, Pending] {
            assert_eq!(confirmed("t", wrong(state)), Attempt::Later);
            assert_eq!(released("t", wrong(state)), Attempt::Later);
        }
        for state in [Held, Canceling, Canceled] {
            let not_confirmed = Attempt::Answered(Answered::NotConfirmed("t".into()));
            assert_eq!(confirmed("t", wrong(state)), not_confirmed);
            let odd = Attempt::Answered(Answered::Odd("t".into(), "why".into()));
            assert_eq!(released("t", wrong(state)), odd);
        }
        for state in [Applied, Done] {
            let not_released = Attempt::Answered(Answered::NotReleased("t".into()));
            assert_eq!(released("t", wrong(state)), not_released);
        }
        let otherwise = Error::Captured { id: "t".into(), captured: vec![] };
        let answer = confirmed("t", Err(otherwise));
        assert!(matches!(answer, Attempt::Answered(Answered::Odd(..))), "{answer:?}");
    }
}
