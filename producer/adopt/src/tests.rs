//! Documents as others store them, each with its classes.

use layout::Layout;
use ledger::account::Account;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawBson, RawDocument, RawDocumentBuf, rawbson, rawdoc};

use super::*;

const NESTED: &str = r#"
[accounts]
ids = "objectId"
status = { open = ["active"], frozen = ["locked"] }
fields = { balance = "wallet.cash.sum", floor = "wallet.floor", status = "flags.state" }
[transactions]
ids = "int64"
fields = { source = "from", destination = "to", value = "how.much", state = "how.far" }
state = { done = ["ok"], applied = ["committed"] }
"#;

fn layout(text: &str) -> Layout {
    Layout::from_toml(text).expect("the schema is good")
}

fn stored(document: &RawDocument) -> Stored<'_> {
    Stored { document, bytes: 100, repeats: false }
}

fn codes(looked: &Looked) -> Vec<Class> {
    looked.classes.iter().map(|(class, _)| *class).collect()
}

fn id() -> ObjectId {
    ObjectId::from_bytes([7; 12])
}

#[test]
fn an_account_as_tandem_makes_them_is_of_these_classes() {
    let decimal = |text: &str| RawBson::Decimal128(text.parse().expect("a decimal"));
    let long = "x".repeat(201);
    let cases: [(RawDocumentBuf, &[Class]); 29] = [
        (rawdoc! { "_id": "a", "balance": 5_i64 }, &[]),
        (rawdoc! { "_id": "a", "balance": 5 }, &[]),
        (rawdoc! { "_id": "a", "balance": 5.0 }, &[]),
        (rawdoc! { "_id": "a", "balance": decimal("5.25") }, &[]),
        (rawdoc! { "_id": "a" }, &[Class::BalanceMissing]),
        (rawdoc! { "_id": "a", "balance": null }, &[Class::BalanceMissing]),
        (rawdoc! { "_id": "a", "balance": 12.5 }, &[Class::Fraction]),
        (rawdoc! { "_id": "a", "balance": 1e17 }, &[Class::DoubleTooLarge]),
        (rawdoc! { "_id": "a", "balance": f64::NAN }, &[Class::NotFinite]),
        (rawdoc! { "_id": "a", "balance": f64::INFINITY }, &[Class::NotFinite]),
        (rawdoc! { "_id": "a", "balance": decimal("NaN") }, &[Class::NotFinite]),
        (rawdoc! { "_id": "a", "balance": decimal("0.0000000001") }, &[Class::DecimalPlaces]),
        (rawdoc! { "_id": "a", "balance": "12" }, &[Class::NumericText]),
        (rawdoc! { "_id": "a", "balance": "much" }, &[Class::NoNumber]),
        (rawdoc! { "_id": "a", "balance": [5] }, &[Class::ListAsNumber]),
        (rawdoc! { "_id": "a", "balance": { "eur": 5 } }, &[Class::NoNumber]),
        (rawdoc! { "_id": "a", "balance": -5 }, &[Class::BelowFloor]),
        (rawdoc! { "_id": "a", "balance": -5.5 }, &[Class::Fraction, Class::BelowFloor]),
        (rawdoc! { "_id": "a", "balance": -5, "floor": -5 }, &[]),
        (rawdoc! { "_id": "a", "balance": -5, "floor": null }, &[]),
        (rawdoc! { "_id": "a", "balance": 5, "floor": 6 }, &[Class::BelowFloor]),
        (rawdoc! { "_id": "a", "floor": 6 }, &[Class::BalanceMissing, Class::BelowFloor]),
        (rawdoc! { "_id": "a", "balance": 5, "floor": "none" }, &[Class::NoNumber]),
        (rawdoc! { "_id": "a", "balance": 5, "status": "asleep" }, &[Class::UnknownStatus]),
        (rawdoc! { "_id": "a", "balance": 5, "status": 1 }, &[Class::UnknownStatus]),
        (rawdoc! { "_id": 7, "balance": 5 }, &[Class::IdOfAnotherKind]),
        (rawdoc! { "_id": long, "balance": 5 }, &[Class::IdLength]),
        (rawdoc! { "_id": "a", "balance": 5, "floor": decimal("1.5") }, &[Class::NotReadable]),
        (rawdoc! { "_id": "a", "balance": 5, "currency": 978 }, &[Class::NotReadable]),
    ];
    for (document, expected) in cases {
        let looked = account(stored(&document), Shape::default(), None);
        assert_eq!(codes(&looked), expected, "{document:?}");
        let is_read = Account::from_raw(&document).is_ok();
        assert!(looked.verdict() != Verdict::Fits || is_read, "{document:?}");
        // What is known to be repaired or not to fit is more than what can't be read.
        let may_be_read = [Class::BelowFloor, Class::IdLength];
        let is_odd = looked.classes.iter().any(|(class, _)| may_be_read.contains(class));
        assert!(is_odd || !is_read || looked.verdict() == Verdict::Fits, "{document:?}");
    }
}

#[test]
fn marks_are_told_from_those_that_tandem_has_set() {
    let marks =
        |document: RawDocumentBuf| codes(&account(stored(&document), Shape::default(), None));
    let old = rawdoc! { "_id": "a", "balance": 5, "pendingTransactions": ["t"] };
    assert_eq!(marks(old), [Class::MarksUnclaimed]);
    let own = rawdoc! {
        "_id": "a", "balance": 5, "pendingTransactions": ["t"], "openingBalance": 5_i64,
    };
    assert_eq!(marks(own), []);
    assert_eq!(marks(rawdoc! { "_id": "a", "balance": 5, "pendingTransactions": [] }), []);
    let text = rawdoc! { "_id": "a", "balance": 5, "pendingTransactions": "t" };
    assert_eq!(marks(text), [Class::MarksNoList]);
}

#[test]
fn what_is_pending_is_told_from_what_tandem_has_posted_and_an_adopted_account_counts_minor_units() {
    let of =
        |document: RawDocumentBuf| codes(&account(stored(&document), Shape::default(), Some(2)));
    let old = rawdoc! { "_id": "a", "balance": 0, "pendingCredits": 5.5 };
    assert_eq!(of(old), [Class::FractionExact, Class::PendingUnclaimed]);
    let own = rawdoc! {
        "_id": "a", "balance": 7_i64, "pendingCredits": 5_i64, "openingBalance": 7_i64,
    };
    assert_eq!(of(own), []);
    assert_eq!(of(rawdoc! { "_id": "a", "balance": 7_i64 }), [Class::MajorUnits]);
}

#[test]
fn an_account_of_a_schema_is_looked_at_by_its_paths_words_and_kind_of_ids() {
    let layout = layout(NESTED);
    let shape = Shape::new(Some(&layout.accounts));
    let of = |document: RawDocumentBuf| codes(&account(stored(&document), shape, Some(2)));
    let wallet = |sum: RawBson| rawdoc! { "_id": id(), "wallet": { "cash": { "sum": sum } } };
    assert_eq!(of(wallet(0.into())), []);
    assert_eq!(of(wallet(12.5.into())), [Class::FractionExact]);
    assert_eq!(of(wallet(12.345.into())), [Class::FractionRounds]);
    assert_eq!(of(wallet(12.into())), [Class::MajorUnits]);
    assert_eq!(of(wallet(rawbson!([12]))), [Class::ListAsNumber]);
    assert_eq!(of(rawdoc! { "_id": id(), "balance": "mine" }), [Class::BalanceMissing]);
    assert_eq!(of(rawdoc! { "_id": "a", "wallet": {} })[0], Class::IdOfAnotherKind);
    assert_eq!(of(rawdoc! { "_id": id(), "wallet": 5 }), [Class::ScalarOnTheWay]);
    assert_eq!(of(rawdoc! { "_id": id(), "wallet": null }), [Class::ScalarOnTheWay]);
    assert_eq!(of(rawdoc! { "_id": id(), "wallet": [{ "cash": 5 }] }), [Class::ArrayOnTheWay]);
    assert_eq!(of(rawdoc! { "_id": id(), "wallet": { "cash": "5" } }), [Class::ScalarOnTheWay]);
    let flags = |word: &str| {
        let mut document = wallet(0.into());
        let flags: RawBson = rawdoc! { "state": word }.into();
        document.append(mongodb::bson::raw::cstr!("flags"), flags);
        document
    };
    assert_eq!(of(flags("active")), []);
    assert_eq!(of(flags("open")), [Class::UnknownStatus]);
    let sample = &account(stored(&flags("open")), shape, None).classes[0].1;
    assert_eq!((sample.path.as_str(), sample.value.as_str()), ("flags.state", "\"open\""));
    assert_eq!(sample.id, id().to_hex());
}

#[test]
fn the_floor_of_a_schema_counts_minor_units_and_one_in_the_document_what_the_balance_counts() {
    let layout = layout("[accounts.missing]\nfloor = -1000");
    let shape = Shape::new(Some(&layout.accounts));
    let is_below = |document: RawDocumentBuf| {
        codes(&account(stored(&document), shape, Some(2))).contains(&Class::BelowFloor)
    };
    assert!(!is_below(rawdoc! { "_id": "a", "balance": -9.5 }));
    assert!(is_below(rawdoc! { "_id": "a", "balance": -10.5 }));
    assert!(!is_below(rawdoc! { "_id": "a", "balance": -10.5, "floor": -11 }));
}

#[test]
fn accounts_that_are_known_by_another_field_need_it() {
    let layout = layout("[accounts]\nfields = { _id = \"name\" }");
    let shape = Shape::new(Some(&layout.accounts));
    let of = |document: RawDocumentBuf| account(stored(&document), shape, None);
    let named = of(rawdoc! { "_id": id(), "name": "ann", "balance": 5 });
    assert_eq!((named.id.as_str(), codes(&named)), ("ann", vec![]));
    let nameless = of(rawdoc! { "_id": id(), "balance": 5 });
    assert_eq!(codes(&nameless), [Class::NoId]);
    assert!(nameless.id.contains(&id().to_hex()), "{}", nameless.id);
}

#[test]
fn a_document_that_is_large_or_has_a_field_twice_is_named_by_what_the_server_says() {
    let document = rawdoc! { "_id": "a", "balance": 5 };
    let looked = |bytes, repeats| {
        let stored = Stored { document: &document, bytes, repeats };
        codes(&account(stored, Shape::default(), None))
    };
    assert_eq!(looked(BYTES_MAX, false), []);
    assert_eq!(looked(BYTES_MAX + 1, false), [Class::Large]);
    assert_eq!(looked(100, true), [Class::FieldTwice]);
}

#[test]
fn a_transaction_is_of_these_classes() {
    let transfer = |state: RawBson, value: RawBson| {
        rawdoc! { "_id": "t", "source": "a", "destination": "b", "value": value, "state": state }
    };
    let of =
        |document: RawDocumentBuf| codes(&transaction(stored(&document), Shape::default(), None));
    for (state, class) in [
        ("initial", Class::Waiting),
        ("scheduled", Class::Waiting),
        ("pending", Class::InFlightUnclaimed),
        ("applied", Class::InFlightUnclaimed),
        ("canceling", Class::InFlightUnclaimed),
        ("held", Class::InFlightUnclaimed),
        ("done", Class::Ended),
        ("canceled", Class::Ended),
        ("committed", Class::UnknownState),
    ] {
        assert_eq!(of(transfer(state.into(), 5.into())), [class], "{state}");
    }
    assert_eq!(of(transfer(RawBson::Null, 5.into())), [Class::NoState]);
    assert_eq!(of(transfer(7.into(), 5.into())), [Class::UnknownState]);
    assert_eq!(of(transfer("done".into(), 12.5.into())), [Class::Ended]);
    let waiting = |value: RawBson| of(transfer("initial".into(), value));
    assert_eq!(waiting(12.5.into()), [Class::Waiting, Class::Fraction]);
    assert_eq!(waiting("12".into()), [Class::Waiting, Class::NumericText]);
    assert_eq!(waiting((-5).into()), [Class::Waiting, Class::NotReadable]);
    assert_eq!(
        of(rawdoc! { "_id": 5, "state": "initial", "value": 5 }),
        [Class::Waiting, Class::IdOfAnotherKind]
    );
    for own in ["claim", "attempts"] {
        let mut claimed = transfer("pending".into(), 5.into());
        claimed.append(<&mongodb::bson::raw::CStr>::try_from(own).expect("a name"), "x");
        assert_eq!(of(claimed), [Class::InFlight]);
    }
}

#[test]
fn a_transaction_of_a_schema_has_its_own_words_and_claims_under_its_own_path() {
    let layout = layout(NESTED);
    let shape = Shape::new(Some(&layout.transactions));
    let of = |document: RawDocumentBuf| codes(&transaction(stored(&document), shape, None));
    let how = |word: &str| {
        rawdoc! {
            "_id": 5, "from": id(), "to": ObjectId::from_bytes([8; 12]),
            "how": { "much": 5, "far": word },
        }
    };
    assert_eq!(of(how("initial")), [Class::Waiting]);
    assert_eq!(of(how("committed")), [Class::InFlightUnclaimed]);
    assert_eq!(of(how("applied")), [Class::UnknownState]);
    assert_eq!(of(how("ok")), [Class::Ended]);
    let claim = |path: RawDocumentBuf| {
        let mut document = how("pending");
        for element in path.iter_elements().flatten() {
            document.append(element.key(), element.value().expect("BSON"));
        }
        document
    };
    let own = rawdoc! { "tandem": { "attempts": 1 } };
    assert_eq!(of(claim(own)), [Class::InFlight]);
    // A field of the owner's own that only has the same name.
    assert_eq!(of(claim(rawdoc! { "claim": "a complaint" })), [Class::InFlightUnclaimed]);
    assert_eq!(of(rawdoc! { "_id": 5, "how": "far" }), [Class::NoState]);
}

#[test]
fn a_document_counts_once_for_a_class_and_five_are_shown() {
    let mut tally = Tally::default();
    for at in 0..7 {
        let document = rawdoc! { "_id": format!("a{at}"), "balance": 1.5, "floor": -1.5 };
        tally.add(account(stored(&document), Shape::default(), None));
    }
    for id in [RawBson::from("b"), RawBson::Int32(7)] {
        let document = rawdoc! { "_id": id, "balance": 5 };
        tally.add(account(stored(&document), Shape::default(), None));
    }
    assert_eq!((tally.read, tally.fits, tally.needs_repair, tally.cannot), (9, 1, 7, 1));
    let fractions = &tally.classes[&Class::Fraction];
    assert_eq!((fractions.count, fractions.samples.len()), (7, SAMPLES_MAX));
    assert_eq!((tally.whole, tally.decimal), (1, 0));
}
