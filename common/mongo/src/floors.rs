//! The change of an account's floor that an operator asks for, while workers post on the account.
//!
//! Promises one guarded update. It compares the balance with the new floor in the step that writes
//! it, so no account is below its floor at any moment: a posting comes before it and is counted, or
//! after it and meets the new floor. What pending debits have taken is out of the balance already,
//! and nothing but a posting makes a balance smaller. The same update again changes nothing. The
//! present floor is not looked at, so one that can't be read is put right. Fails with an error of
//! the command.

use ledger::account::{FLOOR_CHANGE, Status};
use ledger::amount::Amount;
use ledger::{LedgerError, Written};
use mongodb::bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::Store;
use super::names::ACCOUNTS;
use super::numbers::{self, holdings, is};
use super::read::cstr;
use super::write::{Counts, each_alone};

/// The floor that an account is to have.
#[derive(Clone, Debug, PartialEq)]
pub struct FloorChange {
    /// The lowest balance that a debit may leave, of the kind of the balance; none is unlimited.
    pub floor: Option<Amount>,
    /// The currency of the account, in which the floor is told.
    pub currency: Option<String>,
    /// Why; the account keeps it.
    pub reason: Option<String>,
    /// Who says so; the account keeps it.
    pub by: Option<String>,
}

impl Store {
    /// Gives an account this floor, if it is not closed, has this currency and kind of amounts, and
    /// its balance is not below the floor. The answer counts 1 if the floor is another one now; if
    /// not, the document shows why.
    ///
    /// # Errors
    /// When the server is away, or refuses the command; the floor may be changed.
    pub async fn request_floor(
        &self,
        id: &str,
        change: &FloorChange,
    ) -> Result<Written, LedgerError> {
        let (statement, alone) = ([statement(id, change)], each_alone(0..1));
        let one = |group: &[&RawDocumentBuf]| group[0].clone();
        self.write("floor", ACCOUNTS, &statement, alone, Counts::Modified, one).await
    }
}

fn statement(id: &str, change: &FloorChange) -> RawDocumentBuf {
    let open = [Status::Open, Status::Frozen].map(Status::as_str);
    let open: RawArrayBuf = open.into_iter().collect();
    let currency = change.currency.as_deref().map_or(RawBson::Null, RawBson::from);
    let mut guard: RawArrayBuf = [
        // First: of an account whose money can't be read there is nothing to compare with.
        rawdoc! { "$eq": ["$$read._id", { "$literal": id }] },
        rawdoc! { "$in": [{ "$ifNull": ["$status", Status::Open.as_str()] }, open] },
        rawdoc! { "$eq": [{ "$ifNull": ["$currency", null] }, { "$literal": currency }] },
        rawdoc! { "$not": [has(change.floor)] },
    ]
    .into_iter()
    .collect();
    if let Some(floor) = change.floor {
        guard.push(rawdoc! { "$eq": [is("$balance", "decimal"), !floor.is_int()] });
        guard.push(rawdoc! { "$gte": ["$$read.balance", floor] });
    }
    let mut note = rawdoc! { "at": "$$NOW", "from": numbers::floor() };
    for (name, text) in [("reason", &change.reason), ("by", &change.by)] {
        if let Some(text) = text {
            note.append(cstr(name), rawdoc! { "$literal": text.as_str() });
        }
    }
    let mut changed = rawdoc! { "floor": floor_of(change) };
    changed.append(cstr(FLOOR_CHANGE), note);
    let changed = rawdoc! { "$mergeObjects": ["$$ROOT", changed] };
    rawdoc! {
        "q": { "_id": id },
        "u": [{ "$replaceWith": { "$let": {
            "vars": { "read": holdings() },
            "in": { "$cond": [{ "$and": guard }, changed, "$$ROOT"] },
        } } }],
    }
}

fn floor_of(change: &FloorChange) -> RawBson {
    change.floor.map_or(RawBson::Null, RawBson::from)
}

/// Whether the account has this floor already. Numbers are equal by their value, whatever their
/// type.
fn has(floor: Option<Amount>) -> RawDocumentBuf {
    match floor {
        Some(floor) => rawdoc! { "$eq": [numbers::floor(), floor] },
        None => rawdoc! { "$eq": [{ "$type": numbers::floor() }, "null"] },
    }
}

#[cfg(test)]
mod tests {
    use layout::{KeptOnce, Layout};
    use mongodb::bson::{Bson, Document};

    use super::*;

    fn change(floor: Option<Amount>) -> FloorChange {
        FloorChange { floor, currency: None, reason: Some("$why".to_owned()), by: None }
    }

    fn read(raw: &RawDocumentBuf) -> Document {
        Document::try_from(raw).expect("it is BSON")
    }

    fn stage(statement: &Document) -> Document {
        let stages = statement.get_array("u").expect("a pipeline");
        let last = stages.last().and_then(Bson::as_document).expect("a stage");
        let made = last.get_document("$replaceWith").expect("it replaces");
        made.get_document("$let").expect("it has variables").clone()
    }

    #[test]
    fn a_floor_is_compared_with_the_balance_in_the_step_that_writes_it_and_none_with_nothing() {
        let guards = |floor| stage(&read(&statement("$a", &change(floor)))).to_string();
        let limited = guards(Some(Amount::Int(7)));
        assert!(limited.contains(r#""$gte": ["$$read.balance", 7]"#), "{limited}");
        assert!(limited.contains(r#"{ "$literal": "$a" }"#), "{limited}");
        assert!(limited.contains(r#""reason": { "$literal": "$why" }"#), "{limited}");
        let unlimited = guards(None);
        assert!(!unlimited.contains("$gte\": [\"$$read.balance"), "{unlimited}");
        assert!(unlimited.contains(r#""floor": null"#), "{unlimited}");
    }

    #[test]
    fn in_documents_of_others_the_floor_is_written_where_they_keep_it() {
        let layout = "[accounts]\ncollection = \"users\"\n\
            fields = { balance = \"wallet.sum\", floor = \"wallet.least\" }";
        let layout = Layout::from_toml(layout).expect("a schema");
        let command = rawdoc! {
            "update": "accounts", "updates": [statement("a", &change(Some(Amount::Int(7))))],
        };
        let sent = layout.command(&command, KeptOnce::ByValidator).expect("it is BSON").sent;
        let sent = read(&sent);
        let update = sent.get_array("updates").expect("updates")[0].as_document().expect("one");
        let told = stage(update).to_string();
        for expected in [r#""least": 7"#, r#""$$read.wallet.sum", 7"#, r#""floorChange": {"#] {
            assert!(told.contains(expected), "{expected} is not in {told}");
        }
        assert!(!told.contains(r#""floor""#), "{told}");
    }
}
