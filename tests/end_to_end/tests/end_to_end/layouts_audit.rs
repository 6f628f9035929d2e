//! The audit in collections and fields of its owner's own.

use audit::{Moved, Options, Report};
use client::Client;
use harness::odd::insert_raw;
use harness::wait::{s, wait_until};
use harness::world::World;
use mongo::JOURNAL;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, DateTime, Document, doc, rawdoc};

use crate::layouts::{SCHEMA, collection, one, user, world_of};

/// People known by a number, and by a name.
const BY_NUMBER: &str = r#"
[accounts]
collection = "people"
ids = "int64"
fields = { balance = "money" }
[transactions]
collection = "payments"
ids = "objectId"
fields = { state = "now.state", source = "from.person", destination = "to.person" }
state = { done = ["paid", "done"], applied = ["booked"] }
"#;
pub(super) const BY_NAME: &str = r#"
[accounts]
collection = "people"
fields = { _id = "name", balance = "money" }
[transactions]
collection = "payments"
ids = "objectId"
fields = { source = "from.person", destination = "to.person" }
"#;

/// How many payments there are.
pub(super) const PAYMENTS: i32 = 200;

/// An id as a shell, a driver of long ago and one of today write it.
fn number(id: i32) -> Bson {
    match id % 3 {
        0 => Bson::Int32(id),
        1 => Bson::Double(id.into()),
        _ => Bson::Int64(id.into()),
    }
}

async fn insert(world: &World, name: &str, documents: Vec<Document>) {
    collection(world, name).insert_many(documents).await.expect("MongoDB is there");
}

/// What other programs have in the same collections.
async fn foreign(world: &World) {
    let stamp = DateTime::now();
    let users = vec![
        doc! { "_id": "a text", "wallet": { "score": 5 } },
        doc! { "_id": ObjectId::new(), "wallet": { "score": "many" } },
        doc! { "_id": ObjectId::new(), "wallet": 5 },
        doc! { "_id": ObjectId::new(), "email": "x@example.org" },
    ];
    insert(world, "user", users).await;
    let payments = vec![
        doc! { "_id": "a text", "status": "initial", "lastModified": stamp },
        doc! { "_id": 1_001, "status": "basket", "lastModified": stamp },
        doc! { "_id": 1_002, "status": 5 },
        doc! { "_id": 1_003, "status": "done", "from": ObjectId::new(), "lastModified": stamp },
    ];
    insert(world, "transaction", payments).await;
}

async fn audited(client: &Client, at_once: u64) -> Report {
    let options = Options { accounts_at_once: at_once, ..Options::default() };
    audit::run(client, options, |_, _| {}).await.expect("the servers are there")
}

/// What an audit at rest finds, in words, and what it can't explain.
async fn wrongs(client: &Client) -> Vec<String> {
    let options = Options { at_rest: true, accounts_at_once: 3, ..Options::default() };
    let report = audit::run(client, options, |_, _| {}).await.expect("the servers are there");
    let unexplained = |Moved { account, amount }: Moved| format!("{account} has moved by {amount}");
    let unexplained = report.unexplained.first.into_iter().map(unexplained);
    report.violations.iter().map(ToString::to_string).chain(unexplained).collect()
}

/// Waits until so many payments have ended, and no account has a mark.
async fn ended(world: &World, (name, state): (&str, &str), words: &[&str], count: u64) {
    wait_until("all have ended", s(60), async || {
        let ended = doc! { state: { "$in": words } };
        let ended = collection(world, name).count_documents(ended).await;
        ended.expect("MongoDB is there") == count
    })
    .await;
}

async fn unmarked(world: &World, name: &str, marks: &str) {
    wait_until("no mark is left", s(30), async || {
        let marked = doc! { format!("{marks}.0"): { "$exists": true } };
        let marked = collection(world, name).count_documents(marked).await;
        marked.expect("MongoDB is there") == 0
    })
    .await;
}

fn payment(id: i32, users: &[ObjectId]) -> Document {
    let at = usize::try_from(id).expect("a small number");
    doc! {
        "_id": number(id), "from": users[at % users.len()], "to": users[(at + 1) % users.len()],
        "score": i32::try_from(1 + at % users.len()).expect("few"), "status": "initial",
        "lastModified": DateTime::now(),
    }
}

/// Waits until some of the first payments have ended, so that audits come while others do.
async fn worker_has_begun(world: &World, wave: i32) {
    if wave == 0 {
        wait_until("some have ended", s(60), async || {
            let ended = doc! { "status": "done", "tandem.line": { "$exists": true } };
            let ended = collection(world, "transaction").count_documents(ended).await;
            ended.expect("MongoDB is there") > 0
        })
        .await;
    }
}

/// Users with payments between them that have ended, beside documents of others.
pub(super) async fn settled(engine: &str) -> (World, Client, Vec<ObjectId>) {
    let world = world_of(SCHEMA).await;
    let users: Vec<ObjectId> = (0..10).map(|_| ObjectId::new()).collect();
    insert(&world, "user", users.iter().map(|id| user(*id, 1_000, "active")).collect()).await;
    foreign(&world).await;
    let client = world.client().await;
    let worker = world.worker("one").flag("--engine", engine).flag("--sweep-ms", 200);
    let worker = worker.flag("--orphan-ms", 500).start().await;
    // While they settle, too, each account stands for the moment of its piece.
    for wave in 0..10 {
        let ids = wave * PAYMENTS / 10 + 1..=(wave + 1) * PAYMENTS / 10;
        insert(&world, "transaction", ids.map(|id| payment(id, &users)).collect()).await;
        let report = audited(&client, 3).await;
        assert_eq!(report.violations, [], "{engine}");
        assert_eq!((report.accounts, report.moments > 3), (11, true), "{engine}: {report:?}");
        worker_has_begun(&world, wave).await;
    }
    let all = u64::try_from(PAYMENTS).expect("not negative") + 1;
    ended(&world, ("transaction", "status"), &["done"], all).await;
    unmarked(&world, "user", "wallet.open").await;
    drop(worker);
    (world, client, users)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_finds_nothing_while_payments_settle_and_each_wrong_that_is_planted() {
    for engine in ["two-phase", "transaction"] {
        let (world, client, users) = settled(engine).await;
        assert_eq!(wrongs(&client).await, Vec::<String>::new(), "{engine}");
        let report = audited(&client, u64::MAX).await;
        let payments = u64::try_from(PAYMENTS).expect("not negative");
        let read = (report.accounts, report.transactions, report.moments);
        assert_eq!(read, (11, payments, 1), "{engine}: {report:?}");
        assert!(report.lines > 0, "{engine}: {report:?}");
        let id = users[3].to_hex();
        for (name, key, plant, named) in [
            (
                "user",
                doc! { "_id": users[3] },
                doc! { "$inc": { "wallet.score": 1_i64 } },
                format!("{id} has moved by 1"),
            ),
            (
                "user",
                doc! { "_id": users[3] },
                doc! { "$push": { "wallet.open": "77" } },
                format!("accounts/{id}: has the mark of transactions/77, which is done"),
            ),
            (
                "user",
                doc! { "_id": users[3] },
                doc! { "$push": { "wallet.open": "777" } },
                format!("accounts/{id}: has the mark of transactions/777, which does not exist"),
            ),
            (
                "user",
                doc! { "_id": users[3] },
                doc! { "$set": { "wallet": 5 } },
                format!("accounts/{id}: balance: "),
            ),
            (
                "transaction",
                doc! { "_id": 7 },
                doc! { "$set": { "status": "canceled" } },
                "transactions/7: is canceled, and done in the line".to_owned(),
            ),
            (
                "transaction",
                doc! { "_id": 7 },
                doc! { "$set": { "status": "basket" } },
                "transactions/7: state \"\" is not one of ours".to_owned(),
            ),
            (
                "transaction",
                doc! { "_id": 7 },
                doc! { "$set": { "score": 9 } },
                "transactions/7: differs from the line".to_owned(),
            ),
            (
                JOURNAL,
                doc! { "done.0": { "$exists": true } },
                doc! { "$set": { "done.0.2": -400_i64 } },
                "tandem.journal/".to_owned(),
            ),
        ] {
            let there = one(&world, name, key.clone()).await;
            let own = doc! { "_id": there.get("_id") };
            collection(&world, name).update_one(own.clone(), plant.clone()).await.expect("it is");
            let found = wrongs(&client).await;
            assert!(found.iter().any(|one| one.starts_with(&named)), "{plant}: {found:#?}");
            collection(&world, name).replace_one(own, there).await.expect("MongoDB is there");
        }
        assert_eq!(wrongs(&client).await, Vec::<String>::new(), "{engine}");
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_stands_twice_is_named_wherever_it_is_on_the_way() {
    let world = world_of(SCHEMA).await;
    let client = world.client().await;
    let users = collection(&world, "user");
    let (within, parent, own) = (ObjectId::new(), ObjectId::new(), ObjectId::new());
    let mut twice = rawdoc! { "score": 5_i64, "color": "red" };
    twice.append(cstr!("color"), "blue");
    insert_raw(&users, &rawdoc! { "_id": within, "wallet": twice }).await;
    let mut twice = rawdoc! { "_id": parent, "wallet": { "score": 5_i64 } };
    twice.append(cstr!("wallet"), rawdoc! {});
    insert_raw(&users, &twice).await;
    let mut twice = rawdoc! { "floor": 0_i64 };
    twice.append(cstr!("floor"), 0_i64);
    insert_raw(&users, &rawdoc! { "_id": own, "tandem": twice }).await;
    for fine in [Bson::from(5), Bson::from(vec![doc! { "score": 5 }]), Bson::Null] {
        insert(&world, "user", vec![doc! { "_id": ObjectId::new(), "wallet": fine }]).await;
    }
    let found = wrongs(&client).await;
    for id in [within, parent, own] {
        let named = format!("accounts/{}: has a field twice", id.to_hex());
        assert!(found.iter().any(|one| one.starts_with(&named)), "{id}: {found:#?}");
    }
    assert_eq!(found.len(), 3, "{found:#?}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_known_by_a_number_or_by_a_name_are_audited_in_the_servers_order() {
    for schema in [BY_NUMBER, BY_NAME] {
        let world = world_of(schema).await;
        let is_named = schema == BY_NAME;
        let key = |n: i32| if is_named { Bson::from(format!("Joe {n}")) } else { number(n) };
        let person = |n: i32| match is_named {
            true => doc! { "_id": n, "name": key(n), "money": 1_000 },
            false => doc! { "_id": key(n), "money": 1_000 },
        };
        // As texts, 9 comes after 10.
        insert(&world, "people", (1..=12).map(person).collect()).await;
        insert(&world, "people", vec![doc! { "_id": "nobody", "age": 5 }]).await;
        let payment = |n: i32| {
            let (from, to) = (key(n % 12 + 1), key((n + 5) % 12 + 1));
            let at = DateTime::now();
            let mut payment = doc! {
                "from": { "person": from }, "to": { "person": to }, "value": 2, "lastModified": at,
            };
            match is_named {
                true => payment.insert("state", "initial"),
                false => payment.insert("now", doc! { "state": "initial" }),
            };
            payment
        };
        let client = world.client().await;
        let worker = world.worker("one").flag("--engine", "two-phase").flag("--sweep-ms", 200);
        let worker = worker.flag("--orphan-ms", 500).start().await;
        for wave in 0..10 {
            insert(&world, "payments", (wave * 10..wave * 10 + 10).map(payment).collect()).await;
            let report = audited(&client, 2).await;
            assert_eq!(report.violations, [], "{schema}");
            assert_eq!(report.unexplained.accounts, 0, "{schema}");
            assert_eq!((report.accounts, report.moments > 5), (12, true), "{schema}: {report:?}");
        }
        let (state, words): (_, &[&str]) =
            if is_named { ("state", &["done"]) } else { ("now.state", &["paid"]) };
        ended(&world, ("payments", state), words, 100).await;
        unmarked(&world, "people", "pendingTransactions").await;
        drop(worker);
        assert_eq!(wrongs(&client).await, Vec::<String>::new(), "{schema}");

        let moved = doc! { "$inc": { "money": -1 } };
        let (field, name) = if is_named { ("name", "Joe 9") } else { ("_id", "9") };
        collection(&world, "people")
            .update_one(doc! { field: key(9) }, moved)
            .await
            .expect("it is");
        let found = wrongs(&client).await;
        assert_eq!(found, [format!("{name} has moved by -1")], "{schema}");
        world.finish().await;
    }
}
