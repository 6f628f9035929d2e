//! Pausing settlement and draining a worker over HTTP and from the console: who may, who is named, and
//! what everybody is shown.

use harness::api::Api;
use harness::wait::{eventually, s, wait_until};
use harness::world::World;
use ledger::transaction::State;
use serde_json::{Value, json};

use super::console::{form, sign_in};
use super::transfer;

const PAUSE: &str = "/v1/settlement/pause";
const RESUME: &str = "/v1/settlement/resume";

/// How settlement stands, when no worker is left that does not do so.
async fn stands(api: &Api) -> Value {
    eventually("every worker does so", s(60), async || {
        let stands = api.get("/v1/settlement").await.expect(200).json();
        Some(stands).filter(|stands| stands["workersLeft"] == json!([]))
    })
    .await
}

#[tokio::test]
async fn only_an_operator_pauses_and_a_submission_that_waits_is_told_why() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let reader = world.token(&file, "reader", "read,submit").await;
    let operator = world.token(&file, "olivia", "read,submit,operate").await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let worker = world.worker("one").start().await;
    let mut api = world.api(&["--tokens", &path]).await;
    let why = json!({ "reason": "a wrong price list" });

    api.use_token(&reader);
    api.post(PAUSE, &why).await.expect(403);
    api.act(RESUME).await.expect(403);
    let never = api.get("/v1/settlement").await.expect(200).json();
    assert_eq!(never, json!({ "paused": false, "workersLeft": [] }));

    api.use_token(&operator);
    for (body, pointer) in [
        (json!({}), "#/reason"),
        (json!({ "reason": "" }), "#/reason"),
        (json!({ "reason": 7 }), "#/reason"),
        (json!({ "reason": "why", "by": "somebody else" }), "#/by"),
    ] {
        let refused = api.post(PAUSE, &body).await.expect(422).json();
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let paused = api.post(PAUSE, &why).await.expect(200).json();
    assert_eq!((&paused["paused"], &paused["by"]), (&true.into(), &"olivia".into()), "{paused}");
    let again = api.post(PAUSE, &json!({ "reason": "another" })).await.expect(200).json();
    let what = |said: &Value| ["since", "by", "reason"].map(|field| said[field].clone());
    assert_eq!(what(&again), what(&paused), "the first pause stays");

    api.use_token(&reader);
    assert_eq!(what(&stands(&api).await), what(&paused));
    let submitted = transfer("t", "a", "b", 5);
    let waits = api.post("/v1/transactions?wait=1", &submitted).await.expect(202).json();
    let note = waits["note"].as_str().expect("a note");
    assert!(note.contains("by olivia: a wrong price list"), "{note}");
    assert!(note.contains("`producer resume`"), "{note}");
    let seen = eventually("the overview tells it", s(60), async || {
        let seen = api.get("/v1/overview").await.expect(200).json();
        Some(seen).filter(|seen| seen["workers"][0]["activity"] == "paused")
    })
    .await;
    assert_eq!(seen["pause"]["by"], "olivia", "{seen}");
    assert_eq!(seen["problems"][0]["code"], "settlement_paused", "{seen}");

    api.use_token(&operator);
    let resumed = api.act(RESUME).await.expect(200).json();
    assert_eq!((&resumed["paused"], &resumed["by"]), (&false.into(), &"olivia".into()));
    world.wait_state("t", State::Done, s(60)).await;
    let done = api.post("/v1/transactions?wait=30", &submitted).await.expect(200).json();
    assert!(done.get("note").is_none(), "{done}");
    assert_eq!(stands(&api).await["paused"], false);
    world.assert_at_rest().await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_console_asks_before_it_pauses_and_shows_everybody_who_has_and_why() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let reader = world.token(&file, "reader", "read").await;
    let operator = world.token(&file, "olivia", "read,operate").await;
    world.accounts(&[("a", 100)]).await;
    let api = world.api(&["--tokens", &path]).await;
    let (reading, operating) = (sign_in(&api, &reader).await, sign_in(&api, &operator).await);
    let reading = [("Cookie", reading.as_str())];
    let operating = [("Cookie", operating.as_str())];
    let page = async |with: &[(&str, &str)], path: &str| {
        api.send("GET", path, with, "").await.expect(200).body
    };

    let overview = page(&operating, "/").await;
    assert!(overview.contains("/console/confirm?act=pause&amp;id=ledger"), "{overview}");
    assert!(!page(&reading, "/").await.contains("act=pause"));
    let asked = page(&operating, "/console/confirm?act=pause&id=ledger").await;
    assert!(asked.contains("Pause settlement") && asked.contains("name=\"reason\""), "{asked}");
    assert!(!asked.contains("Settlement is paused"), "{asked}");
    let act = "act=pause&id=ledger&reason=";
    form(&api, "/console/act", &operating, act).await.expect(422);
    form(&api, "/console/act", &reading, &format!("{act}x")).await.expect(403);
    assert_eq!(world.store.settlement().await.expect("MongoDB is there"), None);
    let done = form(&api, "/console/act", &operating, &format!("{act}a+wrong+price+list")).await;
    let done = done.expect(200).body;
    assert!(done.contains("Settlement is paused") && done.contains("olivia"), "{done}");
    for path in ["/", "/console/accounts", "/console/account?id=a", "/console/transactions"] {
        let shown = page(&reading, path).await;
        assert!(shown.contains("Settlement is paused"), "{path}: {shown}");
        assert!(shown.contains("by olivia: a wrong price list"), "{path}: {shown}");
    }
    wait_until("the overview offers to go on", s(60), async || {
        page(&operating, "/").await.contains("act=resume")
    })
    .await;
    let resume = "act=resume&id=ledger&reason=mended";
    form(&api, "/console/act", &operating, resume).await.expect(200);
    wait_until("nobody is shown a pause any more", s(60), async || {
        !page(&reading, "/console/accounts").await.contains("Settlement is paused")
    })
    .await;
    let said = world.store.settlement().await.expect("MongoDB is there").expect("it was paused");
    assert_eq!((said.paused, said.reason.as_deref()), (false, Some("mended")));
    world.finish().await;
}

/// An API with tokens of a reader and an operator, and a worker that has said how it is.
async fn with_a_worker(world: &World) -> (Api, String, String, impl Sized) {
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let reader = world.token(&file, "reader", "read,submit").await;
    let operator = world.token(&file, "olivia", "read,submit,operate").await;
    let worker = world.worker("settle 1").start().await;
    let api = world.api(&["--tokens", &path]).await;
    wait_until("the worker has said how it is", s(60), async || {
        !world.store.workers().await.expect("MongoDB is there").is_empty()
    })
    .await;
    (api, reader, operator, worker)
}

#[tokio::test]
async fn only_an_operator_drains_a_worker_and_everybody_sees_who_has() {
    let world = World::new().await;
    let (mut api, reader, operator, worker) = with_a_worker(&world).await;
    let (drain, resume) = ("/v1/workers/settle%201/drain", "/v1/workers/settle%201/resume");
    let why = json!({ "reason": "its machine is to be replaced" });
    api.use_token(&reader);
    api.post(drain, &why).await.expect(403);
    api.act(resume).await.expect(403);
    let never = api.get("/v1/workers/settle%201").await.expect(200).json();
    assert_eq!(never, json!({ "worker": "settle 1", "drained": false, "workersLeft": [] }));
    let missing = api.get("/v1/workers/settle-9").await.expect(404).json();
    let detail = missing["detail"].as_str().expect("a text");
    assert!(detail.contains("within a day there were settle 1"), "{detail}");

    api.use_token(&operator);
    api.post("/v1/workers/settle-9/drain", &why).await.expect(404);
    let refused = api.post(drain, &json!({})).await.expect(422).json();
    assert_eq!(refused["errors"][0]["pointer"], "#/reason", "{refused}");
    let drained = api.post(drain, &why).await.expect(200).json();
    assert_eq!((&drained["drained"], &drained["by"]), (&true.into(), &"olivia".into()));
    let again = api.post(drain, &json!({ "reason": "another" })).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["reason"], "its machine is to be replaced");

    api.use_token(&reader);
    wait_until("it says that it is drained", s(60), async || {
        let stands = api.get("/v1/workers/settle%201").await.expect(200).json();
        stands["workersLeft"] == json!([])
    })
    .await;
    let seen = eventually("the overview tells it", s(60), async || {
        let seen = api.get("/v1/overview").await.expect(200).json();
        Some(seen).filter(|seen| seen["workers"][0]["activity"] == "drained")
    })
    .await;
    assert_eq!(seen["workers"][0]["drain"]["by"], "olivia", "{seen}");
    assert_eq!(seen["pause"], Value::Null, "{seen}");
    assert_eq!(seen["problems"][0]["code"], "all_workers_drained", "{seen}");

    api.use_token(&operator);
    let resumed = api.act(resume).await.expect(200).json();
    assert_eq!(resumed["drained"], false, "{resumed}");
    let acts = api.get("/v1/acts?what=worker.drain").await.expect(200).json();
    let on = &acts["items"][0]["on"];
    assert_eq!(*on, json!({ "kind": "worker", "ids": ["settle 1"] }), "{acts}");
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn the_console_asks_before_it_drains_a_worker_and_shows_who_has_and_why() {
    let world = World::new().await;
    let (api, reader, operator, worker) = with_a_worker(&world).await;
    let (reading, operating) = (sign_in(&api, &reader).await, sign_in(&api, &operator).await);
    let reading = [("Cookie", reading.as_str())];
    let operating = [("Cookie", operating.as_str())];
    let page = async |with: &[(&str, &str)], path: &str| {
        api.send("GET", path, with, "").await.expect(200).body
    };
    wait_until("the overview has the worker", s(60), async || {
        page(&operating, "/").await.contains("/console/confirm?act=drain&amp;id=settle")
    })
    .await;
    assert!(!page(&reading, "/").await.contains("act=drain"));
    let asked = page(&operating, "/console/confirm?act=drain&id=settle%201").await;
    assert!(asked.contains("Drain the worker") && asked.contains("name=\"reason\""), "{asked}");
    let act = "act=drain&id=settle+1&reason=";
    form(&api, "/console/act", &operating, act).await.expect(422);
    form(&api, "/console/act", &reading, &format!("{act}x")).await.expect(403);
    assert_eq!(world.store.drained().await.expect("MongoDB is there"), []);
    let done = form(&api, "/console/act", &operating, &format!("{act}a+new+machine")).await;
    let done = done.expect(200).body;
    assert!(done.contains("It says now: <b>to be drained</b>"), "{done}");
    wait_until("everybody is shown who has drained it", s(60), async || {
        let shown = page(&reading, "/").await;
        shown.contains("drained since") && shown.contains("a new machine")
    })
    .await;
    wait_until("an operator is offered to resume it", s(60), async || {
        page(&operating, "/").await.contains("act=resume-worker")
    })
    .await;
    let resume = "act=resume-worker&id=settle+1&reason=replaced";
    form(&api, "/console/act", &operating, resume).await.expect(200);
    assert_eq!(world.store.drained().await.expect("MongoDB is there"), []);
    drop(worker);
    world.finish().await;
}
