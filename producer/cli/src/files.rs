//! Files on the command line: their formats as a flag, the first pass with its progress, and what
//! is wrong with their rows. `input::files` reads them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use input::Record;
use input::files::{Checked, FileError, Format, Input, Parsed};

use crate::console::Console;
use crate::exit::Error;

/// The values of `--format`.
pub fn format() -> impl TypedValueParser<Value = Format> {
    let values = [
        PossibleValue::new("csv").help("Comma-separated, with a header in the first line"),
        PossibleValue::new("jsonl").help("One JSON object a line"),
    ];
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "csv" => Format::Csv,
        _ => Format::Jsonl,
    })
}

/// Looks at every row, and shows how far it is.
///
/// # Errors
/// When the file can't be read. Bad rows are in the answer.
pub fn check<T>(
    input: &Input,
    console: &Console,
    parse: impl Fn(Record) -> Result<Parsed<T>, String>,
) -> Result<Checked, Error> {
    let progress = console.progress("checking", None);
    Ok(input::files::check(input, |rows| progress.at(rows, "rows"), parse)?)
}

/// Shows the problems of a file; an error unless bad rows are to be skipped.
///
/// # Errors
/// When there are bad rows and they are not to be skipped.
pub fn require_valid(
    checked: &Checked,
    skip_invalid: bool,
    console: &Console,
) -> Result<(), Error> {
    for problem in &checked.problems {
        console.note(problem.to_string());
    }
    let shown = checked.problems.len() as u64;
    if checked.invalid > shown {
        console.note(format!("… and {} more", checked.invalid - shown));
    }
    if checked.invalid == 0 || skip_invalid {
        return Ok(());
    }
    Err(Error::BadInput(format!(
        "{} of {} rows are invalid; nothing was written. Correct them, or leave them out with\n  \
         --skip-invalid",
        checked.invalid, checked.rows
    )))
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Error {
        match error {
            FileError::Bad(problem) => Error::BadInput(problem),
            FileError::Unreadable(problem) => Error::Failed(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use input::files::{Identity, TRANSFERS};

    use super::*;

    #[test]
    fn a_file_with_a_bad_row_is_refused_unless_bad_rows_are_skipped() {
        let path = std::env::temp_dir().join(format!("bad-row-{}.csv", std::process::id()));
        std::fs::write(&path, "source,destination,value\nx,y,1\nx,y,\n").expect("a file");
        let opened = Input::open(path.to_str().expect("UTF-8"), None, TRANSFERS);
        std::fs::remove_file(&path).expect("still there");
        let console = Console::quiet();
        let parse = |mut record: Record| {
            let value = record.required("value")?;
            Ok(Parsed { identity: Identity::Key(value.clone()), value })
        };
        let checked = check(&opened.expect("a file"), &console, parse).expect("readable");
        assert_eq!((checked.rows, checked.invalid), (2, 1));
        assert!(require_valid(&checked, false, &console).is_err());
        assert!(require_valid(&checked, true, &console).is_ok());
    }
}
