//! Who did what: by the API, the console and the command line, with what became of it.

mod broken;
mod command_line;
mod console;
mod http;

use harness::world::{World, transfer};
use ledger::transaction::{ParkCode, Parked};
use mongo::raw_id;
use mongodb::bson::DateTime;
use serde_json::Value;

/// The acts that the command line lists, in the order in which they were begun.
async fn acts(world: &World, flags: &[&str]) -> Vec<Value> {
    let listed = world.producer(&[&["acts", "--json", "--limit", "1000"], flags].concat()).await;
    let lines = listed.expect_success().stdout;
    let read = |line: &str| serde_json::from_str(line).expect("a line of JSON");
    lines.lines().rev().map(read).collect()
}

/// What was done, to what, and what became of it, like `account.freeze a ok`.
fn told(act: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("not known").to_owned();
    let ids = act["on"]["ids"].as_array().expect("a list").iter().map(text);
    let ids = ids.collect::<Vec<_>>().join(" ");
    let on = if ids.is_empty() { text(&act["on"]["kind"]) } else { ids };
    let code = act["ended"]["code"].as_str().map(|code| format!(" {code}")).unwrap_or_default();
    format!("{} {on} {}{code}", text(&act["what"]), text(&act["ended"]["result"]))
}

/// A transfer of 5 from `a` to `b` that is parked.
async fn park(world: &World, id: &str) {
    world.insert(&[transfer(id, "a", "b", 5)]).await;
    let why = Parked::new(ParkCode::TransactionUnwritable, "a test");
    world.store.park_by_id(&[raw_id(id)], &why).await.expect("MongoDB is there");
}

/// A transfer of 5 from `a` to `b` that is due in 2099.
async fn schedule(world: &World, id: &str) {
    let due = DateTime::parse_rfc3339_str("2099-01-01T00:00:00Z").expect("a moment");
    let client = world.client().await;
    let later = client::Submission::transfer("a", "b", 5).with_id(id);
    client.submit(later.not_before(due.to_system_time())).await.expect("it is accepted");
}
