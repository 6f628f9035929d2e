//! The first pass: every row is checked before anything is written.
//!
//! Owns which rows are bad, including ids that occur twice in the file, and which contents occur
//! more than once among the rows without an id. Memory is bounded: while it reads, sixteen bytes
//! for each explicit id and twelve for each row without one; afterwards four for each bad repeated
//! row, twelve for each repeated content, and the first [`SHOWN_MAX`] problems.

use std::collections::HashSet;
use std::fmt;

use ledger::notation::HAS_POINT;
use sha2::{Digest, Sha256};

use super::whole::{Contents, Whole};
use super::{FileError, Input, Row, Rows};
use crate::Record;
use crate::content::{ContentDigest, Multiset, Occurrences, repeated as repeated_contents};

/// The most problems that are kept to be shown; the rest is counted.
pub const SHOWN_MAX: usize = 100;

/// Every how many rows progress is shown.
const PROGRESS_ROWS: u64 = 1 << 14;

/// What distinguishes a row from the other rows of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Its own key, which must not occur twice in the file.
    Key(String),
    /// It has no key. Rows of the same content are told apart by counting them.
    Content(ContentDigest),
}

impl Identity {
    /// Its own key.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Identity::Key(key) => Some(key),
            Identity::Content(_) => None,
        }
    }
}

/// A row after parsing: what identifies it, and the rest.
#[derive(Debug)]
pub struct Parsed<T> {
    /// What identifies it.
    pub identity: Identity,
    /// The rest.
    pub value: T,
}

/// A bad row.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The field, what is wrong with it, and what to do.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}

/// A file whose every row was looked at.
#[derive(Debug)]
pub struct Checked {
    /// The digest of the whole file.
    pub digest: [u8; 32],
    /// How many rows it has, bad ones too.
    pub rows: u64,
    /// How many of them are bad.
    pub invalid: u64,
    /// The first problems, by line.
    pub problems: Vec<Problem>,
    /// How many valid rows have no key of their own.
    pub without_key: u64,
    /// What its rows are together: their sums, and what is doubtful.
    pub whole: Whole,
    /// The digest of its valid rows, whatever their order and however they are written.
    pub content: [u8; 32],
    /// The lines whose key stands on an earlier line.
    repeated: HashSet<u32>,
    /// The contents of more than one row without a key, sorted.
    repeated_contents: Vec<ContentDigest>,
    /// The field that the key is.
    key: &'static str,
}

impl Checked {
    /// Why a row is bad, or its content. The same in every pass.
    ///
    /// # Errors
    /// The problem, without file and line.
    pub fn parse<T>(
        &self,
        row: Row,
        parse: impl Fn(Record) -> Result<Parsed<T>, String>,
    ) -> Result<Parsed<T>, String> {
        let line = row.line;
        let parsed = row.record.and_then(parse)?;
        match &parsed.identity {
            Identity::Key(key) if self.repeated.contains(&line) => Err(self.repeated_problem(key)),
            Identity::Key(_) | Identity::Content(_) => Ok(parsed),
        }
    }

    /// A new count of rows with the same content, for one reading of the file from its start.
    #[must_use]
    pub fn occurrences(&self) -> Occurrences<'_> {
        Occurrences::new(&self.repeated_contents)
    }
}

/// Looks at every row. `told` is called with the number so far, from time to time.
///
/// # Errors
/// When the file can't be read. Bad rows are in the answer.
pub fn check<T: Contents>(
    input: &Input,
    told: impl Fn(u64),
    parse: impl Fn(Record) -> Result<Parsed<T>, String>,
) -> Result<Checked, FileError> {
    let mut rows = input.rows()?;
    let mut checked = Checked {
        digest: [0; 32],
        rows: 0,
        invalid: 0,
        problems: Vec::new(),
        without_key: 0,
        whole: Whole::default(),
        content: [0; 32],
        repeated: HashSet::new(),
        repeated_contents: Vec::new(),
        key: input.schema.key,
    };
    let (mut keys, mut contents, mut content) = (Vec::new(), Vec::new(), Multiset::default());
    while let Some(row) = rows.next_row()? {
        checked.rows += 1;
        if checked.rows.is_multiple_of(PROGRESS_ROWS) {
            told(checked.rows);
        }
        match row.record.and_then(&parse) {
            Ok(parsed) => {
                checked.whole.add(row.line, parsed.identity.key(), &parsed.value);
                match parsed.identity {
                    Identity::Key(key) => {
                        let digest = Sha256::digest(key.as_bytes());
                        content.add(&digest);
                        keys.push(fingerprint(&digest, row.line));
                    }
                    Identity::Content(digest) => {
                        content.add(&Sha256::digest(digest.0));
                        contents.push(digest);
                    }
                }
            }
            Err(problem) => {
                if problem.contains(HAS_POINT) {
                    checked.whole.has_point(row.line);
                }
                checked.bad(input, row.line, problem);
            }
        }
    }
    checked.digest = rows.digest();
    checked.content = content.digest();
    checked.whole.ends_at(rows.unfinished());
    checked.repeated = repeated(keys);
    checked.without_key = contents.len() as u64;
    checked.repeated_contents = repeated_contents(contents);
    checked.name_repeated(input, input.rows()?, &parse)?;
    Ok(checked)
}

impl Checked {
    fn repeated_problem(&self, key: &str) -> String {
        let field = self.key;
        format!("{field}: {key:?} stands on an earlier line, too; each row needs one of its own")
    }

    fn bad(&mut self, input: &Input, line: u32, problem: String) {
        self.invalid += 1;
        if self.problems.len() < SHOWN_MAX {
            self.problems.push(Problem { file: input.name().to_owned(), line, problem });
        }
    }

    /// Counts repeated rows as bad. Reads the file again, up to the last one to be shown.
    fn name_repeated<T>(
        &mut self,
        input: &Input,
        mut rows: Rows,
        parse: &impl Fn(Record) -> Result<Parsed<T>, String>,
    ) -> Result<(), FileError> {
        self.invalid += self.repeated.len() as u64;
        let mut lines: Vec<u32> = self.repeated.iter().copied().collect();
        lines.sort_unstable();
        lines.truncate(SHOWN_MAX);
        let mut named = Vec::new();
        while named.len() < lines.len() {
            let Some(row) = rows.next_row()? else { break };
            if row.line != lines[named.len()] {
                continue;
            }
            let parsed = row.record.and_then(parse).map_err(FileError::Unreadable)?;
            let Identity::Key(key) = parsed.identity else { continue };
            let (file, problem) = (input.name().to_owned(), self.repeated_problem(&key));
            named.push(Problem { file, line: row.line, problem });
        }
        self.problems.extend(named);
        self.problems.sort_by_key(|problem| problem.line);
        self.problems.truncate(SHOWN_MAX);
        Ok(())
    }
}

/// 96 bits of the key's digest, then the line: sorting brings equal keys together, in line order.
/// For a million different keys the chance that two digests are equal is 10^-17.
fn fingerprint(digest: &[u8], line: u32) -> u128 {
    let bits = digest.iter().take(12).fold(0, |bits, byte| (bits << 8) | u128::from(*byte));
    (bits << 32) | u128::from(line)
}

fn repeated(mut keys: Vec<u128>) -> HashSet<u32> {
    keys.sort_unstable();
    keys.windows(2)
        .filter(|pair| pair[0] >> 32 == pair[1] >> 32)
        .map(|pair| u32::try_from(pair[1] & u128::from(u32::MAX)).expect("masked"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ledger::account::Account;
    use ledger::notation::Notation;

    use super::super::{Columns, Format, TRANSFERS};
    use super::*;

    fn checked(name: &str, content: &str) -> Checked {
        let path = std::env::temp_dir().join(format!("{name}-{}.csv", std::process::id()));
        std::fs::File::create(&path).and_then(|mut f| f.write_all(content.as_bytes())).expect("rw");
        let path_text = path.to_str().expect("UTF-8");
        let input = Input::open(path_text, Some(Format::Csv), TRANSFERS, Columns::default());
        let input = input.expect("a file");
        std::fs::remove_file(&path).expect("still there");
        check(
            &input,
            |_| (),
            |mut record| {
                let identity = match record.text("id")? {
                    Some(id) => Identity::Key(id),
                    None => Identity::Content(ContentDigest([0; 12])),
                };
                let value = record
                    .amount("value", &Notation::default(), None)?
                    .ok_or("value: is missing")?;
                Ok(Parsed { identity, value: Account::new("a", value) })
            },
        )
        .expect("readable")
    }

    #[test]
    fn ids_that_stand_twice_are_bad_from_the_second_on() {
        let file = "id,source,destination,value\na,x,y,1\nb,x,y,1\n,x,y,1\na,x,y,\na,x,y,1\n,x,y,1\na,x,y,2\n";
        let checked = checked("repeated", file);
        assert_eq!((checked.rows, checked.invalid), (7, 3));
        let lines: Vec<u32> = checked.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [5, 6, 8]);
        assert!(checked.problems[1].problem.contains("earlier line"));
    }

    #[test]
    fn problems_are_counted_beyond_those_that_are_shown() {
        let file = format!("source,destination,value\n{}", "x,y,\n".repeat(SHOWN_MAX + 5));
        let checked = checked("many", &file);
        assert_eq!(checked.problems.len(), SHOWN_MAX);
        assert_eq!(checked.invalid, SHOWN_MAX as u64 + 5);
    }
}
