//! Acts by the console: single ones, bulk jobs, and how they are shown.

use harness::api::Api;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use serde_json::json;

use super::{acts, park, told};
use crate::api::console::form;

/// Reads a page.
async fn page(api: &Api, path: &str) -> String {
    api.get(path).await.expect(200).body
}

#[tokio::test]
async fn each_act_by_the_console_is_noted_with_its_reason_and_shown_where_it_belongs() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let worker = world.worker("one").start().await;
    let hold = json!({ "id": "h", "source": "a", "destination": "b", "value": 1, "hold": true });
    api.post("/v1/transactions", &hold).await;
    world.wait_state("h", State::Held, s(60)).await;
    let act = async |what: &str, id: &str, status: u16| {
        let body = format!("act={what}&id={id}&reason=%3Cb%3Ewhy%3C%2Fb%3E");
        form(&api, "/console/act", &[], &body).await.expect(status);
    };
    act("confirm", "h", 200).await;
    act("freeze", "b", 200).await;
    act("cancel", "nothing", 404).await;
    act("audit", "ledger", 200).await;
    form(&api, "/console/act", &[], "act=unfreeze&id=b").await.expect(422);

    let acts = acts(&world, &[]).await;
    let expected = [
        "hold.confirm h ok",
        "account.freeze b ok",
        "transaction.cancel nothing refused not-found",
        "audit.begin ledger ok",
    ];
    assert_eq!(acts.iter().map(told).collect::<Vec<_>>(), expected, "without a reason, nothing");
    for act in &acts {
        let who = &act["who"];
        assert_eq!((&who["via"], &who["from"]), (&"console".into(), &"127.0.0.1".into()), "{act}");
        assert_eq!(act["reason"], "<b>why</b>", "{act}");
    }
    for (path, what) in [
        ("/console/acts", "audit.begin"),
        ("/console/acts?what=account.freeze", "account.freeze"),
        ("/console/account?id=b", "account.freeze"),
        ("/console/transaction?id=h", "hold.confirm"),
    ] {
        let page = page(&api, path).await;
        assert!(page.contains(what) && page.contains("&lt;b&gt;why"), "{path}: {page}");
    }
    let others = page(&api, "/console/account?id=a").await;
    assert!(others.contains("<h2>Acts</h2><p>There are none."), "{others}");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_bulk_job_is_an_act_and_so_is_each_of_its_items_with_its_reason() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    for id in ["t1", "t2", "t3"] {
        park(&world, id).await;
    }
    world.insert(&[transfer("beside", "a", "b", 5)]).await;
    let api = world.api(&[]).await;
    let body = "act=unpark&account=b&until=9999999999999&count=3&reason=mended";
    form(&api, "/console/bulk", &[], body).await.expect(303);
    wait_until("the job has ended", s(60), async || {
        page(&api, "/console/job").await.contains("It is <b>ended</b>")
    })
    .await;
    form(&api, "/console/job", &[], "do=stop").await.expect(409);
    let acts = acts(&world, &[]).await;
    let mut told: Vec<String> = acts.iter().map(told).collect();
    told[1..4].sort();
    let expected = [
        "job.begin transaction ok",
        "transaction.unpark t1 ok",
        "transaction.unpark t2 ok",
        "transaction.unpark t3 ok",
        "job.stop transaction refused wrong-state",
    ];
    assert_eq!(told, expected);
    assert_eq!(acts[0]["on"]["count"], 3, "{}", acts[0]);
    assert!(acts[..4].iter().all(|act| act["reason"] == "mended"), "{acts:?}");
    world.finish().await;
}
