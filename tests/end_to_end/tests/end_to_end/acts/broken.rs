//! What can't be noted is not done, and what became of it is told only where somebody knows.

use harness::producer;
use harness::proxy::Part;
use harness::wait::{s, wait_until};
use harness::world::World;
use mongodb::bson::doc;

use super::{acts, told};
use crate::api::console::form;

async fn status(world: &World, account: &str) -> String {
    let found = world.store.accounts().find_one(doc! { "_id": account }).await;
    let found = found.expect("MongoDB is there").expect("the account is there");
    found.get_str("status").unwrap_or("open").to_owned()
}

#[tokio::test]
async fn what_can_t_be_noted_first_is_not_done() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    // Somebody lets nothing more into the collection of acts.
    let closed = doc! { "collMod": mongo::ACTS, "validator": { "nothing": { "$exists": true } } };
    world.store.database().run_command(closed).await.expect("MongoDB takes it");
    let refused = api.act("/v1/accounts/a/freeze").await.expect(503);
    assert!(refused.body.contains("nothing was done"), "{}", refused.body);
    let body = "act=freeze&id=a&reason=why";
    let refused = form(&api, "/console/act", &[], body).await.expect(503);
    assert!(refused.body.contains("nothing was done"), "{}", refused.body);
    assert_eq!(status(&world, "a").await, "open");
    let open = doc! { "collMod": mongo::ACTS, "validator": {} };
    world.store.database().run_command(open).await.expect("MongoDB takes it");

    // The database goes away before it has the first note of a command.
    let (database, uri) = world.mongodb_proxy().await;
    let held = database.hold("begin act", 1, Part::Request);
    let mut env = world.env();
    env.insert("TANDEM_MONGODB_URI".to_owned(), uri);
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), "0".to_owned());
    let failing = producer::run(&env, &["accounts", "freeze", "a"]);
    let cutting = async {
        held.caught(s(60)).await;
        database.refuse();
        held.discard();
    };
    let (refused, ()) = tokio::join!(failing, cutting);
    assert_eq!(refused.code, Some(1), "it surely had no effect: {refused:?}");
    assert!(refused.stderr.contains("nothing was done"), "{refused:?}");
    assert_eq!(status(&world, "a").await, "open");
    assert_eq!(acts(&world, &[]).await, Vec::<serde_json::Value>::new());
    world.finish().await;
}

#[tokio::test]
async fn an_act_of_a_server_that_is_killed_in_the_middle_is_told_as_not_known() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (database, uri) = world.mongodb_proxy().await;
    let mut api = world.api_with(&[], &[("TANDEM_MONGODB_URI", &uri)]).await;
    let held = database.hold("status", 1, Part::Reply);
    let path = "/v1/accounts/a/freeze?reason=stolen";
    let sending = harness::http::send(api.address, "POST", path, &[], "", s(60));
    let killing = async {
        held.caught(s(60)).await;
        api.kill();
        held.discard();
    };
    let (answer, ()) = tokio::join!(sending, killing);
    assert!(answer.is_none(), "{answer:?}");
    wait_until("it is frozen all the same", s(30), async || status(&world, "a").await == "frozen")
        .await;
    let found = acts(&world, &["--account", "a"]).await;
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), ["account.freeze a not known"]);
    let shown = world.producer(&["acts", "--account", "a"]).await.expect_success().stdout;
    assert!(shown.contains("because: stolen  begun; its end is not known"), "{shown}");

    let next = world.api(&[]).await;
    let page = next.get("/console/account?id=a").await.expect(200).body;
    assert!(page.contains("begun; its end is not known"), "{page}");
    // Doing it again is another act.
    next.act("/v1/accounts/a/freeze").await.expect(200);
    let found = acts(&world, &["--account", "a"]).await;
    assert_eq!(told(&found[1]), "account.freeze a ok");
    world.finish().await;
}

#[tokio::test]
async fn an_end_that_can_t_be_noted_changes_nothing_of_what_is_told() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (database, uri) = world.mongodb_proxy().await;
    let held = database.hold("end act", 1, Part::Request);
    let mut env = world.env();
    env.insert("TANDEM_MONGODB_URI".to_owned(), uri);
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), "0".to_owned());
    let freezing = producer::run(&env, &["accounts", "freeze", "a"]);
    let cutting = async {
        held.caught(s(60)).await;
        database.refuse();
        held.discard();
    };
    let (frozen, ()) = tokio::join!(freezing, cutting);
    let frozen = frozen.expect_success();
    assert!(frozen.stdout.contains("a: frozen"), "{frozen:?}");
    assert!(frozen.stderr.contains("could not be noted"), "{frozen:?}");
    let found = acts(&world, &[]).await;
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), ["account.freeze a not known"]);
    world.finish().await;
}
