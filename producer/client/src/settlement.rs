//! Pausing settlement of a ledger, draining one worker, and letting it go on.
//!
//! Promises that a pause is durable before a call returns, that pausing what is paused changes
//! nothing and says who has paused it, and that a call whose answer was lost is repeated without
//! being taken for somebody else's. Workers see a pause within a second, begin nothing more, and
//! finish what they have begun; [`Client::not_there_yet`] says who has not, as they say of
//! themselves. The same holds of one worker that is drained, by its name: it stays drained when it is
//! started again under that name. Nothing of the protocol rests on it: what is submitted meanwhile is
//! accepted and waits, or other workers settle it. Fails when MongoDB stays away, and for a worker
//! that nobody has seen.

use std::collections::BTreeSet;
use std::fmt;

use ledger::ServerMs;
use ledger::limits::{ECHO_BYTES_MAX, NAME_BYTES_MAX};
use mongo::{SeenWorker, Settlement, SettlementChange, Whose};

use crate::client::Client;
use crate::error::Error;

/// The longest reason for a pause, in bytes: it is shown everywhere while the pause lasts, and
/// never cut.
pub const PAUSE_REASON_BYTES_MAX: usize = ECHO_BYTES_MAX;

/// What became of pausing, or of letting settlement go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    /// What was last said of settlement; none where nobody has ever paused.
    pub settlement: Option<Settlement>,
    /// Whether this call has said it; if not, it was so already.
    pub changed: bool,
}

/// A worker that does not do yet what was last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lagging {
    /// Its name.
    pub name: String,
    /// What it still does.
    pub does: Lag,
}

/// What a worker does that does not do yet what was last said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// It has not said since that it has seen it.
    NotSeen,
    /// It begins nothing more, and finishes so many transactions.
    Finishing(u64),
}

impl fmt::Display for Lagging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.does {
            Lag::NotSeen => write!(f, "{} has not said that it has seen it", self.name),
            Lag::Finishing(1) => write!(f, "{} finishes 1 transaction", self.name),
            Lag::Finishing(count) => write!(f, "{} finishes {count} transactions", self.name),
        }
    }
}

impl Client {
    /// Pauses settlement: workers begin nothing more, and finish what they have begun. `by` is who
    /// says so, and `reason` why. Where settlement is paused already, nothing changes.
    ///
    /// # Errors
    /// [`Error::Invalid`] where name or reason say nothing or are too long; when the ledger is not
    /// set up, or MongoDB stays away.
    pub async fn pause(&self, by: &str, reason: &str) -> Result<Switched, Error> {
        self.switch(Whose::Ledger, true, by, Some(reason)).await
    }

    /// Lets settlement go on. Where it is not paused, nothing changes.
    ///
    /// # Errors
    /// As [`Client::pause`].
    pub async fn resume(&self, by: &str, reason: Option<&str>) -> Result<Switched, Error> {
        self.switch(Whose::Ledger, false, by, reason).await
    }

    /// Drains the worker of this name: it begins nothing more, gives back what it has not begun,
    /// finishes the rest, and stands by until it is resumed, also when it was started again under
    /// this name meanwhile. Where it is drained already, nothing changes.
    ///
    /// # Errors
    /// As [`Client::pause`], and [`Error::NoWorker`] where no worker of this name was seen within a
    /// day.
    pub async fn drain(&self, worker: &str, by: &str, reason: &str) -> Result<Switched, Error> {
        self.require_worker(worker).await?;
        self.switch(Whose::Worker(worker.to_owned()), true, by, Some(reason)).await
    }

    /// Lets a worker settle again that was drained. Where it is not drained, nothing changes.
    ///
    /// # Errors
    /// As [`Client::pause`], and [`Error::NoWorker`] where no worker of this name was seen within a
    /// day, nor ever drained.
    pub async fn resume_worker(
        &self,
        worker: &str,
        by: &str,
        reason: Option<&str>,
    ) -> Result<Switched, Error> {
        self.drain_of(worker).await?;
        self.switch(Whose::Worker(worker.to_owned()), false, by, reason).await
    }

    /// What was last said of draining the worker of this name; none where nobody has drained it.
    ///
    /// # Errors
    /// [`Error::NoWorker`] where no worker of this name was seen within a day, nor ever drained; and
    /// when MongoDB stays away.
    pub async fn drain_of(&self, worker: &str) -> Result<Option<Settlement>, Error> {
        let whose = Whose::Worker(worker.to_owned());
        let said = self.insist(|| self.store().settlement_of(&whose)).await?;
        if said.is_none() {
            self.require_worker(worker).await?;
        }
        Ok(said)
    }

    /// Refuses the name of a worker that nobody has seen lately.
    async fn require_worker(&self, worker: &str) -> Result<(), Error> {
        let seen = self.insist(|| self.store().workers()).await?;
        match seen.iter().any(|seen| seen.report.name == worker) {
            true => Ok(()),
            false => Err(Error::NoWorker { name: worker.to_owned(), known: names_of(&seen) }),
        }
    }

    async fn switch(
        &self,
        whose: Whose,
        paused: bool,
        by: &str,
        reason: Option<&str>,
    ) -> Result<Switched, Error> {
        let by = said("by", by, NAME_BYTES_MAX)?;
        let reason =
            reason.map(|reason| said("reason", reason, PAUSE_REASON_BYTES_MAX)).transpose()?;
        // The same in every attempt, so that its own change is known again.
        let id = uuid::Uuid::new_v4().simple().to_string();
        let change = SettlementChange { id, whose, paused, by, reason };
        let write = |_| self.store().change_settlement(&change);
        let (settlement, _) = self.insist_write(write).await?;
        let changed = settlement.as_ref().is_some_and(|said| said.id == change.id);
        Ok(Switched { settlement, changed })
    }

    /// What was last said of settlement; none where nobody has ever paused.
    ///
    /// # Errors
    /// When MongoDB stays away.
    pub async fn settlement(&self) -> Result<Option<Settlement>, Error> {
        self.insist(|| self.store().settlement()).await
    }

    /// The live workers that do not do yet what was last said of settlement, or of the one of this
    /// name, as they say of themselves. A worker that can't reach MongoDB is among them until it
    /// counts as gone.
    ///
    /// # Errors
    /// When MongoDB stays away.
    pub async fn not_there_yet(
        &self,
        whose: &Whose,
        said: &Settlement,
    ) -> Result<Vec<Lagging>, Error> {
        let now = self.database_now().await?;
        let workers = self.insist(|| self.store().workers()).await?;
        Ok(lagging(&workers, whose, said, now))
    }
}

/// A text that somebody has to give, without the spaces around it.
fn said(field: &str, text: &str, bytes_max: usize) -> Result<String, Error> {
    let problem = if text.trim().is_empty() {
        "says nothing".to_owned()
    } else if text.len() > bytes_max {
        format!("has more than {bytes_max} bytes")
    } else if text.chars().any(char::is_control) {
        "has a control character in it".to_owned()
    } else {
        return Ok(text.trim().to_owned());
    };
    Err(Error::invalid(field, problem))
}

/// The names of workers, each once, in their order.
fn names_of(seen: &[SeenWorker]) -> Vec<String> {
    let names: BTreeSet<&str> = seen.iter().map(|seen| seen.report.name.as_str()).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// What a worker has said before this change says nothing about it.
fn lagging(
    workers: &[SeenWorker],
    whose: &Whose,
    said: &Settlement,
    now: ServerMs,
) -> Vec<Lagging> {
    let does = |worker: &SeenWorker| match whose {
        Whose::Ledger => Some(worker.report.paused),
        Whose::Worker(name) if *name == worker.report.name => Some(worker.report.drained),
        Whose::Worker(_) => None,
    };
    let lag = |worker: &SeenWorker| {
        let does = does(worker)?;
        let has_seen = worker.seen_at >= said.since && does == said.paused;
        match (has_seen, said.paused, worker.report.holds) {
            (false, _, _) => Some(Lag::NotSeen),
            (true, true, held) if held > 0 => Some(Lag::Finishing(held)),
            (true, _, _) => None,
        }
    };
    let here = workers.iter().filter(|worker| worker.is_here(now));
    here.filter_map(|worker| Some(Lagging { name: worker.report.name.clone(), does: lag(worker)? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use mongo::{SILENT_MS, WorkerReport};

    use super::*;

    const SINCE: ServerMs = 1_000_000;

    fn settlement(paused: bool) -> Settlement {
        let (id, by) = ("c".to_owned(), "ada".to_owned());
        Settlement { id, paused, since: SINCE, by, reason: None }
    }

    fn worker(name: &str, seen_at: ServerMs, paused: bool, holds: u64) -> SeenWorker {
        let activity = "working".to_owned();
        let report =
            WorkerReport { name: name.to_owned(), activity, paused, holds, ..Default::default() };
        SeenWorker { report, started_at: None, seen_at }
    }

    #[test]
    fn whoever_has_not_said_that_it_has_paused_is_named_with_what_it_does() {
        let mut stopped = worker("stopped", SINCE + 1, false, 0);
        stopped.report.activity = "stopped".to_owned();
        let workers = [
            worker("paused", SINCE, true, 0),
            worker("finishing", SINCE + 1, true, 7),
            worker("at work", SINCE + 1, false, 0),
            worker("paused before", SINCE - 1, true, 0),
            worker("gone", SINCE - SILENT_MS, false, 0),
            stopped,
        ];
        let found = lagging(&workers, &Whose::Ledger, &settlement(true), SINCE + 1);
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "finishing finishes 7 transactions",
                "at work has not said that it has seen it",
                "paused before has not said that it has seen it",
            ]
        );
    }

    #[test]
    fn a_worker_at_work_goes_on_whatever_it_holds() {
        let workers = [worker("on", SINCE, false, 7), worker("still paused", SINCE, true, 0)];
        let found = lagging(&workers, &Whose::Ledger, &settlement(false), SINCE);
        let named: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(named, ["still paused"]);
    }

    #[test]
    fn only_the_worker_that_is_drained_is_waited_for() {
        let drained = |holds| {
            let mut worker = worker("one", SINCE + 1, false, holds);
            worker.report.drained = true;
            worker
        };
        let at_work = worker("one", SINCE + 1, false, 3);
        let other = worker("two", SINCE + 1, false, 9);
        let told = |workers: &[SeenWorker], paused| -> Vec<String> {
            let whose = Whose::Worker("one".to_owned());
            let found = lagging(workers, &whose, &settlement(paused), SINCE + 1);
            found.iter().map(ToString::to_string).collect()
        };
        let not_seen = ["one has not said that it has seen it"];
        assert_eq!(told(&[at_work.clone(), other.clone()], true), not_seen);
        assert_eq!(told(&[drained(3), other.clone()], true), ["one finishes 3 transactions"]);
        assert_eq!(told(&[drained(0), other.clone()], true), [""; 0]);
        assert_eq!(told(&[drained(0), other], false), not_seen);
        assert_eq!(told(&[at_work], false), [""; 0]);
    }

    #[test]
    fn a_reason_says_something_on_one_line_and_is_bounded() {
        assert_eq!(
            said("reason", " a wrong price list ", 500).as_deref(),
            Ok("a wrong price list")
        );
        for text in ["", " ", "two\nlines", &"x".repeat(PAUSE_REASON_BYTES_MAX + 1)] {
            let refused = said("reason", text, PAUSE_REASON_BYTES_MAX);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{text:?}");
        }
    }
}
