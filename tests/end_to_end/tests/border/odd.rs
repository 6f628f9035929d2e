//! Documents with something odd in them, as a person, a script or another driver may have written
//! them.
//!
//! Owns which oddities there are. Each document is a good one in which one or two fields hold a
//! value from a list of all types and of the numbers at every limit.

use ledger::account::{Account, Status};
use ledger::amount::Amount;
use ledger::limits::{LEGS_MAX, METADATA_BYTES_MAX, METADATA_DEPTH_MAX, NAME_BYTES_MAX};
use ledger::transaction::{Body, Leg};
use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, RawDocumentBuf, doc};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// The mark that a removal removes.
pub const MARK: &str = "marked";

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse::<Decimal128>().expect("a decimal"))
}

/// Numbers at every limit, and values that are no number. `None` is a missing field.
fn values() -> Vec<Option<Bson>> {
    let whole = [0, 5, -5, Amount::MAX, -Amount::MAX, Amount::MAX + 1, i64::MIN, i64::MAX];
    let decimals = [
        "0",
        "5",
        "5.00",
        "-5.5",
        "0.000000001",
        "0.0000000001",
        "1E-20",
        "1E+18",
        "-1E+18",
        "1000000000000000000.000000001",
        "1E+19",
        "-9E+6144",
        "0E+6111",
        "0E-6176",
        "NaN",
        "Infinity",
        "-Infinity",
        "123456789012345678.1234567891",
        "-0",
    ];
    let two_to_53 = Amount::DOUBLE_MAX as f64;
    let floats = [
        0.0,
        -0.0,
        5.0,
        -7.0,
        -0.5,
        12.000_000_000_1,
        two_to_53 - 1.0,
        1.0 - two_to_53,
        two_to_53,
        -two_to_53,
        1e18,
        1e300,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let others = [
        Bson::Int32(7),
        Bson::Int32(-7),
        Bson::Int32(i32::MAX),
        Bson::Null,
        Bson::Undefined,
        Bson::from("5"),
        Bson::Array(Vec::new()),
        Bson::Array(vec![Bson::Int64(5)]),
        Bson::Document(doc! { "0": 5 }),
        Bson::DateTime(DateTime::from_millis(5)),
        Bson::Boolean(true),
        Bson::MinKey,
        Bson::MaxKey,
    ];
    let mut all: Vec<Option<Bson>> = vec![None];
    all.extend(whole.map(|value| Some(Bson::Int64(value))));
    all.extend(decimals.map(|text| Some(decimal(text))));
    all.extend(floats.map(|value| Some(Bson::Double(value))));
    all.extend(others.map(Some));
    all
}

fn set(document: &mut Document, field: &str, value: Option<Bson>) {
    match value {
        Some(value) => drop(document.insert(field, value)),
        None => drop(document.remove(field)),
    }
}

fn pick<T: Clone>(random: &mut StdRng, from: &[T]) -> T {
    from.choose(random).expect("there is one").clone()
}

/// An account, with marks of others or [`MARK`] where it says so, odd in up to two fields. Some are
/// as other programs make them: numbers of another type, and fields left out.
pub fn account(random: &mut StdRng, id: &str, marked: bool) -> Document {
    let balances = ["0", "5", "1000", "5.00", "0.5", "1000000000000000000", "-1000000000000000000"];
    let balance = Amount::parse(pick(random, &balances)).expect("an amount");
    let mut account = Account::new(id, balance);
    account.floor = pick(random, &[account.floor, None]);
    if marked {
        account.pending_transactions.insert(MARK.into());
    }
    let mut document = account.to_document(DateTime::from_millis(0));
    if random.random_range(0..3) == 0 {
        as_others_write(random, &mut document);
    }
    for _ in 0..random.random_range(0..3) {
        let numbers = ["balance", "pendingDebits", "pendingCredits", "floor", "openingBalance"];
        let (field, value) = match random.random_range(0..10) {
            0 => ("status", pick(random, &statuses())),
            1 => ("currency", pick(random, &currencies())),
            2 if !marked => ("pendingTransactions", pick(random, &marks())),
            _ => (pick(random, &numbers), pick(random, &values())),
        };
        set(&mut document, field, value);
    }
    document
}

/// Writes some numbers as Int32 or as doubles, and leaves some fields out.
fn as_others_write(random: &mut StdRng, document: &mut Document) {
    let numbers = ["balance", "pendingDebits", "pendingCredits", "floor", "openingBalance"];
    for field in numbers {
        let units = document.get_i64(field).ok();
        let value = match (random.random_range(0..4), units) {
            (0, _) => None,
            (1, Some(units)) => Some(Bson::Double(units as f64)),
            (2, Some(units)) => Some(i32::try_from(units).map_or(Bson::Int64(units), Bson::Int32)),
            (_, _) => continue,
        };
        set(document, field, value);
    }
    if random.random_range(0..3) == 0 {
        document.remove("status");
    }
    let has_marks = document.get_array("pendingTransactions").is_ok_and(|marks| !marks.is_empty());
    if !has_marks && random.random_range(0..3) == 0 {
        document.remove("pendingTransactions");
    }
}

fn statuses() -> Vec<Option<Bson>> {
    let names = Status::ALL.map(Status::as_str);
    let mut all: Vec<_> = names.iter().map(|name| Some(Bson::from(*name))).collect();
    all.extend([None, Some(Bson::Null), Some(Bson::from("thawed")), Some(Bson::Int32(1))]);
    all.push(Some(Bson::Array(vec![Bson::from("open")])));
    all
}

fn currencies() -> Vec<Option<Bson>> {
    let list = Bson::Array(vec![Bson::from("EUR")]);
    let all = [Bson::from("EUR"), Bson::from(""), Bson::from("$status"), Bson::Int32(5), list];
    all.into_iter().chain([Bson::Null]).map(Some).chain([None]).collect()
}

fn marks() -> Vec<Option<Bson>> {
    let list = |marks: Vec<Bson>| Some(Bson::Array(marks));
    vec![
        list(vec![Bson::from("other")]),
        list(vec![Bson::Int32(1), Bson::Null, Bson::from("other")]),
        list(vec![Bson::Array(Vec::new())]),
        Some(Bson::from("other")),
        Some(Bson::Document(doc! { "0": "other" })),
        Some(Bson::Null),
        None,
    ]
}

/// A leg's amount, of one kind or the other.
pub fn amount(random: &mut StdRng) -> Amount {
    let amounts = ["1", "5", "1000000000000000000", "0.5", "5.0", "1000000000000000000.0"];
    let amount = Amount::parse(pick(random, &amounts)).expect("an amount");
    if random.random() { amount } else { amount.negated() }
}

/// The currency that a posting asks for.
pub fn currency(random: &mut StdRng) -> Option<String> {
    pick(random, &[None, None, None, Some("EUR".to_owned())])
}

/// An `initial` transaction, odd in up to two fields, as bytes: some of its text may not be valid,
/// and a field may stand twice.
pub fn transaction(random: &mut StdRng, id: &str) -> RawDocumentBuf {
    let body = match random.random_range(0..3) {
        0 => Body::new(
            [("a", -3), ("b", 1), ("c", 2)]
                .map(|(account, amount)| Leg {
                    account: account.into(),
                    amount: Amount::Int(amount),
                })
                .to_vec(),
        ),
        _ => {
            let amount = amount(random);
            let value = if amount.is_negative() { amount.negated() } else { amount };
            Body::transfer("a", "b", value)
        }
    };
    let mut document = body.expect("valid").to_document(id, DateTime::from_millis(0));
    for _ in 0..random.random_range(0..3) {
        let (field, value) = oddity(random);
        set(&mut document, field, value);
    }
    let mut raw = RawDocumentBuf::try_from(&document).expect("a document is BSON");
    if random.random_range(0..8) == 0 {
        let fields = ["state", "attempts", "value", "currency", "claim", "note", "lastModified"];
        let name = CString::try_from(pick(random, &fields)).expect("no zero byte");
        for _ in 0..random.random_range(1..3) {
            raw.append(name.as_ref(), 5_i64);
        }
    }
    if random.random_range(0..8) == 0 { spoiled(random, &raw) } else { raw }
}

fn oddity(random: &mut StdRng) -> (&'static str, Option<Bson>) {
    let nested = |levels| (0..levels).fold(doc! {}, |inner, _| doc! { "a": inner });
    let names = ["_id", "source", "destination", "currency", "reverses"];
    match random.random_range(0..8) {
        0 | 1 => (pick(random, &names), pick(random, &texts()).map(Bson::from)),
        2 => (pick(random, &names[1..]), pick(random, &values())),
        3 => ("value", pick(random, &values())),
        4 => ("attempts", pick(random, &values())),
        5 => ("legs", pick(random, &legs())),
        6 => {
            let large = doc! { "text": "x".repeat(METADATA_BYTES_MAX) };
            let kinds =
                [nested(METADATA_DEPTH_MAX - 1), nested(METADATA_DEPTH_MAX), large, doc! {}];
            ("metadata", Some(pick(random, &kinds).into()))
        }
        _ => ("metadata", pick(random, &values())),
    }
}

/// Names at every limit.
fn texts() -> Vec<Option<String>> {
    let mut texts: Vec<String> =
        ["", "bad\n", "\n", "a\0b", "a\u{7f}", "a\u{85}", "a\u{a0}", "$a", "ä"]
            .map(str::to_owned)
            .to_vec();
    texts.extend([("x", 0), ("x", 1), ("ä", 0), ("ä", 1), ("😀", 0), ("😀", 1)].map(
        |(character, more): (&str, usize)| {
            character.repeat(NAME_BYTES_MAX / character.len() + more)
        },
    ));
    texts.into_iter().map(Some).chain([None]).collect()
}

fn legs() -> Vec<Option<Bson>> {
    let leg = |account: &str, amount: Bson| doc! { "account": account, "amount": amount };
    let many = |count: usize| -> Bson {
        let legs = (0..count).map(|n| {
            let amount = if n == 0 { 1 - count as i64 } else { 1 };
            leg(&format!("a{n}"), amount.into())
        });
        legs.collect::<Vec<_>>().into()
    };
    vec![
        Some(Bson::Array(Vec::new())),
        Some(many(LEGS_MAX)),
        Some(many(LEGS_MAX + 1)),
        Some(Bson::from(vec![leg("a", decimal("NaN")), leg("b", decimal("NaN"))])),
        Some(Bson::from(vec![leg("a", decimal("-5.00")), leg("b", decimal("5"))])),
        Some(Bson::Document(doc! { "0": leg("a", Bson::Int64(5)) })),
        Some(Bson::Array(vec![Bson::from("a")])),
        Some(Bson::Null),
    ]
}

/// Changes one byte of a text or a name to a byte that no valid text contains.
fn spoiled(random: &mut StdRng, raw: &RawDocumentBuf) -> RawDocumentBuf {
    let mut bytes = raw.as_bytes().to_vec();
    let letters = bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_alphabetic());
    let places: Vec<usize> = letters.map(|(at, _)| at).filter(|at| *at > 8).collect();
    bytes[pick(random, &places)] = 0xff;
    // The letter may also have been part of a length or a number; then the bytes are no document.
    RawDocumentBuf::from_bytes(bytes).unwrap_or_else(|_| raw.clone())
}
