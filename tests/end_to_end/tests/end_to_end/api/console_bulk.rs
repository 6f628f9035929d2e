//! The console's bulk jobs: what a preview counts, what a job touches, and that it can be held.

use harness::api::Api;
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::{ParkCode, Parked, State};
use mongo::{RawId, raw_id};
use queue::WORK;

use super::console::{form, sign_in};

pub(super) const MANY: usize = 400;

/// Parks transfers of 5 from `a` to `b`.
pub(super) async fn park(world: &World, ids: &[String], code: ParkCode) {
    let transfers: Vec<_> = ids.iter().map(|id| transfer(id, "a", "b", 5)).collect();
    world.insert(&transfers).await;
    let raw: Vec<RawId> = ids.iter().map(|id| raw_id(id)).collect();
    for raw in raw.chunks(500) {
        world.store.park_by_id(raw, &Parked::new(code, "a test")).await.expect("MongoDB is there");
    }
}

pub(super) async fn parked(world: &World) -> usize {
    world.store.parked(10_000).await.expect("MongoDB is there").len()
}

/// The value of a hidden field.
fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let at = format!("name=\"{name}\" value=\"");
    page.split_once(&at).expect("the field is there").1.split('"').next().expect("it ends")
}

/// What the form of a preview sends, with a reason.
pub(super) async fn previewed(api: &Api, query: &str) -> String {
    let page = api.get(&format!("/console/bulk?{query}")).await.expect(200).body;
    let (until, count) = (hidden(&page, "until"), hidden(&page, "count"));
    format!("{query}&until={until}&count={count}&reason=mended")
}

async fn ended(api: &Api, words: &str) {
    wait_until("the job has come so far", s(120), async || {
        api.get("/console/job").await.expect(200).body.contains(words)
    })
    .await;
}

#[tokio::test]
async fn a_bulk_job_does_what_its_preview_has_counted_and_nothing_that_came_later() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let many: Vec<String> = (0..MANY).map(|n| format!("t{n:04}")).collect();
    park(&world, &many, ParkCode::KillsWorker).await;
    park(&world, &["other".to_owned()], ParkCode::TransactionUnwritable).await;
    let api = world.api(&[]).await;
    let letters = api.get("/console/letters").await.expect(200).body;
    assert!(letters.contains(">400<") && letters.contains(">2000<"), "{letters}");
    let page = api.get("/console/bulk?act=unpark&code=kills_worker").await.expect(200).body;
    assert!(page.contains("400") && page.contains("<dd>2000</dd>"), "{page}");
    let body = previewed(&api, "act=unpark&code=kills_worker").await;
    park(&world, &["late".to_owned()], ParkCode::KillsWorker).await;

    form(&api, "/console/bulk", &[], &body).await.expect(422);
    let slip = form(&api, "/console/bulk", &[], &format!("{body}&number=40")).await.expect(422);
    assert!(slip.body.contains("id=\"number-problem\">is not 400;"), "{}", slip.body);
    assert!(slip.body.contains("value=\"mended\""), "what was typed stays: {}", slip.body);
    form(&api, "/console/bulk", &[], &format!("{body}&number=400&count=7")).await.expect(409);
    let no_reason = body.replace("reason=mended", "reason=");
    let lacking = form(&api, "/console/bulk", &[], &format!("{no_reason}&number=400")).await;
    assert!(lacking.expect(422).body.contains("id=\"reason-problem\">is needed"));
    assert_eq!(parked(&world).await, MANY + 2);
    let whole = format!("{body}&number=400");
    form(&api, "/console/bulk", &[], &whole).await.expect(303);
    ended(&api, "It is <b>ended</b>").await;
    let page = api.get("/console/job").await.expect(200).body;
    assert!(page.contains("400 done, 0 were not there any more, 0 failed"), "{page}");
    assert_eq!(parked(&world).await, 2, "late and other stay");
    let again = form(&api, "/console/bulk", &[], &whole).await.expect(404);
    assert!(again.body.contains("nothing of it is left"), "{}", again.body);
    let worker = world.worker("one").start().await;
    wait_until("all are settled", s(120), async || {
        world.count(&[State::Done]).await == MANY as u64
    })
    .await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_bulk_job_pauses_goes_on_and_stops_and_is_the_only_one() {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let many: Vec<String> = (0..MANY).map(|n| format!("t{n:04}")).collect();
    park(&world, &many, ParkCode::KillsWorker).await;
    let api = world.api(&[]).await;
    form(&api, "/console/job", &[], "do=pause").await.expect(409);
    let body = previewed(&api, "act=unpark&account=b").await + "&number=400";
    form(&api, "/console/bulk", &[], &body).await.expect(303);
    form(&api, "/console/job", &[], "do=pause").await.expect(303);
    ended(&api, "It is <b>paused</b>").await;
    let left = parked(&world).await;
    assert!(left > 0, "it was too late for a pause");
    form(&api, "/console/bulk", &[], &body).await.expect(429);
    form(&api, "/console/job", &[], "do=resume").await.expect(303);
    wait_until("it goes on", s(120), async || parked(&world).await < left).await;
    form(&api, "/console/job", &[], "do=stop").await.expect(303);
    ended(&api, "It is <b>stopped</b>").await;
    let left = parked(&world).await;
    let rest = previewed(&api, "act=unpark&account=b").await;
    let rest = if left < 100 { rest } else { format!("{rest}&number={left}") };
    form(&api, "/console/bulk", &[], &rest).await.expect(303);
    ended(&api, "It is <b>ended</b>").await;
    assert_eq!(parked(&world).await, 0);
    let log = api.log();
    for event in ["started", "is paused", "goes on", "is stopped", "ended"] {
        assert!(
            log.lines().any(|line| line.contains("unpark") && line.contains(event)),
            "{event}: {log}"
        );
    }
}

#[tokio::test]
async fn dead_letters_of_a_reason_are_discarded_in_bulk_and_others_stay() {
    let world = World::new().await;
    let worker = world.worker("one").start().await;
    for n in 0..5 {
        world.queues.publish_raw(WORK, format!("no JSON {n}").as_bytes()).await;
    }
    let api = world.api(&[]).await;
    let count = async || api.get("/v1/dead-letters").await.json()["count"].as_u64();
    wait_until("the letters are there", s(120), async || count().await == Some(5)).await;
    let reason = api.get("/v1/dead-letters").await.json()["items"][0]["reason"].clone();
    let reason = reason.as_str().expect("a reason");
    let other = api.get("/console/bulk?act=discard&code=another").await.expect(200);
    assert!(other.body.contains("nothing of this kind"), "{}", other.body);
    let body = previewed(&api, &format!("act=discard&code={reason}")).await;
    form(&api, "/console/bulk", &[], &body).await.expect(303);
    ended(&api, "5 done, 0 were not there any more, 0 failed").await;
    assert_eq!(count().await, Some(0));
    drop(worker);
}

#[tokio::test]
async fn bulk_jobs_need_operate_and_rest_without_their_token_until_another_operator_goes_on() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let reader = world.token(&file, "reader", "read").await;
    let before = std::fs::read_to_string(&file).expect("it is there");
    let olivia = world.token(&file, "olivia", "read,operate").await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let many: Vec<String> = (0..MANY).map(|n| format!("t{n:04}")).collect();
    park(&world, &many, ParkCode::KillsWorker).await;
    let api = world.api(&["--tokens", &path]).await;
    let reading = sign_in(&api, &reader).await;
    let reading = [("Cookie", reading.as_str())];
    for page in ["/console/bulk?act=unpark&code=x", "/console/job", "/console/letters"] {
        api.send("GET", page, &reading, "").await.expect(403);
    }
    let start = "act=unpark&code=kills_worker&until=9999999999999&count=400&number=400&reason=x";
    form(&api, "/console/bulk", &reading, start).await.expect(403);
    form(&api, "/console/job", &reading, "do=stop").await.expect(403);
    assert_eq!(parked(&world).await, MANY);

    let operating = sign_in(&api, &olivia).await;
    let operating = [("Cookie", operating.as_str())];
    let elsewhere = [operating[0], ("Sec-Fetch-Site", "cross-site")];
    form(&api, "/console/bulk", &elsewhere, start).await.expect(403);
    let hostile = "/console/bulk?act=unpark&account=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let page = api.send("GET", hostile, &operating, "").await.expect(200);
    assert!(!page.body.contains("<script>alert"), "{}", page.body);
    form(&api, "/console/bulk", &operating, start).await.expect(303);
    // Her token is taken away while the job goes on, and another operator comes.
    wait_until("the first was let go on", s(60), async || parked(&world).await < MANY).await;
    std::fs::write(&file, before).expect("the file can be written");
    let otto = world.token(&file, "otto", "read,operate").await;
    api.signal(harness::process::Signal::Hup);
    let with = format!("token={otto}");
    wait_until("the new token is known", s(30), async || {
        form(&api, "/console/sign-in", &[], &with).await.status == 303
    })
    .await;
    let other = sign_in(&api, &otto).await;
    let other = [("Cookie", other.as_str())];
    let shows = async |words: &[&str]| {
        let page = api.send("GET", "/console/job", &other, "").await.expect(200).body;
        words.iter().all(|word| page.contains(word))
    };
    let gone = "the token &quot;olivia&quot; is gone, or has expired: whoever lets it go on";
    wait_until("it has paused", s(120), async || shows(&["<b>paused</b>", gone]).await).await;
    assert!(parked(&world).await > 0);
    form(&api, "/console/job", &reading, "do=resume").await.expect(403);
    form(&api, "/console/job", &other, "do=resume").await.expect(303);
    let ended = ["It is <b>ended</b>", "It acts for <b>otto</b>", "Started by <b>olivia</b>"];
    wait_until("it has ended", s(120), async || shows(&ended).await).await;
    assert_eq!(parked(&world).await, 0);
    let of = async |who: &str| {
        let acts = ["acts", "--json", "--limit", "1000", "--what", "transaction.unpark"];
        let listed = world.producer(&[&acts[..], &["--who", who]].concat()).await;
        listed.expect_success().stdout.lines().count()
    };
    let (olivia, otto) = (of("olivia").await, of("otto").await);
    assert!(olivia > 0 && otto > 0 && olivia + otto >= MANY, "{olivia} and {otto}");
    world.finish().await;
}
