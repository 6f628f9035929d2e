//! What must hold of a file of transfers or accounts, whatever its format.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fuzz::Verdict;
use fuzz::judge::{self, Memory, told, within};
use fuzz::transfers::notation;
use input::files::{
    ACCOUNTS, Checked, Columns, Contents, Format, Identity, Input, Parsed, Schema, TRANSFERS,
    check, parse_account, parse_transfer,
};
use input::{Defaults, Record};

/// A file is read in pieces. A value of JSON takes at least two bytes, and some hundred as
/// metadata.
const MEMORY: Memory = Memory { base: 1 << 20, per_byte: 192 };

/// Reads a file as `producer submit` and `producer accounts import` do, in both of their passes.
pub fn judge(format: Format, input: &[u8]) -> Result<Verdict, String> {
    let is_about_accounts = input.windows(7).any(|word| word == b"balance");
    let file = Temporary::new(input);
    let notation = notation(input);
    let defaults = Defaults { notation: notation.clone().into(), ..Defaults::default() };
    match is_about_accounts {
        true => {
            let account = |record| parse_account(record, &notation);
            rows(format, ACCOUNTS, input, &file, account, judge::account)
        }
        false => {
            let transfer = |record| parse_transfer(record, &defaults);
            rows(format, TRANSFERS, input, &file, transfer, judge::body)
        }
    }
}

fn rows<T: Contents>(
    format: Format,
    schema: Schema,
    input: &[u8],
    file: &Temporary,
    parse: impl Fn(Record) -> Result<Parsed<T>, String>,
    is_good: fn(&T) -> Result<(), String>,
) -> Result<Verdict, String> {
    let path = file.0.to_str().expect("UTF-8");
    let opened = Input::open(path, Some(format), schema, Columns::default());
    let opened = opened.map_err(|error| error.to_string())?;
    let checked = within(MEMORY, input, || check(&opened, |_| (), &parse))?;
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => {
            let (first, whole) = (format!("{path}:"), error.to_string());
            return told(&whole, &[&first]).map(|()| Verdict::REFUSED);
        }
    };
    let lines = input.split(|byte| *byte == b'\n').count();
    for problem in &checked.problems {
        let at = problem.line as usize;
        if !(1..=lines).contains(&at) {
            return Err(format!("line {at} of {lines} lines: {problem}"));
        }
    }
    let verdict = second_pass(&opened, &checked, parse, is_good)?;
    match verdict.refused == checked.invalid {
        true => Ok(verdict),
        false => Err(format!("{} rows were bad, and {} are now", checked.invalid, verdict.refused)),
    }
}

/// Goes through all rows again: what was good is good, and what was bad is bad for a reason.
fn second_pass<T>(
    opened: &Input,
    checked: &Checked,
    parse: impl Fn(Record) -> Result<Parsed<T>, String>,
    is_good: fn(&T) -> Result<(), String>,
) -> Result<Verdict, String> {
    let mut verdict = Verdict::default();
    let mut again = opened.rows().map_err(|error| error.to_string())?;
    let mut bad = checked.problems.iter();
    let mut keys = std::collections::BTreeSet::new();
    while let Some(row) = again.next_row().map_err(|error| error.to_string())? {
        let line = row.line;
        match checked.parse(row, &parse) {
            Ok(Parsed { identity, value }) => {
                is_good(&value)?;
                if let Identity::Key(key) = identity {
                    judge::name(&key)?;
                    if !keys.insert(key) {
                        return Err(format!("line {line} has an id that was there before"));
                    }
                }
                verdict.accepted += 1;
            }
            Err(problem) => {
                named(&problem)?;
                let noted = bad.next().is_none_or(|noted| noted.line == line);
                if !noted {
                    return Err(format!("line {line} was not bad in the first pass: {problem}"));
                }
                verdict.refused += 1;
            }
        }
    }
    match again.digest() == checked.digest {
        true => Ok(verdict),
        false => Err("the two passes have read other bytes".to_owned()),
    }
}

/// How a refusal of a row begins: with its field, or with what is wrong with the line as a whole.
const BEGINNINGS: [&str; 19] = [
    "id: ",
    "source: ",
    "destination: ",
    "value: ",
    "legs: ",
    "legs[",
    "account: ",
    "amount: ",
    "balance: ",
    "floor: ",
    "status: ",
    "currency: ",
    "metadata: ",
    "is not a JSON object: ",
    "is not UTF-8 ",
    "has ",
    "the line has ",
    "a quote is not closed on this line",
    "text follows a closing quote",
];

fn named(problem: &str) -> Result<(), String> {
    // A field that nobody knows may have any name.
    let any_name = [": unknown field", ": is given twice"];
    match any_name.iter().any(|ending| problem.contains(ending)) {
        true => told(problem, &[""]),
        false => told(problem, &BEGINNINGS),
    }
}

/// A file that is gone with its value.
struct Temporary(PathBuf);

impl Temporary {
    fn new(content: &[u8]) -> Temporary {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tandem-fuzz-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).expect("a temporary file can be written");
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
