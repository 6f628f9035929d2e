//! Reading what was booked on an account: what a statement says, as of one snapshot.
//!
//! Promises that account, opening sum and entries are of one moment, and that each entry is a whole
//! valid transaction. A done transaction that can't be read ends the reading with
//! [`Error::Refused`], because without it every later balance would be wrong. The sum before a
//! period is made on the server, which names only amounts that are no numbers.
//!
//! The sum is made in Decimal128, and refused if it may have been rounded. What is older than the
//! horizon is summed outside of the snapshot, which may be gone by then: nothing is added to it any
//! more.

use futures_util::TryStreamExt;
use ledger::amount::Amount;
use ledger::transaction::{AccountId, Body, State};
use ledger::{Fault, LedgerError};
use mongo::{ENDED_BY_ACCOUNT, ENDED_ON, Store, fault_of};
use mongodb::action::Aggregate;
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{Hint, ReadConcern};
use mongodb::{ClientSession, Collection};

use super::and_one;
use super::cursor::Place;
use crate::error::{Error, Kind, Server};

/// How much older than the reads a place must be before a cursor may stand there.
const HORIZON_MS: i64 = 10_000;
/// The most other accounts that an entry names.
const COUNTERPARTIES_MAX: usize = 10;

/// What is to be read.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub account: AccountId,
    /// The moment before which everything is summed; `None` to read no sum.
    pub sum_before: Option<DateTime>,
    /// Entries after this place.
    pub after: Place,
    /// Entries before this moment.
    pub to: DateTime,
    /// So many entries, and one more.
    pub limit: usize,
}

/// What was read.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    /// Whether the account is of minor units.
    pub is_int: bool,
    pub currency: Option<String>,
    /// The opening balance of the account with the sum that was asked for, in units of 10^-9.
    pub opening: i128,
    /// In their order.
    pub rows: Vec<Row>,
    /// Nothing can appear before this moment any more.
    pub horizon: DateTime,
}

/// A done transaction as the account sees it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub place: Place,
    pub amount: Amount,
    pub counterparties: Vec<AccountId>,
}

/// Why the reading ended.
enum Halt {
    Driver(DriverError),
    /// What the caller is told.
    Answer(Error),
}

impl From<DriverError> for Halt {
    fn from(error: DriverError) -> Halt {
        Halt::Driver(error)
    }
}

/// Reads it; the inner error is about what is there.
pub(super) async fn read(
    store: &Store,
    question: &Question,
) -> Result<Result<Booked, Error>, LedgerError> {
    let (reader, question) = (store.clone(), question.clone());
    let reading = async move {
        match question.read(&reader).await {
            Ok(booked) => Ok(Ok(booked)),
            Err(Halt::Answer(error)) => Ok(Err(error)),
            Err(Halt::Driver(error)) => Err(error),
        }
    };
    store.limited("statement", reading).await
}

impl Question {
    async fn read(&self, store: &Store) -> Result<Booked, Halt> {
        let session = store.database().client().start_session().snapshot(true).await?;
        let mut reading = Reading { store, session, account: &self.account };
        let (opening, currency) = reading.account().await?;
        let horizon = reading.horizon()?;
        let is_int = opening.is_int();
        let mut sum = opening.nanos();
        if let Some(before) = self.sum_before.filter(|before| *before > horizon) {
            sum += reading.recent_sum(horizon, before).await?;
        }
        let rows = reading.rows(self, is_int).await?;
        // Last, because it may take longer than the server keeps the snapshot.
        if let Some(before) = self.sum_before {
            sum += reading.old_sum(before.min(horizon)).await?;
        }
        Ok(Booked { is_int, currency, opening: sum, rows, horizon })
    }

    fn filter(&self) -> Document {
        let after = DateTime::from_millis(self.after.at);
        doc! {
            ENDED_ON: self.account.as_ref(),
            "state": State::Done,
            "lastModified": { "$gte": after, "$lt": self.to },
            // Under `$nor` the server takes it for no condition of the index, whose bounds are
            // above.
            "$nor": [{ "lastModified": after, "_id": { "$lte": &self.after.id } }],
        }
    }
}

struct Reading<'a> {
    store: &'a Store,
    session: ClientSession,
    account: &'a AccountId,
}

impl Reading<'_> {
    /// The account's opening balance and currency.
    async fn account(&mut self) -> Result<(Amount, Option<String>), Halt> {
        let accounts = self.store.accounts().clone_with_type::<RawDocumentBuf>();
        let found = accounts
            .find_one(doc! { "_id": self.account.as_ref() })
            .projection(doc! { "openingBalance": 1, "currency": 1 })
            // In a snapshot session the driver drops the read concern that the client is set to, so
            // each read sets it explicitly.
            .read_concern(ReadConcern::snapshot())
            .max_time(self.store.op_limit())
            .comment("tandem statement")
            .session(&mut self.session)
            .await?;
        let id = self.account.to_string();
        let found =
            found.ok_or(Halt::Answer(Error::NotFound { kind: Kind::Account, id: id.clone() }))?;
        let opening = match found.get("openingBalance") {
            Ok(Some(opening)) => Amount::from_raw(opening).ok(),
            Ok(None) | Err(_) => None,
        };
        let no_opening = || Error::refused(&id, "its openingBalance can't be read; see audit");
        let opening = opening.ok_or_else(|| Halt::Answer(no_opening()))?;
        Ok((opening, found.get_str("currency").ok().map(str::to_owned)))
    }

    /// The moment of the reads less what an end may take to become visible.
    fn horizon(&self) -> Result<DateTime, Halt> {
        let moment = self.session.snapshot_time().ok_or_else(|| {
            let problem = "statements need snapshot reads, which this server does not have: it must \
                           be a member of a replica set";
            Halt::Answer(Error::Denied { server: Server::MongoDb, problem: problem.to_owned() })
        })?;
        Ok(DateTime::from_millis(i64::from(moment.time) * 1_000 - HORIZON_MS))
    }

    /// The entries, in their order.
    async fn rows(&mut self, question: &Question, is_int: bool) -> Result<Vec<Row>, Halt> {
        let transactions = self.store.transactions();
        let mut found = transactions
            .find(question.filter())
            .projection(doc! {
                "source": 1, "destination": 1, "value": 1, "legs": 1, "hold": 1, "captured": 1,
                "lastModified": 1,
            })
            .sort(doc! { "lastModified": 1, "_id": 1 })
            .hint(Hint::Name(ENDED_BY_ACCOUNT.to_owned()))
            .limit(and_one(question.limit).into())
            .batch_size(and_one(question.limit).unsigned_abs())
            .read_concern(ReadConcern::snapshot())
            .max_time(self.store.op_limit())
            .comment("tandem statement")
            .session(&mut self.session)
            .await?;
        let mut rows = Vec::new();
        while found.advance(&mut self.session).await? {
            let row = row(found.current(), self.account, is_int).map_err(Halt::Answer)?;
            rows.push(row);
        }
        Ok(rows)
    }

    /// The sum of what was booked in a time before the horizon, in units of 10^-9. No more is
    /// booked then, so it is the same at every moment, and needs no snapshot.
    async fn old_sum(&mut self, before: DateTime) -> Result<i128, Halt> {
        let transactions = self.store.transactions();
        let summing = self.summing(&transactions, DateTime::MIN, before);
        let found = summing.read_concern(ReadConcern::majority()).await;
        let mut found = found.map_err(|error| self.too_long(error))?;
        // Nothing is found where nothing was booked.
        match found.try_next().await? {
            Some(sum) => summed(&sum, self.account).map_err(Halt::Answer),
            None => Ok(0),
        }
    }

    /// The sum of what was booked since the horizon, at the moment of the snapshot.
    async fn recent_sum(&mut self, from: DateTime, before: DateTime) -> Result<i128, Halt> {
        let transactions = self.store.transactions();
        let summing = self.summing(&transactions, from, before);
        let found = summing.read_concern(ReadConcern::snapshot()).session(&mut self.session).await;
        let mut found = found?;
        match found.next(&mut self.session).await.transpose()? {
            Some(sum) => summed(&sum, self.account).map_err(Halt::Answer),
            None => Ok(0),
        }
    }

    fn summing<'t>(
        &self,
        transactions: &'t Collection<Document>,
        from: DateTime,
        before: DateTime,
    ) -> Aggregate<'t> {
        transactions
            .aggregate(sum_pipeline(self.account, from, before))
            .hint(Hint::Name(ENDED_BY_ACCOUNT.to_owned()))
            .max_time(self.store.op_limit())
            .comment("tandem statement sum")
    }

    /// A sum that takes the server too long is the question's fault, and no failure of the server.
    fn too_long(&self, error: DriverError) -> Halt {
        if fault_of(&error) != Fault::TooMuch {
            return Halt::Driver(error);
        }
        let problem = "what was booked before `from` is too much to be summed at once; leave `from` \
                       out, and go on from page to page";
        Halt::Answer(Error::refused(self.account, problem))
    }
}

/// Sums as Decimal128: as Int64, many large amounts would leave the range and become a double. Of a
/// hold, what was captured counts.
fn sum_pipeline(id: &str, from: DateTime, before: DateTime) -> Vec<Document> {
    let account = doc! { "$literal": id };
    let legs = doc! { "$ifNull": ["$captured", "$legs"] };
    let own = doc! { "$filter": {
        "input": &legs, "cond": { "$eq": ["$$this.account", &account] },
    } };
    let of_legs = doc! { "$let": { "vars": { "own": { "$first": own } }, "in": "$$own.amount" } };
    let has_legs = doc! { "$isArray": legs };
    let pays = doc! { "$and": [{ "$not": &has_legs }, { "$eq": ["$source", &account] }] };
    let is_number = doc! { "$in": [{ "$type": "$amount" }, ["int", "long", "decimal"]] };
    let exact = doc! { "$cond": [&is_number, { "$toDecimal": "$amount" }, 0] };
    vec![
        doc! { "$match": {
            ENDED_ON: id, "state": State::Done, "lastModified": { "$gte": from, "$lt": before },
        } },
        doc! { "$project": {
            "amount": { "$cond": [has_legs, of_legs, "$value"] },
            "sign": { "$cond": [pays, -1, 1] },
        } },
        doc! { "$group": {
            "_id": Bson::Null,
            "sum": { "$sum": { "$multiply": ["$sign", &exact] } },
            "gross": { "$sum": { "$abs": exact } },
            // `$max` leaves null out.
            "strange": { "$max": { "$cond": [is_number, Bson::Null, "$_id"] } },
        } },
    ]
}

/// The sum in units of 10^-9, if it is exact.
fn summed(sum: &Document, account: &str) -> Result<i128, Error> {
    if let Ok(id) = sum.get_str("strange") {
        return Err(unreadable(id, "its amount is not a number"));
    }
    let nanos = |field: &str| match sum.get(field) {
        Some(Bson::Decimal128(sum)) => Amount::nanos_of_sum(*sum),
        _ => None,
    };
    // No part of the sum is larger than the sum of the magnitudes, so if that one was not rounded,
    // nothing was.
    nanos("gross").and(nanos("sum")).ok_or_else(|| {
        let problem = "what was booked on it does not sum up exactly; see audit";
        Error::refused(account, problem)
    })
}

/// What the account sees of a transaction.
fn row(document: &RawDocument, account: &AccountId, is_int: bool) -> Result<Row, Error> {
    let id = document.get_str("_id").unwrap_or("?");
    let body = Body::from_raw(document).map_err(|error| unreadable(id, &error.to_string()))?;
    let at = document.get_datetime("lastModified");
    let at = at.map_err(|_| unreadable(id, "its lastModified is not a date"))?;
    let own = body.effect().iter().find(|leg| leg.account == *account);
    let amount = own.map(|leg| leg.amount).filter(|amount| amount.is_int() == is_int);
    let amount = amount.ok_or_else(|| {
        unreadable(id, &format!("it has no leg of the kind of the account {account}"))
    })?;
    let others = body.legs().iter().filter(|leg| leg.account != *account);
    Ok(Row {
        place: Place { at: at.timestamp_millis(), id: id.to_owned() },
        amount,
        counterparties: others.take(COUNTERPARTIES_MAX).map(|leg| leg.account.clone()).collect(),
    })
}

fn unreadable(id: &str, problem: &str) -> Error {
    let problem = format!("is done and can't be read ({problem}); see audit");
    Error::refused(&format!("transactions/{id}"), problem)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    #[test]
    fn an_entry_is_the_accounts_own_leg_and_names_ten_others() {
        let legs = |count: i64| -> Vec<Bson> {
            let others =
                (0..count).map(|n| doc! { "account": format!("b{n}"), "amount": 1_i64 }.into());
            let own = doc! { "account": "a", "amount": -count };
            others.chain([own.into()]).collect()
        };
        let done = DateTime::from_millis(7);
        let document = doc! { "_id": "t", "legs": legs(12), "lastModified": done };
        let document = RawDocumentBuf::try_from(&document).expect("BSON");
        let row = row(&document, &"a".into(), true).expect("it can be read");
        assert_eq!((row.place.at, row.place.id.as_str(), row.amount), (7, "t", Amount::Int(-12)));
        assert_eq!(row.counterparties.len(), 10);
        assert_eq!(&*row.counterparties[9], "b9");
    }

    #[test]
    fn an_entry_of_a_hold_is_what_was_captured() {
        let hold = rawdoc! {
            "_id": "t", "source": "a", "destination": "b", "value": 50_i64, "hold": true,
            "captured": [{ "account": "a", "amount": -30_i64 }, { "account": "b", "amount": 30_i64 }],
            "lastModified": DateTime::from_millis(7),
        };
        let amount = |account: &str| row(&hold, &account.into(), true).map(|row| row.amount);
        assert_eq!(amount("a"), Ok(Amount::Int(-30)));
        assert_eq!(amount("b"), Ok(Amount::Int(30)));
    }

    #[test]
    fn a_done_transaction_that_cannot_be_read_is_named() {
        let done = DateTime::from_millis(7);
        for document in [
            rawdoc! { "_id": "t", "source": "a", "destination": "b", "value": 1.5, "lastModified": done },
            rawdoc! { "_id": "t", "source": "a", "destination": "b", "value": 1_i64 },
            rawdoc! { "_id": "t", "source": "c", "destination": "b", "value": 1_i64, "lastModified": done },
        ] {
            let error = row(&document, &"a".into(), true).expect_err("it makes no sense");
            assert!(
                matches!(&error, Error::Refused { id, .. } if id == "transactions/t"),
                "{error}"
            );
        }
        let transfer = rawdoc! {
            "_id": "t", "source": "a", "destination": "b", "value": 1_i64, "lastModified": done,
        };
        assert!(row(&transfer, &"a".into(), false).is_err(), "the account is of decimals");
        let error = summed(&doc! { "strange": "t" }, "a").expect_err("an amount is a text");
        assert!(matches!(&error, Error::Refused { id, .. } if id == "transactions/t"), "{error}");
    }

    #[test]
    fn a_sum_that_may_have_been_rounded_is_refused() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().expect(text));
        let sum = |sum, gross| doc! { "sum": decimal(sum), "gross": decimal(gross) };
        assert_eq!(summed(&sum("-1.5", "3E+24"), "a"), Ok(-1_500_000_000));
        assert!(summed(&sum("-1.5", "1E+25"), "a").is_err());
        assert!(summed(&sum("NaN", "1"), "a").is_err());
    }
}
