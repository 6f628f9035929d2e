//! Servers that refuse for good end a start with exit code 1 and a sentence; a user with few
//! rights works on what others have set up.

use harness::servers::{GuardedMongo, OwnBroker, Servers};
use harness::wait::{promised, s, wait_until};
use harness::worker::Plan;
use harness::world::{World, transfer};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use ledger::remedy::Remedy;
use ledger::transaction::State;
use mongodb::bson::{Bson, Document, doc};
use queue::WORK;

use super::followed::follow;

/// A worker ends by itself with exit code 1; returns its message.
async fn refused_start(plan: Plan) -> String {
    let mut worker = plan.launch();
    let exit = worker.exit(s(30)).await;
    assert_eq!(exit.code(), Some(1), "{}", worker.log());
    worker.log()
}

#[tokio::test]
async fn a_wrong_password_for_mongodb_ends_the_start_at_once() {
    let world = World::new().await;
    let uri = &world.servers.mongodb_uri;
    let wrong = uri.replace("mongodb://", "mongodb://nobody:geheim@");
    let said = refused_start(world.worker("one").mongodb(&wrong)).await;
    assert!(said.contains("Authentication failed") && said.contains("authSource"), "{said}");
    assert!(!said.contains("geheim"), "{said}");
    assert!(!said.contains("waiting for the database"), "{said}");
    let begun = std::time::Instant::now();
    for command in ["list", "audit"] {
        let refused = world.producer(&[command, "--mongodb-uri", &wrong]).await;
        assert_eq!(refused.code, Some(1), "{command}: {}", refused.stderr);
        assert!(refused.stderr.contains("authSource"), "{command}: {}", refused.stderr);
    }
    assert!(begun.elapsed() < promised(s(30)), "it insisted for {:?}", begun.elapsed());
    world.finish().await;
}

#[tokio::test]
async fn a_wrong_login_or_virtual_host_for_rabbitmq_ends_the_start_at_once() {
    let world = World::new().await;
    let url = &world.servers.amqp_url;
    for (wrong, named) in [
        (url.replace("guest:guest@", "nobody:geheim@"), "ACCESS_REFUSED"),
        (url.replace("%2f", "nowhere"), "nowhere"),
    ] {
        let said = refused_start(world.worker("one").amqp(&wrong)).await;
        assert!(said.contains(named) && said.contains("TANDEM_AMQP_URL"), "{said}");
        assert!(!said.contains("geheim"), "{said}");
        let begun = std::time::Instant::now();
        let refused = world.producer(&["init", "--amqp-url", &wrong]).await;
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(begun.elapsed() < promised(s(30)), "it insisted for {:?}", begun.elapsed());
    }
    world.finish().await;
}

#[tokio::test]
async fn a_queue_with_other_arguments_ends_the_start_and_is_named() {
    let world = World::new().await;
    world.queues.delete(WORK).await;
    let connection =
        Connection::connect(&world.servers.amqp_url, ConnectionProperties::default()).await;
    let connection = connection.expect("RabbitMQ is there");
    let channel = connection.create_channel().await.expect("RabbitMQ is there");
    let queue = format!("{}.work.v1", world.name);
    let (options, arguments) = (QueueDeclareOptions::durable(), FieldTable::default());
    let declared = channel.queue_declare(queue.as_str().into(), options, arguments).await;
    declared.expect("a classic queue");
    let said = refused_start(world.worker("one")).await;
    assert!(said.contains(&queue) && said.contains("TANDEM_QUEUE_PREFIX"), "{said}");
    world.finish().await;
}

#[tokio::test]
async fn a_user_who_may_not_configure_works_on_what_others_have_declared() {
    let broker = OwnBroker::start(&format!("rights-{}", uuid::Uuid::new_v4().simple())).await;
    let world = World::on(broker.servers()).await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let limited = broker.user("limited", ["^$", ".*", ".*"]).await;
    let worker = world.worker("one").amqp(&limited).start().await;
    let amqp = ["--amqp-url", &limited];
    let arguments = [&["transfer", "a", "b", "5", "--wait"][..], &amqp].concat();
    world.producer(&arguments).await.expect_success();
    drop(worker);
    // It can't create the missing queue, and says so.
    world.queues.delete(WORK).await;
    let said = refused_start(world.worker("two").amqp(&limited)).await;
    assert!(said.contains(&format!("{}.work.v1", world.name)), "{said}");
    follow(&world, &said, Remedy::Init).await.expect_success();
    drop(world.worker("two").amqp(&limited).start().await);
    // This user may not read either.
    let deaf = broker.user("deaf", ["^$", ".*", "^$"]).await;
    let said = refused_start(world.worker("three").amqp(&deaf)).await;
    assert!(said.contains("refused for user 'deaf'"), "{said}");
    world.assert_at_rest().await;
    world.finish().await;
}

fn user(name: &str, role: impl Into<Bson>) -> Document {
    doc! { "createUser": name, "pwd": "secret", "roles": [role.into()] }
}

fn role(name: &str, privileges: &[(&str, &[&str])]) -> Document {
    let privileges: Vec<Document> = privileges
        .iter()
        .map(|(collection, actions)| {
            doc! { "resource": { "db": "", "collection": collection }, "actions": *actions }
        })
        .collect();
    doc! { "createRole": name, "privileges": privileges, "roles": [] }
}

#[tokio::test]
async fn a_mongodb_user_with_few_rights_works_on_what_others_have_set_up() {
    let write = ["find", "insert", "update"];
    let commands = [
        user("root", "root"),
        role(
            "few",
            &[
                ("accounts", &write),
                ("transactions", &write),
                ("tandem.journal", &write),
                ("tandem.order", &write),
                ("tandem.sums", &write),
                ("tandem.parked", &write),
                ("tandem.events", &["find", "insert", "update", "remove"]),
                ("tandem.progress", &write),
                ("tandem.settings", &["find"]),
                ("tandem.settlement", &["find"]),
                ("", &["listCollections", "listIndexes"]),
            ],
        ),
        role(
            "blind",
            &[("accounts", &write), ("transactions", &write), ("tandem.settings", &["find"])],
        ),
        user("few", "few"),
        user("blind", "blind"),
        user("writer", "readWriteAnyDatabase"),
    ];
    let name = format!("rights-{}", uuid::Uuid::new_v4().simple());
    let mongo = GuardedMongo::start(&name, &commands).await;
    let shared = Servers::from_env();
    let as_root = Servers { mongodb_uri: mongo.uri("root", "t"), ..shared };
    let world = World::on(as_root).await;
    world.store.database().drop().await.expect("root may");

    let few = mongo.uri("few", "t");
    let said = refused_start(world.worker("one").mongodb(&few)).await;
    assert!(said.contains("not authorized") && said.contains("readWrite"), "{said}");
    // The usual role may set a fresh database up.
    let as_writer = mongo.uri("writer", "t");
    let arguments = ["accounts", "create", "a", "--balance", "10", "--mongodb-uri", &as_writer];
    world.producer(&arguments).await.expect_success();
    world.accounts(&[("b", 0)]).await;
    let worker = world.worker("two").mongodb(&few).start().await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;
    world.wait_state("t", State::Done, s(30)).await;
    drop(worker);
    let blind = mongo.uri("blind", "t");
    let said = refused_start(world.worker("three").mongodb(&blind)).await;
    assert!(said.contains("may not list the collections"), "{said}");
    world.assert_at_rest().await;
    world.finish().await;
}

/// Removes or grants a right of the role `few` on a collection.
async fn change_rights(world: &World, command: &str, collection: &str, actions: &[&str]) {
    let resource = doc! { "db": "", "collection": collection };
    let privileges = [doc! { "resource": resource, "actions": actions }];
    let command = doc! { command: "few", "privileges": privileges.to_vec() };
    let admin = world.store.database().client().database("admin");
    admin.run_command(command).await.expect("root may");
}

#[tokio::test]
async fn a_mongodb_user_who_lacks_a_right_of_a_worker_ends_the_start_and_harms_nobody() {
    let write = ["find", "update", "insert"];
    let look = ["listCollections", "listIndexes"];
    let few = [
        ("accounts", &write[..]),
        ("transactions", &write),
        ("tandem.settings", &["find"]),
        ("", &look),
    ];
    let missing = [
        ("tandem.journal", &write[..]),
        ("tandem.order", &write),
        ("tandem.sums", &write),
        ("tandem.parked", &write),
        ("tandem.events", &["find", "update", "insert", "remove"]),
        ("tandem.progress", &write),
        ("tandem.settlement", &["find"]),
    ];
    let commands = [
        user("root", "root"),
        role("few", &few),
        user("few", "few"),
        user("reader", "readAnyDatabase"),
    ];
    let name = format!("rights-{}", uuid::Uuid::new_v4().simple());
    let mongo = GuardedMongo::start(&name, &commands).await;
    let as_root = Servers { mongodb_uri: mongo.uri("root", "t"), ..Servers::from_env() };
    let world = World::on(as_root).await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.submit(&[transfer("t", "a", "b", 1)], 1).await;

    let reader = mongo.uri("reader", "t");
    let said = refused_start(world.worker("reader").mongodb(&reader)).await;
    assert!(said.contains("may not `update` in the collection `accounts`"), "{said}");
    let few = mongo.uri("few", "t");
    for (collection, actions) in missing {
        for missing in actions {
            let said = refused_start(world.worker("few").mongodb(&few)).await;
            let named = format!("may not `{missing}` in the collection `{collection}`");
            assert!(said.contains(&named) && said.contains("readWrite"), "{said}");
            change_rights(&world, "grantPrivilegesToRole", collection, &[missing]).await;
        }
    }
    assert_eq!(world.state("t").await, State::Initial);
    let names = world.store.database().list_collection_names().await.expect("root may");
    assert!(!names.contains(&"tandem.parked".to_owned()), "a check has written");

    let worker = world.worker("whole").mongodb(&few).start().await;
    world.wait_state("t", State::Done, s(30)).await;
    change_rights(&world, "revokePrivilegesFromRole", "tandem.parked", &["find"]).await;
    world.insert(&[transfer("forgotten", "a", "b", 1)]).await;
    wait_until("it warns that it can't sweep", s(30), async || {
        worker.log().contains("can't sweep")
    })
    .await;
    change_rights(&world, "grantPrivilegesToRole", "tandem.parked", &["find"]).await;
    world.wait_state("forgotten", State::Done, s(30)).await;
    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
