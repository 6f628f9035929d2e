//! How many documents are read at a time, and how whoever waits is told of them.

use mongodb::ClientSession;
use mongodb::action::Find;
use mongodb::bson::RawDocument;
use mongodb::error::Error as DriverError;

/// Every how many documents progress is shown.
const PROGRESS_EVERY: u64 = 1 << 13;

/// What was read when the transactions were.
pub(super) const AFTER_TRANSACTIONS: &str = "accounts, transactions and lines";

/// Is told how many documents were read, and of which kind.
pub(super) type Progress<'a> = dyn Fn(u64, &str) + Send + Sync + 'a;

pub(super) const BATCH: u32 = 5_000;

/// How much was read.
pub(super) struct ReadCount<'a> {
    progress: &'a Progress<'a>,
    read: u64,
}

impl<'a> ReadCount<'a> {
    /// Nothing was read yet.
    pub(super) fn new(progress: &'a Progress<'a>) -> ReadCount<'a> {
        ReadCount { progress, read: 0 }
    }

    /// Reads what is left of an audit's documents when the transactions were read: all that a query
    /// finds, in the order of the session.
    pub(super) async fn each<T: Send + Sync>(
        &mut self,
        find: Find<'_, T>,
        session: &mut ClientSession,
        mut take: impl FnMut(&RawDocument) + Send,
    ) -> Result<(), DriverError> {
        let mut cursor = find.batch_size(BATCH).session(&mut *session).await?;
        while cursor.advance(session).await? {
            self.one(AFTER_TRANSACTIONS);
            take(cursor.current());
        }
        Ok(())
    }

    /// One more document was read.
    pub(super) fn one(&mut self, what: &str) {
        self.read += 1;
        if self.read.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.read, what);
        }
    }
}
