//! How far sums are complete, and which of them make the sum before a moment.
//!
//! Owns the document `{_id: "reach"}` in `tandem.sums`. Its `life` is another one whenever the
//! collection begins anew, and whoever moves the reach compares it: what was summed up before
//! somebody dropped the collection says nothing of the one after. Promises that the reach only moves
//! on. Fails with an error of the command; a field that makes no sense counts as none, and then
//! lines are read.

use ledger::{LedgerError, ServerMs};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, RawBson, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::super::Store;
use super::super::names::SUMS;
use super::super::own::SUM;
use super::super::raw::raw_id;
use super::super::read::cstr;
use super::{Level, OPERATION, WIDTHS_MS};

/// The `_id` of the document.
const ID: &str = "reach";

/// Up to which moment the sums of each level are complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// From the lowest level.
    levels: [Option<ServerMs>; WIDTHS_MS.len()],
    life: Option<ObjectId>,
}

/// The pieces of one level in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceSums {
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
        let life = found.get_object_id("life").ok();
        let mut reach = Reach { life, ..Reach::default() };
        Level::all().for_each(|level| reach.set(level, moment(level)));
        reach
    }

    /// The pieces that make the time before a moment, without an overlap or a gap, and from when on
    /// lines have to be read beside them; none where there are no sums before it.
    #[must_use]
    pub fn before(&self, moment: ServerMs) -> (Vec<PieceSums>, Option<ServerMs>) {
        let (mut pieces, mut from) = (Vec::new(), None);
        for level in Level::all().rev() {
            let Some(reach) = self.of(level) else { continue };
            let to = level.begin(reach.min(moment));
            if from.is_none_or(|from| from < to) {
                pieces.push(PieceSums { level, from: from.unwrap_or(ServerMs::MIN), to });
                from = Some(to);
            }
        }
        (pieces, from)
    }

    /// The pieces that this moment is in and that are complete: their levels and beginnings.
    pub fn pieces_with(&self, moment: ServerMs) -> impl Iterator<Item = (i64, ServerMs)> {
        Level::all()
            .filter(move |level| self.of(*level).is_some_and(|reach| moment < reach))
            .map(move |level| (level.number(), level.begin(moment)))
    }

    pub(super) fn of(&self, level: Level) -> Option<ServerMs> {
        self.levels[level.0 - 1]
    }

    pub(super) fn set(&mut self, level: Level, moment: Option<ServerMs>) {
        self.levels[level.0 - 1] = moment;
    }
}

impl PieceSums {
    /// The filter for the sums of an account. Each such filter is one range of the index by account.
    #[must_use]
    pub fn filter_of(&self, account: &str) -> Document {
        let [from, to] = [self.from, self.to].map(DateTime::from_millis);
        doc! {
            "accounts": account,
            "kind": SUM.condition(),
            "level": self.level.number(),
            "from": { "$gte": from, "$lt": to },
        }
    }
}

impl Store {
    /// How far sums are complete. Begins a life where there is none.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub(super) async fn reach_of_sums(&self) -> Result<Reach, LedgerError> {
        let find = rawdoc! { "find": SUMS, "filter": SUM.with_id(raw_id(ID)), "limit": 1_i64 };
        let read = |found: &RawDocument| Some(Reach::read(found));
        if let Some(reach) = self.find(OPERATION, find, read).await?.pop() {
            return Ok(reach);
        }
        let life = ObjectId::new();
        let inserted =
            self.insert(SUMS, &[doc! { "_id": ID, "kind": SUM.kind, "life": life }]).await?;
        match inserted.refused.into_iter().chain(inserted.taken).next() {
            Some(refused) => Err(LedgerError::lasting(OPERATION, refused.problem)),
            // Somebody else may have been first. Then nothing that is done in this life counts.
            None => Ok(Reach { life: Some(life), ..Reach::default() }),
        }
    }

    /// Moves a level on; says whether the reach was as it is given, and so has moved.
    pub(super) async fn extend(
        &self,
        reach: &mut Reach,
        level: Level,
        to: ServerMs,
    ) -> Result<bool, LedgerError> {
        let written = self.change(OPERATION, SUMS, vec![extension(reach, level, to)]).await?;
        if let Some(refused) = written.refused.into_iter().next() {
            return Err(LedgerError::lasting(OPERATION, refused.problem));
        }
        reach.set(level, Some(to));
        Ok(written.count > 0)
    }
}

fn extension(reach: &Reach, level: Level, to: ServerMs) -> RawDocumentBuf {
    let (field, mut moment) = (field(level), RawDocumentBuf::new());
    moment.append(cstr(&field), DateTime::from_millis(to));
    let mut filter = SUM.with_id(raw_id(ID));
    filter.append(cstr("life"), reach.life.map_or(RawBson::Null, RawBson::from));
    match reach.of(level) {
        Some(begun) => filter.append(cstr(&field), DateTime::from_millis(begun)),
        None => filter.append(cstr(&field), rawdoc! { "$not": { "$type": "date" } }),
    }
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
        Reach { levels, life: None }
    }

    /// How often each moment before this one is in a piece, looked at in steps of a second.
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
        let mut stored = RawDocumentBuf::new();
        stored.append(cstr(&field(Level(2))), DateTime::from_millis(128_000));
        stored.append(cstr(&field(Level(3))), "yesterday");
        assert_eq!(Reach::read(&stored), reach([0, 128_000, 0, 0, 0]));
    }
}
