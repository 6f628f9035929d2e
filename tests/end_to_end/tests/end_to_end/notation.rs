//! How a ledger writes amounts: one form, and the places of a currency.

use client::{Account, Amount, Error, Submission};
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::notation::Form;
use ledger::remedy::Remedy;
use ledger::transaction::{State, Terms};
use mongo::Choice;
use mongodb::bson::doc;
use serde_json::json;

use super::followed::follow_with;

fn decimal(text: &str) -> Amount {
    Amount::parse(text).expect("a decimal")
}

/// A world whose ledger has decimals.
pub(super) async fn world_of_decimals() -> World {
    let world = World::new().await;
    world.choose(Choice { amounts: Some(Form::Decimals), ..Choice::default() }).await;
    world
}

#[tokio::test]
async fn where_amounts_are_minor_units_a_decimal_is_refused_on_every_surface_with_what_to_write() {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    let write = |name: &str, text: &str| world.write(name, text);
    let header = "id,source,destination,value,currency\n";
    let rows = write("rows.csv", &format!("{header}t1,a,b,100,EUR\nt2,a,b,99.50,EUR\n"));
    let line = r#"{"id":"t3","source":"a","destination":"b","value":1250.0,"currency":"EUR"}"#;
    let lines = write("lines.jsonl", &format!("{line}\n"));
    let accounts = write("accounts.csv", "account,balance,currency\nx,12.50,EUR\n");
    let whole = write("whole.csv", &format!("{header}t1,a,b,100,EUR\n"));
    for (arguments, expected) in [
        (&["submit", &rows][..], "rows.csv:3: value: 99.50 has a decimal point"),
        (&["submit", &rows], "write 9950 for 99.50 EUR"),
        (&["submit", &rows], "line 3 has a decimal point and line 2 has none"),
        (&["submit", &rows, "--skip-invalid"], "--allow mixed-amounts"),
        (&["submit", &lines], "write 125000 for 1250.00 EUR, or 1250 for 12.50 EUR"),
        (&["submit", &whole, "--expect-total", "EUR=1.00"], "write 100 for 1.00 EUR"),
        (&["accounts", "import", &accounts], "accounts.csv:2: balance: 12.50 has a decimal point"),
        (&["accounts", "create", "x", "--balance", "12.50", "--currency", "KWD"], "12500"),
        (&["transfer", "a", "b", "12.50", "--currency", "EUR"], "write 1250 for 12.50 EUR"),
    ] {
        let refused = world.producer(arguments).await;
        assert_eq!(refused.code, Some(2), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("minor units"), "{arguments:?}: {}", refused.stderr);
    }
    let api = world.api(&[]).await;
    let body = json!({ "id": "t4", "source": "a", "destination": "b", "value": "12.50",
        "currency": "EUR" });
    let problem = api.post("/v1/transactions", &body).await.expect(422).json();
    assert_eq!(problem["errors"][0]["pointer"], "#/value", "{problem}");
    assert!(problem.to_string().contains("write 1250 for 12.50 EUR"), "{problem}");
    let items = api.post("/v1/batch", &json!([body])).await.expect(200).json();
    assert!(items.to_string().contains("write 1250 for 12.50 EUR"), "{items}");
    let account = json!({ "account": "x", "balance": "12.50", "currency": "EUR" });
    let problem = api.post("/v1/accounts", &account).await.expect(422).json();
    assert_eq!(problem["errors"][0]["pointer"], "#/balance", "{problem}");

    let client = world.client().await;
    let refused = client.submit(Submission::transfer("a", "b", decimal("12.50"))).await;
    assert!(
        matches!(&refused, Err(Error::Invalid { field, .. }) if field == "value"),
        "{refused:?}"
    );
    let opened = client.create_accounts(&[Account::new("x", decimal("12.50"))]).await;
    let refused = opened.expect("MongoDB is there").remove(0);
    assert!(matches!(&refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(world.count(&State::ALL).await, 0, "nothing was written");
    drop(api);
    world.finish().await;
}

#[tokio::test]
async fn where_amounts_are_decimals_a_whole_number_is_one_and_none_has_more_places_than_its_currency()
 {
    let world = world_of_decimals().await;
    let accounts = "account,balance,currency\na,2000,EUR\nb,0,EUR\nyen,5000,JPY\nshop,0,JPY\n";
    let accounts = world.write("accounts.csv", accounts);
    world.producer(&["accounts", "import", &accounts]).await.expect_success();
    assert_eq!(world.balance("a").await, decimal("2000.0"));
    let worker = world.worker("one").start().await;
    let rows = "id,source,destination,value,currency\nt1,a,b,1250,EUR\nt2,a,b,99.50,EUR\n\
                t3,yen,shop,10.0,JPY\n";
    let rows = world.write("rows.csv", rows);
    let sums = ["--expect-total", "EUR=1349.5", "--expect-total", "JPY=10"];
    let submitted = world.producer(&[&["submit", &rows, "--wait"], &sums[..]].concat()).await;
    submitted.expect_success();
    let held = ["transfer", "a", "b", "10", "--currency", "EUR", "--hold", "--id", "h", "--wait"];
    world.producer(&held).await.expect_success();
    for (arguments, expected) in [
        (&["transfer", "yen", "shop", "10.5", "--currency", "JPY"][..], "than JPY has (0)"),
        (&["transfer", "a", "b", "0.001", "--currency", "EUR"], "than EUR has (2)"),
        (&["confirm", "h", "--value", "0.001"], "than EUR has (2)"),
        (&["accounts", "create", "x", "--balance", "1.5", "--currency", "JPY"], "than JPY has (0)"),
        (&["transfer", "a", "b", "much"], "the amounts of this ledger are decimals"),
    ] {
        let refused = world.producer(arguments).await;
        assert_ne!(refused.code, Some(0), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{arguments:?}: {}", refused.stderr);
    }
    world.producer(&["confirm", "h", "--value", "2.5", "--wait"]).await.expect_success();
    assert_eq!(world.balance("b").await, decimal("1352.00"));
    assert_eq!(world.balance("shop").await, decimal("10.0"));
    let client = world.client().await;
    let refused = client.submit(Submission::transfer("a", "b", 1)).await;
    assert!(matches!(&refused, Err(Error::Invalid { .. })), "{refused:?}");
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_form_is_chosen_before_the_first_account_and_stays() {
    let world = World::new().await;
    let init = async |more: &[&str]| world.producer(&[&["init"], more].concat()).await;
    let missing = init(&["--amounts", "decimals"]).await;
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.stdout.contains("that the amounts of this ledger are decimals"), "{missing:?}");
    init(&["--apply", "--amounts", "decimals"]).await.expect_success();
    let report = init(&["--json"]).await.expect_success().json();
    assert_eq!(report["amounts"], "decimals", "{report}");
    world.producer(&["accounts", "create", "a", "--balance", "5"]).await.expect_success();
    assert_eq!(world.balance("a").await, decimal("5.0"));
    // Accounts of others without a balance, or with one in the form that is chosen, are no hindrance.
    world.store.accounts().insert_one(doc! { "_id": "empty" }).await.expect("MongoDB is there");
    let refused = init(&["--apply", "--amounts", "minor-units"]).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("does not change once there are accounts"), "{refused:?}");
    init(&["--apply"]).await.expect_success();
    init(&["--apply", "--amounts", "decimals"]).await.expect_success();
    let report = init(&["--json"]).await.expect_success().json();
    assert_eq!(report["amounts"], "decimals", "{report}");
    world.finish().await;
}

#[tokio::test]
async fn a_ledger_over_decimal_accounts_of_others_has_decimals() {
    let world = World::new().await;
    world.store.database().drop().await.expect("MongoDB is there");
    world.open(&[Account::new("a", decimal("10.00")), Account::new("b", decimal("0.00"))]).await;
    // Also a file is read as the ledger is going to be.
    let file = world.write("rows.csv", "source,destination,value\na,b,1.25\n");
    let not_yet = world.producer(&["submit", &file]).await;
    assert!(not_yet.stderr.contains("producer init --apply"), "{not_yet:?}");
    assert!(!not_yet.stderr.contains("minor units"), "{not_yet:?}");
    let report = world.producer(&["init", "--apply", "--json"]).await.expect_success().json();
    assert_eq!(report["amounts"], "decimals", "{report}");
    let worker = world.worker("one").start().await;
    world.producer(&["transfer", "a", "b", "2.5", "--wait"]).await.expect_success();
    assert_eq!(world.balance("b").await, decimal("2.50"));
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_currency_of_its_owner_has_the_places_that_it_was_told_before_it_was_used() {
    let world = world_of_decimals().await;
    let tell = async |what: &str| world.producer(&["init", "--currency", what]).await;
    let create = async |id: &str, balance: &str, currency: &str| {
        let arguments = ["accounts", "create", id, "--balance", balance, "--currency", currency];
        world.producer(&arguments).await
    };
    tell("POINTS=0").await.expect_success();
    tell("POINTS=0").await.expect_success();
    tell("EUR=2").await.expect_success();
    let refused = create("p", "1.5", "POINTS").await;
    assert!(refused.stderr.contains("than POINTS has (0)"), "{refused:?}");
    create("p", "1", "POINTS").await.expect_success();
    create("g", "1.000000001", "GOLD").await.expect_success();
    for (what, expected) in [
        ("POINTS=2", "has 0 decimal places, and that does not change"),
        ("EUR=3", "has 2 decimal places by ISO 4217"),
        ("GOLD=8", "than GOLD has (8)"),
        ("SILVER=10", "at most 9 places"),
        ("SILVER", "POINTS=0"),
    ] {
        let refused = tell(what).await;
        assert_ne!(refused.code, Some(0), "{what}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{what}: {}", refused.stderr);
    }
    let looks_alike = create("e", "1", "eur").await;
    assert_eq!(looks_alike.code, Some(2), "{looks_alike:?}");
    let remedy = Remedy::Currency("eur");
    follow_with(&world, &looks_alike.stderr, remedy, ("PLACES", "1")).await.expect_success();
    create("e", "1.5", "eur").await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn the_other_form_in_documents_of_others_moves_nothing_and_can_be_taken_back() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.open(&[Account::new("x", decimal("10.00")), Account::new("y", decimal("0.00"))]).await;
    let worker = world.worker("one").start().await;
    let body = client::Body::transfer("x", "y", decimal("2.50")).expect("valid");
    world.submit(&[("decimal".into(), body), transfer("whole", "a", "b", 1)], 2).await;
    let body = client::Body::transfer("a", "y", decimal("2.50")).expect("valid");
    world.submit(&[("mixed".into(), body)], 1).await;
    world.wait_final(s(30)).await;
    let hold = |from: &str, to: &str, value: Amount| {
        let terms = Terms { hold: true, ..Terms::default() };
        let body = client::Body::transfer(from, to, value).expect("valid");
        body.with_terms(terms).expect("valid")
    };
    let held = [
        ("decimal-hold".into(), hold("x", "y", decimal("5.00"))),
        ("whole-hold".into(), hold("a", "b", Amount::Int(50))),
    ];
    world.submit(&held, 2).await;
    for (id, value, expected) in [
        ("whole-hold", "0.25", "has a decimal point"),
        ("decimal-hold", "2", "is a whole number of minor units"),
    ] {
        world.wait_state(id, State::Held, s(30)).await;
        let refused = world.producer(&["confirm", id, "--value", value]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
    let part = ["confirm", "decimal-hold", "--value", "1.25", "--wait"];
    world.producer(&part).await.expect_success();
    world.producer(&["confirm", "whole-hold", "--value", "25", "--wait"]).await.expect_success();
    assert_eq!(world.reason("mixed").await.as_deref(), Some("amount_type_mismatch"));
    // A document of others settles as it says, and what it has moved can be moved back.
    assert_eq!(world.balance("y").await, decimal("3.75"));
    world.producer(&["reverse", "decimal", "--wait"]).await.expect_success();
    assert_eq!(world.balance("x").await, decimal("8.75"));
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}
