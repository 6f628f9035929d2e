//! Writing many documents with one command, so that a refused document does not affect the others.
//!
//! Owns how statements are sent. A statement for many documents ends at the first one that the
//! server refuses to write (a validator, a size limit), and the rest of its documents are not
//! reached. So the documents of such a statement are sent once more, each with a statement of its
//! own, and the server names those that it refuses. Sending them twice is safe: every statement
//! compares what it changes, so a document that was changed the first time is left alone the second
//! time. If the answer can't be read (it repeats invalid text of a refused document), it says
//! nothing about any document; then the command is halved until one document stands alone. Promises
//! majority write concern with journal. Fails with an error of the whole command.
//!
//! On a sharded cluster every statement is for one document by its `_id`. A statement for many
//! documents that live on several shards is sent without a shard version: while a chunk moves it
//! may apply on the donor, the recipient, both or neither, and its counts are wrong (SERVER-20361).

use std::fmt;

use ledger::{LedgerError, Refused, Written};
use mongodb::bson::{Document, RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{Store, duplicate, fault};

/// What counts as a change in the answer of an `update` command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counts {
    /// Documents whose filter matched.
    Matched,
    /// Documents whose content changed; for statements whose guard is in the pipeline.
    Modified,
}

/// The documents of an insert that were not inserted, by their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Documents whose `_id` exists already.
    pub existing: Vec<usize>,
    /// Documents with a value that a unique index of the user's own takes only once, and another
    /// document has. An earlier attempt of this insert may have put the document itself there.
    pub taken: Vec<Refused>,
    /// Documents that the server will never accept.
    pub refused: Vec<Refused>,
}

/// How many unreadable answers one call accepts: enough for a few such documents in the largest
/// call. With more of them the call counts as too large, and its caller makes it smaller.
const GARBLED_MAX: usize = 48;

/// What is wrong with a document whose refusal can't be read.
pub(super) const GARBLED: &str = "the server refuses it with an answer that is not valid text";

/// The `_id` exists.
pub(super) const DUPLICATE_KEY: i32 = 11_000;

/// Which collection a command changes, and in which words it speaks of the documents.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// By Tandem's name. Where there is a layout, it translates the command.
    Own(&'a str),
    /// By the name in the database, with paths and ids as they are stored.
    Stored(&'a str),
}

impl<'a> From<&'a str> for Target<'a> {
    fn from(name: &'a str) -> Target<'a> {
        Target::Own(name)
    }
}

impl Counts {
    fn of(self, reply: &Document) -> usize {
        let field = match self {
            Counts::Matched => "n",
            Counts::Modified => "nModified",
        };
        usize::try_from(reply.get_i32(field).unwrap_or_default()).unwrap_or_default()
    }
}

impl Store {
    /// Sends one statement for each group of items (given by their positions), and then one for
    /// each item of a refused group.
    ///
    /// # Errors
    /// When a command failed, or is not known to be durable; some of it may have run.
    pub(super) async fn write<'a, T>(
        &self,
        operation: &'static str,
        collection: impl Into<Target<'a>>,
        items: &[T],
        groups: Vec<Vec<usize>>,
        counts: Counts,
        statement: impl Fn(&[&T]) -> RawDocumentBuf,
    ) -> Result<Written, LedgerError> {
        let (collection, mut written) = (collection.into(), Written::default());
        let mut groups = groups;
        if self.one_document_a_statement().await? {
            groups = each_alone(groups.into_iter().flatten());
        }
        let (mut commands, mut garbled, mut is_first) = (vec![groups], 0, true);
        while let Some(groups) = commands.pop() {
            if groups.is_empty() {
                continue;
            }
            let mut updates = RawArrayBuf::new();
            for group in &groups {
                let group: Vec<&T> = group.iter().map(|item| &items[*item]).collect();
                updates.push(statement(&group));
            }
            let updated = self.update(operation, collection, updates).await;
            // Whatever this command has failed with, an earlier one may have written.
            let updated = updated.map_err(|e| if is_first { e } else { e.after_a_write() });
            is_first = false;
            if let Some(reply) = updated? {
                commands.push(take_in(operation, &reply, counts, &groups, &mut written)?);
                continue;
            }
            garbled += 1;
            if garbled > GARBLED_MAX {
                return Err(LedgerError::too_much(operation, GARBLED));
            }
            let mut items: Vec<usize> = groups.into_iter().flatten().collect();
            match items.as_slice() {
                [item] => {
                    let problem = GARBLED.to_owned();
                    written.refused.push(Refused { item: *item, problem });
                }
                _ => {
                    let second = items.split_off(items.len() / 2);
                    commands.extend([items, second].map(|half| each_alone(half.into_iter())));
                }
            }
        }
        Ok(written)
    }

    /// Sends statements, each of which compares what it changes and is for one document. Returns
    /// how many documents they matched, and which statements were refused.
    ///
    /// # Errors
    /// When the command failed, or is not known to be durable; some of it may have run.
    pub(super) async fn change<S>(
        &self,
        operation: &'static str,
        collection: &str,
        statements: Vec<S>,
    ) -> Result<Written, LedgerError>
    where
        S: TryInto<RawDocumentBuf, Error: fmt::Display>,
    {
        let raw: Result<Vec<_>, _> = statements.into_iter().map(S::try_into).collect();
        let raw = raw.map_err(|error| LedgerError::lasting(operation, error.to_string()))?;
        let groups = each_alone(0..raw.len());
        let statement = |group: &[&RawDocumentBuf]| group[0].clone();
        self.write(operation, collection, &raw, groups, Counts::Matched, statement).await
    }

    /// The same with documents as they are stored: of a collection by its name in the database,
    /// with paths and ids that no layout translates. No statement may be a pipeline, because nothing
    /// keeps those away from documents in which a field stands twice.
    ///
    /// # Errors
    /// When a command failed, or is not known to be durable; some of it may have run.
    pub async fn change_stored(
        &self,
        operation: &'static str,
        collection: &str,
        statements: &[RawDocumentBuf],
    ) -> Result<Written, LedgerError> {
        let groups = each_alone(0..statements.len());
        let statement = |group: &[&RawDocumentBuf]| group[0].clone();
        let target = Target::Stored(collection);
        self.write(operation, target, statements, groups, Counts::Matched, statement).await
    }

    /// Inserts documents, all that can be.
    ///
    /// # Errors
    /// When the command failed, or is not known to be durable; any of them may be there.
    pub async fn insert(
        &self,
        collection: &str,
        documents: impl IntoIterator<Item = RawDocumentBuf>,
    ) -> Result<Inserted, LedgerError> {
        self.insert_as("insert", collection, documents).await
    }

    /// The same by another name, which the server's profiler shows.
    ///
    /// # Errors
    /// As [`Store::insert`].
    pub(super) async fn insert_as(
        &self,
        operation: &'static str,
        collection: &str,
        documents: impl IntoIterator<Item = RawDocumentBuf>,
    ) -> Result<Inserted, LedgerError> {
        let documents: RawArrayBuf = documents.into_iter().collect();
        let limit = self.op_limit_ms();
        let command = rawdoc! {
            "insert": collection,
            "documents": documents,
            "ordered": false,
            "comment": format!("tandem {operation}"),
            "writeConcern": { "w": "majority", "j": true, "wtimeout": limit },
        };
        let database = self.database.clone();
        let command = self.sent(operation, command).await?.sent;
        let reply =
            self.limited(operation, async move { database.run_raw_command(command).await }).await?;
        self.heard(&reply);
        let mut inserted = Inserted::default();
        let id = self.stored(collection).map_or("_id".into(), |stored| stored.path("_id"));
        for (code, refused) in fault::refusals(operation, &reply)? {
            match (code, duplicate::index_of(&reply, refused.item, &id)) {
                (DUPLICATE_KEY, Some(index)) => {
                    inserted.taken.push(Refused { problem: duplicate::taken(index), ..refused });
                }
                (DUPLICATE_KEY, None) => inserted.existing.push(refused.item),
                _ => inserted.refused.push(refused),
            }
        }
        Ok(inserted)
    }

    /// Deletes what a filter names in a collection of Tandem's own. Returns what the server has
    /// refused to delete, with the code.
    ///
    /// # Errors
    /// When the command failed, or is not known to be durable; any of it may be gone.
    pub(super) async fn delete(
        &self,
        operation: &'static str,
        collection: &str,
        filter: RawDocumentBuf,
    ) -> Result<Vec<(i32, Refused)>, LedgerError> {
        let limit = self.op_limit_ms();
        let command = rawdoc! {
            "delete": collection,
            "deletes": [{ "q": filter, "limit": 0 }],
            "maxTimeMS": limit,
            "comment": format!("tandem {operation}"),
            "writeConcern": { "w": "majority", "j": true, "wtimeout": limit },
        };
        let database = self.database.clone();
        let reply =
            self.limited(operation, async move { database.run_raw_command(command).await }).await?;
        self.heard(&reply);
        fault::refusals(operation, &reply)
    }

    /// Sends one `update` command; its answer may name statements that failed. `None` if the answer
    /// can't be read.
    async fn update(
        &self,
        operation: &'static str,
        target: Target<'_>,
        updates: RawArrayBuf,
    ) -> Result<Option<Document>, LedgerError> {
        let limit = self.op_limit_ms();
        let (Target::Own(collection) | Target::Stored(collection)) = target;
        let command = rawdoc! {
            "update": collection,
            "updates": updates,
            "ordered": false,
            "maxTimeMS": limit,
            // Shows in the server's profiler and current operations.
            "comment": format!("tandem {operation}"),
            "writeConcern": { "w": "majority", "j": true, "wtimeout": limit },
        };
        let database = self.database.clone();
        let command = match target {
            Target::Own(_) => self.sent(operation, command).await?.sent,
            Target::Stored(_) => command,
        };
        let reply = self.limited(operation, async move {
            match database.run_raw_command(command).await {
                Ok(reply) => Ok(Some(reply)),
                Err(error) if fault::is_garbled(&error) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let reply = self.unblocking(reply).await?;
        reply.iter().for_each(|reply| self.heard(reply));
        Ok(reply)
    }
}

/// Evaluates the answer for some groups. Returns what is to be sent again: each item of a refused
/// group, alone.
fn take_in(
    operation: &'static str,
    reply: &Document,
    counts: Counts,
    groups: &[Vec<usize>],
    written: &mut Written,
) -> Result<Vec<Vec<usize>>, LedgerError> {
    written.count += counts.of(reply);
    let mut again = Vec::new();
    for (_, mut refused) in fault::refusals(operation, reply)? {
        match groups.get(refused.item).map(Vec::as_slice) {
            Some([item]) => {
                refused.item = *item;
                written.refused.push(refused);
            }
            Some(several) => again.extend(each_alone(several.iter().copied())),
            None => {}
        }
    }
    Ok(again)
}

/// One group for all of so many items.
pub(super) fn together(count: usize) -> Vec<Vec<usize>> {
    if count == 0 { Vec::new() } else { vec![(0..count).collect()] }
}

/// A group for each item.
pub(super) fn each_alone(items: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    items.map(|item| vec![item]).collect()
}

/// An error if the server has refused to write a document, for who writes none that others have
/// made.
pub(super) fn none_refused(
    operation: &'static str,
    refused: impl IntoIterator<Item = Refused>,
) -> Result<(), LedgerError> {
    match refused.into_iter().next() {
        None => Ok(()),
        Some(refused) => Err(LedgerError::lasting(operation, refused.problem)),
    }
}
