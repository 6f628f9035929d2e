//! What a confirmation and a release find, in every state of a document.

use ledger::notation::Notation;
use ledger::transaction::{Terms, legs_to_bson};
use mongodb::bson::{Bson, DateTime, doc};

use super::*;

fn leg(account: &str, amount: i64) -> Leg {
    Leg { account: account.into(), amount: Amount::Int(amount) }
}

/// A hold of 50 from a card to a shop.
fn hold(state: State) -> Document {
    let terms = Terms { hold: true, ..Terms::default() };
    let body = Body::transfer("card", "shop", Amount::Int(50)).expect("valid");
    let body = body.with_terms(terms).expect("valid");
    let mut document = body.to_document("t", DateTime::from_millis(0));
    document.insert("state", Bson::from(state));
    document
}

fn confirmed(state: State, value: i64) -> Document {
    let mut document = hold(state);
    document.insert("captured", legs_to_bson(&[leg("card", -value), leg("shop", value)]));
    document
}

fn canceled(code: ReasonCode) -> Document {
    let mut document = hold(State::Canceled);
    document.insert("reason", Reason::new(code, "why").to_document());
    document
}

#[test]
fn what_is_held_can_be_confirmed_in_whole_or_in_part() {
    let part = vec![leg("card", -30), leg("shop", 30)];
    let turned = vec![leg("shop", 30), leg("card", -30)];
    for (capture, expected) in [
        (Capture::All, vec![leg("card", -50), leg("shop", 50)]),
        (Capture::Value(Amount::Int(30)), part.clone()),
        (Capture::Legs(turned), part),
    ] {
        let found = look(&hold(State::Held), &capture, &Notation::default()).expect("it is held");
        assert_eq!(found, HoldState::Held(expected), "{capture:?}");
    }
}

#[test]
fn a_capture_that_does_not_fit_the_transaction_names_the_field() {
    let split = Body::new(vec![leg("a", -5), leg("b", 3), leg("c", 2)]).expect("valid");
    let transfer = Body::transfer("a", "b", Amount::Int(5)).expect("valid");
    let decimal = Amount::parse("3.0").expect("an amount");
    for (body, capture, expected) in [
        (&split, Capture::Value(Amount::Int(3)), "value: the transaction has 3 legs"),
        (&transfer, Capture::Value(Amount::Int(0)), "value: is 0; it must be above zero"),
        (&transfer, Capture::Value(Amount::Int(-3)), "value: is -3; it must be above zero"),
        (&transfer, Capture::Value(Amount::Int(6)), "captured: has -6 for account \"a\""),
        (&transfer, Capture::Value(decimal), "legs: whole and decimal"),
        (&transfer, Capture::Legs(vec![leg("a", -3)]), "captured: does not name account \"b\""),
    ] {
        let error = capture.of(body).expect_err(expected);
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error} should say {expected}");
    }
}

#[test]
fn a_second_confirmation_changes_nothing_if_it_is_the_same_and_is_refused_if_not() {
    let after = [State::Pending, State::Applied, State::Done, State::Canceling, State::Canceled];
    for state in after {
        let document = confirmed(state, 30);
        let same = look(&document, &Capture::Value(Amount::Int(30)), &Notation::default())
            .expect("the same");
        assert_eq!(same, HoldState::Confirmed(vec![leg("card", -30), leg("shop", 30)]));
        let too_much = Capture::Value(Amount::Int(60));
        for other in [Capture::All, Capture::Value(Amount::Int(31)), too_much] {
            let error = look(&document, &other, &Notation::default()).expect_err("another capture");
            assert!(matches!(&error, Error::Captured { id, .. } if id == "t"), "{error:?}");
            assert!(error.to_string().contains("card -30, shop 30"), "{error}");
        }
    }
    assert!(matches!(
        look(&confirmed(State::Done, 50), &Capture::All, &Notation::default()),
        Ok(HoldState::Confirmed(_))
    ));
}

#[test]
fn whoever_comes_too_early_too_late_or_to_no_hold_is_told_so() {
    let mut plain = hold(State::Done);
    plain.remove("hold");
    for (document, expected) in [
        (hold(State::Scheduled), "t: is scheduled and not held yet"),
        (hold(State::Initial), "t: is initial and not held yet"),
        (hold(State::Pending), "t: is pending and not held yet"),
        (canceled(ReasonCode::Released), "t: is canceled and can't be confirmed: it was released"),
        (canceled(ReasonCode::HoldExpired), "can't be confirmed: it has expired"),
        (canceled(ReasonCode::Expired), "can't be confirmed: it has expired"),
        (canceled(ReasonCode::InsufficientFunds), "can't be confirmed: it has no effect"),
        (plain, "t: is done and was not submitted as a hold"),
        (hold(State::Done), "t: is done and was never confirmed; see audit"),
    ] {
        let error =
            look(&document, &Capture::All, &Notation::default()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say {expected}");
    }
}

#[test]
fn what_is_still_held_after_its_confirmation_has_expired_or_can_not_be_written() {
    let refused = not_confirmed(&hold(State::Held));
    assert!(matches!(&refused, Error::Refused { .. }), "{refused:?}");
    let mut ends = hold(State::Held);
    ends.insert("holdExpiresAt", DateTime::from_millis(7));
    let expired = not_confirmed(&ends);
    assert!(matches!(&expired, Error::WrongState { state: State::Held, .. }), "{expired:?}");
}

#[test]
fn only_what_is_held_is_released_and_what_was_is_left_as_it_is() {
    assert_eq!(is_held(&hold(State::Held)), Ok(true));
    assert_eq!(is_held(&canceled(ReasonCode::HoldExpired)), Ok(false));
    assert_eq!(is_held(&hold(State::Canceling)), Ok(false));
    let mut plain = hold(State::Pending);
    plain.remove("hold");
    for (document, expected) in [
        (hold(State::Pending), "t: is pending and not held yet; cancel it"),
        (confirmed(State::Pending, 5), "t: is pending and was confirmed"),
        (confirmed(State::Done, 5), "t: is done and was confirmed"),
        (plain, "was not submitted as a hold"),
    ] {
        let error = is_held(&document).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say {expected}");
    }
    // Nobody knows how much is held, and a worker may still bring it back.
    let unreadable = doc! { "_id": "t", "hold": true, "state": "held", "value": 1.5 };
    assert_eq!(is_held(&unreadable), Ok(true));
}
