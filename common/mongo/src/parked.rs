//! Parked transactions, looked at: by reason, account and time, with what they would move.
//!
//! Owns the questions about the field `parked` of documents and about the notes beside them.
//! Promises that each reads through the index of what is parked and stops at a limit, whatever
//! number of transactions the ledger has. Fails with an error of the command.

use ledger::limits::echo;
use ledger::transaction::{Body, State};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{
    Bson, DateTime, Document, RawArrayBuf, RawDocument, RawDocumentBuf, Utf8Lossy, doc, rawdoc,
};

use super::Store;
use super::names::{NOTES, PARKED, TRANSACTIONS};
use super::statements::raw;

/// A transaction that is parked.
#[derive(Clone, Debug)]
pub struct ParkedEntry {
    /// Its `_id`, of whatever type.
    pub id: Bson,
    /// Its state, if its document has a valid one.
    pub state: Option<State>,
    /// The code of the reason, as it was written.
    pub code: String,
    /// The sentence for people.
    pub message: String,
    /// Since when, on the server's clock.
    pub at: Option<ServerMs>,
}

/// Which parked transactions are meant. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedFilter {
    /// With this code.
    pub code: Option<String>,
    /// With a leg on this account.
    pub account: Option<String>,
    /// Parked at this moment of the server's clock or before. Leaves out those of which nobody
    /// knows when.
    pub until: Option<ServerMs>,
}

/// What a transaction would move, if it came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The currency of its accounts, if they have one.
    pub currency: Option<String>,
    /// The sum of what its accounts are credited, in billionths.
    pub nanos: i128,
}

/// A parked transaction with what it would move, where that can be read.
#[derive(Clone, Debug)]
pub struct ParkedTransaction {
    /// Which one, and why.
    pub entry: ParkedEntry,
    /// What it would move.
    pub volume: Option<Volume>,
}

impl ParkedFilter {
    fn to_document(&self) -> Document {
        // The condition on existence is the index's: otherwise the server would not use it.
        let mut filter = doc! { "parked": { "$exists": true, "$ne": null } };
        if let Some(code) = &self.code {
            filter.insert("parked.code", doc! { "$eq": code });
        }
        if let Some(until) = self.until {
            filter.insert("parked.at", doc! { "$lte": DateTime::from_millis(until) });
        }
        if let Some(account) = &self.account {
            let with = ["source", "destination", "legs.account"];
            let with = with.map(|field| doc! { field: { "$eq": account } });
            filter.insert("$or", with.to_vec());
        }
        filter
    }
}

impl Volume {
    fn of(document: &RawDocument) -> Option<Volume> {
        let body = Body::from_document(&Document::try_from(document).ok()?).ok()?;
        let credits = body.legs().iter().map(|leg| leg.amount.nanos()).filter(|nanos| *nanos > 0);
        Some(Volume { nanos: credits.sum(), currency: body.currency })
    }
}

impl Store {
    /// The parked transactions, at most so many: first those whose documents say so, then those
    /// noted in the collection `tandem.parked`.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn parked(&self, limit: u32) -> Result<Vec<ParkedEntry>, LedgerError> {
        let all = ParkedFilter::default();
        let in_documents = self.parked_in_documents(&all, limit, "parked").await?;
        let mut parked: Vec<ParkedEntry> =
            in_documents.into_iter().map(|transaction| transaction.entry).collect();
        let pipeline = self.unfinished_notes(i64::from(limit.max(1)));
        parked.extend(
            self.aggregate("parked", NOTES, pipeline, limit as usize, |note| {
                entry(note, note, None)
            })
            .await?,
        );
        parked.truncate(limit as usize);
        Ok(parked)
    }

    /// The parked transactions of a filter, at most so many, in no order. Those that are noted
    /// beside their documents only, because these can't be written, are not among them.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn parked_transactions(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedTransaction>, LedgerError> {
        self.parked_in_documents(filter, limit, "parked transactions").await
    }

    async fn parked_in_documents(
        &self,
        filter: &ParkedFilter,
        limit: u32,
        operation: &'static str,
    ) -> Result<Vec<ParkedTransaction>, LedgerError> {
        let unfinished: RawArrayBuf = State::UNFINISHED.iter().map(|s| s.as_str()).collect();
        let mut matching = rawdoc! { "state": { "$in": unfinished } };
        for field in &raw(&filter.to_document()) {
            let (name, value) = field.expect("it was just made");
            matching.append(name, value);
        }
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": matching,
            "hint": PARKED,
            "limit": i64::from(limit.max(1)),
            "projection": {
                "state": 1, "parked": 1, "currency": 1,
                "source": 1, "destination": 1, "value": 1, "legs": 1,
            },
        };
        self.find(operation, command, transaction).await
    }
}

fn transaction(document: &RawDocument) -> Option<ParkedTransaction> {
    // If the field is no document, somebody else has written it; the transaction counts as parked
    // all the same.
    let why = document.get_document("parked");
    let why = why.map_or_else(|_| rawdoc! {}, ToOwned::to_owned);
    let state = document.get_str("state").ok().and_then(State::parse);
    let entry = entry(document, &why, state)?;
    Some(ParkedTransaction { entry, volume: Volume::of(document) })
}

/// A document's `_id`; text that is not valid comes with `�`.
fn id_of(document: &RawDocument) -> Option<Bson> {
    let id = document.iter_elements().flatten().find(|element| element.key().as_str() == "_id")?;
    let mut alone = RawDocumentBuf::new();
    alone.append(id.key(), id.value_utf8_lossy().ok()?);
    let Utf8Lossy(mut alone) = Utf8Lossy::<Document>::try_from(alone).ok()?;
    alone.remove("_id")
}

fn entry(document: &RawDocument, why: &RawDocument, state: Option<State>) -> Option<ParkedEntry> {
    let text = |field: &str| echo(why.get_str(field).unwrap_or("unknown")).into_owned();
    Some(ParkedEntry {
        id: id_of(document)?,
        state,
        code: text("code"),
        message: text("message"),
        at: why.get_datetime("at").ok().map(DateTime::timestamp_millis),
    })
}
