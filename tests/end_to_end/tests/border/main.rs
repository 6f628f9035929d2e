//! Reader, guard, validator and messages accept the same documents and ids.
//!
//! Generated documents with something odd in them are given to a real MongoDB and to the reader.
//! The seeds are fixed, so that a failure is repeated by running the test again; more cases:
//!
//! ```sh
//! TANDEM_BORDER_CASES=20000 deploy/test border
//! ```

mod odd;

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use harness::world::World;
use ledger::account::{Account, marks_from_raw};
use ledger::amount::{Amount, AmountError};
use ledger::message::Message;
use ledger::transaction::Body;
use ledger::{LeaseMs, Ledger, Posting, RemovalKind};
use mongo::MongoLedger;
use mongodb::Collection;
use mongodb::bson::spec::ElementType;
use mongodb::bson::{Document, RawBsonRef, RawDocumentBuf, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use rand::SeedableRng;
use rand::rngs::StdRng;

const INVALID_BSON: i32 = 22;
const FAILED_VALIDATION: i32 = 121;

/// The transaction that posts.
const NEW: &str = "new";

fn cases() -> usize {
    let given = std::env::var("TANDEM_BORDER_CASES").ok();
    given.map_or(600, |text| text.parse().expect("TANDEM_BORDER_CASES is a whole number"))
}

/// Removes the validator of accounts, so that any document can be inserted, and makes the server
/// record statements that fail.
async fn without_validator(world: &World) -> MongoLedger {
    let database = world.store.database();
    let off = doc! { "collMod": "accounts", "validator": {}, "validationLevel": "off" };
    database.run_command(off).await.expect("the validator can be taken away");
    database.run_command(doc! { "profile": 2 }).await.expect("profiling can be switched on");
    MongoLedger::new(world.store.clone(), LeaseMs { lease: 10_000, grace: 5_000 })
}

/// No statement on accounts has failed: the pipelines accept every content.
async fn assert_no_statement_failed(world: &World) {
    let database = world.store.database();
    let of_accounts = doc! { "ns": format!("{}.accounts", world.name), "op": "update" };
    let profile = database.collection::<Document>("system.profile");
    let all = profile.count_documents(of_accounts.clone()).await.expect("MongoDB is there");
    assert!(all > 0, "the server has kept no record of updates");
    let mut failed = of_accounts;
    failed.insert("errCode", doc! { "$exists": true });
    let failed = profile.find_one(failed).await.expect("MongoDB is there");
    assert_eq!(failed, None, "a statement failed");
}

async fn read_accounts(world: &World) -> BTreeMap<String, RawDocumentBuf> {
    let accounts = world.store.accounts().clone_with_type::<RawDocumentBuf>();
    let found = accounts.find(doc! {}).await.expect("MongoDB is there");
    let found: Vec<_> = found.try_collect().await.expect("MongoDB is there");
    let id = |account: &RawDocumentBuf| account.get_str("_id").expect("a text").to_owned();
    found.into_iter().map(|account| (id(&account), account)).collect()
}

fn posting(account: &str, amount: Amount, currency: Option<String>, mark: &str) -> Posting {
    let (debits, credits) = match amount.is_negative() {
        true => (amount.negated(), Amount::ZERO),
        false => (Amount::ZERO, amount),
    };
    Posting {
        account: account.into(),
        currency,
        debits,
        credits,
        transactions: vec![mark.into()],
        holds: 0,
        ride: None,
    }
}

#[tokio::test]
async fn the_border_guard_takes_a_posting_exactly_where_the_reader_finds_nothing_against_it() {
    let world = World::new().await;
    let ledger = without_validator(&world).await;
    let mut random = StdRng::seed_from_u64(1);
    let (mut documents, mut asked) = (Vec::new(), BTreeMap::new());
    for n in 0..cases() {
        let id = format!("a{n}");
        documents.push(odd::account(&mut random, &id, false));
        asked.insert(id, (odd::amount(&mut random), odd::currency(&mut random)));
    }
    world.store.accounts().insert_many(&documents).await.expect("no validator is there");
    let before = read_accounts(&world).await;
    let postings: Vec<_> = asked
        .iter()
        .map(|(id, (amount, currency))| posting(id, *amount, currency.clone(), NEW))
        .collect();
    let in_time = world.store.server_now().await.expect("MongoDB is there") + 60_000;
    let count = ledger.post(&postings, in_time).await.expect("MongoDB is there");

    let (mut taken, mut unreadable) = (0, 0);
    for (id, after) in read_accounts(&world).await {
        let (amount, currency) = &asked[&id];
        let read = Account::from_raw(&before[&id]);
        let refusal = match &read {
            Ok(account) => account.refusal(*amount, currency.as_deref()).map(|r| r.message),
            Err(problem) => Some(problem.clone()),
        };
        let took = marks_from_raw(&after).is_ok_and(|marks| marks.contains(NEW));
        assert_eq!(
            took,
            refusal.is_none(),
            "{amount} of {currency:?}, {refusal:?}: {}",
            shown(&after)
        );
        if took {
            let account = Account::from_raw(&after).expect("it can be read after the posting");
            let before = read.as_ref().expect("it was read before");
            assert_eq!(account.opening_balance, before.opening_balance, "{}", shown(&after));
            assert!(after.get("openingBalance").expect("BSON").is_some(), "{}", shown(&after));
            assert_numbers_are_written(&account, &after);
        }
        taken += usize::from(took);
        unreadable += usize::from(read.is_err());
    }
    assert_eq!(count.count, taken);
    assert!(taken > cases() / 10, "only {taken} of {} were taken", cases());
    assert!(unreadable > cases() / 4, "only {unreadable} of {} are odd", cases());
    assert_no_statement_failed(&world).await;
    world.finish().await;
}

/// In an account of whole numbers, an update writes Int64, whatever was there before.
fn assert_numbers_are_written(account: &Account, after: &RawDocumentBuf) {
    if !account.balance.is_int() {
        return;
    }
    for field in HOLDINGS {
        let value = after.get(field).expect("BSON");
        let is_written = value.is_some_and(|value| value.element_type() == ElementType::Int64);
        assert!(is_written, "{field}: {}", shown(after));
    }
}

/// The numbers between which money moves.
const HOLDINGS: [&str; 3] = ["balance", "pendingDebits", "pendingCredits"];

/// Whether money can be returned to these numbers: each is nothing, or exact and within the limits.
fn takes_money_back(account: &RawDocumentBuf) -> bool {
    HOLDINGS.iter().all(|field| match account.get(field).expect("BSON") {
        None | Some(RawBsonRef::Null) => true,
        Some(value) => {
            matches!(Amount::from_raw(value), Ok(_) | Err(AmountError::TooPrecise(_)))
        }
    })
}

#[tokio::test]
async fn the_border_guard_lets_held_money_go_home_whatever_else_is_broken() {
    let world = World::new().await;
    let ledger = without_validator(&world).await;
    for kind in [RemovalKind::Settle, RemovalKind::Undo] {
        let mut random = StdRng::seed_from_u64(2);
        let ids: Vec<String> = (0..cases()).map(|n| format!("{kind:?}{n}")).collect();
        let documents = ids.iter().map(|id| odd::account(&mut random, id, true));
        world.store.accounts().insert_many(documents).await.expect("no validator is there");
        let before = read_accounts(&world).await;
        let mut random = StdRng::seed_from_u64(3);
        let removal = |id| posting(id, odd::amount(&mut random), None, odd::MARK).into_removal();
        let removals: Vec<_> = ids.iter().map(String::as_str).map(removal).collect();
        let count = ledger.remove(kind, &removals).await.expect("MongoDB is there");

        let after = read_accounts(&world).await;
        let (mut gone, mut unreadable) = (0, 0);
        for id in &ids {
            let left = marks_from_raw(&after[id]).expect("a list").contains(odd::MARK);
            assert_eq!(!left, takes_money_back(&before[id]), "{kind:?}: {}", shown(&before[id]));
            if !left && let Ok(account) = Account::from_raw(&after[id]) {
                assert_numbers_are_written(&account, &after[id]);
            }
            gone += usize::from(!left);
            unreadable += usize::from(!left && Account::from_raw(&before[id]).is_err());
        }
        assert_eq!(count.count, gone);
        assert!(unreadable > cases() / 20, "{unreadable} of {gone} were broken otherwise");
    }
    assert_no_statement_failed(&world).await;
    world.finish().await;
}

fn shown(document: &RawDocumentBuf) -> String {
    Document::try_from(document).map_or_else(|error| error.to_string(), |tree| tree.to_string())
}

/// Inserts a document; returns whether the server accepts it.
async fn admitted(collection: &Collection<RawDocumentBuf>, document: &RawDocumentBuf) -> bool {
    match collection.insert_one(document).await {
        Ok(_) => true,
        Err(error) => {
            assert!(is_refusal(&error), "refused for another reason: {error}");
            false
        }
    }
}

fn is_refusal(error: &Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code == FAILED_VALIDATION,
        // The changed byte was part of a length.
        ErrorKind::Command(error) => error.code == INVALID_BSON,
        // The server repeats the refused document in its answer, and the driver can't read an
        // answer with invalid text.
        _ => error.to_string().contains("Invalid UTF-8"),
    }
}

#[tokio::test]
async fn the_border_admits_exactly_the_accounts_that_can_be_read() {
    let world = World::new().await;
    let accounts = world.store.accounts().clone_with_type::<RawDocumentBuf>();
    let mut random = StdRng::seed_from_u64(4);
    let mut readable = 0;
    for n in 0..cases() {
        let document = odd::account(&mut random, &format!("a{n}"), n % 2 == 0);
        let document = RawDocumentBuf::try_from(&document).expect("BSON");
        let read = Account::from_raw(&document);
        let admitted = admitted(&accounts, &document).await;
        assert_eq!(admitted, read.is_ok(), "{read:?}: {}", shown(&document));
        readable += usize::from(admitted);
    }
    assert!((cases() / 10..cases()).contains(&readable), "{readable} of {} admitted", cases());
    world.finish().await;
}

#[tokio::test]
async fn the_border_admits_no_transaction_that_a_message_can_not_name() {
    let world = World::new().await;
    let transactions = world.store.transactions().clone_with_type::<RawDocumentBuf>();
    let mut random = StdRng::seed_from_u64(5);
    let (mut taken, mut invalid) = (0, 0);
    for n in 0..cases() {
        let document = odd::transaction(&mut random, &format!("t{n}"));
        let body = Body::from_raw(&document);
        if !admitted(&transactions, &document).await {
            continue;
        }
        taken += 1;
        invalid += usize::from(body.is_err());
        let id = document.get_str("_id").expect("the validator has looked at it");
        let parsed = Message::parse(&Message::new(vec![id.into()]).to_bytes());
        let parsed = parsed.expect("a message of ours");
        assert_eq!(parsed.bad, [], "{}", shown(&document));
        // Two texts of a kind may be tried, and each only once.
        let deleted = transactions.delete_one(doc! { "_id": id }).await.expect("MongoDB is there");
        assert_eq!(deleted.deleted_count, 1);
    }
    assert!(taken > cases() / 4, "only {taken} of {} admitted", cases());
    assert!(invalid > cases() / 50, "only {invalid} of {} left for the worker", cases());
    world.finish().await;
}

#[tokio::test]
async fn the_border_keeps_out_fields_that_stand_twice() {
    let world = World::new().await;
    let now = mongodb::bson::DateTime::from_millis(0);
    let account = RawDocumentBuf::try_from(&Account::new("a", Amount::Int(5)).to_document(now));
    let as_others_do = RawDocumentBuf::try_from(&doc! { "_id": "b", "balance": 5.0 });
    let transfer = Body::transfer("a", "b", Amount::Int(5)).expect("valid");
    let transaction = RawDocumentBuf::try_from(&transfer.to_document("t", now));
    for (collection, good, fields) in [
        (world.store.accounts(), account, ["balance", "pendingTransactions", "note"]),
        // As others make it: without marks and opening.
        (world.store.accounts(), as_others_do, ["balance", "floor", "note"]),
        (world.store.transactions(), transaction, ["state", "attempts", "note"]),
    ] {
        let collection = collection.clone_with_type::<RawDocumentBuf>();
        let good = good.expect("BSON");
        for field in fields {
            let mut twice = good.clone();
            let name = mongodb::bson::raw::CString::try_from(field).expect("no zero byte");
            twice.append(name.as_ref(), 5_i64);
            twice.append(name.as_ref(), 5_i64);
            assert!(!admitted(&collection, &twice).await, "{field} may stand twice");
        }
        assert!(admitted(&collection, &good).await);
    }
    world.finish().await;
}
