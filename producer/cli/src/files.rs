//! Files on the command line: their formats as a flag, the first pass with its progress, and what
//! is wrong with their rows. `input::files` reads them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use input::Record;
use input::files::{
    Checked, Columns, Contents, Doubt, FileError, Format, Input, Parsed, csv_cells,
};
use ledger::amount::Amount;
use ledger::notation::Notation;
use ledger::transaction::format_nanos;

use crate::console::Console;
use crate::exit::Error;

/// How a file is read, and what it has to be.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "reading", requires = "file", multiple = true)]
pub struct ReadArgs {
    /// The file's format; default: by its extension, else by its first character
    #[arg(long, value_parser = format())]
    pub format: Option<Format>,
    /// What columns of other names stand for, like id=Ref,value=Amount; a name with a comma in
    /// quotes, as in CSV
    #[arg(long, value_name = "FIELD=NAME,...", value_parser = all_named)]
    pub columns: Vec<AllNamed>,
    /// Columns that are passed over
    #[arg(long, value_name = "NAME,...", value_parser = names)]
    pub ignore_columns: Vec<Names>,
    /// Leave invalid rows out instead of refusing the file
    #[arg(long)]
    pub skip_invalid: bool,
    /// Refuse a file that does not have so many rows
    #[arg(long, value_name = "N")]
    pub expect_rows: Option<u64>,
    /// Refuse a file whose valid rows do not have this sum; AMOUNT alone for rows without currency
    #[arg(long, value_name = "CURRENCY=AMOUNT", value_parser = expected, allow_hyphen_values = true)]
    pub expect_total: Vec<Expected>,
    /// Take a file although this was found
    #[arg(long, value_enum, ignore_case = true, value_delimiter = ',', value_name = "WHAT")]
    pub allow: Vec<Allow>,
}

/// A field, and the name of its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    field: String,
    column: String,
}

/// What one `--columns` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllNamed(Vec<Named>);

/// Names of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// The sum that the rows of a currency have to have.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Empty for rows without one.
    currency: String,
    total: Amount,
}

/// What a file may have although it is doubtful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// Its rows without ids were submitted before, as another batch
    RepeatedContent,
    /// Amounts with a decimal point, which are left out, beside whole ones
    MixedAmounts,
    /// Ids or accounts like 1.23457E+15, or long numbers that all end with zeros
    RoundedIds,
    /// A last line without a line end
    UnfinishedLine,
}

impl Allow {
    /// What lets a doubtful file through.
    fn of(doubt: &Doubt) -> Allow {
        match doubt {
            Doubt::MixedAmounts { .. } => Allow::MixedAmounts,
            Doubt::RoundedIds { .. } => Allow::RoundedIds,
            Doubt::UnfinishedLine { .. } => Allow::UnfinishedLine,
        }
    }

    fn name(self) -> String {
        let value = self.to_possible_value().expect("no value is hidden");
        value.get_name().to_owned()
    }
}

fn named(text: &str) -> Result<Named, String> {
    match text.split_once('=') {
        Some((field, column)) if !field.is_empty() && !column.is_empty() => {
            Ok(Named { field: field.to_owned(), column: column.to_owned() })
        }
        _ => Err("must be a field and the name of its column, like id=Ref".to_owned()),
    }
}

fn all_named(text: &str) -> Result<AllNamed, String> {
    csv_cells(text)?.iter().map(|text| named(text)).collect::<Result<_, _>>().map(AllNamed)
}

/// Names that are separated by commas, each in quotes if it has one.
pub fn names(text: &str) -> Result<Names, String> {
    csv_cells(text).map(Names)
}

fn expected(text: &str) -> Result<Expected, String> {
    let (currency, total) = text.rsplit_once('=').unwrap_or(("", text));
    let total = Amount::parse(total).map_err(|error| error.to_string())?;
    Ok(Expected { currency: currency.to_owned(), total })
}

impl ReadArgs {
    /// What is said of the columns.
    #[must_use]
    pub fn columns(&self) -> Columns {
        let named = self.columns.iter().flat_map(|all| &all.0);
        let named = named.map(|it| (it.field.clone(), it.column.clone())).collect();
        let ignored = self.ignore_columns.iter().flat_map(|names| names.0.clone()).collect();
        Columns { named, ignored, metadata: Vec::new() }
    }

    /// What is not as it is expected to be.
    fn unexpected(&self, checked: &Checked, notation: &Notation) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(expected) = self.expect_rows.filter(|expected| *expected != checked.rows) {
            wrong.push(format!("the file has {} rows, not {expected}", checked.rows));
        }
        let totals = checked.whole.totals();
        for Expected { currency, total } in &self.expect_total {
            let found = totals.get(currency);
            let known = Some(currency.as_str()).filter(|currency| !currency.is_empty());
            if let Err(problem) = notation.read(&total.to_string(), known) {
                wrong.push(format!("--expect-total: {problem}"));
                continue;
            }
            if found.map_or(0, |found| found.nanos) == total.nanos() {
                continue;
            }
            let sum = found.map_or_else(|| "nothing".to_owned(), |it| format_nanos(it.nanos));
            let of = match currency.as_str() {
                "" => "of rows without a currency".to_owned(),
                currency => format!("of {currency}"),
            };
            wrong.push(format!("the sum {of} is {sum}, not {total}"));
        }
        wrong
    }
}

/// The values of `--format`.
fn format() -> impl TypedValueParser<Value = Format> {
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
pub fn check<T: Contents>(
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
    // The line that counts as minor units is named, too, since the bad one refuses the file already.
    let doubts = checked.whole.doubts();
    let mixed = doubts.iter().filter(|doubt| matches!(doubt, Doubt::MixedAmounts { .. }));
    mixed.for_each(|doubt| console.note(doubt.to_string()));
    Err(Error::BadInput(format!(
        "{} of {} rows are invalid; nothing was written. Correct them, or leave them out with\n  \
         --skip-invalid",
        checked.invalid, checked.rows
    )))
}

/// An error unless a file has the rows and the sums that are expected.
///
/// # Errors
/// When it has not.
pub fn require_expected(
    checked: &Checked,
    args: &ReadArgs,
    notation: &Notation,
) -> Result<(), Error> {
    let wrong = args.unexpected(checked, notation);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::BadInput(format!(
        "{}; no row was taken. Compare the file with the original, or correct what is expected",
        wrong.join(", and ")
    )))
}

/// Shows why a file may not be what its owner means; an error unless that is allowed.
///
/// # Errors
/// When it is doubtful, and that is not allowed.
pub fn require_sound(checked: &Checked, args: &ReadArgs, console: &Console) -> Result<(), Error> {
    let (allowed, refused): (Vec<Doubt>, Vec<Doubt>) = checked
        .whole
        .doubts()
        .into_iter()
        .partition(|doubt| args.allow.contains(&Allow::of(doubt)));
    allowed.iter().for_each(|doubt| console.note(doubt.to_string()));
    if refused.is_empty() {
        return Ok(());
    }
    let mut names: Vec<String> = refused.iter().map(|doubt| Allow::of(doubt).name()).collect();
    names.dedup();
    let doubts: Vec<String> = refused.iter().map(ToString::to_string).collect();
    Err(Error::BadInput(format!(
        "{}. Nothing was written; if the file is as it should be, say so with\n  --allow {}",
        doubts.join("; "),
        names.join(",")
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
    use input::Defaults;
    use input::files::TRANSFERS;
    use ledger::notation::Form;

    use super::*;

    fn checked(name: &str, content: &str) -> Checked {
        checked_in(Form::MinorUnits, name, content)
    }

    fn checked_in(form: Form, name: &str, content: &str) -> Checked {
        let path = std::env::temp_dir().join(format!("{name}-{}.csv", std::process::id()));
        std::fs::write(&path, content).expect("a file");
        let path_text = path.to_str().expect("UTF-8");
        let opened = Input::open(path_text, None, TRANSFERS, Columns::default());
        std::fs::remove_file(&path).expect("still there");
        let notation = Notation { form, ..Notation::default() };
        let defaults = Defaults { currency: None, notation: notation.into() };
        let parse = |record| input::files::parse_transfer(record, &defaults);
        check(&opened.expect("a file"), &Console::quiet(), parse).expect("readable")
    }

    #[test]
    fn a_file_with_a_bad_row_is_refused_unless_bad_rows_are_skipped() {
        let checked = checked("bad-row", "source,destination,value\nx,y,1\nx,y,\n");
        assert_eq!((checked.rows, checked.invalid), (2, 1));
        let console = Console::quiet();
        assert!(require_valid(&checked, false, &console).is_err());
        assert!(require_valid(&checked, true, &console).is_ok());
    }

    #[test]
    fn a_doubtful_file_is_refused_with_the_flag_that_lets_it_through() {
        let header = "id,source,destination,value,currency\n";
        for (name, rows, allow) in [
            ("mixed", "1,a,b,100,EUR\n2,a,b,99.50,EUR\n", Allow::MixedAmounts),
            ("rounded", "1.23457E+15,a,b,1,EUR\n", Allow::RoundedIds),
            ("rounded-name", "1,a,4.1E+21,1,EUR\n", Allow::RoundedIds),
            ("cut", "1,a,b,1,EUR\n2,a,b,12,EU", Allow::UnfinishedLine),
        ] {
            let checked = checked(name, &format!("{header}{rows}"));
            let sound = |args: &ReadArgs| require_sound(&checked, args, &Console::quiet());
            let error = sound(&ReadArgs::default()).expect_err(name).to_string();
            assert!(error.ends_with(&format!("--allow {}", allow.name())), "{error}");
            let other = ReadArgs { allow: vec![Allow::RepeatedContent], ..ReadArgs::default() };
            assert!(sound(&other).is_err(), "{name}");
            let allowed = ReadArgs { allow: vec![allow], ..ReadArgs::default() };
            assert!(sound(&allowed).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_file_is_refused_unless_it_has_the_rows_and_the_sums_that_are_expected() {
        let rows = "1,a,b,10.25,EUR\n2,a,b,0.75,EUR\n3,a,b,5,\n";
        let header = "id,source,destination,value,currency\n";
        let checked = checked_in(Form::Decimals, "sums", &format!("{header}{rows}"));
        let notation = Notation { form: Form::Decimals, ..Notation::default() };
        let sound = |rows: Option<u64>, totals: &[&str]| {
            let expect_total = totals.iter().map(|it| expected(it).expect(it)).collect();
            let args = ReadArgs { expect_rows: rows, expect_total, ..ReadArgs::default() };
            require_expected(&checked, &args, &notation).is_ok()
        };
        assert!(sound(Some(3), &["EUR=11", "5"]) && sound(None, &["EUR=11.00"]));
        for (rows, totals) in [
            (Some(2), &["EUR=11", "5"]),
            (None, &["EUR=11.25", "5"]),
            (None, &["EUR=11", "USD=1"]),
            (None, &["EUR=11.001", "5"]),
        ] {
            assert!(!sound(rows, totals), "{rows:?} {totals:?}");
        }
    }

    #[test]
    fn columns_and_sums_are_read_as_they_are_typed() {
        assert_eq!(named("id=Ref"), Ok(Named { field: "id".into(), column: "Ref".into() }));
        assert_eq!(named("id=a=b"), Ok(Named { field: "id".into(), column: "a=b".into() }));
        let all = all_named(r#"id=Ref,"value=Amount, net""#).expect("two");
        assert_eq!(all.0[1], Named { field: "value".into(), column: "Amount, net".into() });
        assert_eq!(names(r#"a,"b, c""#), Ok(Names(vec!["a".into(), "b, c".into()])));
        for wrong in ["id", "=Ref", "id="] {
            assert!(named(wrong).expect_err(wrong).contains("id=Ref"), "{wrong}");
        }
        let euros = expected("EUR=12.50").expect("a sum");
        assert_eq!((euros.currency.as_str(), euros.total.to_string()), ("EUR", "12.50".into()));
        assert_eq!(expected("7").expect("a sum").currency, "");
        assert!(expected("EUR=1e3").is_err());
    }
}
