//! The end of transactions in two phases: final states and line in one native transaction.
//!
//! Promises that all of it happens at once or nothing, and once. Each statement compares the state
//! that it leaves and the claim, and has to match as many documents as it was made for. So when the
//! process
//!
//! - dies or stalls before the commit: the transaction never takes effect, and whoever takes over
//!   finds the documents as they were;
//! - loses the reply of the commit and sends the same line again: its documents are final, so it is
//!   a conflict, and a look shows the end;
//! - meets a successor, or a person who parks one of them, the first to write the document counts.
//!
//! No mark is left when this is called, so no balance depends on when it happens. Fails with an
//! `Err` where the outcome is unknown, or the server refuses a document: then nothing happened.

use ledger::event::End;
use ledger::journal::Line;
use ledger::transaction::TransactionId;
use ledger::{Claim, Ending, Fault, LedgerError};
use mongodb::ClientSession;
use mongodb::options::ReadConcern;

use super::names::TRANSACTIONS;
use super::native::{self, Halt};
use super::{Store, journal, refused, statements};

const OPERATION: &str = "end";

pub(super) async fn end(store: &Store, line: &Line, claim: &Claim) -> Result<Ending, LedgerError> {
    let attempt = Attempt { store: store.clone(), line: line.clone(), claim: claim.clone() };
    match store.limited(OPERATION, async move { Ok(attempt.run().await) }).await? {
        Ok(()) => Ok(Ending::Written),
        Err(halt) => match (halt.told(OPERATION), line.entries.as_slice()) {
            (None, _) => Ok(Ending::Conflict),
            (Some(error), [alone]) if error.fault == Fault::Refused => {
                Err(refused::explained_error(store, &alone.id, error).await)
            }
            (Some(error), _) => Err(error),
        },
    }
}

struct Attempt {
    store: Store,
    line: Line,
    claim: Claim,
}

impl Attempt {
    async fn run(&self) -> Result<(), Halt> {
        // The statements compare what they change, so the snapshot may be of any moment.
        let mut session = native::begin(&self.store, ReadConcern::local()).await?;
        let written = self.steps(&mut session).await;
        native::finish(&self.store, session, written).await
    }

    async fn steps(&self, session: &mut ClientSession) -> Result<(), Halt> {
        let statements = End::ALL.into_iter().filter_map(|end| {
            let ids: Vec<&TransactionId> =
                self.line.entries_of(end).map(|entry| &entry.id).collect();
            let count = ids.len();
            (count > 0)
                .then(|| (statements::end(end, &ids, &self.claim, &self.line.heading.id), count))
        });
        let statements = statements.collect();
        native::update(&self.store, session, OPERATION, TRANSACTIONS, statements).await?;
        journal::write(&self.store, session, OPERATION, &self.line).await
    }
}
