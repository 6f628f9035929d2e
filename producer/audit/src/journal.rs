//! Books against lines: whether the journal says what the documents of transactions say.
//!
//! Owns the reads of the journal. All transactions were read before, and what they say of each line
//! is known in a few bytes (`tallies`). So the journal is read once, line by line, and nearly all
//! lines say the same. Only where one differs are the documents that it names read again, by their
//! `_id`s; and only if documents name a line that was not met, or name one that has no entry of
//! them, are all transactions read once more to name them.
//!
//! Promises that a line which was written meanwhile is no finding. Line and final states are one
//! write, so whoever has read a line sees the final states, and the other way round, in the order
//! of one session: after a fail-over, too. A line that a person has booked, because others had moved
//! a balance, has no transaction, and goes to the books. What others have put into the journal is
//! left out. Fails with the error of a read.

use std::collections::{HashMap, HashSet};

use client::{Client, Error};
use ledger::event::End;
use ledger::limits::echo;
use ledger::transaction::Body;
use mongo::{JOURNAL, Store, TRANSACTIONS, all_lines};
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, Timestamp, doc};
use mongodb::error::Error as DriverError;
use mongodb::{ClientSession, Collection};

use super::books::Books;
use super::failed;
use super::findings::{Findings, Rule};
use super::lines::{self, Entry, Written, line_of};
use super::order::Order;
use super::progress::{AFTER_TRANSACTIONS, BATCH, ReadCount};
use super::raw::{id_of, state_of};
use super::shared::Collections;
use super::sums::Sums;
use super::tallies::{Named, Seen, Tallies};

/// Lines that differ are looked at when they have so many entries or bytes together.
const ENTRIES_AT_ONCE: usize = BATCH as usize;
const BYTES_AT_ONCE: usize = 8 << 20;

/// The comparison while documents and lines are being read.
pub(super) struct Journal {
    journal: Collection<Document>,
    store: Store,
    /// Each read comes after what was read before.
    pub session: ClientSession,
    tallies: Tallies,
    lines: u64,
    order: Order,
    sums: Sums,
    differing: Differing,
}

/// Lines that differ from what was seen of them, to be looked at.
#[derive(Default)]
struct Differing {
    lines: Vec<(RawDocumentBuf, Seen)>,
    entries: usize,
    bytes: usize,
}

impl Journal {
    /// Nothing was read yet. A right that is missing shows here, and not after hours.
    pub async fn open(client: &Client) -> Result<Journal, Error> {
        let store = client.store();
        let journal = store.database().collection(JOURNAL);
        let probe = journal.find_one(doc! {}).projection(doc! { "_id": 1 });
        probe.await.map_err(failed)?;
        let order = Order::open(store).await.map_err(failed)?;
        let mut session = store.database().client().start_session().await.map_err(failed)?;
        let sums = Sums::open(store, &mut session).await.map_err(failed)?;
        Ok(Journal {
            journal,
            store: store.clone(),
            session,
            tallies: Tallies::default(),
            lines: 0,
            order,
            sums,
            differing: Differing::default(),
        })
    }

    /// Takes in what a transaction says of its end, if it has ended. `is_recent` means that it may
    /// have ended while the audit was running.
    pub fn take(&mut self, transaction: &RawDocument, is_recent: bool, findings: &mut Findings) {
        let Some(end) = state_of(transaction).and_then(End::of) else { return };
        let id = id_of(transaction);
        match line_of(transaction) {
            Some(line) => {
                let body = Body::from_raw(transaction).ok();
                self.tallies.take(line, &Entry::of(&id, end, body.as_ref()), is_recent);
            }
            None => {
                let message = format!("is {}, and names no line", end.as_str());
                findings.add(Rule::Line, || format!("transactions/{}", echo(&id)), message);
            }
        }
    }

    /// Reads the journal once all transactions were taken in; returns how many lines there are.
    /// `moments` are those at which the pieces of the accounts were read.
    pub async fn compare(
        mut self,
        books: &mut Books,
        moments: &[Timestamp],
        told: &mut ReadCount<'_>,
    ) -> Result<u64, DriverError> {
        let find = self.journal.find(all_lines()).batch_size(BATCH);
        let mut cursor = find.session(&mut self.session).await?;
        while cursor.advance(&mut self.session).await? {
            told.one(AFTER_TRANSACTIONS);
            self.line(cursor.current(), books, moments);
            if self.differing.is_enough() {
                self.look(books.findings()).await?;
            }
        }
        self.look(books.findings()).await?;
        if !self.tallies.is_empty() {
            self.name_strays(books.findings(), told).await?;
        }
        let Journal { order, sums, store, mut session, .. } = self;
        order.compare(&store, &mut session, books.findings(), told).await?;
        sums.compare(&store, &mut session, books.findings(), told).await?;
        Ok(self.lines)
    }

    fn line(&mut self, document: &RawDocument, books: &mut Books, moments: &[Timestamp]) {
        self.lines += 1;
        match lines::read(document) {
            Ok(line) => {
                match &line.wrong_net {
                    Some(problem) => {
                        self.sums.take_wrong(document);
                        books.findings().add(Rule::Line, || name_of(line.id), problem.clone());
                    }
                    None => self.sums.take(&line),
                }
                // No transaction stands behind it.
                if let Some(adjustment) = line.adjustment {
                    books.adjust(line.id, adjustment, moments);
                    return;
                }
                self.order.take(line.id, Some(line.entries.len()));
                if let Some(seen) = self.tallies.compare(&line) {
                    self.differing.add(document, line.entries.len(), seen);
                }
            }
            Err(bad) => {
                // Its transactions are right, for all that is known.
                if let Ok(id) = document.get_str("_id") {
                    self.tallies.forget(id);
                    self.order.take(id, None);
                }
                self.sums.take_wrong(document);
                let message = format!("can't be read: {}", bad.problem);
                books.findings().add(Rule::Line, || name_of(&bad.id), message);
            }
        }
    }

    /// Looks at the lines that differ: reads the documents that they name, and compares each with
    /// its entry.
    async fn look(&mut self, findings: &mut Findings) -> Result<(), DriverError> {
        let Differing { lines, .. } = std::mem::take(&mut self.differing);
        let read = lines.iter().filter_map(|(line, seen)| Some((lines::read(line).ok()?, seen)));
        let lines: Vec<(Written<'_>, &Seen)> = read.collect();
        let mut named: Vec<Named> = lines.iter().map(|_| Named::default()).collect();
        let mut entries = Entries::of(&lines, findings);
        let ids: Vec<Bson> = entries.by_id.keys().copied().map(Bson::from).collect();
        let fields = Collections::of(&self.store).transaction_fields();
        for some in ids.chunks(ENTRIES_AT_ONCE) {
            let asked = doc! { "filter": { "_id": { "$in": some } }, "projection": &fields };
            let query = self.store.query(TRANSACTIONS, asked)?;
            let find = query.find().batch_size(BATCH);
            let mut cursor = find.session(&mut self.session).await?;
            while cursor.advance(&mut self.session).await? {
                let transaction = &*query.read(cursor.current());
                let id = id_of(transaction);
                for (at, entry) in entries.by_id.remove(id.as_str()).unwrap_or_default() {
                    let line = lines[at].0.id;
                    if let Some(problem) = lines::wrong_with(transaction, line, entry) {
                        let name = || format!("transactions/{}", echo(&id));
                        findings.add(Rule::Line, name, problem);
                    }
                    self.name(transaction, line, &mut named[at]);
                }
            }
        }
        entries.add_missing(&lines, findings);
        for ((line, seen), named) in lines.iter().zip(&named) {
            if !seen.is_explained_by(named) {
                self.tallies.suspect(line.id);
            }
        }
        Ok(())
    }

    /// Takes in what a document says of this line, if it names it.
    fn name(&self, transaction: &RawDocument, line: &str, named: &mut Named) {
        let end = state_of(transaction).and_then(End::of);
        if let Some(end) = end.filter(|_| line_of(transaction) == Some(line)) {
            let (id, body) = (id_of(transaction), Body::from_raw(transaction).ok());
            self.tallies.add(&Entry::of(&id, end, body.as_ref()), named);
        }
    }

    /// Reads all transactions once more, to name those whose line is not there or has no entry of
    /// them.
    async fn name_strays(
        &mut self,
        findings: &mut Findings,
        told: &mut ReadCount<'_>,
    ) -> Result<(), DriverError> {
        let asked = doc! {
            "filter": { "line": { "$exists": true } }, "projection": { "line": 1, "state": 1 },
        };
        let query = self.store.query(TRANSACTIONS, asked)?;
        let find = query.find().batch_size(BATCH);
        let mut cursor = find.session(&mut self.session).await?;
        let mut strays = Vec::new();
        while cursor.advance(&mut self.session).await? {
            told.one("accounts, transactions and lines");
            let transaction = &*query.read(cursor.current());
            let is_final = state_of(transaction).and_then(End::of).is_some();
            if let Some(line) = line_of(transaction).filter(|_| is_final)
                && self.tallies.is_left(line)
            {
                strays.push((id_of(transaction), line.to_owned()));
            }
            if strays.len() >= ENTRIES_AT_ONCE {
                self.name_some(std::mem::take(&mut strays), findings).await?;
            }
        }
        self.name_some(strays, findings).await
    }

    /// Compares some of them, with the lines that they name.
    async fn name_some(
        &mut self,
        strays: Vec<(String, String)>,
        findings: &mut Findings,
    ) -> Result<(), DriverError> {
        let mut by_line = HashMap::<String, Vec<String>>::new();
        for (id, line) in strays {
            by_line.entry(line).or_default().push(id);
        }
        let mut filter = all_lines();
        let names: Vec<Bson> = by_line.keys().map(Bson::from).collect();
        filter.insert("_id", doc! { "$in": names });
        let find = self.journal.find(filter).batch_size(BATCH).session(&mut self.session);
        let mut cursor = find.await?;
        while cursor.advance(&mut self.session).await? {
            let document = cursor.current();
            let ids = document.get_str("_id").ok().and_then(|line| by_line.remove(line));
            // What can't be read was named before.
            let (Ok(line), Some(ids)) = (lines::read(document), ids) else { continue };
            let entries: HashSet<&str> = line.entries.iter().map(|entry| entry.id).collect();
            for id in ids.iter().filter(|id| !entries.contains(id.as_str())) {
                let problem = format!("names the line {}, which has no entry of it", echo(line.id));
                findings.add(Rule::Line, || format!("transactions/{}", echo(id)), problem);
            }
        }
        for (line, ids) in by_line {
            for id in ids {
                let problem = format!("names the line {}, which is not there", echo(&line));
                findings.add(Rule::Line, || format!("transactions/{}", echo(&id)), problem);
            }
        }
        Ok(())
    }
}

impl Differing {
    fn add(&mut self, line: &RawDocument, entries: usize, seen: Seen) {
        self.entries += entries;
        self.bytes += line.as_bytes().len();
        self.lines.push((line.to_owned(), seen));
    }

    fn is_enough(&self) -> bool {
        self.entries >= ENTRIES_AT_ONCE || self.bytes >= BYTES_AT_ONCE
    }
}

/// The entries of some lines, each with the place of its line.
struct Entries<'a> {
    by_id: HashMap<&'a str, Vec<(usize, &'a Entry<'a>)>>,
}

impl<'a> Entries<'a> {
    /// All of them. What a line says twice is named.
    fn of(lines: &'a [(Written<'a>, &Seen)], findings: &mut Findings) -> Entries<'a> {
        let mut by_id = HashMap::<&str, Vec<(usize, &Entry<'_>)>>::new();
        for (at, (line, _)) in lines.iter().enumerate() {
            for entry in &line.entries {
                let same = by_id.entry(entry.id).or_default();
                if same.last().is_some_and(|(line, _)| *line == at) {
                    let message = format!("has two entries of transactions/{}", echo(entry.id));
                    findings.add(Rule::Line, || name_of(line.id), message);
                } else {
                    same.push((at, entry));
                }
            }
        }
        Entries { by_id }
    }

    /// Names those whose document was not found.
    fn add_missing(self, lines: &[(Written<'_>, &Seen)], findings: &mut Findings) {
        for (id, entries) in self.by_id {
            for (at, _) in entries {
                let message =
                    format!("has an entry of transactions/{}, which is not there", echo(id));
                findings.add(Rule::Line, || name_of(lines[at].0.id), message);
            }
        }
    }
}

/// How a line is named.
pub(super) fn name_of(line: &str) -> String {
    format!("{JOURNAL}/{}", echo(line))
}
