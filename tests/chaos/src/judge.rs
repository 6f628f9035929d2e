//! Judging a run that has come to rest: every row, every reversal, every account.
//!
//! Makes each submitted row again and compares it with its document. Counts the balances from the
//! rows themselves. Fails when the database can't be read.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::TryStreamExt;
use harness::laid_out;
use mongo::{ACCOUNTS, Store, TRANSACTIONS};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::Error;

use super::clerk::Answered;
use super::keys::{Keyed, of_keyed, of_keys};
use super::load::{OPENING, Row, Sort, accounts};
use super::mischief;
use super::neighbour::Neighbour;
use super::orders::{Order, of_order, stored};
use super::produce::{Producer, Told, to_cancel};
use super::terms::Plan;
use super::verdict::{Found, Known, of_account, of_answer, of_neighbour, of_reversal, of_row};

/// The times of one transaction, in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was submitted.
    pub created_ms: i64,
    /// When it came to its end.
    pub final_ms: i64,
    /// Whether it was settled.
    pub done: bool,
    /// Whether nothing but workers kept it waiting: it was not on hold, not scheduled, and did not
    /// expire.
    pub plain: bool,
    /// When it was due, if it was scheduled, and neither on hold nor expiring.
    pub due_ms: Option<i64>,
    /// When it was confirmed.
    pub confirmed_ms: Option<i64>,
}

/// The result.
#[derive(Debug, Default)]
pub struct Judged {
    /// What breaks a rule.
    pub violations: Vec<String>,
    /// Every transaction of the ledger.
    pub lives: Vec<Life>,
    /// When the requested ids came to their end.
    pub finals: HashMap<String, i64>,
    /// How many rows got which answer.
    pub told: BTreeMap<&'static str, u64>,
    /// How many transactions ended how: `done`, or the reason of the cancelation.
    pub ends: BTreeMap<String, u64>,
    /// What the clerks did with holds, and how many of these ended how.
    pub holds: BTreeMap<String, u64>,
    /// What was scheduled or expired, and how many of these ended how.
    pub terms: BTreeMap<String, u64>,
    /// What clerks were told about what is scheduled.
    pub rescheduled: BTreeMap<&'static str, u64>,
    /// What those who submit with keys were told.
    pub keys: BTreeMap<&'static str, u64>,
    /// What programs that only insert were told.
    pub orders: BTreeMap<&'static str, u64>,
    /// The same for the neighbour's transactions, and the number of its other steps.
    pub mischief: BTreeMap<String, u64>,
    /// How many transactions of the neighbour are in the ledger.
    neighbours: u64,
    balances: HashMap<String, i64>,
}

/// What everybody has said.
#[derive(Clone, Copy)]
pub struct Said<'a> {
    /// To the producers.
    pub producers: &'a [std::sync::Arc<Producer>],
    /// To the clerks.
    pub answers: &'a [Answered],
    /// Holds that were released at the end, because they still rested.
    pub swept: &'a HashSet<String>,
    /// To those who submit with keys.
    pub keyed: &'a [Keyed],
    /// To programs that only insert.
    pub ordered: &'a [Order],
    /// By the neighbour.
    pub neighbour: Option<&'a Neighbour>,
    /// What others have added to accounts.
    pub others: &'a HashMap<String, i64>,
}

/// Judges everything; `asked` are the ids whose end is of interest.
///
/// # Errors
/// When the database can't be read.
pub async fn judge(store: &Store, said: Said<'_>, asked: &HashSet<&str>) -> Result<Judged, Error> {
    let balances = accounts().into_iter().map(|account| (account, OPENING)).collect();
    let mut judged = Judged { balances, ..Judged::default() };
    for producer in said.producers {
        let begun_ms = producer.begun_ms.lock().await;
        let mut also_released = said.swept.clone();
        for (chunk, told) in (0_u32..).zip(producer.told.lock().await.iter()) {
            let rows = producer.load.chunk(producer.number, chunk);
            let found = find(store, rows.iter().map(|row| row.id.clone()).collect()).await?;
            also_released.extend(to_cancel(&rows, chunk));
            let known = |row: &Row| Known {
                begun_ms: begun_ms[row.chunk as usize],
                also_released: also_released.contains(&row.id),
                to_cancel: also_released.contains(&row.id) || row.terms.plan == Plan::Cancel,
            };
            let broken = rows
                .iter()
                .zip(told)
                .filter_map(|(row, told)| of_row(row, told, found.get(&row.id), known(row)));
            judged.violations.extend(broken);
            judged.chunk(&rows, told, &found, asked);
        }
        judged.violations.extend(producer.problems.lock().await.iter().cloned());
    }
    judged.reversals(store, asked).await?;
    judged.answers(store, said.answers).await?;
    judged.keyed(store, said.keyed, asked).await?;
    judged.ordered(store, said.ordered, asked).await?;
    if let Some(neighbour) = said.neighbour {
        judged.neighbour(store, neighbour).await?;
    }
    for (account, added) in said.others {
        *judged.balances.entry(account.clone()).or_default() += added;
    }
    judged.accounts(store, said.others).await?;
    let there = store.transactions().count_documents(doc! {}).await?;
    let known = judged.lives.len() as u64 + judged.neighbours;
    if there != known {
        judged.violations.push(format!("{there} transactions, but {known} were submitted"));
    }
    Ok(judged)
}

async fn find(store: &Store, ids: Vec<String>) -> Result<HashMap<String, Found>, Error> {
    let asked = doc! { "filter": { "_id": { "$in": ids } } };
    let found = laid_out::find(store, TRANSACTIONS, asked).await?;
    Ok(found.iter().map(Found::read).map(|found| (found.id.clone(), found)).collect())
}

impl Judged {
    fn chunk(
        &mut self,
        rows: &[Row],
        told: &[Told],
        found: &HashMap<String, Found>,
        asked: &HashSet<&str>,
    ) {
        for (row, told) in rows.iter().zip(told) {
            let there = found.get(&row.id);
            *self.told.entry(name(told)).or_default() += 1;
            let is_new = matches!(row.sort, Sort::Transfer | Sort::Refused);
            if let Some(there) = there.filter(|_| is_new) {
                self.count(there, &row.effect(), asked);
                if row.terms.is_any() {
                    let held = if row.hold.is_some() { ", held" } else { "" };
                    let ended = format!("{}{held}: {}", row.terms.name(), there.end());
                    *self.terms.entry(ended).or_default() += 1;
                }
                if let Some(hold) = row.hold {
                    let ended = format!("{}: {}", hold.fate.name(), there.end());
                    *self.holds.entry(ended).or_default() += 1;
                }
            }
        }
    }

    /// Takes a transaction into the books, by the effect that was asked for.
    fn count(&mut self, there: &Found, legs: &[(String, i64)], asked: &HashSet<&str>) {
        *self.ends.entry(there.end().to_owned()).or_default() += 1;
        if there.is_final() && asked.contains(there.id.as_str()) {
            self.finals.insert(there.id.clone(), there.modified_ms);
        }
        let is_punctual = !there.hold && there.expires_ms.is_none();
        self.lives.push(Life {
            created_ms: there.created_ms,
            final_ms: there.modified_ms,
            done: there.is_done(),
            plain: is_punctual && there.not_before_ms.is_none(),
            due_ms: there.not_before_ms.filter(|_| is_punctual),
            confirmed_ms: there.confirmed_ms,
        });
        if there.is_done() {
            self.book(&there.id, legs);
        }
    }

    /// Books the legs of a transaction that is done.
    fn book(&mut self, id: &str, legs: &[(String, i64)]) {
        for (account, amount) in legs {
            match self.balances.get_mut(account) {
                Some(balance) => *balance += amount,
                None => self.violations.push(format!("{id}: done without {account}")),
            }
        }
    }

    async fn reversals(&mut self, store: &Store, asked: &HashSet<&str>) -> Result<(), Error> {
        let filter = doc! { "reverses": { "$exists": true } };
        let all = laid_out::find(store, TRANSACTIONS, doc! { "filter": filter }).await?;
        let reversals: Vec<Found> = all.iter().map(Found::read).collect();
        let originals: Vec<String> =
            reversals.iter().filter_map(|reversal| reversal.reverses.clone()).collect();
        let originals = find(store, originals).await?;
        let mut taken_back = HashSet::new();
        for reversal in &reversals {
            let of = reversal.reverses.as_deref().unwrap_or_default();
            self.violations.extend(of_reversal(reversal, originals.get(of)));
            if reversal.is_done() && !taken_back.insert(of) {
                self.violations.push(format!("{of}: was taken back twice"));
            }
            let opposite: Vec<_> = originals
                .get(of)
                .map(Found::effect)
                .unwrap_or_default()
                .into_iter()
                .map(|(account, amount)| (account, -amount))
                .collect();
            self.count(reversal, &opposite, asked);
        }
        Ok(())
    }

    async fn answers(&mut self, store: &Store, answers: &[Answered]) -> Result<(), Error> {
        for some in answers.chunks(500) {
            let found = find(store, some.iter().flat_map(Answered::ids).collect()).await?;
            let broken =
                some.iter().filter_map(|answer| of_answer(answer, |id| found.get(id).cloned()));
            self.violations.extend(broken);
            for told in some.iter().filter_map(Answered::about_schedule) {
                *self.rescheduled.entry(told).or_default() += 1;
            }
        }
        Ok(())
    }

    /// What was submitted with exclusive keys.
    async fn keyed(
        &mut self,
        store: &Store,
        all: &[Keyed],
        asked: &HashSet<&str>,
    ) -> Result<(), Error> {
        let mut found = HashMap::new();
        for some in all.chunks(500) {
            found.extend(find(store, some.iter().map(|keyed| keyed.id.clone()).collect()).await?);
        }
        for keyed in all {
            let there = found.get(&keyed.id);
            self.violations.extend(of_keyed(keyed, there));
            *self.keys.entry(keyed.answer.name()).or_default() += 1;
            if let Some(there) = there {
                self.count(there, &keyed.legs, asked);
            }
        }
        self.violations.extend(of_keys(all, &found));
        Ok(())
    }

    /// What was inserted only, with an order beside it.
    async fn ordered(
        &mut self,
        store: &Store,
        all: &[Order],
        asked: &HashSet<&str>,
    ) -> Result<(), Error> {
        let stored = stored(store).await?;
        for some in all.chunks(500) {
            let found = find(store, some.iter().map(|order| order.id.clone()).collect()).await?;
            for order in some {
                self.violations.extend(of_order(order, &stored, &found));
                *self.orders.entry(order.answer.name()).or_default() += 1;
                if let Some(there) = found.get(&order.id) {
                    self.count(there, &order.legs, asked);
                }
            }
        }
        Ok(())
    }

    /// The neighbour's transactions, by what it remembers of them; those that are done count.
    async fn neighbour(&mut self, store: &Store, neighbour: &Neighbour) -> Result<(), Error> {
        self.balances.extend(mischief::accounts().into_iter().map(|account| (account, OPENING)));
        let steps = neighbour.steps.iter().map(|(step, count)| ((*step).to_owned(), *count));
        self.mischief.extend(steps);
        // Leaves out fields that may be large or no valid text.
        let fields = doc! { "state": 1, "reason": 1 };
        for some in neighbour.written.chunks(500) {
            let ids: Vec<_> = some.iter().map(|written| written.id.clone()).collect();
            let filter = doc! { "_id": { "$in": ids } };
            let asked = doc! { "filter": filter, "projection": &fields };
            let query = store.query(TRANSACTIONS, asked)?;
            let all: Vec<RawDocumentBuf> = query.find().await?.try_collect().await?;
            for written in some {
                // Some have an id that is none, so it is looked for as it is stored.
                let id = |found: &RawDocumentBuf| {
                    let id = found.get("_id").ok().flatten();
                    id.and_then(|id| Bson::try_from(id).ok())
                };
                let there = all.iter().find(|found| id(found).as_ref() == Some(&written.id));
                let there = there.map(|found| Document::try_from(query.read(found).as_ref()));
                let there = there.transpose().map_err(Error::custom)?.as_ref().map(Found::read);
                self.violations.extend(of_neighbour(written, there.as_ref()));
                let Some(there) = there else { continue };
                self.neighbours += 1;
                *self.mischief.entry(there.end().to_owned()).or_default() += 1;
                if there.is_done() {
                    self.book(&there.id, &written.legs);
                }
            }
        }
        Ok(())
    }

    async fn accounts(
        &mut self,
        store: &Store,
        others: &HashMap<String, i64>,
    ) -> Result<(), Error> {
        let all = laid_out::find(store, ACCOUNTS, doc! {}).await?;
        for account in &all {
            let id = account.get_str("_id").unwrap_or_default();
            match self.balances.remove(id) {
                Some(expected) => {
                    let is_moved = others.contains_key(id);
                    self.violations.extend(of_account(account, expected, is_moved));
                }
                None => self.violations.push(format!("account {id}: nobody has opened it")),
            }
        }
        let missing = self.balances.keys().map(|account| format!("account {account}: is gone"));
        self.violations.extend(missing);
        Ok(())
    }
}

fn name(told: &Told) -> &'static str {
    match told {
        Told::Submitted => "submitted",
        Told::Known => "unchanged",
        Told::Unfinished => "unfinished",
        Told::Held => "held",
        Told::Conflict => "conflict",
        Told::Invalid => "invalid",
        Told::Done => "done",
        Told::Canceled(_) => "canceled",
        Told::Unknown => "unknown",
    }
}
