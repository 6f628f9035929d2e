//! `accounts set-floor`: gives an account another floor, and says whether it was so already.
//!
//! One guarded update decides, so the balance is not below the floor that is written, whatever
//! workers post meanwhile.

use std::io::Write;

use clap::Args;
use client::{ActEnd, ActSubject, Error as E, FloorSet, NewFloor, SubjectKind};
use input::files::Column;
use input::{FLOOR, Record, parse_floor};
use ledger::json;
use ledger::remedy::Remedy;

use super::no_such_account;
use crate::acting::{Acting, why};
use crate::advice::Todo;
use crate::context::Context;
use crate::exit::{Error, Exit};

pub(super) const HELP: &str = "\
The account keeps when its floor was changed, from what, why and by whom, and `accounts show --json`
shows it. A floor above what the account has now is refused with the highest one that it takes. What
transactions in flight and holds have taken is out of the balance already.

Examples:
  producer accounts set-floor alice -50000 --reason 'credit line until May'
  producer accounts set-floor world none
  producer accounts set-floor alice -500.00 --currency EUR";

/// Which floor to set.
#[derive(Args, Clone, Debug)]
pub struct SetFloorArgs {
    /// The name of the account
    pub id: String,
    /// The lowest balance that a debit may leave, or `none`
    #[arg(allow_negative_numbers = true)]
    pub floor: String,
    /// The currency that the account must have
    #[arg(long)]
    pub currency: Option<String>,
    /// Why; the account keeps it
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: Option<String>,
    /// Who says so; the account keeps it [default: the name of the user]
    #[arg(long, value_name = "NAME", env = "USER")]
    pub by: Option<String>,
}

pub(super) async fn run(
    context: &Context,
    args: &SetFloorArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let id = &args.id;
    let wanted = wanted(context, args)?;
    context.advice.set(Todo::with(
        "run the same command again: an account that has this floor already is left as it is. What \
         it has now is shown by",
        Remedy::ShowAccount(id).command(),
    ));
    let acting = Acting {
        what: "account.floor",
        on: ActSubject::of(SubjectKind::Account, [id.as_str()]),
        reason: args.reason.as_deref(),
    };
    let ended = |set: &FloorSet| ActEnd::ok(told(set));
    match context.act(acting, context.client.set_floor(id, &wanted), ended).await {
        Ok(set) => {
            writeln!(out, "{id}: {}", told(&set)).map_err(Error::output)?;
            Ok(Exit::Ok)
        }
        Err(E::NotFound { .. }) => {
            context.console.note(no_such_account(context, id).await);
            Ok(Exit::Failed)
        }
        Err(error) => Err(error.into()),
    }
}

/// How the account stands now.
fn told(set: &FloorSet) -> String {
    let floor = set.floor.map_or("none".to_owned(), json::amount);
    let already = if set.known { ", as it was already" } else { "" };
    format!("floor {floor}{already}")
}

fn wanted(context: &Context, args: &SetFloorArgs) -> Result<NewFloor, Error> {
    let SetFloorArgs { floor, currency, reason, by, .. } = args;
    let header: Vec<Column> = FLOOR.iter().map(|name| Column::Field((*name).to_owned())).collect();
    // An empty cell is no field.
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_default();
    let cells = vec![floor.clone(), or_nothing(currency), or_nothing(reason)];
    let wanted = Record::from_cells(&header, cells)
        .and_then(|record| parse_floor(record, &context.client.store().notation()))
        .map_err(|flaw| Error::BadInput(flaw.to_string()))?;
    Ok(NewFloor { by: by.clone().filter(|by| !by.is_empty()), ..wanted })
}
