//! What is taken away when a ledger is given up.
//!
//! Owns [`of_account`] and [`of_transaction`]. Promises that only what stands under Tandem's path is
//! removed, without what the owner's schema names there; that an account with marks or pending sums
//! stays as it is, and so does a transaction that is not final; and that the update compares
//! exactly that. Pure.

use ledger::transaction::State;
use mongodb::bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::account::PENDING;
use super::class::Class;
use super::looked::{Looked, Stored, id_of};
use super::number::{shown, value};
use super::plan::{Change, Plan, guard_against_flight, its_id, path, unchanged};
use super::shape::{Shape, at, cstr, present};

/// The fields of an account that are read, by Tandem's names.
pub(super) fn of_accounts() -> impl Iterator<Item = &'static str> {
    ["_id", "pendingTransactions", "openingBalance"].into_iter().chain(PENDING)
}

/// The same of a transaction.
pub(super) fn of_transactions() -> impl Iterator<Item = &'static str> {
    ["_id", "state", "createdAt"].into_iter()
}

/// Says what becomes of an account.
#[must_use]
pub fn of_account(stored: Stored<'_>, shape: Shape<'_>) -> (Looked, Plan) {
    let document = stored.document;
    let mut looked = Looked::new(id_of(document, shape));
    let is_empty = |marks: &RawBsonRef<'_>| {
        marks.as_array().is_some_and(|marks| marks.into_iter().next().is_none())
    };
    let is_zero = |sum: &RawBsonRef<'_>| value(*sum).is_some_and(|sum| sum.is_zero());
    let sums = PENDING.map(|name| (name, false));
    for (name, is_list) in [("pendingTransactions", true)].into_iter().chain(sums) {
        let path = shape.path(name);
        let pending = present(document, &path);
        let pending = pending.filter(|it| if is_list { !is_empty(it) } else { !is_zero(it) });
        if let Some(pending) = pending {
            looked.add(Class::InFlight, &path, shown(pending));
            return (looked, Plan::Left);
        }
    }
    (looked, removal(document, shape, |filter| guard_against_flight(filter, shape)))
}

/// Says what becomes of a transaction.
#[must_use]
pub fn of_transaction(stored: Stored<'_>, shape: Shape<'_>) -> (Looked, Plan) {
    let document = stored.document;
    let mut looked = Looked::new(id_of(document, shape));
    let (state, own) = (shape.path("state"), shape.own_path());
    if !matches!(at(document, own), Some(RawBsonRef::Document(_))) {
        return (looked, Plan::Done);
    }
    let read = shape.read(document).ok();
    let is_final = read.is_some_and(|read| {
        let word = read.get_str("state").ok();
        word.and_then(State::parse).is_some_and(State::is_final)
    });
    if let Some(word) = present(document, &state).filter(|_| !is_final) {
        looked.add(Class::InFlight, &state, shown(word));
        return (looked, Plan::Left);
    }
    let word = unchanged(at(document, &state));
    (looked, removal(document, shape, |filter| filter.append(path(shape, "state"), word)))
}

/// The update that removes what stands under Tandem's path, if there is anything.
fn removal(
    document: &RawDocument,
    shape: Shape<'_>,
    guard: impl FnOnce(&mut RawDocumentBuf),
) -> Plan {
    let own = shape.own_path();
    let Some(RawBsonRef::Document(found)) = at(document, own) else { return Plan::Done };
    let kept = shape.named_within();
    let names = found.iter_elements().flatten().map(|element| element.key().as_str());
    let (stay, gone): (Vec<&str>, Vec<&str>) = names.partition(|name| kept.contains(name));
    let gone: Vec<String> = match (stay.as_slice(), gone.as_slice()) {
        ([], _) => vec![own.to_owned()],
        (_, []) => return Plan::Done,
        (_, gone) => gone.iter().map(|name| format!("{own}.{name}")).collect(),
    };
    let Some(mut filter) = its_id(document) else { return Plan::Left };
    guard(&mut filter);
    let mut unset = RawDocumentBuf::new();
    for path in &gone {
        unset.append(cstr(path), "");
    }
    let statement = rawdoc! { "q": filter, "u": { "$unset": unset } };
    Plan::Write(Change { statement, repaired: Vec::new() })
}

#[cfg(test)]
mod tests {
    use layout::Layout;
    use mongodb::bson::{RawArrayBuf, RawBson};

    use super::*;

    const SCHEMA: &str = r#"
[accounts]
fields = { balance = "wallet.sum", floor = "tandem.floor" }
[transactions]
state = { done = ["paid"] }
"#;

    fn unset(plan: Plan) -> Vec<String> {
        let Plan::Write(change) = plan else { panic!("{plan:?} removes nothing") };
        let unset = change.statement.get_document("u").and_then(|u| u.get_document("$unset"));
        let unset = unset.expect("an update").iter_elements().flatten();
        unset.map(|element| element.key().as_str().to_owned()).collect()
    }

    fn account(document: &RawDocument) -> Plan {
        let layout = Layout::from_toml(SCHEMA).expect("it is good");
        let stored = Stored { document, bytes: 100, repeats: false };
        of_account(stored, Shape::new(Some(&layout.accounts))).1
    }

    fn transaction(document: &RawDocument) -> Plan {
        let layout = Layout::from_toml(SCHEMA).expect("it is good");
        let stored = Stored { document, bytes: 100, repeats: false };
        of_transaction(stored, Shape::new(Some(&layout.transactions))).1
    }

    #[test]
    fn what_the_schema_names_stays_and_all_else_under_the_path_goes() {
        let plain =
            rawdoc! { "_id": "a", "wallet": { "sum": 5 }, "tandem": { "openingBalance": 5 } };
        assert_eq!(unset(account(&plain)), ["tandem"]);
        let named = rawdoc! { "_id": "a", "tandem": { "openingBalance": 5, "floor": 1, "x": 2 } };
        assert_eq!(unset(account(&named)), ["tandem.openingBalance", "tandem.x"]);
        for done in [
            rawdoc! { "_id": "a", "tandem": { "floor": 1 } },
            rawdoc! { "_id": "a", "wallet": { "sum": 5 } },
            rawdoc! { "_id": "a", "tandem": "a word of theirs" },
        ] {
            assert_eq!(account(&done), Plan::Done, "{done:?}");
        }
        assert_eq!(unset(account(&rawdoc! { "_id": "a", "tandem": {} })), ["tandem"]);
    }

    #[test]
    fn the_update_compares_that_nothing_came_into_flight_meanwhile() {
        let filter = |plan: Plan| match plan {
            Plan::Write(change) => change.statement.get_document("q").expect("a filter").to_owned(),
            Plan::Done | Plan::Left => panic!("{plan:?} removes nothing"),
        };
        let nothing = |what: RawBson| {
            let values: RawArrayBuf = [RawBson::Null, what].into_iter().collect();
            rawdoc! { "$in": values }
        };
        let adopted = rawdoc! { "_id": "a", "tandem": { "openingBalance": 5 } };
        let expected = rawdoc! {
            "_id": { "$eq": "a" },
            "pendingTransactions": nothing(RawArrayBuf::new().into()),
            "pendingDebits": nothing(0.into()),
            "pendingCredits": nothing(0.into()),
        };
        assert_eq!(filter(account(&adopted)), expected);
        let paid = rawdoc! { "_id": "t", "state": "paid", "tandem": { "line": "l" } };
        let expected = rawdoc! { "_id": { "$eq": "t" }, "state": { "$eq": "paid", "$type": 2 } };
        assert_eq!(filter(transaction(&paid)), expected);
    }

    #[test]
    fn what_is_in_flight_stays_as_it_is() {
        for more in [
            rawdoc! { "_id": "a", "pendingTransactions": ["t"], "tandem": { "x": 1 } },
            rawdoc! { "_id": "a", "pendingDebits": 5, "tandem": { "x": 1 } },
            rawdoc! { "_id": "a", "pendingCredits": 0.5, "tandem": { "x": 1 } },
        ] {
            assert_eq!(account(&more), Plan::Left, "{more:?}");
        }
        let settled = rawdoc! {
            "_id": "a", "pendingTransactions": [], "pendingDebits": 0_i64, "tandem": { "x": 1 },
        };
        assert_eq!(unset(account(&settled)), ["tandem"]);
        let state = |word: &str| rawdoc! { "_id": "t", "state": word, "tandem": { "claim": "c" } };
        for word in ["initial", "pending", "applied", "canceling", "held", "scheduled", "unknown"] {
            assert_eq!(transaction(&state(word)), Plan::Left, "{word}");
        }
        assert_eq!(unset(transaction(&state("paid"))), ["tandem"]);
        assert_eq!(transaction(&rawdoc! { "_id": "t", "state": "initial" }), Plan::Done);
        assert_eq!(unset(transaction(&rawdoc! { "_id": "t", "tandem": { "x": 1 } })), ["tandem"]);
    }
}
