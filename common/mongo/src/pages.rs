//! Reading on: what a query yields, a page at a time, from one cursor of the server.
//!
//! Owns looks that go past any number of documents that are of no use: those that nobody can write,
//! and are noted as parked beside themselves, are found in each sweep, and a limit from the front
//! would find nothing else. Promises majority reads, as `read` does. Fails with an error of the
//! command.

use layout::{Answer, Command};
use ledger::LedgerError;
use mongodb::Cursor;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf};

use super::Store;
use super::raw::RawId;
use super::read::cstr;

/// How many documents are read at a time, at least: reading a few more costs nothing.
const PAGE_MIN: usize = 1_000;

impl Store {
    /// What `parse` makes of the documents that a `find` command yields and that are not noted as
    /// parked: of the first so many of them.
    ///
    /// # Errors
    /// When a command fails.
    pub(super) async fn unnoted<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut command: RawDocumentBuf,
        most: usize,
        parse: fn(&RawDocument) -> Option<(RawId, T)>,
    ) -> Result<Vec<(RawId, T)>, LedgerError> {
        let page = most.max(PAGE_MIN);
        command.append(cstr("batchSize"), i32::try_from(page).unwrap_or(i32::MAX));
        let database = self.database.clone();
        let Command { sent, answer } =
            self.sent(operation, self.reading(operation, command)).await?;
        let open = async move { database.run_raw_cursor_command(sent).await };
        let mut cursor = self.limited(operation, open).await?;
        let mut unnoted = Vec::new();
        while unnoted.len() < most {
            let found;
            (cursor, found) = self.page(operation, cursor, &answer, page, parse).await?;
            let Some(found) = found else { break };
            let ids: Vec<RawId> = found.iter().map(|(id, _)| id.clone()).collect();
            let noted = self.noted(&ids).await?;
            unnoted.extend(found.into_iter().filter(|(id, _)| !noted.contains(id.as_bytes())));
        }
        unnoted.truncate(most);
        Ok(unnoted)
    }

    /// The next documents of a cursor; none at its end.
    pub(super) async fn page<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut cursor: Cursor<Document>,
        answer: &Answer,
        most: usize,
        parse: fn(&RawDocument) -> Option<T>,
    ) -> Result<(Cursor<Document>, Option<Vec<T>>), LedgerError> {
        let answer = answer.clone();
        let read = async move {
            let (mut page, mut count) = (Vec::new(), 0);
            while count < most && cursor.advance().await? {
                let document = answer.read(cursor.current()).ok();
                page.extend(document.and_then(|document| parse(&document)));
                count += 1;
            }
            Ok((cursor, (count > 0).then_some(page)))
        };
        self.limited(operation, read).await
    }
}
