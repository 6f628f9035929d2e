//! `confirm --file`: many holds from a file, all rows checked before the first is confirmed.
//!
//! Promises bounded memory, hundreds of holds with one command, that each row that can't be
//! confirmed is named with its line and the reason while the others go on, and that running the
//! same command again completes an interrupted one: what is confirmed already stays so. Fails when
//! MongoDB stays away; the broker may be away, since workers' sweepers find what is confirmed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use client::{ActEnd, ActSubject, Capture, Decided, Error as E, SubjectKind, TransactionId};
use input::Record;
use input::files::{CAPTURES, Checked, Input, parse_hold};
use serde::Serialize;

use crate::acting::{Acting, WhyArgs};
use crate::console::{Progress, per_second};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::files::{ReadArgs, check, require_expected, require_sound, require_valid};
use crate::follow::{self, Ends, Followed, Pending, WaitArgs};

/// Rows that are confirmed together.
const CHUNK_ROWS: usize = 500;
/// The most bytes of them, as read from the file.
const CHUNK_BYTES: usize = 4 << 20;

/// What became of a file of captures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows of the file.
    pub rows: u64,
    /// Holds that this command has confirmed.
    pub confirmed: u64,
    /// Holds that were confirmed before, with the same capture.
    pub unchanged: u64,
    /// Rows that can't be confirmed; each was named.
    pub refused: u64,
    /// Rows left out.
    pub invalid: u64,
    /// With `--wait`: how many of the confirmed and the unchanged are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// With `--wait`: how many of them are canceled, by reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canceled: Option<BTreeMap<String, u64>>,
    /// With `--wait`: how many were not final when the limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    /// With `--wait`: how many are gone from the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
    /// From start to end.
    pub seconds: f64,
}

/// Confirms the holds of a file and prints the summary.
///
/// # Errors
/// When the file is bad (then nothing was written), or MongoDB stays away (then a repetition goes
/// on).
pub async fn confirm_file(
    context: &Context,
    (file, why): (&str, &WhyArgs),
    args: &ReadArgs,
    (wait, as_json): (&WaitArgs, bool),
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let begun = Instant::now();
    let rules = context.client.known_rules().await?;
    let input = Input::open(file, args.format, CAPTURES, args.columns())?;
    let is_value = |(field, _): &(String, String)| field == "value";
    let has_value = input.rows()?.has_column("value") || args.columns().named.iter().any(is_value);
    let parse = |record: Record| parse_hold(record, has_value, rules.notation());
    if !args.expect_total.is_empty() && !has_value {
        let problem = "--expect-total needs a value in each row: what all of a hold is stands in the \
                       database";
        return Err(Error::BadInput(problem.to_owned()));
    }
    let checked = check(&input, &context.console, parse)?;
    require_valid(&checked, args.skip_invalid, &context.console)?;
    require_sound(&checked, args, &context.console)?;
    require_expected(&checked, args, rules.notation())?;
    context.advice.set(
        "run the same command on the same file: it goes on where this one stopped, and what is \
         confirmed already stays as it is",
    );
    context.client.ensure_schema().await?;
    context.require_same(&rules)?;
    let mut confirming = Confirming::new(context, &input, &checked, wait.wait);
    let work = async {
        let mut rows = input.rows()?;
        while let Some(row) = rows.next_row()? {
            let (line, bytes) = (row.line, row.bytes);
            if let Ok(parsed) = checked.parse(row, parse) {
                confirming.add(line, bytes, parsed.value).await?;
            }
        }
        confirming.flush().await?;
        Ok(confirming)
    };
    let on = ActSubject::unnamed(SubjectKind::Transaction, Some(checked.rows));
    let acting = Acting { what: "hold.confirm", on, reason: why.reason.as_deref() };
    let told = |confirming: &Confirming<'_>| confirming.summary.told();
    let confirming = context.act_in_steps(acting, work, told).await?;
    let Confirming { mut summary, pending, progress, .. } = confirming;
    drop(progress);
    if wait.wait {
        let ends = follow::follow(context, pending, wait.deadline()).await;
        summary.ended(ends.map_err(Error::after_a_write)?);
    }
    summary.took(begun.elapsed());
    match as_json {
        true => {
            let line = serde_json::to_string(&summary).expect("numbers always serialize");
            writeln!(out, "{line}")
        }
        false => writeln!(out, "{summary}"),
    }
    .map_err(Error::output)?;
    Ok(summary.exit())
}

/// A file that is being confirmed.
struct Confirming<'a> {
    context: &'a Context,
    input: &'a Input,
    chunk: Vec<(u32, (TransactionId, Capture))>,
    bytes: usize,
    progress: Progress<'a>,
    /// Whether the ids are to be followed to their ends.
    follows: bool,
    pending: Pending,
    /// Whether it was said that the broker is away.
    is_noted: bool,
    summary: Summary,
}

impl<'a> Confirming<'a> {
    fn new(
        context: &'a Context,
        input: &'a Input,
        checked: &Checked,
        follows: bool,
    ) -> Confirming<'a> {
        Confirming {
            context,
            input,
            chunk: Vec::with_capacity(CHUNK_ROWS),
            bytes: 0,
            progress: context.console.progress("confirmed", Some(checked.rows)),
            follows,
            pending: Pending::default(),
            is_noted: false,
            summary: Summary { rows: checked.rows, invalid: checked.invalid, ..Summary::default() },
        }
    }

    async fn add(
        &mut self,
        line: u32,
        bytes: usize,
        hold: (TransactionId, Capture),
    ) -> Result<(), Error> {
        self.chunk.push((line, hold));
        self.bytes += bytes;
        if self.chunk.len() == CHUNK_ROWS || self.bytes >= CHUNK_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Confirms what was read, and notes what became of each row.
    ///
    /// # Errors
    /// When MongoDB stays away; that is no fault of a row.
    async fn flush(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        let (lines, holds): (Vec<u32>, Vec<_>) = self.chunk.drain(..).unzip();
        let results = self.context.client.confirm_all(holds.iter().cloned()).await;
        for ((line, (id, _)), result) in lines.into_iter().zip(&holds).zip(results) {
            self.take_in(line, id, result)?;
        }
        let Summary { confirmed, unchanged, refused, .. } = self.summary;
        self.progress.at(confirmed + unchanged + refused, "");
        Ok(())
    }

    fn take_in(
        &mut self,
        line: u32,
        id: &TransactionId,
        result: Result<Decided, E>,
    ) -> Result<(), Error> {
        match result {
            Ok(decided) => {
                match decided.known {
                    true => self.summary.unchanged += 1,
                    false => self.summary.confirmed += 1,
                }
                if self.follows {
                    self.pending.push(id);
                }
                self.note_unpublished(decided.unpublished);
            }
            Err(error) => {
                let Some(problem) = problem(id, &error) else {
                    let is_first = self.summary.confirmed + self.summary.unchanged == 0;
                    // The rows before this one are confirmed.
                    let error = Error::from(error);
                    return Err(if is_first { error } else { error.after_a_write() });
                };
                self.summary.refused += 1;
                self.context.console.note(format!("{}:{line}: {problem}", self.input.name()));
            }
        }
        Ok(())
    }

    /// Says once that the broker is away.
    fn note_unpublished(&mut self, unpublished: Option<E>) {
        if let Some(error) = unpublished.filter(|_| !self.is_noted) {
            self.is_noted = true;
            let note =
                format!("{error}; what is confirmed counts all the same, and a sweeper finds it");
            self.context.console.note(note);
        }
    }
}

/// Why a hold can't be confirmed; none when a server is away, which is no fault of the row.
fn problem(id: &str, error: &E) -> Option<String> {
    match error {
        E::Invalid { .. } => Some(format!("{id}: {error}")),
        E::Captured { .. } | E::WrongState { .. } | E::NotFound { .. } | E::Refused { .. } => {
            Some(error.to_string())
        }
        E::Conflict { .. }
        | E::KeyInUse { .. }
        | E::WithoutKeys(_)
        | E::NoWorker { .. }
        | E::WithoutHistory
        | E::WithoutEvents
        | E::Unavailable { .. }
        | E::Denied { .. } => None,
    }
}

impl Summary {
    fn ended(&mut self, ends: Ends) {
        // What is confirmed never comes back to `held`; if somebody has written that, it has not
        // ended.
        self.unfinished = Some(ends.unfinished + ends.held);
        self.missing = Some(ends.missing);
        self.done = Some(ends.done);
        self.canceled = Some(ends.canceled);
    }

    /// What is noted of it.
    fn told(&self) -> ActEnd {
        let Summary { confirmed, unchanged, refused, .. } = self;
        let told = format!("{confirmed} confirmed, {unchanged} unchanged, {refused} refused");
        match (confirmed + unchanged, *refused) {
            (0, 1..) => ActEnd::refused(told),
            _ => ActEnd::ok(told),
        }
    }

    fn took(&mut self, elapsed: Duration) {
        self.seconds = (elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0;
    }

    /// The exit code, as that of `submit`: what was canceled is a result, what could not be
    /// confirmed is a failure.
    fn exit(&self) -> Exit {
        self.followed().exit(self.refused)
    }

    fn followed(&self) -> Followed<'_> {
        let Summary { done, unfinished, missing, .. } = *self;
        Followed { done, held: None, canceled: self.canceled.as_ref(), unfinished, missing }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { rows, confirmed, unchanged, refused, invalid, .. } = self;
        write!(
            f,
            "{rows} rows: {confirmed} confirmed, {unchanged} unchanged, {refused} refused, {invalid} \
             invalid"
        )?;
        write!(f, "{}", self.followed())?;
        let rate = per_second(*rows, Duration::from_secs_f64(self.seconds));
        write!(f, "\n{:.1} s, {rate:.0} rows/s", self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_confirmed_is_a_failure_and_what_was_canceled_is_a_result() {
        let canceled = Some(BTreeMap::from([("account_frozen".to_owned(), 1)]));
        let well = Summary { rows: 2, confirmed: 2, done: Some(1), canceled, ..Summary::default() };
        assert_eq!(well.exit(), Exit::Ok);
        let with = |change: fn(&mut Summary)| {
            let mut summary = well.clone();
            change(&mut summary);
            summary.exit()
        };
        assert_eq!(with(|s| s.unchanged = 2), Exit::Ok);
        assert_eq!(with(|s| s.invalid = 1), Exit::Ok);
        assert_eq!(with(|s| s.refused = 1), Exit::Failed);
        assert_eq!(with(|s| s.missing = Some(1)), Exit::Failed);
        assert_eq!(with(|s| s.unfinished = Some(1)), Exit::WaitLimit);
        assert!(well.to_string().contains("1 done, 1 canceled\n  account_frozen: 1\n"), "{well}");
    }

    #[test]
    fn a_server_that_is_away_is_no_fault_of_a_row() {
        let invalid = E::Invalid { field: "value".to_owned(), problem: "is 0".to_owned() };
        assert_eq!(problem("t", &invalid).as_deref(), Some("t: value: is 0"));
        let (server, after) = (client::Server::MongoDb, Duration::ZERO);
        let (problem, effect) = ("away".to_owned(), client::Effect::None);
        let away = E::Unavailable { server, problem, after, effect };
        assert_eq!(super::problem("t", &away), None);
    }
}
