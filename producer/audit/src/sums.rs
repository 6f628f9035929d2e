//! Sums against the lines that they sum up.
//!
//! Owns the reads of `tandem.sums`. It shares no code with their writer, so that a mistake there is
//! found. For each piece of time it knows the sum of hash(account) × amount over all lines of that
//! time, and takes away the same of its sums: what is left is zero, or they differ. Hashes have 128
//! bits under keys that are new in each audit. Promises that what is summed up meanwhile is no
//! finding: only what was complete before the first line was read is compared. Fails with the error
//! of a read.

use std::collections::{BTreeMap, BTreeSet};

use ledger::ServerMs;
use ledger::limits::echo;
use mongo::{Reach, SUMS, Store, nanos_of_net};
use mongodb::bson::{DateTime, RawDocument, RawDocumentBuf};
use mongodb::error::Error as DriverError;
use mongodb::options::ReadConcern;
use mongodb::{ClientSession, Collection};

use super::findings::{Findings, Rule};
use super::lines::{Entry, Written};
use super::progress::ReadCount;
use super::tallies::Hashing;

/// A piece of time: its level and its beginning.
type Piece = (i64, ServerMs);

/// What lines say of each piece that was complete at the beginning, less what its sums say.
#[derive(Default)]
pub(super) struct Sums {
    reach: Reach,
    hashing: Hashing,
    left: BTreeMap<Piece, u128>,
    /// Those that have a line which can't be read, and is named.
    unknown: BTreeSet<Piece>,
}

impl Sums {
    /// Nothing was read yet. A right that is missing shows here.
    pub async fn open(store: &Store, session: &mut ClientSession) -> Result<Sums, DriverError> {
        let reach = reach(&of(store), session).await?;
        Ok(Sums { reach, ..Sums::default() })
    }

    /// Takes in a line, whose nets are those of its entries.
    pub fn take(&mut self, line: &Written<'_>) {
        let booked = line.entries.iter().flat_map(Entry::booked);
        let sum = booked.fold(0, |sum, (account, nanos)| self.add(sum, account, nanos));
        for piece in self.reach.pieces_with(line.at) {
            let left = self.left.entry(piece).or_default();
            *left = left.wrapping_add(sum);
        }
    }

    /// Takes in a line that can't be read, or whose nets say something else than its entries.
    pub fn take_wrong(&mut self, line: &RawDocument) {
        if let Ok(at) = line.get_datetime("at") {
            self.unknown.extend(self.reach.pieces_with(at.timestamp_millis()));
        }
    }

    fn add(&self, sum: u128, account: &str, nanos: i128) -> u128 {
        sum.wrapping_add(self.hashing.of(&account).wrapping_mul(nanos.cast_unsigned()))
    }

    /// Reads all sums once all lines were taken in.
    pub async fn compare(
        mut self,
        store: &Store,
        session: &mut ClientSession,
        findings: &mut Findings,
        told: &mut ReadCount<'_>,
    ) -> Result<(), DriverError> {
        let sums = of(store);
        let find = sums.find(self.reach.sums());
        told.each(find, session, |sum| self.sum(sum, findings)).await?;
        // Where somebody has begun another life meanwhile, sums of this one may be gone.
        if reach(&sums, session).await?.goes_on_as(&self.reach) {
            self.close(findings);
        }
        Ok(())
    }

    fn sum(&mut self, document: &RawDocument, findings: &mut Findings) {
        let Some((piece, taken)) = self.read(document) else {
            let id = document.get_str("_id").unwrap_or_default();
            let name = || format!("{SUMS}/{}", echo(id));
            findings.add(Rule::Line, name, "can't be read".to_owned());
            return;
        };
        // What lies beyond the reach is being written.
        if self.reach.pieces_with(piece.1).any(|complete| complete.0 == piece.0) {
            let left = self.left.entry(piece).or_default();
            *left = left.wrapping_sub(taken);
        }
    }

    /// Of which piece a sum is, and what it says.
    fn read(&self, document: &RawDocument) -> Option<(Piece, u128)> {
        let piece = (document.get_i64("level").ok()?, document.get_datetime("from").ok()?);
        let accounts = document.get_array("accounts").ok()?.into_iter();
        let (mut nets, mut sum) = (document.get_array("nets").ok()?.into_iter(), 0);
        let mut before = None;
        for account in accounts {
            let account = account.ok()?.as_str()?;
            // They are sorted, so none is there twice.
            if before.replace(account).is_some_and(|before| before >= account) {
                return None;
            }
            sum = self.add(sum, account, nanos_of_net(nets.next()?.ok()?)?);
        }
        nets.next().is_none().then_some(((piece.0, piece.1.timestamp_millis()), sum))
    }

    fn close(self, findings: &mut Findings) {
        for ((level, from), left) in self.left {
            if left != 0 && !self.unknown.contains(&(level, from)) {
                let name = || format!("{SUMS}/level {level} from {}", moment(from));
                findings.add(Rule::Line, name, DIFFERS.to_owned());
            }
        }
    }
}

/// What to do about it stands with it, because nothing but statements depends on sums.
const DIFFERS: &str = "says something else than its lines, so balances of statements with `from` may be \
                       wrong, while entries are right: `db.getCollection(\"tandem.sums\").deleteOne({_id: \
                       \"reach\"})` in `mongosh`, and workers sum up anew";

fn of(store: &Store) -> Collection<RawDocumentBuf> {
    store.database().collection(SUMS)
}

async fn reach(
    sums: &Collection<RawDocumentBuf>,
    session: &mut ClientSession,
) -> Result<Reach, DriverError> {
    let find = sums.find_one(Reach::filter()).read_concern(ReadConcern::majority());
    let reach = find.session(session).await?;
    Ok(reach.map(|reach| Reach::read(&reach)).unwrap_or_default())
}

fn moment(from: ServerMs) -> String {
    DateTime::from_millis(from).try_to_rfc3339_string().unwrap_or_else(|_| from.to_string())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, Document, doc};

    use super::super::lines;
    use super::*;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).expect("it is a document")
    }

    fn line(at: i64, amount: i64) -> RawDocumentBuf {
        raw(&doc! {
            "_id": "l", "kind": "tandem-line", "at": DateTime::from_millis(at), "application": "w",
            "accounts": ["a", "b"], "nets": [-amount, amount],
            "done": [[Bson::from("t"), Bson::from(0), Bson::from(-amount), Bson::from(1), Bson::from(amount)]],
            "canceled": [],
        })
    }

    fn sum(level: i64, from: i64, accounts: &[&str], nets: &[i64]) -> RawDocumentBuf {
        let from = DateTime::from_millis(from);
        let (accounts, nets) = (accounts.to_vec(), nets.to_vec());
        raw(&doc! { "_id": "s", "level": level, "from": from, "accounts": accounts, "nets": nets })
    }

    /// What is found with these sums, and lines of 5 in the first piece and 2 in the second.
    fn found(sums: &[RawDocumentBuf]) -> Vec<String> {
        let reach = doc! { "level1": DateTime::from_millis(24_000) };
        let mut read = Sums { reach: Reach::read(&raw(&reach)), ..Sums::default() };
        for line in [line(7, 5), line(8_000, 2), line(24_000, 9)] {
            read.take(&lines::read(&line).expect("a line"));
        }
        let mut findings = Findings::new(100);
        sums.iter().for_each(|sum| read.sum(sum, &mut findings));
        read.close(&mut findings);
        findings.into_kept().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sums_of_their_lines_are_right_in_any_number_of_documents() {
        let second = [sum(1, 8_000, &["a"], &[-2]), sum(1, 8_000, &["b"], &[2])];
        let [left, right] = second;
        let beyond = sum(1, 24_000, &["a"], &[77]);
        assert_eq!(found(&[sum(1, 0, &["a", "b"], &[-5, 5]), left, right, beyond]), [""; 0]);
    }

    #[test]
    fn each_piece_that_differs_from_its_lines_is_named() {
        let second = sum(1, 8_000, &["a", "b"], &[-2, 2]);
        let named = |first: RawDocumentBuf, what: &str| {
            let found = found(&[first, second.clone()]);
            assert!(found.iter().any(|found| found.contains(what)), "{found:?}");
        };
        let place = "tandem.sums/level 1 from 1970-01-01T00:00:00Z: ";
        named(sum(1, 0, &["a", "b"], &[-4, 5]), place);
        named(sum(1, 0, &["a", "b"], &[5, -5]), place);
        named(sum(1, 0, &["a", "c"], &[-5, 5]), place);
        named(sum(1, 16_000, &["a"], &[1]), "from 1970-01-01T00:00:16Z");
        named(sum(1, 0, &["a", "b"], &[-5]), "tandem.sums/s: can't be read");
        named(sum(1, 0, &["b", "a"], &[5, -5]), "tandem.sums/s: can't be read");
        named(sum(1, 0, &["a", "b", "b"], &[-5, 2, 3]), "tandem.sums/s: can't be read");
        assert_eq!(found(std::slice::from_ref(&second)).len(), 1, "one is missing");
    }
}
