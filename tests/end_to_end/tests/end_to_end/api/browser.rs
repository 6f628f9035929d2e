//! The console in a real browser, under load: `tests/console/browse.mjs` visits every page.
//!
//! With `TANDEM_CONSOLE_FIGURES=DIRECTORY` it takes the pictures of the documents as well.

use std::process::Stdio;

use harness::api::Api;
use harness::deployment::root;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer as insert};
use ledger::transaction::{ParkCode, Parked};
use mongo::raw_id;
use queue::DEAD;
use serde_json::json;
use tokio::process::Command;

use super::transfer;

const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Transactions that the browser finds: a hostile one, one on hold, a parked one, and one of a dead
/// letter, whose id it returns.
async fn prepare(world: &World, api: &Api) -> String {
    for id in ["a", "b", HOSTILE] {
        let account = json!({ "account": id, "balance": 1_000_000_000 });
        api.post("/v1/accounts", &account).await.expect(201);
    }
    let hostile = json!({
        "id": HOSTILE, "source": HOSTILE, "destination": "a", "value": 1,
        "metadata": { HOSTILE: HOSTILE },
    });
    api.post("/v1/transactions?wait=60", &hostile).await.expect(200);
    let hold =
        json!({ "id": "hold", "source": "a", "destination": "b", "value": 30, "hold": true });
    api.post("/v1/transactions?wait=60", &hold).await.expect(200);
    world.insert(&[insert("parked-1", "a", "b", 5), insert("parked-2", "a", "b", 7)]).await;
    let why = Parked::new(ParkCode::KillsWorker, HOSTILE);
    let ids = [raw_id("parked-1"), raw_id("parked-2")];
    world.store.park_by_id(&ids, &why).await.expect("MongoDB is there");
    let bulk = ["bulk-1", "bulk-2", "bulk-3"];
    world.insert(&bulk.map(|id| insert(id, "a", "b", 1))).await;
    let why = Parked::new(ParkCode::AccountUnusable, "somebody edited it");
    world.store.park_by_id(&bulk.map(raw_id), &why).await.expect("MongoDB is there");
    world.queues.publish_raw(DEAD, br#"{"ids":["parked-2"]}"#).await;
    wait_until("the letter is there", s(30), async || {
        api.get("/v1/dead-letters").await.json()["count"] == 1
    })
    .await;
    let letters = api.get("/v1/dead-letters").await.json();
    letters["items"][0]["id"].as_str().expect("an id").to_owned()
}

/// Submits arrays until it is dropped.
async fn load(api: &Api) {
    for batch in 0.. {
        let item = |at: u32| {
            let (from, to) = if at.is_multiple_of(2) { ("a", "b") } else { ("b", "a") };
            transfer(&format!("load-{batch}-{at}"), from, to, i64::from(at) + 1)
        };
        let items: Vec<_> = (0..200).map(item).collect();
        api.post("/v1/batch", &items.into()).await.expect(200);
    }
}

#[tokio::test]
async fn operators_see_and_do_in_a_browser_what_the_console_promises() {
    let world = World::new().await;
    let worker = world.worker("settle-1").start().await;
    let tokens = world.directory().join("tokens");
    let operator =
        world.token(&tokens, "olivia", "read,submit,hold,reverse,accounts,operate").await;
    let reader = world.token(&tokens, "reader", "read").await;
    let mut api = world.api(&["--tokens", tokens.to_str().expect("UTF-8")]).await;
    api.use_token(&operator);
    let letter = prepare(&world, &api).await;
    let variable = |name: &str| std::env::var(name).expect("deploy/test sets it");
    let mut browse = Command::new("node");
    browse
        .arg(root().join("tests/console/browse.mjs"))
        .env("TANDEM_BROWSER", variable("TANDEM_BROWSER"))
        .env("TANDEM_CHROMIUM", variable("TANDEM_CHROMIUM"))
        .env("CONSOLE_URL", format!("http://{}", api.address))
        .env("CONSOLE_OPERATOR", operator)
        .env("CONSOLE_READER", reader)
        .env("CONSOLE_LETTER", letter)
        .env("HOME", world.directory())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if let Ok(figures) = std::env::var("TANDEM_CONSOLE_FIGURES") {
        browse.env("CONSOLE_FIGURES", figures);
    }
    let output = tokio::select! {
        output = browse.output() => output.expect("node runs"),
        () = load(&api) => unreachable!("it goes on"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    drop(worker);
    world.finish().await;
}
