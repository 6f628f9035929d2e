//! Credentials are changed while transfers are settled: two users by turns, as the handbook says.

use harness::servers::{GuardedMongo, OwnBroker, Servers};
use harness::wait::{s, wait_until};
use harness::worker::Plan;
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::Client;
use mongodb::bson::{Document, doc};

fn user(name: &str, role: &str) -> Document {
    doc! { "createUser": name, "pwd": "secret", "roles": [role] }
}

async fn submit(world: &World, name: &str) {
    let some: Vec<_> = (0..200).map(|n| transfer(&format!("{name}-{n}"), "a", "b", 1)).collect();
    world.submit(&some, 5).await;
}

#[tokio::test]
async fn credentials_are_rotated_while_workers_settle_and_the_old_ones_are_refused() {
    let name = format!("rotating-{}", uuid::Uuid::new_v4().simple());
    let role = "readWriteAnyDatabase";
    let users = [user("root", "root"), user("first", role), user("second", role)];
    let mongo = GuardedMongo::start(&name, &users).await;
    let broker = OwnBroker::start(&name).await;
    let root = mongo.uri("root", "admin");
    let servers = Servers { mongodb_uri: root.clone(), amqp_url: broker.amqp_url.clone() };
    let world = World::on(servers).await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let urls = [broker.user("first", [".*"; 3]).await, broker.user("second", [".*"; 3]).await];
    let plan = |worker: &str, user: usize| -> Plan {
        let uri = mongo.uri(["first", "second"][user], "admin");
        world.worker(worker).mongodb(&uri).amqp(&urls[user])
    };
    let mut old = plan("old", 0).start().await;
    let mut forgotten = plan("forgotten", 0).start().await;
    submit(&world, "x").await;

    let new = plan("new", 1).start().await;
    old.drain(s(30)).await;
    let admin = Client::with_uri_str(&root).await.expect("the uri is good").database("admin");
    admin.run_command(doc! { "dropUser": "first" }).await.expect("it is there");
    broker.control(&["delete_user", "first"]).await;

    submit(&world, "y").await;
    world.wait_final(s(120)).await;
    assert_eq!(world.count(&[State::Done]).await, 400);
    wait_until("who has the old credentials can't work", s(60), async || {
        forgotten.exited().is_some() || !forgotten.is_ready().await
    })
    .await;
    assert!(new.is_ready().await);
    world.assert_at_rest().await;
    drop((new, forgotten));
    world.finish().await;
}
