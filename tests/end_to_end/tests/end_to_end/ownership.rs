//! The database is the user's: what exists is checked and never changed unasked. A server that
//! refuses for good ends a start at once, with a sentence that says what to do.

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use harness::producer::Answer;
use harness::wait::s;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongo::Choice;
use mongodb::IndexModel;
use mongodb::bson::{Bson, DateTime, Document, doc};

/// Worlds without a ledger in them.
pub(super) async fn empty_world() -> World {
    let world = World::new().await;
    world.store.database().drop().await.expect("the database can be dropped");
    world
}

fn foreign() -> Document {
    doc! { "owner": { "$type": "string" } }
}

/// The user had accounts before there was a ledger.
async fn world_with_foreign_accounts() -> World {
    let world = empty_world().await;
    let create = doc! { "create": "accounts", "validator": foreign() };
    world.store.database().run_command(create).await.expect("it is created");
    world
}

async fn validator(world: &World, collection: &str) -> Option<Document> {
    let found = world.store.database().list_collections().filter(doc! { "name": collection });
    let found: Vec<_> = found.await.expect("MongoDB is there").try_collect().await.expect("there");
    found.into_iter().next().and_then(|collection| collection.options.validator)
}

pub(super) async fn change(world: &World, command: Document) {
    world.store.database().run_command(command).await.expect("MongoDB takes it");
}

/// The missing things that `init` names, as `collection: kind`.
pub(super) fn missing(answer: &Answer) -> Vec<String> {
    let told = answer.json();
    let missing = told["missing"].as_array().expect("a list").iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    missing.map(|lack| format!("{}: {}", text(&lack["collection"]), text(&lack["kind"]))).collect()
}

pub(super) async fn init(world: &World, arguments: &[&str]) -> Answer {
    world.producer(&[&["init", "--json"], arguments].concat()).await
}

/// A worker ends by itself with exit code 1; returns its message.
pub(super) async fn refused_start(world: &World) -> String {
    let mut worker = world.worker("refused").launch();
    let exit = worker.exit(s(30)).await;
    assert_eq!(exit.code(), Some(1), "{}", worker.log());
    worker.log()
}

#[tokio::test]
async fn a_fresh_database_is_set_up_by_several_at_once_and_settles() {
    let world = empty_world().await;
    for _ in 0..5 {
        world.store.database().drop().await.expect("the database can be dropped");
        let all = join_all((0..8).map(|_| world.store.ensure_schema())).await;
        for ensured in all {
            ensured.expect("every one of them finds a whole ledger");
        }
        let inspection = world.store.inspect(Choice::default()).await.expect("MongoDB is there");
        assert_eq!((inspection.unfinished, inspection.findings), (false, vec![]));
    }
    world.store.database().drop().await.expect("the database can be dropped");
    let (answer, worker) = tokio::join!(
        world.producer(&["accounts", "create", "a", "--balance", "5"]),
        world.worker("one").start()
    );
    answer.expect_success();
    world.producer(&["accounts", "create", "b"]).await.expect_success();
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    world.wait_state("t", State::Done, s(30)).await;
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn what_was_begun_and_not_finished_is_finished_by_the_next() {
    let world = World::new().await;
    let settings: mongodb::Collection<Document> =
        world.store.database().collection(mongo::SETTINGS);
    let unset = doc! { "$set": { "complete": false } };
    settings.update_one(doc! { "_id": "settings" }, unset).await.expect("MongoDB is there");
    world.store.transactions().drop().await.expect("MongoDB is there");
    world.store.ensure_schema().await.expect("it goes on");
    assert!(validator(&world, "transactions").await.is_some());
    world.finish().await;
}

#[tokio::test]
async fn a_validator_of_the_users_own_is_never_overwritten() {
    let world = world_with_foreign_accounts().await;
    let said = refused_start(&world).await;
    assert!(said.contains("init --apply"), "{said}");
    let refused = world.producer(&["accounts", "create", "a"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("--apply"), "{}", refused.stderr);

    let told = init(&world, &["--history", "off", "--validator"]).await;
    assert_eq!(told.code, Some(1));
    assert_eq!(
        missing(&told),
        [
            "accounts: validator_foreign",
            "transactions: collection",
            "transactions: index",
            "transactions: index",
            "transactions: index",
            "transactions: index",
            "transactions: index",
            "transactions: index",
            "tandem.journal: collection",
            "tandem.order: collection",
            "tandem.order: index",
            "tandem.workers: collection",
            "tandem.workers: index",
            "tandem.acts: collection",
            "tandem.acts: index",
            "tandem.acts: index",
            "tandem.jobs: collection",
            "tandem.jobs: index",
            "tandem.jobs: index",
            "tandem.settings: settings"
        ]
    );
    assert_eq!(validator(&world, "transactions").await, None, "it was created unasked");

    let applied = init(&world, &["--apply", "--validator"]).await;
    assert_eq!(applied.code, Some(1), "the user has to decide");
    assert_eq!(missing(&applied), ["accounts: validator_foreign"]);
    assert_eq!(validator(&world, "accounts").await, Some(foreign()));
    let command = applied.json()["missing"][0]["command"].as_str().map(str::to_owned);
    let command = command.expect("a command that merges");
    assert!(command.contains("\"owner\"") && command.contains("$balance"), "{command}");

    // The effect of the command, with the validator of another ledger.
    let other = World::new().await;
    let ours = validator(&other, "accounts").await.expect("a validator");
    other.finish().await;
    let both = doc! { "$and": [foreign(), ours] };
    change(&world, doc! { "collMod": "accounts", "validator": &both }).await;
    let told = init(&world, &[]).await;
    assert_eq!((told.code, missing(&told)), (Some(0), vec![]));
    assert_eq!(validator(&world, "accounts").await, Some(both));
    let worker = world.worker("one").start().await;
    drop(worker);
    world.finish().await;
}

/// It would refuse what their owner inserts next.
#[tokio::test]
async fn collections_of_others_get_no_validator_unless_it_is_asked_for() {
    let world = empty_world().await;
    let accounts = world.store.database().collection::<Document>("accounts");
    let theirs = doc! { "_id": 5, "login": "ann", "balance": "none" };
    accounts.insert_one(&theirs).await.expect("MongoDB is there");
    let told = init(&world, &[]).await;
    assert!(missing(&told).iter().all(|lack| !lack.contains("validator")), "{:?}", missing(&told));
    assert_eq!(init(&world, &["--apply"]).await.code, Some(0));
    for collection in ["accounts", "transactions"] {
        assert_eq!(validator(&world, collection).await, None);
    }
    let next = doc! { "_id": 6, "login": "bob", "balance": "none" };
    accounts.insert_one(next).await.expect("nobody refuses it");
    let good = [doc! { "_id": "a", "balance": 5 }, doc! { "_id": "b" }];
    accounts.insert_many(good).await.expect("nobody refuses them");
    let worker = world.worker("one").start().await;
    world.producer(&["transfer", "a", "b", "1", "--wait"]).await.expect_success();
    drop(worker);
    let found = accounts.find_one(doc! { "_id": 5 }).await.expect("MongoDB is there");
    assert_eq!(found, Some(theirs));
    world.finish().await;
}

#[tokio::test]
async fn who_does_without_validators_is_not_asked_again() {
    let world = world_with_foreign_accounts().await;
    let told = init(&world, &["--apply", "--no-validator"]).await;
    assert_eq!((told.code, missing(&told)), (Some(0), vec![]));
    assert_eq!(validator(&world, "accounts").await, Some(foreign()));
    assert_eq!(validator(&world, "transactions").await, None);
    assert_eq!(init(&world, &[]).await.code, Some(0));
    let worker = world.worker("one").start().await;
    drop(worker);
    let told = init(&world, &["--apply", "--validator"]).await;
    assert_eq!(missing(&told), ["accounts: validator_foreign"]);
    assert!(validator(&world, "transactions").await.is_some());
    world.finish().await;
}

#[tokio::test]
async fn what_is_missing_is_named_and_applied_only_when_told_to() {
    let world = World::new().await;
    let index = |name| doc! { "dropIndexes": "transactions", "index": name };
    change(&world, index("swept")).await;
    let lax = doc! { "collMod": "accounts", "validationLevel": "moderate" };
    change(&world, lax).await;
    change(&world, doc! { "collMod": "transactions", "validator": {} }).await;
    let lacks =
        ["accounts: validator_lax", "transactions: validator", "transactions: index"].to_vec();
    for _ in 0..2 {
        assert_eq!(missing(&init(&world, &[]).await), lacks);
    }
    let said = refused_start(&world).await;
    assert!(said.contains("producer init --apply") && said.contains("and 2 more"), "{said}");
    let refused = world.producer(&["list"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);

    let told = init(&world, &["--apply"]).await;
    assert_eq!((told.code, missing(&told)), (Some(0), vec![]));
    assert_eq!(told.json()["applied"].as_array().map(Vec::len), Some(3));
    world.producer(&["list"]).await.expect_success();
    world.finish().await;
}

#[tokio::test]
async fn what_became_of_the_database_is_said_though_the_broker_is_away() {
    let world = World::new().await;
    change(&world, doc! { "dropIndexes": "transactions", "index": "swept" }).await;
    let away = ["--amqp-url", "amqp://127.0.0.1:1", "--give-up-after", "1"];
    let told = init(&world, &away).await;
    assert_eq!((told.code, missing(&told)), (Some(1), vec!["transactions: index".into()]));
    assert!(told.stderr.contains("RabbitMQ"), "{}", told.stderr);
    let told = init(&world, &[&["--apply"], &away[..]].concat()).await;
    assert_eq!((told.code, missing(&told)), (Some(1), vec![]));
    assert_eq!(told.json()["applied"].as_array().map(Vec::len), Some(1));
    world.finish().await;
}

#[tokio::test]
async fn an_index_of_the_users_own_under_our_name_stays() {
    let world = World::new().await;
    change(&world, doc! { "dropIndexes": "transactions", "index": "by_creation" }).await;
    let options = mongodb::options::IndexOptions::builder().name("by_creation".to_owned()).build();
    let own = IndexModel::builder().keys(doc! { "metadata.x": 1 }).options(options).build();
    world.store.transactions().create_index(own).await.expect("MongoDB takes it");
    let told = init(&world, &["--apply"]).await;
    assert_eq!((told.code, missing(&told)), (Some(1), vec!["transactions: index_differs".into()]));
    let command = &told.json()["missing"][0]["command"];
    assert_eq!(command, "db.transactions.dropIndex(\"by_creation\")");
    change(&world, doc! { "dropIndexes": "transactions", "index": "by_creation" }).await;
    assert_eq!(init(&world, &["--apply"]).await.code, Some(0));
    world.finish().await;
}

#[tokio::test]
async fn an_index_of_the_users_own_that_makes_ends_dearer_is_named_and_nothing_is_refused() {
    let world = World::new().await;
    let done = doc! { "state": "done" };
    let index =
        doc! { "name": "mine", "key": { "metadata.x": 1 }, "partialFilterExpression": done };
    change(&world, doc! { "createIndexes": "transactions", "indexes": [index] }).await;
    let told = init(&world, &[]).await.expect_success().json();
    let slowing = &told["slowing"][0];
    assert_eq!((&slowing["index"], &slowing["field"]), (&"mine".into(), &"state".into()));
    assert_eq!(told["slowing"].as_array().map(Vec::len), Some(1), "{told}");
    world.producer(&["list"]).await.expect_success();
    world.finish().await;
}

async fn set_settings(world: &World, field: &str, value: impl Into<Bson>) {
    let settings: mongodb::Collection<Document> =
        world.store.database().collection(mongo::SETTINGS);
    let set = doc! { "$set": { field: value.into() } };
    let done = settings.update_one(doc! { "_id": "settings" }, set).await;
    assert_eq!(done.expect("MongoDB is there").matched_count, 1);
}

#[tokio::test]
async fn a_worker_stops_when_the_ledger_names_what_it_does_not_know() {
    for (field, value, named) in [
        ("protocol", Bson::from(99), "version 99"),
        ("features", Bson::Array(vec!["teleport".into()]), "teleport"),
    ] {
        let world = World::new().await;
        world.accounts(&[("a", 100), ("b", 0)]).await;
        let mut worker = world.worker("one").start().await;
        world.submit(&[transfer("t", "a", "b", 1)], 1).await;
        world.wait_state("t", State::Done, s(30)).await;
        set_settings(&world, field, value).await;
        let exit = worker.exit(s(30)).await;
        assert_eq!(exit.code(), Some(1));
        assert!(worker.log().contains(named), "{}", worker.log());
        let said = refused_start(&world).await;
        assert!(said.contains(named) && said.contains("newer version"), "{said}");
        for command in [
            &["list"][..],
            &["audit"],
            &["transfer", "a", "b", "1"],
            &["init", "--apply"],
            &["accounts", "show", "a"],
        ] {
            let refused = world.producer(command).await;
            assert_eq!(refused.code, Some(1), "{command:?}");
            assert!(refused.stderr.contains(named), "{command:?}: {}", refused.stderr);
        }
        world.finish().await;
    }
}

#[tokio::test]
async fn an_older_ledger_is_refused_by_every_program() {
    let world = World::new().await;
    set_settings(&world, "protocol", 3).await;
    let said = refused_start(&world).await;
    assert!(said.contains("protocol 3") && said.contains("another database"), "{said}");
    for command in
        [&["list"][..], &["audit"], &["transfer", "a", "b", "1"], &["init"], &["init", "--apply"]]
    {
        let refused = world.producer(command).await;
        assert_eq!(refused.code, Some(1), "{command:?}");
        assert!(refused.stderr.contains("protocol 3"), "{command:?}: {}", refused.stderr);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_ledger_from_before_workers_were_seen_works_and_init_adds_what_it_lacks() {
    let world = World::new().await;
    let database = world.store.database();
    let workers = database.collection::<Document>(mongo::WORKERS);
    workers.drop().await.expect("MongoDB is there");
    assert_eq!(
        missing(&init(&world, &[]).await),
        ["tandem.workers: collection", "tandem.workers: index"]
    );
    world.accounts(&[("a", 5), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    world.submit(&[transfer("t", "a", "b", 5)], 1).await;
    world.wait_state("t", State::Done, s(60)).await;
    // Somebody's own document stays, also after a day.
    let own = doc! { "_id": "own", "seenAt": DateTime::from_millis(0) };
    workers.insert_one(own).await.expect("MongoDB is there");
    assert_eq!(init(&world, &["--apply"]).await.code, Some(0));
    assert_eq!(missing(&init(&world, &[]).await), [""; 0]);
    let indexes = database.run_command(doc! { "listIndexes": mongo::WORKERS }).await;
    let indexes = indexes.expect("MongoDB is there").to_string();
    assert!(indexes.contains("\"expireAfterSeconds\": 86400"), "{indexes}");
    assert!(indexes.contains("\"kind\": \"tandem-worker\""), "or it removes what is not ours");
    drop(worker);
    world.finish().await;
}
