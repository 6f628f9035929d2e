//! Lines as they are stored, and documents beside them, right and wrong.

use ledger::transaction::State;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};

use super::*;

/// Two done transactions, a canceled one, and one canceled whose content could not be read.
fn line() -> Document {
    doc! {
        "_id": "l", "kind": "tandem-line", "at": DateTime::from_millis(7), "application": "w",
        "accounts": ["a", "b", "c"],
        "nets": [-7_i64, 5_i64, 2_i64],
        "done": [["t", 0, -5_i64, 1, 5_i64], ["u", 0, -2_i64, 2, 2_i64]],
        "canceled": [["x", 2, 0], ["broken"]],
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document is BSON")
}

/// A transfer that has ended.
fn ended(id: &str, from: &str, to: &str, value: i64, state: State) -> Document {
    let body = Body::transfer(from, to, Amount::Int(value)).expect("valid");
    let mut document = body.to_document(id, DateTime::from_millis(0));
    document.insert("state", Bson::from(state));
    document.insert("line", "l");
    document
}

fn documents() -> [Document; 4] {
    [
        ended("t", "a", "b", 5, State::Done),
        ended("u", "a", "c", 2, State::Done),
        ended("x", "c", "a", 9, State::Canceled),
        doc! { "_id": "broken", "state": "canceled", "line": "l", "source": "a" },
    ]
}

/// What is wrong with a document beside its entry in the line.
fn wrong(document: &Document, line: &Document) -> Option<String> {
    let (document, line) = (raw(document), raw(line));
    let line = read(&line).expect("it can be read");
    let id = document.get_str("_id").expect("a text");
    let entry = line.entries.iter().find(|entry| entry.id == id).expect("it has one");
    wrong_with(&document, line.id, entry)
}

#[test]
fn a_line_and_its_documents_say_the_same() {
    let stored = raw(&line());
    let read = read(&stored).expect("it can be read");
    assert_eq!((read.id, read.entries.len(), &read.wrong_net), ("l", 4, &None));
    for (document, entry) in documents().iter().zip(&read.entries) {
        let document = raw(document);
        assert_eq!(wrong_with(&document, "l", entry), None, "{}", entry.id);
        let body = Body::from_raw(&document).ok();
        let own = Entry::of(document.get_str("_id").expect("a text"), entry.end, body.as_ref());
        assert_eq!(&own, entry, "so their hashes are equal, too");
    }
}

#[test]
fn of_a_hold_the_line_says_what_was_captured() {
    let mut hold = ended("t", "a", "b", 20, State::Done);
    hold.insert("hold", true);
    let leg = |account: &str, amount: i64| doc! { "account": account, "amount": amount };
    hold.insert("captured", vec![leg("a", -5), leg("b", 5)]);
    assert_eq!(wrong(&hold, &line()), None);
    hold.insert("captured", vec![leg("a", -6), leg("b", 6)]);
    let expected = "differs from the line l: -6 on account \"a\", and -5 on account \"a\"";
    assert_eq!(wrong(&hold, &line()).as_deref(), Some(expected));
}

#[test]
fn what_differs_between_a_document_and_its_entry_is_said() {
    let change = |id: usize, field: &str, value: Bson| {
        let mut document = documents()[id].clone();
        document.insert(field, value);
        document
    };
    let decimal = Bson::Decimal128("5".parse().expect("a number"));
    for (document, expected) in [
        (change(0, "state", "canceled".into()), "is canceled, and done in the line l"),
        (change(0, "state", "pending".into()), "is pending, and done in the line l"),
        (change(0, "state", "lost".into()), "is in no state of ours, and done in the line l"),
        (change(2, "state", "done".into()), "is done, and canceled in the line l"),
        (change(0, "line", "m".into()), "names the line m, and is in the line l, too"),
        (change(0, "line", Bson::Null), "names no line, and is in the line l"),
        (change(0, "line", "m".repeat(300).into()), "names no line, and is in the line l"),
        (
            change(0, "value", 6_i64.into()),
            "differs from the line l: -6 on account \"a\", and -5 on account \"a\"",
        ),
        (
            change(0, "value", decimal),
            "differs from the line l: -5 as a decimal on account \"a\", and -5 on account \"a\"",
        ),
        (
            change(0, "destination", "c".into()),
            "differs from the line l: 5 on account \"c\", and 5 on account \"b\"",
        ),
        (
            change(0, "value", 1.5.into()),
            "differs from the line l: nothing, and -5 on account \"a\" (value: ",
        ),
        (
            change(2, "destination", "b".into()),
            "differs from the line l: account \"b\", and account \"a\"",
        ),
    ] {
        let said = wrong(&document, &line()).expect(expected);
        assert!(said.starts_with(expected), "{said}, and not {expected}");
    }
    let mut repaired = ended("broken", "a", "b", 1, State::Canceled);
    let expected = "differs from the line l: account \"a\", and nothing";
    assert_eq!(wrong(&repaired, &line()).as_deref(), Some(expected));
    for (reason, is_excused) in [
        (doc! { "code": "invalid", "message": "why" }, true),
        (doc! { "code": "requested", "neverPosted": true }, true),
        (doc! { "code": "requested" }, false),
    ] {
        repaired.insert("reason", &reason);
        assert_eq!(wrong(&repaired, &line()).is_none(), is_excused, "{reason}");
    }
}

#[test]
fn nets_that_are_not_the_sums_are_said_and_the_entries_are_read_all_the_same() {
    let decimal = |text: &str| Bson::Decimal128(text.parse().expect(text));
    let of = |nets: Vec<Bson>| {
        let mut line = line();
        line.insert("nets", nets);
        let line = raw(&line);
        let read = read(&line).expect("it can be read");
        assert_eq!(read.entries.len(), 4);
        read.wrong_net
    };
    assert_eq!(of(vec![decimal("-7"), 5_i64.into(), decimal("2.0")]), None);
    for (nets, expected) in [
        (vec![(-8_i64).into(), 5_i64.into(), 2_i64.into()], "\"a\" is -8, and should be -7"),
        (vec![(-7_i64).into(), 5_i64.into(), "2".into()], "\"c\" is no amount, and should be 2"),
        (vec![(-7.0).into(), 5_i64.into(), 2_i64.into()], "\"a\" is no amount, and should be -7"),
    ] {
        let said = of(nets).expect(expected);
        assert_eq!(said, format!("its net of account {expected}"));
    }
}

#[test]
fn sums_beyond_an_amount_are_exact() {
    let mut huge = line();
    let most = Amount::MAX;
    let entry = |id: &str| {
        Bson::from(vec![Bson::from(id), 0.into(), (-most).into(), 1.into(), most.into()])
    };
    huge.insert("done", (0..20).map(|n| entry(&n.to_string())).collect::<Vec<Bson>>());
    let net = |text: &str| Bson::Decimal128(text.parse().expect(text));
    huge.insert("nets", vec![net("-2E+19"), net("2E+19"), 0_i64.into()]);
    assert_eq!(read(&raw(&huge)).expect("it can be read").wrong_net, None);
}

#[test]
fn a_line_that_makes_no_sense_anywhere_is_named_and_nothing_of_it_is_skipped() {
    let list = |items: &[Bson]| Bson::Array(items.to_vec());
    let entry = |items: &[Bson]| list(&[list(items)]);
    let (text, one) = (|text: &str| Bson::from(text), Bson::from(1_i64));
    let long = Bson::from("x".repeat(300));
    let damages = [
        ("at", Bson::Null),
        ("application", Bson::Null),
        ("accounts", text("a")),
        ("accounts", list(&[text("a"), text("a"), text("c")])),
        ("accounts", list(&[text("a"), 7.into(), text("c")])),
        ("accounts", list(&[text("a"), text("b")])),
        ("nets", Bson::Null),
        ("nets", list(std::slice::from_ref(&one))),
        ("done", Bson::Null),
        ("done", list(&[text("t")])),
        ("done", entry(&[])),
        ("done", entry(&[7.into()])),
        ("done", entry(&[long])),
        ("done", entry(&[text("t"), 0.into()])),
        ("done", entry(&[text("t"), 3.into(), one.clone()])),
        ("done", entry(&[text("t"), (-1).into(), one.clone()])),
        ("done", entry(&[text("t"), text("a"), one])),
        ("done", entry(&[text("t"), 0.into(), (-7.0).into()])),
        ("canceled", Bson::Null),
        ("canceled", entry(&[text("x"), 9.into()])),
        ("canceled", entry(&[text("x"), 1_i64.into()])),
    ];
    for (field, value) in damages {
        let mut damaged = line();
        damaged.insert(field, value.clone());
        let damaged = raw(&damaged);
        let error = read(&damaged).expect_err(&format!("{field}: {value}"));
        assert_eq!(error.id, "l", "{error}");
    }
}
