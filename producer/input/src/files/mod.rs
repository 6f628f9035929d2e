//! Files of transfers, accounts and captures: CSV or JSON lines, read twice in bounded memory.
//!
//! Owns opening (what can't be read twice is spooled to a temporary file), the formats, and the
//! first pass that finds every bad row, and what is doubtful of the whole, before anything is
//! written. Fails naming file, line, field.

mod check;
mod columns;
mod csv_line;
mod lines;
mod whole;

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use client::Capture;
use ledger::account::Account;
use ledger::notation::Notation;
use ledger::transaction::{Body, TransactionId};

pub use check::{Checked, Identity, Parsed, Problem, SHOWN_MAX, check};
pub use columns::{Column, Columns, RESULT_COLUMNS, RESULT_ROW};
pub use csv_line::split as csv_cells;
pub use whole::{CURRENCIES_MAX, Contents, Doubt, Total, Whole};

use self::lines::Lines;
use crate::content::ContentDigest;
use crate::{Defaults, Record};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated, with a header in the first line.
    Csv,
    /// One JSON object a line.
    Jsonl,
}

impl Format {
    /// What the extension of a name says.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
            _ => None,
        }
    }
}

/// Why a file can't be used. Nothing was written because of it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// What is in it is wrong, or there is none.
    #[error("{0}")]
    Bad(String),
    /// It can't be read any more.
    #[error("{0}")]
    Unreadable(String),
}

impl FileError {
    fn unreadable(name: &str, error: &std::io::Error) -> FileError {
        FileError::Unreadable(format!("{name}: {error}"))
    }
}

/// Which fields a kind of row has.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// The field that must not stand twice in a file.
    pub key: &'static str,
    /// The columns that a CSV file may have.
    pub columns: &'static [&'static str],
    /// The columns that it must have.
    pub required: &'static [&'static str],
    /// The fields that a JSON object may have.
    pub fields: &'static [&'static str],
}

/// The fields of a transfer.
pub const TRANSFERS: Schema = Schema {
    key: "id",
    columns: &[
        "id",
        "source",
        "destination",
        "value",
        "currency",
        "hold",
        "holdExpiresAt",
        "notBefore",
        "expiresAt",
        "exclusiveKey",
    ],
    required: &["source", "destination", "value"],
    fields: crate::TRANSFER,
};

/// The fields of an account.
pub const ACCOUNTS: Schema = Schema {
    key: "account",
    columns: crate::ACCOUNT,
    required: &["account", "balance"],
    fields: crate::ACCOUNT,
};

/// The fields of a capture of a hold.
pub const CAPTURES: Schema =
    Schema { key: "id", columns: &["id", "value"], required: &["id"], fields: crate::HOLD };

/// A file that can be read again from its start, even after its name is gone.
#[derive(Debug)]
pub struct Input {
    file: File,
    name: String,
    format: Format,
    schema: Schema,
    columns: Columns,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// When it can't be read, or spooled, or what is said of its columns makes no sense.
    pub fn open(
        path: &str,
        format: Option<Format>,
        schema: Schema,
        columns: Columns,
    ) -> Result<Input, FileError> {
        columns.check(schema).map_err(FileError::Bad)?;
        let name = if path == "-" { "stdin" } else { path }.to_owned();
        let bad = |error| FileError::Bad(format!("{name}: {error}"));
        let mut file = if path == "-" {
            spool(&mut std::io::stdin().lock()).map_err(bad)?
        } else {
            let mut file = File::open(path).map_err(bad)?;
            let metadata = file.metadata().map_err(bad)?;
            if metadata.is_dir() {
                return Err(FileError::Bad(format!("{name} is a directory; name a file")));
            }
            // A pipe can be read only once.
            if metadata.is_file() { file } else { spool(&mut file).map_err(bad)? }
        };
        let format = match format.or_else(|| Format::of_name(Path::new(path))) {
            Some(format) => format,
            None => by_content(&mut file).map_err(bad)?,
        };
        Ok(Input { file, name, format, schema, columns })
    }

    /// The name to show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads from the start. One reading at a time: all share one position.
    ///
    /// # Errors
    /// When it can't be read, or its header is wrong.
    pub fn rows(&self) -> Result<Rows, FileError> {
        let mut file =
            self.file.try_clone().map_err(|error| FileError::unreadable(&self.name, &error))?;
        file.rewind().map_err(|error| FileError::unreadable(&self.name, &error))?;
        let mut rows = Rows {
            lines: Lines::new(BufReader::with_capacity(1 << 16, file)),
            name: self.name.clone(),
            header: None,
            schema: self.schema,
            columns: self.columns.clone(),
            unfinished: None,
        };
        if self.format == Format::Csv {
            rows.header = Some(rows.read_header()?);
        }
        Ok(rows)
    }
}

/// A row that asks for a transfer.
///
/// # Errors
/// Names the field.
pub fn parse_transfer(record: Record, defaults: &Defaults) -> Result<Parsed<Body>, String> {
    let transfer = crate::parse_transfer(record, defaults).map_err(|flaw| flaw.to_string())?;
    let identity = match transfer.id {
        Some(id) => Identity::Key(id),
        None => Identity::Content(ContentDigest::of(&transfer.body)?),
    };
    Ok(Parsed { identity, value: transfer.body })
}

/// A row that describes an account.
///
/// # Errors
/// Names the field.
pub fn parse_account(record: Record, notation: &Notation) -> Result<Parsed<Account>, String> {
    let account = crate::parse_account(record, notation).map_err(|flaw| flaw.to_string())?;
    Ok(Parsed { identity: Identity::Key(account.id.to_string()), value: account })
}

/// A row that confirms a hold. `has_value` says that the file has a column for the amount. Then an
/// empty cell is refused, and so is a `null`: by mistake of whoever made the file, all would be
/// captured.
///
/// # Errors
/// Names the field.
pub fn parse_hold(
    record: Record,
    has_value: bool,
    notation: &Notation,
) -> Result<Parsed<(TransactionId, Capture)>, String> {
    let (id, capture) = crate::parse_hold(record, has_value, notation)?;
    Ok(Parsed { identity: Identity::Key(id.to_string()), value: (id, capture) })
}

/// Copies a stream to a file without a name, so that nothing is left behind whatever happens.
fn spool(source: &mut dyn Read) -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("tandem-{}", uuid::Uuid::new_v4()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    std::io::copy(source, &mut file)?;
    Ok(file)
}

fn by_content(file: &mut File) -> std::io::Result<Format> {
    let mut start = Vec::new();
    file.rewind()?;
    file.take(1 << 12).read_to_end(&mut start)?;
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&start);
    let other = |problem: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, problem);
    if start.starts_with(b"PK\x03\x04") {
        return Err(other("is a spreadsheet or an archive; export it as CSV"));
    }
    match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(Format::Jsonl),
        Some(b'[') => Err(other("is a JSON array; write each object on a line of its own")),
        _ => Ok(Format::Csv),
    }
}

/// A row and the line it stands on, from 1.
#[derive(Debug)]
pub struct Row {
    /// The line's number.
    pub line: u32,
    /// Its length in bytes.
    pub bytes: usize,
    /// As it stands there, if it is text.
    pub text: String,
    /// Its fields, or why it has none.
    pub record: Result<Record, String>,
}

/// The first line of a CSV file.
#[derive(Clone, Debug)]
pub struct Header {
    /// The names as they stand there.
    pub names: Vec<String>,
    /// What each column is for.
    pub columns: Vec<Column>,
}

/// The rows of a file, in order.
pub struct Rows {
    lines: Lines<BufReader<File>>,
    name: String,
    header: Option<Header>,
    schema: Schema,
    columns: Columns,
    /// The last row, if its line has no end and its last cell may be cut.
    unfinished: Option<u32>,
}

impl Rows {
    fn read_header(&mut self) -> Result<Header, FileError> {
        let bad = |line, problem| FileError::Bad(format!("{}:{line}: {problem}", self.name));
        let first =
            self.lines.next_line().map_err(|error| FileError::unreadable(&self.name, &error))?;
        let first = first.ok_or_else(|| {
            let columns = self.schema.columns.join(",");
            FileError::Bad(format!(
                "{}: is empty; the first line must name its columns, like {columns}",
                self.name
            ))
        })?;
        let text = first.text.map_err(|problem| bad(first.number, problem))?;
        if text.trim().eq_ignore_ascii_case("sep=,") {
            // A spreadsheet says so of its separator, in front of the names.
            return self.read_header();
        }
        if text.contains('\r') {
            let problem =
                "its lines end with a carriage return alone; save the file with line feeds";
            return Err(bad(first.number, problem.to_owned()));
        }
        let names = csv_line::split(&text).map_err(|problem| bad(first.number, problem))?;
        let columns = self.columns.of_header(&names, self.schema);
        let columns = columns.map_err(|problem| bad(first.number, problem))?;
        Ok(Header { names, columns })
    }

    /// Whether it is a CSV file with this field.
    #[must_use]
    pub fn has_column(&self, name: &str) -> bool {
        let is = |column: &Column| matches!(column, Column::Field(field) if field == name);
        self.header.iter().any(|header| header.columns.iter().any(is))
    }

    /// The first line, if it is a CSV file.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The next row. A row of a CSV file whose cells are all empty is none: spreadsheets write them
    /// behind the last one.
    ///
    /// # Errors
    /// When the file can't be read. A bad row is a row.
    pub fn next_row(&mut self) -> Result<Option<Row>, FileError> {
        loop {
            let line = self
                .lines
                .next_line()
                .map_err(|error| FileError::unreadable(&self.name, &error))?;
            let Some(line) = line else { return Ok(None) };
            let (text, problem) = match line.text {
                Ok(text) => (text, None),
                Err(problem) => (String::new(), Some(problem)),
            };
            self.unfinished = None;
            let record = match (problem, &self.header) {
                (Some(problem), _) => Err(problem),
                (None, None) => self.json(&text),
                (None, Some(header)) => match csv_line::split(&text) {
                    Ok(cells) if cells.iter().all(String::is_empty) => continue,
                    Ok(cells) => {
                        // A quote that is closed is the end of the cell.
                        let may_be_cut = !self.lines.has_end() && !text.trim_end().ends_with('"');
                        self.unfinished = may_be_cut.then_some(line.number);
                        Record::from_cells(&header.columns, cells).map_err(|flaw| flaw.to_string())
                    }
                    Err(problem) => Err(problem),
                },
            };
            return Ok(Some(Row { line: line.number, bytes: text.len(), text, record }));
        }
    }

    fn json(&self, text: &str) -> Result<Record, String> {
        let record = Record::from_json_line(text, self.schema.fields, &self.columns);
        record.map_err(|flaw| flaw.to_string())
    }

    /// The last row that was read, if it may have been cut within its line. An object of JSON is
    /// closed, so it was not.
    pub(crate) fn unfinished(&self) -> Option<u32> {
        self.unfinished
    }

    /// The digest of everything read so far.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.lines.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_captures_names_its_amount_or_none_does() {
        let read = |line: &str| {
            let record = Record::from_json(line, CAPTURES.fields)?;
            parse_hold(record, false, &Notation::default()).map(|parsed| parsed.value)
        };
        let all = read(r#"{"id":"t"}"#).expect("all of it");
        assert_eq!(all, ("t".into(), Capture::All));
        let (_, part) = read(r#"{"id":"t","value":"250"}"#).expect("a part");
        assert!(matches!(part, Capture::Value(_)), "{part:?}");
        for (line, expected) in [
            (r#"{"value":1}"#, "id: is missing"),
            (r#"{"id":""}"#, "id: is empty"),
            (r#"{"id":"t","value":null}"#, "value: is empty"),
            (r#"{"id":"t","captured":null}"#, "captured: is empty"),
            (r#"{"id":"t","value":1,"captured":[]}"#, "value: stands beside captured"),
            (r#"{"id":"t","amount":1}"#, "amount: unknown field"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.starts_with(expected), "{line}: {error:?} should say {expected:?}");
        }
        let header = ["id", "value"].map(|name| Column::Field(name.to_owned()));
        let cells = vec!["t".to_owned(), String::new()];
        let record = Record::from_cells(&header, cells).expect("two cells");
        let error = parse_hold(record, true, &Notation::default()).expect_err("no amount");
        assert!(error.starts_with("value: is empty"), "{error}");
    }
}
