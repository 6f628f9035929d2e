//! The sum of what was booked on an account before a moment.
//!
//! It is made on the server, in Decimal128, of what each line says of the whole of its entries, and
//! refused if it may have been rounded. Lines that are older than some minutes were summed up by
//! workers, if they have come so far ([`Reach`]): of these, some dozens of sums are read, however
//! many lines there are. Promises that each line counts once. Fails with [`Error::Refused`] where a
//! line or a sum makes no sense, and where too many lines have no sums yet.

use ledger::Fault;
use ledger::amount::Amount;
use ledger::limits::echo;
use mongo::{BY_ACCOUNT, BadLine, JOURNAL, Reach, SUMS, Store, fault_of, lines_of};
use mongodb::action::Aggregate;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, RawDocumentBuf, Timestamp, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{Hint, ReadConcern};
use mongodb::{ClientSession, Collection};

use super::booked::Halt;
use super::journal;
use crate::error::Error;

/// How often somebody may begin another life of sums while one question is answered.
const LIVES_MAX: u32 = 3;

/// The collections that are summed.
pub(super) struct Summing<'a> {
    store: &'a Store,
    account: &'a str,
    journal: Collection<RawDocumentBuf>,
    sums: Collection<RawDocumentBuf>,
}

impl<'a> Summing<'a> {
    pub(super) fn new(store: &'a Store, account: &'a str) -> Summing<'a> {
        let [journal, sums] = [JOURNAL, SUMS].map(|name| store.database().collection(name));
        Summing { store, account, journal, sums }
    }

    /// The sum of what was booked before a moment after which nothing is added to that time any
    /// more, in units of 10^-9. So it is the same at every moment, and needs no snapshot. `since`
    /// is the moment of a snapshot: whatever it shows is counted.
    pub(super) async fn old(&self, before: DateTime, since: Timestamp) -> Result<i128, Halt> {
        // Each read comes after what the one before it has seen, on another primary, too.
        let mut session = self.store.database().client().start_session().await?;
        session.advance_operation_time(since);
        for _ in 0..LIVES_MAX {
            let reach = self.reach(&mut session).await?;
            let sum = self.before(&reach, before, &mut session).await?;
            // Somebody may have removed sums meanwhile, and began with the reach.
            if self.reach(&mut session).await?.goes_on_as(&reach) {
                return Ok(sum);
            }
        }
        self.before(&Reach::default(), before, &mut session).await
    }

    /// The sum before a moment, of sums as far as they reach, and of lines.
    async fn before(
        &self,
        reach: &Reach,
        before: DateTime,
        session: &mut ClientSession,
    ) -> Result<i128, Halt> {
        let (pieces, from) = reach.before(before.timestamp_millis());
        let pieces: Vec<_> = pieces.iter().map(|piece| piece.filter_of(self.account)).collect();
        let mut sum = 0;
        // The server takes no empty list.
        if !pieces.is_empty() {
            sum += self.settled(&self.sums, doc! { "$or": pieces }, session).await?;
        }
        let from = from.map_or(DateTime::MIN, DateTime::from_millis);
        let lines = lines_between(self.account, from, before);
        Ok(sum + self.settled(&self.journal, lines, session).await?)
    }

    /// The sum of what was booked in a time, at the moment of a snapshot.
    pub(super) async fn recent(
        &self,
        from: DateTime,
        before: DateTime,
        session: &mut ClientSession,
    ) -> Result<i128, Halt> {
        self.in_snapshot(lines_between(self.account, from, before), session).await
    }

    /// The same of the lines of one moment whose names come before this one.
    pub(super) async fn at(
        &self,
        at: DateTime,
        line: &str,
        session: &mut ClientSession,
    ) -> Result<i128, Halt> {
        let mut filter = lines_of(self.account);
        filter.extend(doc! { "at": at, "_id": { "$lt": line } });
        self.in_snapshot(filter, session).await
    }

    async fn in_snapshot(
        &self,
        lines: Document,
        session: &mut ClientSession,
    ) -> Result<i128, Halt> {
        let lines = self.aggregate(&self.journal, lines);
        let summing = lines.read_concern(ReadConcern::snapshot()).session(&mut *session);
        let found = summing.await?.next(session).await.transpose()?;
        self.sum_of(JOURNAL, found)
    }

    async fn reach(&self, session: &mut ClientSession) -> Result<Reach, DriverError> {
        let found = self
            .sums
            .find_one(Reach::filter())
            .read_concern(ReadConcern::majority())
            .max_time(self.store.op_limit())
            .comment("tandem statement sum")
            .session(session)
            .await?;
        Ok(found.map(|found| Reach::read(&found)).unwrap_or_default())
    }

    async fn settled(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        session: &mut ClientSession,
    ) -> Result<i128, Halt> {
        let summing = self.aggregate(collection, filter).read_concern(ReadConcern::majority());
        let found = summing.session(&mut *session).await;
        let mut found = found.map_err(|error| self.too_long(error))?;
        self.sum_of(collection.name(), found.next(session).await.transpose()?)
    }

    fn aggregate<'t>(
        &self,
        collection: &'t Collection<RawDocumentBuf>,
        filter: Document,
    ) -> Aggregate<'t> {
        collection
            .aggregate(pipeline(self.account, filter))
            .hint(Hint::Name(BY_ACCOUNT.to_owned()))
            .max_time(self.store.op_limit())
            .comment("tandem statement sum")
    }

    /// Nothing is found where nothing was booked.
    fn sum_of(&self, collection: &str, found: Option<Document>) -> Result<i128, Halt> {
        let sum = found.map(|found| summed(&found, collection, self.account)).transpose();
        Ok(sum.map_err(Halt::Answer)?.unwrap_or_default())
    }

    /// A sum that takes the server too long is the question's fault, and no failure of the server.
    fn too_long(&self, error: DriverError) -> Halt {
        if fault_of(&error) != Fault::TooMuch {
            return Halt::Driver(error);
        }
        let problem = "what was booked before `from` is too much to be summed at once, and workers have \
                       not summed it up yet: ask again later while a worker runs, or leave `from` \
                       out and go on from page to page";
        Halt::Answer(Error::refused(self.account, problem))
    }
}

fn lines_between(account: &str, from: DateTime, before: DateTime) -> Document {
    let mut filter = lines_of(account);
    filter.insert("at", doc! { "$gte": from, "$lt": before });
    filter
}

/// Sums the nets as Decimal128: as Int64, many large amounts would leave the range and become a
/// double.
fn pipeline(id: &str, filter: Document) -> Vec<Document> {
    let place = doc! { "$indexOfArray": ["$accounts", { "$literal": id }] };
    let lists = doc! { "$and": [{ "$isArray": "$accounts" }, { "$isArray": "$nets" }] };
    let net = doc! { "$cond": [lists, { "$arrayElemAt": ["$nets", place] }, Bson::Null] };
    let limit = |text: &str| text.parse::<Decimal128>().expect("a number");
    // Less than every number is what is none.
    let is_number = doc! { "$and": [
        { "$in": [{ "$type": "$net" }, ["long", "decimal"]] },
        { "$gte": ["$net", limit("-1E+24")] },
        { "$lte": ["$net", limit("1E+24")] },
    ] };
    let exact = doc! { "$cond": [&is_number, { "$toDecimal": "$net" }, 0] };
    vec![
        doc! { "$match": filter },
        doc! { "$project": { "net": net } },
        doc! { "$group": {
            "_id": Bson::Null,
            "sum": { "$sum": &exact },
            "gross": { "$sum": { "$abs": exact } },
            // `$max` leaves null out.
            "strange": { "$max": { "$cond": [is_number, Bson::Null, { "_id": "$_id" }] } },
        } },
    ]
}

/// The sum in units of 10^-9, if it is exact.
fn summed(sum: &Document, collection: &str, account: &str) -> Result<i128, Error> {
    if let Ok(line) = sum.get_document("strange") {
        let id =
            line.get("_id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
        let id = echo(&id.unwrap_or_default()).into_owned();
        let problem = format!("its net of {} is not a number", echo(account));
        let bad = BadLine { id, problem };
        let what = if collection == SUMS { journal::unreadable_sum } else { journal::unreadable };
        return Err(what(&bad));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_named_by_its_document() {
        for strange in [Bson::from("l"), Bson::from(7), Bson::Null] {
            let named =
                strange.as_str().unwrap_or(if strange == Bson::Null { "null" } else { "7" });
            let error = summed(&doc! { "strange": { "_id": &strange } }, SUMS, "a");
            let error = error.expect_err("strange");
            let whole = format!("tandem.sums/{named}");
            assert!(matches!(&error, Error::Refused { id, .. } if *id == whole), "{error}");
        }
    }

    #[test]
    fn a_sum_that_may_have_been_rounded_is_refused() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().expect(text));
        let sum = |sum, gross| doc! { "sum": decimal(sum), "gross": decimal(gross) };
        assert_eq!(summed(&sum("-1.5", "3E+24"), JOURNAL, "a"), Ok(-1_500_000_000));
        assert!(summed(&sum("-1.5", "1E+25"), JOURNAL, "a").is_err());
        assert!(summed(&sum("NaN", "1"), JOURNAL, "a").is_err());
    }
}
