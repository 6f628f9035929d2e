//! `--check`: what a file would do, as far as file and database show it at this moment.
//!
//! Promises that nothing is written, and that what would refuse the file is told as the submission
//! would tell it. What is said of accounts is a look at one moment: workers go on meanwhile. Memory
//! is bounded: some hundred bytes for each of at most a million accounts. Fails when the file can't
//! be read, or a server stays away.

mod accounts;

use std::collections::BTreeMap;
use std::fmt;

use client::Order;
use input::files::{Checked, Total};
use ledger::amount::Amount;
use ledger::notation::{Form, Notation};
use ledger::transaction::format_nanos;
use serde::Serialize;

use self::accounts::{Accounts, Findings};
use super::rows::Transfers;
use super::{SubmitArgs, known};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::files::{require_expected, require_sound, require_valid};

/// What a file would do.
#[derive(Debug, Serialize)]
pub struct Preview {
    /// The file.
    file: String,
    /// Its rows.
    rows: u64,
    /// How many of them are invalid; the first ones were named.
    invalid: u64,
    /// What the valid rows move, by currency; those without one are under an empty name.
    totals: BTreeMap<String, Sum>,
    /// Why it would be refused, as a submission would say it.
    refused: Vec<String>,
    /// The batch from which the ids of rows without an id would be made, if there are such rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    /// The transactions of its rows that there are already, by state.
    known: BTreeMap<&'static str, u64>,
    /// Rows whose ids other transactions have.
    conflicts: u64,
    /// What the accounts of the other rows lack.
    accounts: Findings,
}

/// What the rows of a currency move.
#[derive(Debug, Serialize)]
struct Sum {
    rows: u64,
    sum: String,
    smallest: String,
    largest: String,
    /// The sum as a person reads it: with the places of its currency.
    shown: String,
}

impl Preview {
    /// 2 if the file would be refused, 1 if some of its rows would be, as things stand.
    pub fn exit(&self) -> Exit {
        match (self.refused.is_empty(), self.accounts.is_empty() && self.conflicts == 0) {
            (false, _) => Exit::BadInput,
            (true, false) => Exit::Failed,
            (true, true) => Exit::Ok,
        }
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers always serialize")
    }
}

/// Looks at a file, and writes nothing.
///
/// # Errors
/// When it can't be read, or a server stays away.
pub async fn preview(context: &Context, args: &SubmitArgs) -> Result<Preview, Error> {
    let transfers = Transfers::open(context, args).await?;
    context.client.check_schema().await?;
    let mut refused = Vec::new();
    let checked = transfers.checked();
    refused.extend(require_valid(checked, args.reading.skip_invalid, &context.console).err());
    refused.extend(require_sound(checked, &args.reading, &context.console).err());
    refused.extend(require_expected(checked, &args.reading, transfers.rules().notation()).err());
    refused.extend(known::refusal(context, &transfers, args).await?);
    let Looked { known, conflicts, accounts } = look(context, &transfers).await?;
    Ok(Preview {
        file: transfers.name().to_owned(),
        rows: checked.rows,
        invalid: checked.invalid,
        totals: totals(checked, transfers.rules().notation()),
        refused: refused.iter().map(ToString::to_string).collect(),
        batch: transfers.batch().map(ToString::to_string),
        known,
        conflicts,
        accounts,
    })
}

fn totals(checked: &Checked, notation: &Notation) -> BTreeMap<String, Sum> {
    let sum = |(currency, total): (&String, &Total)| {
        let known = Some(currency.as_str()).filter(|currency| !currency.is_empty());
        let sum = format_nanos(total.nanos);
        let amount = Amount::from_nanos(total.nanos, notation.form == Form::MinorUnits);
        let shown = amount.map_or_else(|| sum.clone(), |amount| notation.shown(amount, known));
        let (smallest, largest) = (total.smallest.to_string(), total.largest.to_string());
        (currency.clone(), Sum { rows: total.rows, sum, smallest, largest, shown })
    };
    checked.whole.totals().iter().map(sum).collect()
}

/// What the database says of the valid rows.
struct Looked {
    known: BTreeMap<&'static str, u64>,
    conflicts: u64,
    accounts: Findings,
}

/// Asks the database about the valid rows.
async fn look(context: &Context, transfers: &Transfers) -> Result<Looked, Error> {
    let progress = context.console.progress("looking", Some(transfers.checked().rows));
    let (mut known, mut conflicts) = (BTreeMap::new(), 0);
    let mut accounts = Accounts::default();
    let mut orders = transfers.orders()?;
    let mut looked = 0;
    while let Some(chunk) = orders.chunk()? {
        looked += chunk.len() as u64;
        let chunk: Vec<Order> = chunk.into_iter().map(|placed| placed.order).collect();
        let found = context.client.known(&chunk).await?;
        for (order, found) in chunk.iter().zip(found) {
            match found {
                Some(Ok(state)) => *known.entry(state.as_str()).or_default() += 1,
                Some(Err(_)) => conflicts += 1,
                None => accounts.add(&order.body),
            }
        }
        progress.at(looked, "");
    }
    drop(progress);
    Ok(Looked { known, conflicts, accounts: accounts.look(context).await? })
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} rows, {} of them invalid", self.file, self.rows, self.invalid)?;
        for (currency, sum) in &self.totals {
            let Sum { rows, sum, smallest, largest, shown } = sum;
            let currency = if currency.is_empty() { "no currency" } else { currency };
            write!(f, "\n{currency}: {sum} in {rows} rows, from {smallest} to {largest}")?;
            if shown != sum {
                write!(f, "; {shown} together")?;
            }
        }
        if let Some(batch) = &self.batch {
            write!(f, "\nbatch: {batch}")?;
        }
        for (state, count) in &self.known {
            write!(f, "\nknown already and {state}: {count}")?;
        }
        if self.conflicts > 0 {
            write!(f, "\nids that other transactions have: {}", self.conflicts)?;
        }
        write!(f, "{}", self.accounts)?;
        for refused in &self.refused {
            write!(f, "\nwould be refused: {refused}")?;
        }
        write!(f, "\nnothing was written")
    }
}

/// The first names, and how many more there are.
fn shortened(names: &[String], count: u64) -> String {
    let shown = names.join(", ");
    match count.saturating_sub(names.len() as u64) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
