//! What the documents of transactions say of each line, in a few bytes: pure.
//!
//! Owns a count and a fingerprint for each line that documents name. The fingerprint is the sum of
//! the hashes of its entries, so it does not depend on their order, and a line that says the same
//! has the same. A hash has 128 bits of SipHash under keys that are new in each audit, so nobody
//! can make two ends that have the same one.
//!
//! A line that was written while the documents were read has some of its transactions behind the
//! reader. So of what has ended near that time, each hash is kept by itself. Then it is clear that
//! the others have ended later, and that nobody else names the line.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};

use super::lines::{Entry, Written};

/// What was seen of each line, by the hash of its name.
#[derive(Default)]
pub(super) struct Tallies {
    hashing: Hashing,
    by_line: HashMap<u128, Tally>,
    recent: HashMap<u128, Vec<u128>>,
}

/// Hashes under keys of its own.
#[derive(Default)]
pub(super) struct Hashing([RandomState; 2]);

/// How many entries, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    count: u64,
    sum: u128,
}

/// What the documents say of a line that says something else.
#[derive(Debug, Default)]
pub(super) struct Seen {
    tally: Tally,
    /// The hashes of those that have ended while the documents were read.
    recent: Vec<u128>,
}

/// What the documents say that a line names, and that name the line.
#[derive(Debug, Default)]
pub(super) struct Named {
    tally: Tally,
    hashes: HashSet<u128>,
}

impl Hashing {
    /// 128 bits.
    pub fn of(&self, what: &impl Hash) -> u128 {
        let [high, low] = &self.0;
        (u128::from(high.hash_one(what)) << 64) | u128::from(low.hash_one(what))
    }
}

impl Tally {
    fn add(&mut self, hash: u128) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

impl Tallies {
    /// Takes in what a document says of the line that it names.
    pub fn take(&mut self, line: &str, entry: &Entry<'_>, is_recent: bool) {
        let (line, hash) = (self.hashing.of(&line), self.hashing.of(entry));
        self.by_line.entry(line).or_default().add(hash);
        if is_recent {
            self.recent.entry(line).or_default().push(hash);
        }
    }

    /// Takes a line in: returns what the documents say of it, if that is something else.
    pub fn compare(&mut self, line: &Written<'_>) -> Option<Seen> {
        let mut written = Tally::default();
        line.entries.iter().for_each(|entry| written.add(self.hashing.of(entry)));
        let seen = self.forget(line.id);
        (seen.tally != written).then_some(seen)
    }

    /// Forgets a line.
    pub fn forget(&mut self, line: &str) -> Seen {
        let line = self.hashing.of(&line);
        Seen {
            tally: self.by_line.remove(&line).unwrap_or_default(),
            recent: self.recent.remove(&line).unwrap_or_default(),
        }
    }

    /// Notes a line, of which documents say something that no entry of it explains.
    pub fn suspect(&mut self, line: &str) {
        self.by_line.insert(self.hashing.of(&line), Tally::default());
    }

    /// Whether all lines were met, and none is suspect.
    pub fn is_empty(&self) -> bool {
        self.by_line.is_empty()
    }

    /// Whether documents name a line of this name that was not met, or that is suspect.
    pub fn is_left(&self, line: &str) -> bool {
        self.by_line.contains_key(&self.hashing.of(&line))
    }

    /// Takes in what a document says that was read because its line names it.
    pub fn add(&self, entry: &Entry<'_>, named: &mut Named) {
        let hash = self.hashing.of(entry);
        named.tally.add(hash);
        named.hashes.insert(hash);
    }
}

impl Seen {
    /// Whether all that name the line are among those that the line names.
    pub fn is_explained_by(&self, named: &Named) -> bool {
        let Seen { tally, recent } = self;
        let each_is_known = tally.count == recent.len() as u64;
        *tally == named.tally
            || each_is_known && recent.iter().all(|hash| named.hashes.contains(hash))
    }
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;
    use ledger::event::End;
    use ledger::transaction::Body;

    use super::*;

    fn body(value: i64) -> Body {
        Body::transfer("a", "b", Amount::Int(value)).expect("valid")
    }

    fn line<'a>(entries: &[(&'a str, &'a Body)]) -> Written<'a> {
        let entry = |(id, body): &(&'a str, &'a Body)| Entry::of(id, End::Done, Some(body));
        let entries = entries.iter().map(entry).collect();
        Written { id: "l", at: 0, entries, adjustment: None, wrong_net: None }
    }

    #[test]
    fn a_line_that_says_what_its_documents_say_is_the_same_in_any_order() {
        let (five, six) = (body(5), body(6));
        let said = line(&[("t", &five), ("u", &six), ("v", &five)]);
        for (documents, is_same) in [
            (vec![("u", &six), ("v", &five), ("t", &five)], true),
            (vec![("u", &five), ("v", &five), ("t", &six)], false),
            (vec![("u", &six), ("t", &five)], false),
            (vec![("u", &six), ("v", &five), ("t", &five), ("w", &five)], false),
            (vec![("u", &six), ("v", &six), ("t", &five)], false),
            (vec![], false),
        ] {
            let mut tallies = Tallies::default();
            for entry in &line(&documents).entries {
                tallies.take("l", entry, false);
                tallies.take("other", entry, false);
            }
            assert_eq!(tallies.compare(&said).is_none(), is_same, "{documents:?}");
            assert!(!tallies.is_left("l"));
            assert_eq!(tallies.is_empty(), documents.is_empty());
        }
        let of = |end| {
            let entries = vec![Entry::of("v", end, None)];
            Written { id: "l", at: 0, entries, adjustment: None, wrong_net: None }
        };
        for (end, is_same) in [(End::Canceled, true), (End::Done, false)] {
            let mut tallies = Tallies::default();
            tallies.take("l", &Entry::of("v", End::Canceled, None), false);
            assert_eq!(tallies.compare(&of(end)).is_none(), is_same, "the end is part of it");
        }
    }

    #[test]
    fn a_line_written_meanwhile_is_explained_although_some_of_it_was_behind_the_reader() {
        let five = body(5);
        let said = line(&[("t", &five), ("u", &five), ("v", &five)]);
        let stray = Entry::of("w", End::Done, Some(&five));
        let [t, u, v] = &said.entries[..] else { panic!("{said:?}") };
        for (seen, is_recent, is_explained) in [
            (vec![], false, true),
            (vec![t], true, true),
            (vec![t, v], true, true),
            // It may be that another was seen in its place.
            (vec![t], false, false),
            (vec![t, &stray], true, false),
            (vec![t, u, &stray], false, false),
            (vec![t, u, v, &stray], true, false),
        ] {
            let mut tallies = Tallies::default();
            seen.iter().for_each(|entry| tallies.take("l", entry, is_recent));
            let differs = tallies.compare(&said).expect("it says something else");
            let mut named = Named::default();
            said.entries.iter().for_each(|entry| tallies.add(entry, &mut named));
            assert_eq!(differs.is_explained_by(&named), is_explained, "{seen:?}");
        }
    }

    #[test]
    fn what_the_documents_say_of_a_damaged_line_is_explained_by_the_documents() {
        let (five, six) = (body(5), body(6));
        let mut tallies = Tallies::default();
        line(&[("t", &five), ("u", &five)]).entries.iter().for_each(|entry| {
            tallies.take("l", entry, false);
        });
        let differs = tallies.compare(&line(&[("t", &five), ("u", &six)])).expect("an amount");
        let mut named = Named::default();
        for entry in &line(&[("t", &five), ("u", &five)]).entries {
            tallies.add(entry, &mut named);
        }
        assert!(differs.is_explained_by(&named));
        assert!(tallies.is_empty());
        tallies.suspect("l");
        assert!(tallies.is_left("l") && !tallies.is_empty());
    }
}
