//! The ledger of a simulated worker: each call is a request or two to the model of the database.
//!
//! Owns the planted faults of clients: wrappers around calls, with mistakes that somebody could
//! make.

use std::slice;

use engine::{Announcer, Told, Untold};
use futures_util::future::join;
use ledger::event::{End, Ended};
use ledger::journal::{Heading, Line};
use ledger::transaction::TransactionId;
use ledger::{
    AccountRead, Cancelation, Claim, Claimed, Commit, Content, Ending, Ledger, LedgerError, Look,
    Parking, Posting, Removal, RemovalKind, Seen, ServerMs, Transacted, Written,
};

use super::client::Client;
use super::planted::Planted;
use super::request::{Reply, Request};

/// How often a worker tries to number lines while others are numbering, too.
const NUMBER_TRIES: u32 = 3;

impl Client {
    async fn write(&self, request: Request) -> Result<Written, LedgerError> {
        let operation = request.name();
        let Reply::Written(written) = self.request(request).await? else {
            unreachable!("a write answers what it wrote")
        };
        let halts = self.planted == Some(Planted::RefusalFailsTheBatch);
        match written.refused.first() {
            Some(refused) if halts => Err(LedgerError::passing(operation, &refused.problem)),
            Some(_) | None => Ok(written),
        }
    }

    /// Says that these are done.
    async fn tell(&self, ids: &[TransactionId]) -> Result<(), LedgerError> {
        let done = |id: &TransactionId| Ended { id: id.clone(), end: End::Done };
        self.write(Request::Announce(ids.iter().map(done).collect())).await.map(|_| ())
    }

    /// Under what a line is written. Planted: under the same name as all lines of its worker.
    fn named(&self, heading: &Heading) -> Heading {
        match self.planted {
            Some(Planted::LineWrittenOver) => Heading { id: self.name(), ..heading.clone() },
            _ => heading.clone(),
        }
    }

    /// What is done once a line is written: nothing, except for planted faults.
    async fn line_is_written(&self, heading: &Heading) -> Result<(), LedgerError> {
        let Heading { id, events_due_at, .. } = heading;
        match (self.planted, events_due_at) {
            (Some(Planted::NoteBesideTheCommit), Some(due_at)) => {
                self.write(Request::Note(id.clone(), *due_at)).await.map(|_| ())
            }
            (Some(Planted::NoteLost), Some(_)) => self.forget_events(slice::from_ref(id)).await,
            _ => Ok(()),
        }
    }

    async fn posted(&self, postings: &[Posting], before: ServerMs) -> Result<Written, LedgerError> {
        self.write(Request::Post(postings.to_vec(), before)).await
    }
}

impl Ledger for Client {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Claimed, LedgerError> {
        let (now, _) = self.now_and_number();
        let written = self.write(Request::Claim(ids.to_vec(), claim.clone(), now)).await?;
        let seen = self.read(ids).await?;
        let taken_over = seen.iter().filter(|seen| seen.attempts > 1);
        self.take_over(taken_over.map(|seen| seen.id.clone()));
        Ok(Claimed { seen, refused: written.refused })
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<Written, LedgerError> {
        match self.planted {
            Some(Planted::UnknownPostResentAndSettledAtOnce) => {
                let first = self.posted(postings, before).await;
                if first.is_ok() { first } else { self.posted(postings, before).await }
            }
            Some(Planted::DoubtForgotten) => {
                let posted = self.posted(postings, before).await;
                posted.or_else(|_| Ok(Written::default()))
            }
            Some(Planted::CommitBeforeAllLegsArePosted) => {
                let posted = self.posted(postings, before).await?;
                Ok(Written { count: postings.len(), ..posted })
            }
            Some(Planted::SettleBeforeCommit) => {
                let took = self.posted(postings, before).await?;
                let removals: Vec<_> =
                    postings.iter().cloned().map(Posting::into_removal).collect();
                self.remove(RemovalKind::Settle, &removals).await?;
                Ok(took)
            }
            Some(Planted::RideLeftBehind) => {
                let alone = |posting: &Posting| Posting { ride: None, ..posting.clone() };
                let alone: Vec<_> = postings.iter().map(alone).collect();
                self.posted(&alone, before).await
            }
            _ => self.posted(postings, before).await,
        }
    }

    async fn remove(
        &self,
        kind: RemovalKind,
        removals: &[Removal],
    ) -> Result<Written, LedgerError> {
        self.write(Request::Remove(kind, removals.to_vec())).await
    }

    async fn commit(
        &self,
        guard: Commit,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> Result<Written, LedgerError> {
        if self.planted == Some(Planted::EventForWhatIsRolledBack) {
            self.tell(ids).await?;
        }
        let committed = self.write(Request::Commit(guard, ids.to_vec(), claim.clone())).await;
        if self.planted == Some(Planted::EventBeforeTheMoney) {
            self.tell(ids).await?;
        }
        committed
    }

    async fn end(&self, line: &Line, claim: &Claim) -> Result<Ending, LedgerError> {
        let (_, number) = self.now_and_number();
        let line = Line { heading: self.named(&line.heading), ..line.clone() };
        let request = Request::End(number, line.clone(), claim.clone());
        let Reply::Ended(ending) = self.request(request).await? else {
            unreachable!("an end answers what became of it")
        };
        if ending == Ending::Written {
            self.line_is_written(&line.heading).await?;
        }
        match self.planted {
            Some(Planted::ConflictTakenForSuccess) => Ok(Ending::Written),
            _ => Ok(ending),
        }
    }

    async fn rest(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        not_before: ServerMs,
    ) -> Result<Written, LedgerError> {
        self.write(Request::Rest(ids.to_vec(), claim.clone(), not_before)).await
    }

    async fn cancel(&self, refused: &[Cancelation], claim: &Claim) -> Result<Written, LedgerError> {
        self.write(Request::Cancel(refused.to_vec(), claim.clone())).await
    }

    async fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> Result<(), LedgerError> {
        let request = Request::Release(ids.to_vec(), claim.clone(), after_ms, not_before);
        self.write(request).await.map(|_| ())
    }

    async fn unclaim(&self, ids: &[TransactionId], claim: &Claim) -> Result<(), LedgerError> {
        self.write(Request::Unclaim(ids.to_vec(), claim.clone())).await.map(|_| ())
    }

    async fn park(&self, parkings: &[Parking]) -> Result<Vec<TransactionId>, LedgerError> {
        let Reply::Parked(ids) = self.request(Request::Park(parkings.to_vec())).await? else {
            unreachable!("to park answers what is parked")
        };
        Ok(ids)
    }

    async fn read(&self, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        let Reply::Seen(seen) = self.request(Request::Read(ids.to_vec())).await? else {
            unreachable!("a read answers documents")
        };
        Ok(seen)
    }

    async fn bodies(&self, ids: &[TransactionId]) -> Result<Vec<Content>, LedgerError> {
        let Reply::Bodies(bodies) = self.request(Request::Bodies(ids.to_vec())).await? else {
            unreachable!("a read answers contents")
        };
        Ok(bodies)
    }

    async fn accounts(&self, looks: &[Look]) -> Result<Vec<AccountRead>, LedgerError> {
        let Reply::Accounts(accounts) = self.request(Request::Accounts(looks.to_vec())).await?
        else {
            unreachable!("a read answers accounts")
        };
        Ok(accounts)
    }

    async fn forget_events(&self, lines: &[String]) -> Result<(), LedgerError> {
        self.write(Request::Forget(lines.to_vec())).await.map(|_| ())
    }

    async fn transact(
        &self,
        contents: &[Content],
        heading: &Heading,
    ) -> Result<Transacted, LedgerError> {
        let (_, number) = self.now_and_number();
        let heading = self.named(heading);
        let request = Request::Transact(number, contents.to_vec(), heading.clone());
        let Reply::Transacted(transacted) = self.request(request).await? else {
            unreachable!("a transaction answers what became of it")
        };
        if transacted != Transacted::Conflict {
            self.line_is_written(&heading).await?;
        }
        Ok(transacted)
    }
}

impl Client {
    /// Gives what these lines have ended its numbers, if nobody else is always first.
    async fn number(&self, lines: &[Untold]) -> bool {
        if !self.numbers {
            return true;
        }
        let ends = |untold: &Untold| (untold.line.clone(), untold.events.len() as u64);
        for attempt in 0..NUMBER_TRIES {
            let (_, number) = self.now_and_number();
            let request = Request::Number(number, lines.iter().map(ends).collect(), attempt > 0);
            match self.request(request).await {
                Ok(Reply::Numbered(true)) => return true,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.planted == Some(Planted::NoteGoneBeforeItsNumber)
    }

    /// Publishes the events of these lines, together; returns whether the broker has them.
    async fn confirm(&self, lines: &[Untold]) -> bool {
        let mut events: Vec<Ended> = lines.iter().flat_map(|line| line.events.clone()).collect();
        if self.planted == Some(Planted::EventForgottenAfterATakeover) {
            events.retain(|event| !self.has_taken_over(&event.id));
        }
        events.is_empty()
            || self.request(Request::Announce(events)).await.is_ok()
            || self.planted == Some(Planted::ForgottenBeforeTheConfirm)
    }
}

impl Announcer for Client {
    fn announce<'a>(&'a self, lines: &'a [Untold]) -> Told<'a> {
        Box::pin(async move {
            let (is_numbered, is_confirmed) = join(self.number(lines), self.confirm(lines)).await;
            vec![is_numbered && is_confirmed; lines.len()]
        })
    }
}
