//! What is submitted: every row a pure function of seed, producer, chunk and place.
//!
//! So nobody has to store millions of rows: the judge makes them again. Promises that every row is
//! of one of the [`Sort`]s, each of which must end in its own way, that half of all transfers touch
//! one of a few hot accounts, that a third is on [`Hold`], and that a quarter has [`Terms`].

use std::collections::HashSet;

use ledger::json::timestamp;
use mongodb::bson::DateTime;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::holds::Hold;
use super::terms::Terms;

/// How many ordinary accounts there are.
const ACCOUNTS: usize = 400;
/// How many hot accounts there are, which half of all transfers touch.
const HOT: usize = 4;
/// The opening balance of every account, in minor units: so little that some accounts run empty.
pub const OPENING: i64 = 20_000;
/// The currency of all accounts and rows.
pub const CURRENCY: &str = "EUR";
/// An account that takes no postings.
pub const FROZEN: &str = "frozen";
/// A value larger than all money of the ledger.
const TOO_MUCH: i64 = 1_000_000_000;
/// A row is repeated from so many chunks before.
const REPEATED_CHUNKS: u32 = 5;

/// The names of all accounts.
#[must_use]
pub fn accounts() -> Vec<String> {
    let many = (0..ACCOUNTS).map(|number| format!("a{number:03}"));
    many.chain((0..HOT).map(|number| format!("hot{number}"))).chain([FROZEN.to_owned()]).collect()
}

/// What must become of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// It is done, or refused for lack of funds.
    Transfer,
    /// It is canceled: an account is missing or frozen, or never has so much money.
    Refused,
    /// It repeats the row of an earlier chunk, and changes nothing.
    Repeated,
    /// It has the id of such a row and other content, and is refused.
    Conflicting,
    /// It is no valid transfer, and is refused.
    Invalid,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Signed changes, debit first.
    pub legs: Vec<(String, i64)>,
    /// What must become of it.
    pub sort: Sort,
    /// What the clerks do with it, if it is on hold.
    pub hold: Option<Hold>,
    /// When it may be settled, and until when.
    pub terms: Terms,
    /// The chunk in which it comes first.
    pub chunk: u32,
}

impl Row {
    /// The row as a line of a file; `begun_ms` is when the submission of its chunk began.
    #[must_use]
    pub fn line(&self, begun_ms: i64) -> String {
        let mut line = match self.legs.as_slice() {
            [(source, _), (destination, value)] => json!({
                "id": self.id, "source": source, "destination": destination, "value": value,
                "currency": CURRENCY,
            }),
            legs => {
                let legs: Vec<_> = legs
                    .iter()
                    .map(|(account, amount)| json!({ "account": account, "amount": amount }))
                    .collect();
                json!({ "id": self.id, "legs": legs, "currency": CURRENCY })
            }
        };
        if let Some(hold) = &self.hold {
            line["hold"] = true.into();
            if let Some(expires_ms) = hold.expires_at(begun_ms) {
                line["holdExpiresAt"] = timestamp(DateTime::from_millis(expires_ms)).into();
            }
        }
        let not_before = ("notBefore", self.terms.not_before(begun_ms));
        for (field, moment) in [not_before, ("expiresAt", self.terms.expires_at(begun_ms))] {
            if let Some(ms) = moment {
                line[field] = timestamp(DateTime::from_millis(ms)).into();
            }
        }
        line.to_string()
    }

    /// The legs with the effect that it has if it is done.
    #[must_use]
    pub fn effect(&self) -> Vec<(String, i64)> {
        let captured = self.hold.as_ref().and_then(|hold| hold.captured(&self.legs));
        captured.unwrap_or_else(|| self.legs.clone())
    }
}

/// All rows of one run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What decides everything.
    pub seed: u64,
    /// Rows of a chunk.
    pub chunk_rows: u32,
}

impl Load {
    /// The rows of a chunk. No id occurs twice in a chunk, because the producer would take the
    /// second one for a mistake in the file.
    #[must_use]
    pub fn chunk(&self, producer: usize, chunk: u32) -> Vec<Row> {
        let mut ids = HashSet::new();
        let rows = (0..self.chunk_rows).map(|place| {
            let row = self.row(producer, chunk, place);
            let row = if ids.contains(&row.id) { self.fresh(producer, chunk, place) } else { row };
            ids.insert(row.id.clone());
            row
        });
        rows.collect()
    }

    fn row(&self, producer: usize, chunk: u32, place: u32) -> Row {
        let mut rng = self.rng(producer, chunk, place);
        match rng.random_range(0..1_000) {
            0..15 if chunk > 0 => self.earlier(producer, chunk, &mut rng),
            15..25 if chunk > 0 => {
                let mut row = self.earlier(producer, chunk, &mut rng);
                let more = row.legs[1].1 + 1;
                row.legs.truncate(2);
                row.legs[0].1 = -more;
                row.legs[1].1 = more;
                Row { sort: Sort::Conflicting, ..row }
            }
            25..30 => {
                let account = any(&mut rng);
                let legs = vec![(account.clone(), -1), (account, 1)];
                let id = self.id(producer, chunk, place);
                let terms = Terms::default();
                Row { id, legs, sort: Sort::Invalid, hold: None, terms, chunk }
            }
            _ => self.fresh(producer, chunk, place),
        }
    }

    /// A row that is different from all others.
    fn fresh(&self, producer: usize, chunk: u32, place: u32) -> Row {
        let mut rng = self.rng(producer, chunk, place ^ 0x8000_0000);
        let id = self.id(producer, chunk, place);
        let value = rng.random_range(1..=300);
        let (from, to) = pair(&mut rng);
        let two = |from: String, to: String, value: i64| vec![(from, -value), (to, value)];
        let (legs, sort) = match rng.random_range(0..100) {
            0 => (two(from, to, TOO_MUCH + value), Sort::Refused),
            1 => (two(from, FROZEN.to_owned(), value), Sort::Refused),
            2 => (two(from, format!("nobody-{value}"), value), Sort::Refused),
            3..18 => (many(&mut rng, from), Sort::Transfer),
            _ => (two(from, to, value), Sort::Transfer),
        };
        let hold = Hold::draw(&mut self.rng(producer, chunk, place ^ 0x4000_0000));
        let mut rng = self.rng(producer, chunk, place ^ 0x2000_0000);
        let terms = Terms::draw(&mut rng, hold.is_some());
        let hold = hold.map(|hold| hold.later(terms.not_before_ms.unwrap_or(0)));
        Row { id, legs, sort, hold, terms, chunk }
    }

    /// A unique row of an earlier chunk.
    fn earlier(&self, producer: usize, chunk: u32, rng: &mut StdRng) -> Row {
        let back = rng.random_range(1..=REPEATED_CHUNKS.min(chunk));
        let mut place = rng.random_range(0..self.chunk_rows);
        loop {
            let row = self.fresh(producer, chunk - back, place);
            // Only if that row is no repetition itself.
            if self.is_fresh(producer, chunk - back, place) {
                return Row { sort: Sort::Repeated, ..row };
            }
            place = (place + 1) % self.chunk_rows;
        }
    }

    fn is_fresh(&self, producer: usize, chunk: u32, place: u32) -> bool {
        let roll = self.rng(producer, chunk, place).random_range(0..1_000);
        roll >= 30 || (roll < 25 && chunk == 0)
    }

    fn id(&self, producer: usize, chunk: u32, place: u32) -> String {
        format!("p{producer}-{chunk:06}-{place:04}")
    }

    fn rng(&self, producer: usize, chunk: u32, place: u32) -> StdRng {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(producer as u64).to_le_bytes());
        seed[16..20].copy_from_slice(&chunk.to_le_bytes());
        seed[20..24].copy_from_slice(&place.to_le_bytes());
        StdRng::from_seed(seed)
    }
}

/// An ordinary account.
pub(super) fn any(rng: &mut StdRng) -> String {
    format!("a{:03}", rng.random_range(0..ACCOUNTS))
}

/// Two accounts; half of the time one of them is hot.
fn pair(rng: &mut StdRng) -> (String, String) {
    let first = rng.random_range(0..ACCOUNTS);
    let second = (first + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
    let (first, second) = (format!("a{first:03}"), format!("a{second:03}"));
    let hot = format!("hot{}", rng.random_range(0..HOT));
    match rng.random_range(0..4) {
        0 => (first, hot),
        1 => (hot, first),
        _ => (first, second),
    }
}

/// A debit that is split among several accounts.
fn many(rng: &mut StdRng, from: String) -> Vec<(String, i64)> {
    let mut legs = vec![(from, 0)];
    for _ in 0..rng.random_range(2..=4) {
        let (account, amount) = (any(rng), rng.random_range(1..=80));
        if legs.iter().all(|(other, _)| *other != account) {
            legs[0].1 -= amount;
            legs.push((account, amount));
        }
    }
    if legs.len() < 2 {
        legs = vec![(legs.remove(0).0, -1), ("hot0".to_owned(), 1)];
    }
    legs
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const LOAD: Load = Load { seed: 1, chunk_rows: 200 };

    #[test]
    fn a_row_can_be_made_again_and_sums_to_zero() {
        for chunk in 0..50 {
            assert_eq!(LOAD.chunk(0, chunk), LOAD.chunk(0, chunk));
            let ids: HashSet<String> = LOAD.chunk(0, chunk).into_iter().map(|row| row.id).collect();
            assert_eq!(ids.len(), LOAD.chunk_rows as usize, "an id stands twice in {chunk}");
            for row in LOAD.chunk(0, chunk) {
                assert_eq!(row.legs.iter().map(|(_, amount)| amount).sum::<i64>(), 0, "{row:?}");
                assert!(row.legs.len() >= 2 && row.legs[0].1 < 0, "{row:?}");
            }
        }
    }

    #[test]
    fn a_row_says_in_its_line_that_it_is_held_and_its_moments() {
        let rows = LOAD.chunk(0, 0);
        for row in &rows {
            let line: serde_json::Value = serde_json::from_str(&row.line(1_000)).expect("JSON");
            assert_eq!(line["hold"] == true, row.hold.is_some(), "{line}");
            let expires = row.hold.is_some_and(|hold| hold.expires_ms.is_some());
            assert_eq!(line["holdExpiresAt"].is_string(), expires, "{line}");
            let is_scheduled = row.terms.not_before_ms.is_some();
            assert_eq!(line["notBefore"].is_string(), is_scheduled, "{line}");
            assert_eq!(line["expiresAt"].is_string(), row.terms.expires_ms.is_some(), "{line}");
            let ends = [row.hold.and_then(|hold| hold.expires_ms), row.terms.expires_ms];
            let begin = row.terms.not_before_ms.unwrap_or(0);
            assert!(ends.into_iter().flatten().all(|end| begin < end), "always expires: {line}");
        }
        assert!((50..80).contains(&rows.iter().filter(|row| row.hold.is_some()).count()));
    }

    #[test]
    fn repetitions_are_of_rows_that_were_there() {
        let mut known: HashMap<String, Row> = HashMap::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for chunk in 0..50 {
            for row in LOAD.chunk(1, chunk) {
                let of = known.get(&row.id).cloned();
                let sort = match row.sort {
                    Sort::Repeated => {
                        let of = of.expect("known");
                        assert_eq!((of.legs, of.hold, of.terms), (row.legs, row.hold, row.terms));
                        assert_eq!(of.chunk, row.chunk);
                        "repeated"
                    }
                    Sort::Conflicting => {
                        assert_ne!(of.expect("known").legs, row.legs);
                        "conflicting"
                    }
                    Sort::Invalid => {
                        assert_eq!(row.legs[0].0, row.legs[1].0);
                        "invalid"
                    }
                    Sort::Transfer | Sort::Refused => {
                        assert_eq!(of, None);
                        known.insert(row.id.clone(), row.clone());
                        if row.legs.len() > 2 { "many legs" } else { "fresh" }
                    }
                };
                *seen.entry(sort).or_default() += 1;
            }
        }
        assert_eq!(seen.len(), 5, "{seen:?}");
        assert!(known.values().any(|row| row.sort == Sort::Refused));
    }
}
