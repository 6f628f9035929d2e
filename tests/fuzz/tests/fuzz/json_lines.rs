//! Files of JSON lines, as `producer submit` and `producer accounts import` read them.

use fuzz::json::{Json, crowds, leaves, piece, text, write};
use fuzz::transfers::{Given, names, transactions};
use fuzz::tree::{Tree, spoils};
use fuzz::{bytes, run};
use input::files::Format;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::files::judge;

#[test]
fn a_row_of_json_is_a_transfer_or_is_refused_by_line_and_field() {
    run("json-lines", &inputs(), |input| judge(Format::Jsonl, input));
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let crowd = crowds().prop_map(|rows| {
        let metadata = Json::object([("rows", Tree::Leaf(rows))]);
        let fields = [("source", text("a")), ("destination", text("b")), ("value", piece(1))];
        vec![write(&Json::object(fields.into_iter().chain([("metadata", metadata)])))]
    });
    let file = prop_oneof![
        1 => crowd,
        80 => vec(spoiled(transfer()), 1..6),
        20 => vec(spoiled(account()), 1..6),
    ];
    let ends = select(vec!["\n", "\r\n", "\n\n", "\n \t\n"]);
    (file, ends, bytes::spoils()).prop_map(|(lines, end, of_bytes)| {
        bytes::spoiled((lines.join(end) + end).into_bytes(), of_bytes)
    })
}

fn spoiled(trees: impl Strategy<Value = Json>) -> impl Strategy<Value = String> {
    let spoils = prop_oneof![2 => Just(Vec::new()), 1 => spoils(leaves(), names(), 3)];
    (trees, spoils).prop_map(|(tree, spoils)| write(&tree.spoiled(spoils)))
}

/// A transfer as an object, which is also what the HTTP API takes.
pub fn transfer() -> impl Strategy<Value = Json> {
    let metadata = prop_oneof![
        3 => Just(None),
        1 => (names(), leaves()).prop_map(|(name, value)| {
            Some(Json::Object(vec![(name, Tree::Leaf(value))]))
        }),
        1 => Just(Some(Json::object([("rows", Tree::List(vec![piece(1); 100]))]))),
    ];
    (transactions(), metadata, any::<bool>()).prop_map(|(given, metadata, as_text)| {
        let amount = |sum: &str| match as_text || sum.contains('.') {
            true => text(sum),
            false => piece(sum),
        };
        object(&given, metadata, amount)
    })
}

fn object(given: &Given, metadata: Option<Json>, amount: impl Fn(&str) -> Json) -> Json {
    let mut fields = Vec::new();
    fields.extend(given.id.as_deref().map(|id| ("id", text(id))));
    match given.legs.as_slice() {
        [(source, _), (destination, value)] => fields.extend([
            ("source", text(source)),
            ("destination", text(destination)),
            ("value", amount(value)),
        ]),
        legs => {
            let leg = |(account, sum): &(String, String)| {
                Json::object([("account", text(account)), ("amount", amount(sum))])
            };
            fields.push(("legs", Tree::List(legs.iter().map(leg).collect())));
        }
    }
    fields.extend(given.currency.as_deref().map(|currency| ("currency", text(currency))));
    fields.extend(metadata.map(|metadata| ("metadata", metadata)));
    Json::object(fields)
}

/// A capture of a hold as an object, which is what the HTTP API takes.
pub fn capture() -> impl Strategy<Value = Json> {
    (transactions(), any::<bool>()).prop_map(|(given, as_value)| {
        let leg = |(account, sum): &(String, String)| {
            Json::object([("account", text(account)), ("amount", text(sum))])
        };
        match given.legs.last().filter(|_| as_value) {
            Some((_, value)) => Json::object([("value", text(value))]),
            None => Json::object([("captured", Tree::List(given.legs.iter().map(leg).collect()))]),
        }
    })
}

/// A hold to confirm as an object.
pub fn hold() -> impl Strategy<Value = Json> {
    (names(), proptest::option::of(any::<i32>())).prop_map(|(id, value)| {
        let value = value.map(|value| ("value", text(&value.to_string())));
        Json::object([("id", text(&id))].into_iter().chain(value))
    })
}

/// A floor to be set as an object.
pub fn floor() -> impl Strategy<Value = Json> {
    let floor = prop_oneof![1 => Just(text("none")), 4 => any::<i64>().prop_map(piece)];
    let of_text = || proptest::option::of(names());
    (floor, of_text(), of_text()).prop_map(|(floor, currency, reason)| {
        let mut fields = vec![("floor", floor)];
        fields.extend(currency.map(|currency| ("currency", text(&currency))));
        fields.extend(reason.map(|reason| ("reason", text(&reason))));
        Json::object(fields)
    })
}

/// An account as an object.
pub fn account() -> impl Strategy<Value = Json> {
    account_paid_by(Just(None))
}

/// The same of a request, in which another account may pay.
pub fn opening() -> impl Strategy<Value = Json> {
    account_paid_by(proptest::option::of(names()))
}

fn account_paid_by(from: impl Strategy<Value = Option<String>>) -> impl Strategy<Value = Json> {
    let floor =
        prop_oneof![Just(None), Just(Some(text("none"))), Just(Some(piece(-3_000_000_000_i64))),];
    let status = proptest::option::of(select(vec!["open", "frozen", "closed"]));
    (names(), any::<i32>(), floor, status, from).prop_map(|(name, balance, floor, status, from)| {
        let mut fields = vec![("account", text(&name)), ("balance", piece(balance))];
        fields.extend(floor.map(|floor| ("floor", floor)));
        fields.extend(status.map(|status| ("status", text(status))));
        fields.extend(from.map(|from| ("from", text(&from))));
        Json::object(fields)
    })
}
