//! How far sums are complete, and which of them make the sum before a moment.
//!
//! Owns the document `{_id: "reach"}` in `tandem.sums`. Its `life` is another one whenever summing
//! begins anew, and each sum belongs to a life: whoever deletes the document has all made anew, and
//! what somebody summed up before says nothing of the life after it. Promises that the reach of a
//! life only moves on. Fails with an error of the command; a field that makes no sense counts as
//! none, and then lines are read.

use ledger::{LedgerError, ServerMs};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawBson, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::super::Store;
use super::super::names::SUMS;
use super::super::own::SUM;
use super::super::raw::raw_id;
use super::super::read::cstr;
use super::super::write::none_refused;
use super::{Level, OPERATION, WIDTHS_MS};

/// The `_id` of the document.
const ID: &str = "reach";

/// Up to which moment the sums of each level are complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// From the lowest level.
    levels: [Option<ServerMs>; WIDTHS_MS.len()],
    /// Whose sums these are; none before the first.
    pub(super) life: String,
}

/// The pieces of one level in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceSums {
    life: String,
    level: Level,
    from: ServerMs,
    to: ServerMs,
}

impl Reach {
    /// The filter for the document, for whoever reads it by himself.
    #[must_use]
    pub fn filter() -> Document {
        SUM.named(ID)
    }

    /// What the document says.
    #[must_use]
    pub fn read(found: &RawDocument) -> Reach {
        let moment = |level| found.get_datetime(field(level)).ok().map(DateTime::timestamp_millis);
        let life = found.get_str("life").unwrap_or_default().to_owned();
        let mut reach = Reach { life, ..Reach::default() };
        Level::all().for_each(|level| reach.set(level, moment(level)));
        reach
    }

    /// Whether the sums of the other are those of this one, as far as both reach.
    #[must_use]
    pub fn goes_on_as(&self, other: &Reach) -> bool {
        self.life == other.life
    }

    /// The filter for all sums of this life.
    #[must_use]
    pub fn sums(&self) -> Document {
        doc! { "kind": SUM.condition(), "life": &self.life, "level": { "$gte": 1_i64 } }
    }

    /// The pieces that make the time before a moment, without an overlap or a gap, and from when on
    /// lines have to be read beside them; none where there are no sums before it.
    #[must_use]
    pub fn before(&self, moment: ServerMs) -> (Vec<PieceSums>, Option<ServerMs>) {
        let (mut pieces, mut begin) = (Vec::new(), None);
        for level in Level::all().rev() {
            let Some(reach) = self.of(level) else { continue };
            let to = level.begin(reach.min(moment));
            if begin.is_none_or(|begin| begin < to) {
                let (life, from) = (self.life.clone(), begin.unwrap_or(ServerMs::MIN));
                pieces.push(PieceSums { life, level, from, to });
                begin = Some(to);
            }
        }
        (pieces, begin)
    }

    /// The pieces that this moment is in and that are complete: their levels and beginnings.
    /// Nothing is summed up from before 1970, where no clock of a server stands.
    pub fn pieces_with(&self, moment: ServerMs) -> impl Iterator<Item = (i64, ServerMs)> {
        Level::all()
            .filter(move |_| moment >= 0)
            .filter(move |level| self.of(*level).is_some_and(|reach| moment < reach))
            .map(move |level| (level.number(), level.begin(moment)))
    }

    pub(super) fn of(&self, level: Level) -> Option<ServerMs> {
        self.levels[level.0 - 1]
    }

    fn set(&mut self, level: Level, moment: Option<ServerMs>) {
        self.levels[level.0 - 1] = moment;
    }
}

impl PieceSums {
    /// The filter for the sums of an account: one range of the index by account.
    #[must_use]
    pub fn filter_of(&self, account: &str) -> Document {
        let [from, to] = [self.from, self.to].map(DateTime::from_millis);
        doc! {
            "accounts": account,
            "kind": SUM.condition(),
            "life": &self.life,
            "level": self.level.number(),
            "from": { "$gte": from, "$lt": to },
        }
    }
}

impl Store {
    /// How far sums are complete; begins a life where there is none. The primary makes sure that it
    /// still is the primary, and all later reads of this process see what it has: one that stood
    /// still for an hour would show the journal of an hour ago, beside the time of now.
    pub(super) async fn begin_summing(&self) -> Result<Reach, LedgerError> {
        if let Some(reach) = self.surely_reach().await? {
            return Ok(reach);
        }
        let life = ObjectId::new().to_hex();
        let begun = doc! { "_id": ID, "kind": SUM.kind, "life": &life };
        if self.insert_sums(&[begun]).await? {
            return Ok(Reach { life, ..Reach::default() });
        }
        // Somebody else was first, or it is not Tandem's.
        self.surely_reach().await?.ok_or_else(|| {
            let problem =
                format!("`{SUMS}` has a document \"{ID}\" that is not Tandem's; move it away");
            LedgerError::lasting(OPERATION, problem)
        })
    }

    async fn surely_reach(&self) -> Result<Option<Reach>, LedgerError> {
        let find = rawdoc! {
            "find": SUMS,
            "filter": SUM.with_id(raw_id(ID)),
            "limit": 1_i64,
            "singleBatch": true,
        };
        let find = self.reading_surely(OPERATION, find);
        let database = self.database.clone();
        let reading = async move { database.run_raw_command(find).await };
        let reply = self.limited(OPERATION, reading).await?;
        self.heard(&reply);
        let found = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let found = found.ok().and_then(|found| found.first()).and_then(Bson::as_document);
        let found = found.map(RawDocumentBuf::try_from).transpose();
        let found = found.map_err(|error| LedgerError::lasting(OPERATION, error.to_string()))?;
        Ok(found.map(|found| Reach::read(&found)))
    }

    /// Moves a level on; says whether the reach was as it is given, and so has moved.
    pub(super) async fn extend(
        &self,
        reach: &mut Reach,
        level: Level,
        to: ServerMs,
    ) -> Result<bool, LedgerError> {
        let written = self.change(OPERATION, SUMS, vec![extension(reach, level, to)]).await?;
        none_refused(OPERATION, written.refused)?;
        reach.set(level, Some(to));
        Ok(written.count > 0)
    }
}

fn extension(reach: &Reach, level: Level, to: ServerMs) -> RawDocumentBuf {
    let (field, mut moment) = (field(level), RawDocumentBuf::new());
    moment.append(cstr(&field), DateTime::from_millis(to));
    let mut filter = SUM.with_id(raw_id(ID));
    filter.append(cstr("life"), reach.life.as_str());
    let before: RawBson = match reach.of(level) {
        Some(begun) => DateTime::from_millis(begun).into(),
        None => rawdoc! { "$not": { "$type": "date" } }.into(),
    };
    filter.append(cstr(&field), before);
    rawdoc! { "q": filter, "u": { "$set": moment } }
}

fn field(level: Level) -> String {
    format!("level{}", level.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(moments: [i64; 5]) -> Reach {
        let levels = moments.map(|moment| (moment > 0).then_some(moment));
        Reach { levels, life: "l".to_owned() }
    }

    /// Whether each moment before this one is in one piece, or among the lines; looked at in steps
    /// of a second.
    fn is_whole(reach: &Reach, moment: ServerMs) -> bool {
        let (pieces, from) = reach.before(moment);
        let end = from.unwrap_or(0);
        (0..moment).step_by(1_000).all(|at| {
            let times = pieces.iter().filter(|piece| piece.from <= at && at < piece.to).count();
            times == usize::from(at < end)
        })
    }

    #[test]
    fn pieces_cover_each_moment_before_the_lines_once() {
        let all = [
            reach([0; 5]),
            reach([8_000, 0, 0, 0, 0]),
            reach([9_000_000, 8_960_000, 8_192_000, 0, 0]),
            // Levels that do not fit together, as nobody writes them.
            reach([8_000, 8_960_000, 0, 0, 0]),
        ];
        for (reach, moment) in all.iter().flat_map(|reach| {
            [0, 1, 7_999, 8_000, 8_001, 127_999, 128_000, 2_500_000, 9_100_000]
                .map(|moment| (reach, moment))
        }) {
            assert!(is_whole(reach, moment), "{reach:?} {moment}");
        }
        let (pieces, _) = all[2].before(i64::MIN);
        assert!(pieces.iter().all(|piece| piece.from <= piece.to), "{pieces:?}");
    }

    #[test]
    fn few_pieces_make_a_year() {
        let now = 1_795_000_000_123;
        let complete = Level::all().map(|level| level.begin(now)).collect::<Vec<_>>();
        let reach = reach(complete.try_into().expect("five"));
        let (pieces, from) = reach.before(now);
        assert!(now - from.expect("sums") < 8_000);
        let count = |piece: &PieceSums| {
            let from = piece.from.max(now - 365 * 86_400_000);
            (piece.to - piece.level.begin(from)) / piece.level.width()
        };
        assert!(pieces.iter().map(count).sum::<i64>() < 16 * 4 + 62, "{pieces:?}");
    }

    #[test]
    fn a_reach_is_read_as_it_was_written_and_what_makes_no_sense_counts_as_none() {
        let mut stored = rawdoc! { "life": "l" };
        stored.append(cstr(&field(Level(2))), DateTime::from_millis(128_000));
        stored.append(cstr(&field(Level(3))), "yesterday");
        assert_eq!(Reach::read(&stored), reach([0, 128_000, 0, 0, 0]));
    }

    #[test]
    fn a_reach_moves_only_from_where_it_stood_in_its_life() {
        let moved = extension(&reach([8_000, 0, 0, 0, 0]), Level(1), 16_000);
        let filter = moved.get_document("q").expect("a filter");
        assert_eq!(filter.get_str("life").expect("a life"), "l");
        let before = filter.get_datetime("level1").expect("where it stood");
        assert_eq!(before.timestamp_millis(), 8_000);
        let first = extension(&reach([0; 5]), Level(1), 16_000);
        assert!(first.get_document("q").and_then(|q| q.get_document("level1")).is_ok());
        assert!(!moved.get_bool("upsert").unwrap_or(false), "nothing begins a life by moving");
    }
}
