//! Two servers are one console: jobs, audits and looks at the dead letters are of the ledger.

use std::os::unix::fs::PermissionsExt;

use client::{ActSubject, ActVia, ActWho};
use harness::api::Api;
use harness::wait::{eventually, s, wait_until};
use harness::world::World;
use ledger::transaction::{ParkCode, State};
use mongo::{JOBS, JobActor, JobEnd, JobKind, JobProgress, JobState, JobWish, NewJob, SeenJob};
use mongodb::bson::{Document, doc};
use queue::DEAD;

use super::console::form;
use super::console_bulk::{MANY, park, parked, previewed};

/// A ledger with many parked transfers of 5 from `a` to `b`.
async fn with_many_parked() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 10_000), ("b", 0)]).await;
    let many: Vec<String> = (0..MANY).map(|n| format!("t{n:04}")).collect();
    park(&world, &many, ParkCode::KillsWorker).await;
    world
}

async fn two(world: &World) -> (Api, Api) {
    tokio::join!(world.api(&[]), world.api(&[]))
}

/// Brings all of them back, as a job that is begun at this server.
async fn begin(api: &Api) {
    let body = previewed(api, "act=unpark&code=kills_worker").await + &format!("&number={MANY}");
    form(api, "/console/bulk", &[], &body).await.expect(303);
}

async fn page(api: &Api, path: &str) -> String {
    api.get(path).await.expect(200).body
}

async fn shows(api: &Api, path: &str, words: &str) {
    wait_until(&format!("it says {words:?}"), s(60), async || {
        page(api, path).await.contains(words)
    })
    .await;
}

async fn last(world: &World, kind: JobKind) -> SeenJob {
    let last = world.store.last_job(kind).await.expect("MongoDB is there");
    last.expect("there was one")
}

/// Waits until a job has done some of its items and has some left.
async fn amid(world: &World) -> SeenJob {
    eventually("it has done some", s(60), async || {
        let job = last(world, JobKind::Bulk).await;
        assert!(job.state.is_alive(), "it was too fast: {job:?}");
        (job.progress.done > 0 && job.is_held()).then_some(job)
    })
    .await
}

/// All of them are settled once by a worker.
async fn assert_each_is_done_once(world: &World) {
    assert_eq!(parked(world).await, 0);
    let worker = world.worker("one").start().await;
    wait_until("all are settled", s(120), async || {
        world.count(&[State::Done]).await == MANY as u64
    })
    .await;
    drop(worker);
    assert_eq!(world.balance("b").await, (5 * MANY as i64).into());
    world.assert_at_rest().await;
}

#[tokio::test]
async fn a_job_that_was_begun_at_one_server_is_shown_and_steered_at_the_other() {
    let world = with_many_parked().await;
    let (one, other) = two(&world).await;
    shows(&other, "/console/job", "No job was started in this ledger yet").await;
    begin(&one).await;
    shows(&other, "/console/job", "Bring the parked transaction back").await;
    form(&other, "/console/job", &[], "do=pause").await.expect(303);
    for api in [&one, &other] {
        shows(api, "/console/job", "It is <b>paused</b>").await;
    }
    let left = parked(&world).await;
    assert!(left > 0, "it was too late for a pause");
    let another = previewed(&other, "act=unpark&code=kills_worker").await;
    let another = if left < 100 { another } else { format!("{another}&number={left}") };
    form(&other, "/console/bulk", &[], &another).await.expect(429);

    form(&other, "/console/job", &[], "do=resume").await.expect(303);
    wait_until("it goes on", s(60), async || parked(&world).await < left).await;
    form(&one, "/console/job", &[], "do=stop").await.expect(303);
    for api in [&one, &other] {
        shows(api, "/console/job", "It is <b>stopped</b>").await;
    }
    let id = last(&world, JobKind::Bulk).await.id;
    for api in [&one, &other] {
        let shown = page(api, &format!("/console/job?id={id}")).await;
        assert!(shown.contains("mended") && shown.contains("The last jobs and audits"), "{shown}");
        assert!(page(api, "/console/job").await.contains(&id), "it is listed");
        api.get("/console/job?id=none").await.expect(404);
    }
    world.finish().await;
}

#[tokio::test]
async fn a_job_whose_server_is_killed_is_brought_to_its_end_by_the_other_and_nothing_is_done_twice()
{
    let world = with_many_parked().await;
    let (mut one, mut other) = two(&world).await;
    begin(&one).await;
    let held = amid(&world).await;
    let is_of = |api: &Api| held.holder.ends_with(&format!("process {}", api.pid()));
    let left = if is_of(&one) {
        one.kill();
        other
    } else {
        assert!(is_of(&other), "{}", held.holder);
        other.kill();
        one
    };
    shows(&left, "/console/job", "It is <b>ended</b>").await;
    let job = last(&world, JobKind::Bulk).await;
    let JobProgress { done, gone, failed, ref again, .. } = job.progress;
    assert_eq!((done + gone, failed, again.len()), (MANY as u64, 0, 0), "each counts once");
    // What the killed one had done last and could not note.
    assert!(gone <= 16, "{gone} were not there any more");
    assert_eq!(job.begun, 2);
    assert!(page(&left, "/console/job").await.contains("have taken it up 2 times"));
    assert_each_is_done_once(&world).await;
    world.finish().await;
}

#[tokio::test]
async fn a_job_goes_on_exactly_where_it_was_after_all_servers_were_restarted() {
    let world = with_many_parked().await;
    let (mut one, mut other) = two(&world).await;
    begin(&one).await;
    amid(&world).await;
    tokio::join!(one.drain(s(60)), other.drain(s(60)));
    let job = last(&world, JobKind::Bulk).await;
    assert!(job.state.is_alive() && job.lease_until.is_none(), "it was given back: {job:?}");
    let api = world.api(&[]).await;
    shows(&api, "/console/job", "It is <b>ended</b>").await;
    let job = last(&world, JobKind::Bulk).await;
    let JobProgress { done, gone, failed, .. } = job.progress;
    assert_eq!((done, gone, failed), (MANY as u64, 0, 0), "nothing was tried twice");
    assert_eq!(job.losses, 0, "no server was lost");
    assert_each_is_done_once(&world).await;
    world.finish().await;
}

#[tokio::test]
async fn a_server_without_the_key_lets_the_job_of_a_lost_one_rest_until_somebody_goes_on() {
    let world = with_many_parked().await;
    let file = world.directory().join("tokens");
    let tokens = file.to_str().expect("UTF-8");
    let olivia = world.token(&file, "olivia", "read,operate").await;
    let key = |name: &str, letter: &str| {
        let file = world.write(name, letter.repeat(64));
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, owner_only).expect("the file is ours");
        file
    };
    let (old, new) = (key("old", "1"), key("new", "2"));
    let mut one = world.api(&["--tokens", tokens, "--session-keys", &old]).await;
    one.use_token(&olivia);
    begin(&one).await;
    let held = amid(&world).await;
    let digest = std::fs::read_to_string(&file).expect("it is there");
    let jobs = world.store.database().collection::<Document>(JOBS);
    let stored = jobs.find_one(doc! { "_id": &held.id }).await.expect("MongoDB is there");
    let stored = stored.expect("it is there").to_string();
    for word in digest.split_whitespace().filter(|word| word.len() > 30) {
        assert!(!stored.contains(word), "who reads the database learns no digest");
    }
    one.kill();

    let mut other = world.api(&["--tokens", tokens, "--session-keys", &new]).await;
    other.use_token(&olivia);
    shows(&other, "/console/job", "It is <b>paused</b>").await;
    shows(&other, "/console/job", "has not the key").await;
    assert!(parked(&world).await > 0);
    form(&other, "/console/job", &[], &format!("do=resume&id={}", held.id)).await.expect(303);
    shows(&other, "/console/job", "It is <b>ended</b>").await;
    assert_each_is_done_once(&world).await;
    world.finish().await;
}

/// An audit that this test has, as a server has it.
async fn held_audit(world: &World) -> SeenJob {
    let who = ActWho {
        name: "anybody".to_owned(),
        person: None,
        via: ActVia::Console,
        from: None,
        claimed: false,
        request: None,
    };
    let audit = NewJob {
        id: "an-audit".to_owned(),
        kind: JobKind::Audit,
        operation: "audit".to_owned(),
        words: "the whole ledger".to_owned(),
        on: ActSubject::ledger(),
        reason: Some("daily".to_owned()),
        actor: JobActor { who, sealed: String::new() },
        total: 0,
    };
    let store = &world.store;
    assert!(store.begin_job(&audit).await.expect("MongoDB is there"));
    assert!(store.begin_job(&audit).await.expect("MongoDB is there"), "it may be sent twice");
    let another = NewJob { id: "another".to_owned(), ..audit };
    assert!(!store.begin_job(&another).await.expect("MongoDB is there"), "one at a time");
    let begun = last(world, JobKind::Audit).await;
    let taken = store.take_job(&begun, "a test").await.expect("MongoDB is there");
    let second = store.take_job(&begun, "a second").await.expect("MongoDB is there");
    assert_eq!(second, None, "one has it");
    taken.expect("nobody else wants it")
}

#[tokio::test]
async fn an_audit_is_shown_with_its_progress_and_stopped_at_any_server() {
    let world = World::new().await;
    world.accounts(&[("a", 10)]).await;
    let audit = held_audit(&world).await;
    let (one, other) = two(&world).await;
    let reading = "accounts".to_owned();
    let progress = JobProgress { read: 12_345, reading, ..JobProgress::default() };
    let beat = async || {
        let beat = world.store.beat_job(&audit.id, audit.lease, &progress, false).await;
        beat.expect("MongoDB is there").expect("it is still this test's").wish
    };
    assert_eq!(beat().await, JobWish::GoOn);
    for api in [&one, &other] {
        let shown = page(api, "/console/audit").await;
        assert!(shown.contains("12,345 documents read, accounts"), "{shown}");
    }
    form(&one, "/console/act", &[], "act=audit&id=ledger&reason=twice").await.expect(429);
    form(&one, "/console/job", &[], &format!("do=stop&id={}", audit.id)).await.expect(303);
    assert_eq!(beat().await, JobWish::Stop);
    shows(&other, "/console/audit", "it is about to stop").await;
    let end = JobEnd { state: JobState::Stopped, why: None, found: None };
    let ended = world.store.end_job(&audit.id, audit.lease, &progress, &end).await;
    assert!(ended.expect("MongoDB is there"));
    let late = world.store.beat_job(&audit.id, audit.lease, &progress, false).await;
    assert_eq!(late.expect("MongoDB is there"), None, "who stalls and comes back has lost it");
    for api in [&one, &other] {
        shows(api, "/console/audit", "It was stopped before its end").await;
    }
    let acts = world.producer(&["acts", "--what", "audit.stop"]).await.expect_success().stdout;
    assert!(acts.contains("audit.stop"), "{acts}");

    form(&other, "/console/act", &[], "act=audit&id=ledger&reason=again").await.expect(200);
    shows(&one, "/console/audit", "Every rule holds.").await;
    world.finish().await;
}

#[tokio::test]
async fn an_audit_whose_server_is_lost_begins_anew_at_another_one_and_says_so() {
    let world = World::new().await;
    world.accounts(&[("a", 10)]).await;
    let audit = held_audit(&world).await;
    let api = world.api(&[]).await;
    // Nobody says any more that the audit goes on.
    shows(&api, "/console/audit", "Every rule holds.").await;
    let shown = page(&api, &format!("/console/job?id={}", audit.id)).await;
    assert!(shown.contains("It was begun 2 times, each time from the start"), "{shown}");
    let job = last(&world, JobKind::Audit).await;
    assert_eq!((job.state, job.losses), (JobState::Ended, 1));
    world.finish().await;
}

#[tokio::test]
async fn a_job_that_several_servers_were_lost_with_takes_no_further_one_down() {
    let world = World::new().await;
    held_audit(&world).await;
    let jobs = world.store.database().collection::<Document>(JOBS);
    let lost = doc! { "$set": { "losses": 2_i64 } };
    jobs.update_one(doc! { "_id": "an-audit" }, lost).await.expect("MongoDB is there");
    let api = world.api(&[]).await;
    shows(&api, "/console/audit", "3 servers were lost while they went on with it").await;
    assert_eq!(last(&world, JobKind::Audit).await.state, JobState::Broken);
    world.finish().await;
}

#[tokio::test]
async fn servers_that_look_at_the_dead_letters_at_once_see_all_of_them_each() {
    const LETTERS: u64 = 60;
    let world = World::new().await;
    let bodies: Vec<Vec<u8>> = (0..LETTERS).map(|n| format!("letter {n}").into_bytes()).collect();
    world.queues.publish_all_raw(DEAD, &bodies).await;
    world.queues.wait_depth(DEAD, LETTERS as u32, s(30)).await;
    let (one, other) = two(&world).await;
    let looks = async |api: &Api| {
        let mut seen = 0;
        for _ in 0..10 {
            let answer = api.get("/v1/dead-letters").await;
            if answer.status == 503 {
                assert!(answer.body.contains("Nothing was changed"), "{}", answer.body);
                continue;
            }
            let listed = answer.expect(200).json();
            // A look ends after a second, and says so where that were not all.
            if listed["complete"] == true {
                assert_eq!(listed["count"], LETTERS);
                seen += 1;
            }
        }
        seen
    };
    let (at_one, at_other) = tokio::join!(looks(&one), looks(&other));
    assert!(at_one > 0 && at_other > 0, "each has its turn: {at_one} and {at_other}");

    // A look that says nothing any more holds the others up for some seconds only.
    for _ in ["it takes its turn", "it keeps it"] {
        assert!(world.store.take_letters("a test").await.expect("MongoDB is there"));
    }
    let refused = one.get("/v1/dead-letters").await.expect(503);
    assert!(refused.body.contains("Nothing was changed"), "{}", refused.body);
    wait_until("the turn is over", s(60), async || {
        other.get("/v1/dead-letters").await.status == 200
    })
    .await;
    world.queues.wait_depth(DEAD, LETTERS as u32, s(30)).await;
    world.finish().await;
}
