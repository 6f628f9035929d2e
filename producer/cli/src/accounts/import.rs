//! `accounts import`: many accounts from a file, all checked before the first is written.

use std::fmt;

use client::{Account, ActEnd, ActSubject, Error as E, Opened, SubjectKind};
use input::Record;
use input::files::{ACCOUNTS, Input, Parsed, parse_account};

use super::{ImportArgs, REPEAT_OPENING};
use crate::acting::Acting;
use crate::context::Context;
use crate::exit::Error;
use crate::files::{check, require_expected, require_sound, require_valid};

/// Accounts of one insert.
const CHUNK: usize = 1_000;

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Rows of the file.
    pub rows: u64,
    /// New accounts.
    pub created: u64,
    /// Accounts that exist with the same opening content.
    pub unchanged: u64,
    /// Accounts that exist with other content; each was named.
    pub conflicts: u64,
    /// Rows left out.
    pub invalid: u64,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} accounts: {} created, {} unchanged, {} conflicts, {} invalid",
            self.rows, self.created, self.unchanged, self.conflicts, self.invalid
        )
    }
}

/// Imports a file. Running it again changes nothing.
///
/// # Errors
/// When the file is bad, or the server stays away. Conflicts are in the answer.
pub async fn import(context: &Context, args: &ImportArgs) -> Result<Imported, Error> {
    let rules = context.client.known_rules().await?;
    let notation = rules.notation();
    let parse = |record: Record| {
        let Parsed { identity, value } = parse_account(record, notation)?;
        let value = rules.fit_account(value).map_err(|error| error.to_string())?;
        Ok(Parsed { identity, value })
    };
    let reading = &args.reading;
    let input = Input::open(&args.file, reading.format, ACCOUNTS, reading.columns())?;
    let checked = check(&input, &context.console, parse)?;
    require_valid(&checked, reading.skip_invalid, &context.console)?;
    require_sound(&checked, reading, &context.console)?;
    require_expected(&checked, reading, notation)?;
    context.advice.set(REPEAT_OPENING);
    context.client.ensure_schema().await?;
    context.require_same(&rules)?;

    let progress = context.console.progress("accounts", Some(checked.rows));
    let mut imported =
        Imported { rows: checked.rows, invalid: checked.invalid, ..Imported::default() };
    let work = async {
        let mut rows = input.rows()?;
        let mut chunk: Vec<(u32, Account)> = Vec::with_capacity(CHUNK);
        while let Some(row) = rows.next_row()? {
            let line = row.line;
            if let Ok(parsed) = checked.parse(row, parse) {
                chunk.push((line, parsed.value));
            }
            if chunk.len() == CHUNK {
                write(context, &input, &mut chunk, &mut imported).await?;
                progress.at(imported.created + imported.unchanged, "");
            }
        }
        write(context, &input, &mut chunk, &mut imported).await?;
        Ok(imported)
    };
    let on = ActSubject::unnamed(SubjectKind::Account, Some(checked.rows));
    let acting = Acting { what: "account.import", on, reason: args.why.reason.as_deref() };
    let told = |imported: &Imported| ActEnd::ok(imported.to_string());
    context.act_in_steps(acting, work, told).await
}

async fn write(
    context: &Context,
    input: &Input,
    chunk: &mut Vec<(u32, Account)>,
    imported: &mut Imported,
) -> Result<(), Error> {
    let (lines, accounts): (Vec<u32>, Vec<Account>) = chunk.drain(..).unzip();
    if accounts.is_empty() {
        return Ok(());
    }
    let opened = context.client.create_accounts(&accounts).await?;
    for ((line, account), opened) in lines.iter().zip(&accounts).zip(opened) {
        match opened {
            Ok(Opened::Created) => imported.created += 1,
            Ok(Opened::Unchanged) => imported.unchanged += 1,
            Err(E::Conflict { problem, .. } | E::Refused { problem, .. }) => {
                imported.conflicts += 1;
                let (file, id) = (input.name(), &account.id);
                context.console.note(format!("{file}:{line}: account {id:?}: {problem}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
