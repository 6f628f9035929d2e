//! `accounts freeze`, `unfreeze`, `close`: one guarded update each, then a look at what is there.

use std::io::Write;

use common::account::Status;
use common::mongo::Fields;
use mongodb::bson::{Document, doc};

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::json;

/// A change of status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `open` → `frozen`.
    Freeze,
    /// `frozen` → `open`.
    Unfreeze,
    /// `open` or `frozen` → `closed`, when nothing is left on it.
    Close,
}

impl Change {
    fn to(self) -> Status {
        match self {
            Change::Freeze => Status::Frozen,
            Change::Unfreeze => Status::Open,
            Change::Close => Status::Closed,
        }
    }

    /// What must hold in the moment of the change.
    fn guard(self, id: &str) -> Document {
        match self {
            Change::Freeze => doc! { "_id": id, "status": Status::Open.as_str() },
            Change::Unfreeze => doc! { "_id": id, "status": Status::Frozen.as_str() },
            Change::Close => doc! {
                "_id": id,
                "status": { "$in": [Status::Open.as_str(), Status::Frozen.as_str()] },
                "balance": 0,
                "pendingDebits": 0,
                "pendingCredits": 0,
                "pendingTransactions": [],
            },
        }
    }

    /// Why the guard does not hold for the account as it was found afterwards.
    fn refusal(self, found: &Document) -> String {
        let status = found.get_str("status").unwrap_or("unknown");
        if status == Status::Closed.as_str() {
            return "is closed, for good; create another account".to_owned();
        }
        let text = |field: &str| found.get(field).map_or("missing".into(), ToString::to_string);
        let marks = found.get_array("pendingTransactions").map_or(0, Vec::len);
        match self {
            Change::Freeze | Change::Unfreeze => format!("has the unknown status {status:?}"),
            Change::Close if marks > 0 => {
                format!("has {marks} transactions in flight; freeze it and try again later")
            }
            Change::Close => format!(
                "has a balance of {}; transfer it away before closing, and see audit if anything \
                 is still pending",
                text("balance")
            ),
        }
    }
}

pub(super) async fn run(
    context: &Context,
    change: Change,
    ids: &[String],
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(
        "run the same command again: an account that has the wanted status already is left as it is",
    );
    let mut exit = Exit::Ok;
    for id in ids {
        match change_status(context, change, id).await? {
            Ok(()) => {
                let status = change.to().as_str();
                writeln!(out, "{id}: {status}").map_err(Error::output)?;
            }
            Err(refusal) => {
                context.console.note(format!("{id}: {refusal}"));
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// Changes an account's status. One that has it already is left as it is.
///
/// # Errors
/// When the server stays away. The inner error says why the account refuses.
pub async fn change_status(
    context: &Context,
    change: Change,
    id: &str,
) -> Result<Result<(), String>, Error> {
    let to = change.to();
    let statement = || {
        let set = doc! { "$set": { "status": to.as_str() } };
        vec![doc! { "q": change.guard(id), "u": set }]
    };
    context.insist(|| context.store.change("status", "accounts", statement())).await?;
    let ids = [id];
    let fields = Fields::Only(&["status", "balance", "pendingTransactions"]);
    let found = || context.store.documents("status", "accounts", &ids, fields);
    let Some(found) = context.insist(found).await?.pop() else {
        return Ok(Err("no such account".to_owned()));
    };
    let found = json::readable(&found);
    if found.get_str("status").ok() == Some(to.as_str()) {
        return Ok(Ok(()));
    }
    Ok(Err(change.refusal(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_in_the_way() {
        let account = |status: &str, marks: Vec<&str>| {
            doc! { "status": status, "balance": 5_i64, "pendingTransactions": marks }
        };
        for (change, found, expected) in [
            (Change::Unfreeze, account("closed", vec![]), "is closed"),
            (Change::Freeze, account("closed", vec![]), "is closed"),
            (Change::Close, account("open", vec!["t"]), "1 transactions in flight"),
            (Change::Close, account("open", vec![]), "balance of 5"),
        ] {
            let refusal = change.refusal(&found);
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
