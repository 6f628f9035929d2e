use mongodb::bson::{deserialize_from_document, doc};
use mongodb::error::WriteFailure;

use super::*;

fn write_error(code: i32) -> Document {
    doc! { "ok": 1, "n": 0, "nModified": 0,
    "writeErrors": [{ "index": 3, "code": code, "errmsg": "no" }] }
}

fn command(code: i32) -> Error {
    let said = doc! { "code": code, "codeName": "Name", "errmsg": "no" };
    let said = deserialize_from_document(said).expect("a command's error");
    Error::from(ErrorKind::Command(said))
}

fn write_concern(code: i32, labels: &[&str]) -> Error {
    let said = doc! {
        "code": code, "codeName": "Name", "errmsg": "not lasting", "errorLabels": labels.to_vec(),
    };
    let said = deserialize_from_document(said).expect("a write concern error");
    Error::from(ErrorKind::Write(WriteFailure::WriteConcernError(said)))
}

fn broken() -> Error {
    Error::from(ErrorKind::Io(std::sync::Arc::new(std::io::Error::other("cut"))))
}

#[test]
fn without_effect_is_said_only_of_what_the_server_finds_before_it_writes() {
    for (code, fault) in [
        (13, Fault::Denied),
        (72, Fault::Denied),
        (10334, Fault::TooMuch),
        (121, Fault::Refused),
        (11_000, Fault::Refused),
    ] {
        let error = classify("insert", &command(code));
        assert_eq!((error.fault, error.effect), (fault, Effect::None), "{code}");
    }
    for (code, fault) in [
        // Interrupted, shut down, not primary, out of time: perhaps after a part of it.
        (11_601, Fault::Passing),
        (11_600, Fault::Passing),
        (10_107, Fault::Passing),
        (91, Fault::Passing),
        (50, Fault::TooMuch),
        (262, Fault::TooMuch),
        // Not known here.
        (8, Fault::Refused),
        (987_654, Fault::Refused),
    ] {
        let error = classify("insert", &command(code));
        assert_eq!((error.fault, error.effect), (fault, Effect::Unknown), "{code}");
    }
}

#[test]
fn what_comes_after_the_effect_or_without_an_answer_leaves_it_open() {
    for error in [
        broken(),
        write_concern(64, &[RETRYABLE_WRITE_ERROR]),
        write_concern(11_601, &[]),
        write_concern(100, &[]),
    ] {
        let error = classify("insert", &error);
        assert_eq!((error.fault, error.effect), (Fault::Passing, Effect::Unknown), "{error}");
    }
    let unread = mongodb::bson::RawDocument::from_bytes(&[0]).expect_err("no document");
    let unread = Error::from(ErrorKind::Bson(unread));
    assert_eq!(classify("insert", &unread).effect, Effect::Unknown);
    assert_eq!(classify("insert", &Error::from(ErrorKind::Shutdown)).effect, Effect::None);
}

#[test]
fn no_error_of_a_commit_but_the_servers_own_label_says_that_it_has_failed() {
    for error in [
        broken(),
        command(11_601),
        command(13),
        command(121),
        command(251),
        command(112),
        write_concern(11_601, &[]),
        write_concern(64, &[RETRYABLE_WRITE_ERROR]),
        write_concern(251, &[TRANSIENT_TRANSACTION_ERROR]),
    ] {
        assert_eq!(commit_failed(&error), CommitFailed::Perhaps, "{error}");
    }
}

#[test]
fn a_reply_that_is_not_durable_is_an_error() {
    for code in [64, 79, 100, 11_601] {
        let reply = doc! { "ok": 1, "n": 1, "nModified": 1,
        "writeConcernError": { "code": code, "errmsg": "waiting for replication timed out" } };
        let error = refusals("post", &reply).expect_err("not durable");
        assert_eq!((error.fault, error.effect), (Fault::Passing, Effect::Unknown));
    }
}

#[test]
fn an_error_of_the_server_fails_the_command_and_one_of_a_document_names_it() {
    for (code, fault) in
        [(112, Fault::Passing), (11_601, Fault::Passing), (50, Fault::TooMuch), (13, Fault::Denied)]
    {
        let error = refusals("post", &write_error(code)).expect_err("failed");
        assert_eq!((error.fault, error.effect), (fault, Effect::Unknown), "others may have run");
    }
    for code in [121, 11000, 17280, 17419] {
        let refused = refusals("post", &write_error(code)).expect("the others ran");
        assert_eq!(refused.len(), 1);
        assert_eq!((refused[0].0, refused[0].1.item), (code, 3));
    }
}

#[test]
fn a_rule_that_a_document_breaks_is_told_with_the_value() {
    let refused = |details: Document| {
        let mut reply = write_error(121);
        let errors = reply.get_array_mut("writeErrors").expect("a list");
        let error = errors[0].as_document_mut().expect("an error");
        error.insert("errInfo", doc! { "failingDocumentId": "t", "details": details });
        refusals("claim", &reply).expect("the others ran").remove(0).1.problem
    };
    let note = doc! {
        "operatorName": "$type", "specifiedAs": { "note": { "$type": "string" } },
        "reason": "type did match", "consideredValue": "x",
    };
    let expression = doc! { "operatorName": "$expr", "specifiedAs": {}, "expressionResult": false };
    let of = |details: Document| doc! { "index": 0, "details": details };
    let both =
        doc! { "operatorName": "$and", "clausesNotSatisfied": [of(expression.clone()), of(note)] };
    let problem = refused(both);
    assert!(problem.contains("(code 121); a rule of the validator is not met: "), "{problem}");
    assert!(problem.contains("note") && problem.contains("the value is \"x\""), "{problem}");
    assert_eq!(refused(expression), "no (code 121)");
}
