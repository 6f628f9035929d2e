//! Which transactions are in flight, and what comes next.

use layout::Layout;

use super::*;

const SCHEMA: &str = r#"
[transactions]
ids = "int64"
fields = { source = "from", destination = "to", value = "sum", state = "how.far", lastModified = "changed" }
state = { applied = ["committed", "applied"], canceled = ["cancelled"] }
"#;

fn reads<T>(
    document: &RawDocument,
    then: impl FnOnce(Result<Option<Flight<'_>>, Problem>) -> T,
) -> T {
    let layout = Layout::from_toml(SCHEMA).expect("it is good");
    let shapes = [&layout.transactions, &layout.accounts].map(|stored| Shape::new(Some(stored)));
    then(Flight::of(document, shapes[0], shapes[1].id_kind()))
}

fn transfer(word: &str, sum: impl Into<RawBson>) -> RawDocumentBuf {
    rawdoc! { "_id": 7, "from": "a", "to": "b", "sum": sum.into(), "how": { "far": word } }
}

#[test]
fn only_what_no_worker_has_claimed_is_in_flight_under_an_old_processor() {
    let state =
        |document: &RawDocument| reads(document, |read| read.map(|it| it.map(|it| it.state)));
    assert_eq!(state(&transfer("pending", 5)), Ok(Some(State::Pending)));
    assert_eq!(state(&transfer("committed", 5.5)), Ok(Some(State::Applied)));
    assert_eq!(state(&transfer("canceling", 5_i64)), Ok(Some(State::Canceling)));
    for word in ["initial", "done", "cancelled", "held", "asleep"] {
        assert_eq!(state(&transfer(word, 5)), Ok(None), "{word}");
    }
    for own in [rawdoc! { "claim": { "by": "w" } }, rawdoc! { "attempts": 1 }] {
        let mut claimed = transfer("pending", 5);
        claimed.append(mongodb::bson::raw::cstr!("tandem"), own);
        assert_eq!(state(&claimed), Ok(None));
    }
}

#[test]
fn what_the_articles_say_nothing_of_is_left_with_the_field() {
    let path = |document: &RawDocument| {
        reads(document, |read| read.map(drop).expect_err("it is left").path)
    };
    for sum in [0.into(), RawBson::Int32(-5), "5".into(), RawBson::Null, RawBson::Double(f64::NAN)]
    {
        assert_eq!(path(&transfer("pending", sum.clone())), "sum", "{sum:?}");
    }
    let bare = rawdoc! { "_id": 7, "sum": 5, "from": "a", "how": { "far": "pending" } };
    assert_eq!(path(&bare), "to");
    let own = rawdoc! { "_id": 7, "sum": 5, "from": "a", "to": "a", "how": { "far": "pending" } };
    assert_eq!(path(&own), "to");
    let named =
        rawdoc! { "_id": "t", "from": "a", "to": "b", "sum": 5, "how": { "far": "pending" } };
    assert_eq!(path(&named), "_id");
}

#[test]
fn one_account_is_known_by_every_type_of_its_number_and_pays_nothing_to_itself() {
    let layout = Layout::from_toml("[accounts]\nids = \"int64\"").expect("it is good");
    let shape = Shape::new(Some(&layout.transactions));
    let of = |to: RawBson| {
        let document =
            rawdoc! { "_id": "t", "source": 1, "destination": to, "value": 5, "state": "pending" };
        let read = Flight::of(&document, shape, layout.accounts.id_kind());
        read.map(|flight| flight.is_some()).map_err(|problem| (problem.class, problem.path))
    };
    assert_eq!(of(RawBson::Int32(2)), Ok(true));
    let itself = Err((Class::NotReadable, "destination".to_owned()));
    for same in [RawBson::Int32(1), RawBson::Int64(1), RawBson::Double(1.0)] {
        assert_eq!(of(same), itself);
    }
    assert_eq!(of("1".into()), Err((Class::IdOfAnotherKind, "destination".to_owned())));
}

fn update(of: &str) -> RawDocumentBuf {
    rawdoc! { "q": of }
}

fn marked(of: &str) -> Standing {
    let undo = Ok(update(&format!("undo {of}")));
    Standing::Marked { unmark: update(&format!("unmark {of}")), undo }
}

fn stuck() -> Problem {
    Problem::new(Class::BelowFloor, "sum", "3".to_owned())
}

#[test]
fn each_transaction_goes_on_from_where_its_marks_say_that_it_stands() {
    use State::{Applied, Canceled, Canceling, Done, Pending};
    let fence = |of: &str| update(&format!("fence {of}"));
    let takes = |of: &str| Standing::Takes { post: update(of), fence: fence(of) };
    let account = |of: &str| Step::Account(update(of));
    let post = |of: &str| Step::Post(update(of));
    let becomes = |state| Step::Become(state, vec![]);
    let (payer, payee) = (marked("payer"), marked("payee"));
    let refuses = Standing::Refuses { fence: Some(fence("credit")) };
    let missing = Standing::Refuses { fence: None };
    let spent = Standing::Marked { unmark: update("unmark payee"), undo: Err(stuck()) };
    for (state, both, expected) in [
        (Pending, [&takes("pay"), &takes("credit")], post("pay")),
        (Pending, [&payer, &takes("credit")], post("credit")),
        (Pending, [&takes("pay"), &payee], post("pay")),
        (Pending, [&payer, &payee], becomes(Applied)),
        (Pending, [&takes("pay"), &refuses], becomes(Canceling)),
        (Pending, [&payer, &refuses], becomes(Canceling)),
        (Pending, [&refuses, &payee], becomes(Canceling)),
        (Pending, [&refuses, &spent], Step::Left(stuck())),
        (Applied, [&payer, &payee], account("unmark payer")),
        (Applied, [&takes("pay"), &payee], account("unmark payee")),
        (Applied, [&takes("pay"), &refuses], becomes(Done)),
        (Applied, [&payer, &spent], account("unmark payer")),
        (Canceling, [&payer, &payee], account("undo payee")),
        (Canceling, [&payer, &takes("credit")], account("undo payer")),
        (
            Canceling,
            [&takes("pay"), &refuses],
            Step::Become(Canceled, vec![fence("pay"), fence("credit")]),
        ),
        (Canceling, [&takes("pay"), &missing], Step::Become(Canceled, vec![fence("pay")])),
        (Canceling, [&payer, &spent], Step::Left(stuck())),
    ] {
        assert_eq!(step(state, both), expected, "{state:?} {both:?}");
    }
    for state in [Pending, Applied, Canceling] {
        let unclear = Standing::Unclear(stuck());
        assert_eq!(step(state, [&payer, &unclear]), Step::Left(stuck()), "{state:?}");
    }
}

/// The filter of what is as `transfer("pending", …)`, and nobody has claimed it.
fn still_pending() -> RawDocumentBuf {
    rawdoc! {
        "_id": { "$eq": 7 },
        "how.far": { "$eq": "pending", "$type": 2 },
        "tandem.claim": RawBson::Null,
        "tandem.attempts": RawBson::Null,
    }
}

#[test]
fn a_state_is_written_in_the_schemas_word_while_the_old_one_is_there_and_nobody_has_claimed_it() {
    let layout = Layout::from_toml(SCHEMA).expect("it is good");
    let (shape, now) = (Shape::new(Some(&layout.transactions)), DateTime::from_millis(9));
    let becoming = |document: &RawDocument, state| becoming(document, shape, state, now);
    let expected = rawdoc! {
        "q": still_pending(),
        "u": { "$set": { "how.far": "committed" } },
    };
    assert_eq!(becoming(&transfer("pending", 5), State::Applied), Some(expected));
    let dated = rawdoc! {
        "_id": 7, "how": { "far": "canceling" }, "changed": DateTime::from_millis(3),
    };
    let update = becoming(&dated, State::Canceled).expect("it can be written");
    let expected = rawdoc! { "$set": { "how.far": "cancelled", "changed": now } };
    assert_eq!(update.get_document("u").expect("an update"), &*expected);
}

#[test]
fn a_posting_is_confirmed_by_a_transaction_that_still_is_as_it_was_read() {
    let layout = Layout::from_toml(SCHEMA).expect("it is good");
    let confirming = confirming(&transfer("pending", 5), Shape::new(Some(&layout.transactions)));
    let expected = rawdoc! {
        "q": still_pending(),
        "u": { "$inc": { "tandem.finishSteps": 1_i64 } },
    };
    assert_eq!(confirming, Some(expected));
}
