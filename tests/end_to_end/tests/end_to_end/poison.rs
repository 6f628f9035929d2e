//! A transaction that kills its workers is found and parked alone. Transactions that were delivered
//! with it end as they should, whether in the same batch or in the same message; the other workers
//! go on.
//!
//! The workers here are real ones that abort when they process that transaction
//! (`tests/end_to_end/src/bin/poisoned.rs`), under a supervisor that starts another whenever one
//! has died.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::queues::DeadLetter;
use harness::wait::{promised, s, wait_until};
use harness::worker::{Plan, Worker};
use harness::world::{World, transfer};
use ledger::message::Message;
use ledger::transaction::State;
use queue::{DEAD, SOLO, WORK};

/// How long the whole test may take: every death costs a lease and its grace.
const STORY: Duration = Duration::from_secs(120);

/// How long a good transfer may take while poisoned ones kill workers: it may be delivered together
/// with a poisoned one, wait for a dead worker's lease, and then for its turn alone.
/// With a disk that others kept busy it was 18 and 35 s.
const HEALTHY_LIMIT: Duration = Duration::from_secs(90);

/// Keeps so many workers running.
struct Supervisor<'w> {
    plan: Box<dyn Fn(&str) -> Plan + 'w>,
    workers: Vec<Worker>,
    /// What each dead worker wrote when it processed the poisoned transaction.
    deaths: Vec<String>,
}

impl<'w> Supervisor<'w> {
    fn new(count: usize, plan: impl Fn(&str) -> Plan + 'w) -> Supervisor<'w> {
        let workers = (0..count).map(|n| plan(&format!("slot-{n}")).launch()).collect();
        Supervisor { plan: Box::new(plan), workers, deaths: Vec::new() }
    }

    /// Starts a new worker for each dead one.
    fn look(&mut self) {
        for worker in &mut self.workers {
            if let Some(exit) = worker.exited() {
                let log = worker.log();
                let said = log.lines().find(|line| line.starts_with("poisoned: "));
                let said = said.unwrap_or_else(|| panic!("ended by itself, {exit}:\n{log}"));
                self.deaths.push(said.to_owned());
                *worker = (self.plan)(&format!("life-{}", self.deaths.len())).launch();
            }
        }
    }

    async fn first_death(&mut self) {
        wait_until("a worker has died", s(30), async || {
            self.look();
            !self.deaths.is_empty()
        })
        .await;
    }

    async fn until(&mut self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        wait_until(what, STORY, async || {
            self.look();
            holds().await
        })
        .await;
    }
}

/// How many transactions were processed together with the poisoned one.
fn transactions_in(death: &str) -> usize {
    let number = death.split_whitespace().find_map(|word| word.parse().ok());
    number.expect("it says how many there were")
}

async fn world_with_money() -> World {
    let world = World::new().await;
    world.accounts(&[("a", 100_000), ("b", 0)]).await;
    world
}

/// Takes all dead letters out; each must hold the poisoned transaction alone.
async fn dead_letters_of(world: &World, poison: &[&str]) -> Vec<DeadLetter> {
    let count = world.queues.depth(DEAD).await.expect("the broker is there");
    let letters = world.queues.dead_letters(count as usize, s(20)).await;
    for letter in &letters {
        assert_eq!(letter.reason.as_deref(), Some("kills_worker"), "{letter:?}");
        let message = Message::parse(&letter.body).expect("a message").message;
        let ids: Vec<&str> = message.ids.iter().map(AsRef::as_ref).collect();
        assert!(matches!(&ids[..], [id] if poison.contains(id)), "a neighbour in {ids:?}");
    }
    letters
}

/// A person brings the poisoned transaction back, to workers that it does not kill.
async fn ends_well(world: World, poison: &[&str]) {
    let unparked = world.producer(&[&["unpark"][..], poison].concat()).await;
    assert!(unparked.is_success(), "{unparked:?}");
    // Its deaths and its repeated messages may have used up the attempts that are allowed by
    // default.
    let healthy = world.worker("healthy").flag("--attempts-max", 1_000).start().await;
    // A dead worker may still have held a second message of it, which may get its last strike only
    // now; then it is parked once more.
    wait_until("every transaction is final", s(60), async || {
        let again = world.producer(&["unpark", "--all"]).await;
        again.is_success() && world.count(&State::UNFINISHED).await == 0
    })
    .await;
    assert_eq!(world.count(&[State::Done]).await, world.count(&State::ALL).await);
    for queue in [WORK, SOLO] {
        world.queues.wait_depth(queue, 0, s(30)).await;
    }
    // The sweeper may have published a second message of it before it was parked; that message ends
    // as the first did, when its turn comes.
    dead_letters_of(&world, poison).await;
    world.assert_at_rest().await;
    drop(healthy);
    world.finish().await;
}

#[tokio::test]
async fn a_poison_document_dies_alone_among_its_neighbours_while_others_go_on() {
    let world = world_with_money().await;
    let mut transfers: Vec<_> = (0..150).map(|n| transfer(&format!("t{n}"), "a", "b", 5)).collect();
    transfers.insert(75, transfer("poison", "a", "b", 7));
    world.submit(&transfers, 1).await;
    // All are delivered together and in one batch; the batch waits long enough to collect them.
    let plan = |name: &str| {
        let plan = world.worker(name).flag("--prefetch", 200).flag("--linger-ms", 300);
        plan.poisoned(&["poison"], "post")
    };
    let mut supervisor = Supervisor::new(1, plan);
    supervisor.first_death().await;
    let batch = transactions_in(&supervisor.deaths[0]);
    assert!(batch > 20, "the batch that died first was of {batch}");
    supervisor.workers.extend((0..2).map(|n| plan(&format!("more-{n}")).launch()));
    let mut fresh = Fresh::default();
    supervisor
        .until("the poison is dead and its neighbours are done", async || {
            fresh.submit_and_look(&world).await;
            world.queues.depth(DEAD).await.is_some_and(|depth| depth > 0)
                && world.count(&State::UNFINISHED).await == 1
        })
        .await;
    let (deaths, settled) = (supervisor.deaths.len(), fresh.took.len());
    drop(supervisor);
    let letters = dead_letters_of(&world, &["poison"]).await;
    let slowest = fresh.took.values().max().expect("some were settled meanwhile");
    eprintln!(
        "poison: {} dead letters after {deaths} deaths, the first with a batch of {batch}; \
         meanwhile {settled} others were settled, the slowest in {slowest:.1?}",
        letters.len()
    );
    assert!(*slowest < promised(HEALTHY_LIMIT), "a healthy transfer took {slowest:?}");
    ends_well(world, &["poison"]).await;
}

/// Transfers submitted one after the other, and how long each took.
#[derive(Default)]
struct Fresh {
    current: Option<(String, Instant)>,
    took: BTreeMap<String, Duration>,
}

impl Fresh {
    async fn submit_and_look(&mut self, world: &World) {
        match &self.current {
            Some((id, begun)) if world.state(id).await == State::Done => {
                self.took.insert(id.clone(), begun.elapsed());
                self.current = None;
            }
            Some(_) => {}
            None => {
                let id = format!("fresh-{}", self.took.len());
                world.submit(&[transfer(&id, "a", "b", 1)], 1).await;
                self.current = Some((id, Instant::now()));
            }
        }
    }
}

#[tokio::test]
async fn a_message_with_one_poisonous_id_loses_only_that_one() {
    let world = world_with_money().await;
    let mut transfers: Vec<_> = (0..40).map(|n| transfer(&format!("t{n}"), "a", "b", 5)).collect();
    transfers.insert(23, transfer("poison", "a", "b", 7));
    world.submit(&transfers, 10).await;
    // No sweeper: the other ids of the message must be settled through the message alone.
    let plan =
        |name: &str| world.worker(name).flag("--orphan-ms", 600_000).poisoned(&["poison"], "claim");
    let mut supervisor = Supervisor::new(2, plan);
    supervisor
        .until("the poison is dead and its neighbours are done", async || {
            world.queues.depth(DEAD).await.is_some_and(|depth| depth > 0)
                && world.count(&[State::Done]).await == 40
        })
        .await;
    eprintln!("poison in a message of ten: {:#?}", supervisor.deaths);
    drop(supervisor);
    // Two where a worker died after it had taken the message of ten apart, and before it
    // acknowledged that.
    assert!(!dead_letters_of(&world, &["poison"]).await.is_empty());
    assert_eq!(world.state("poison").await, State::Initial);
    ends_well(world, &["poison"]).await;
}

#[tokio::test]
async fn what_only_waited_while_its_workers_died_is_settled() {
    let world = world_with_money().await;
    world.insert(&[transfer("innocent", "a", "b", 5)]).await;
    // It has been alone before, and has lost its worker once: by chance.
    let id = "innocent".into();
    world.store.begins_alone("another life", &id).await.expect("MongoDB is there");
    let body = br#"{"ids":["innocent"],"strikes":2}"#;
    for _ in 0..2 {
        world.queues.publish_raw(SOLO, body).await;
    }
    // They are in the hands of a worker that dies for another reason.
    world.queues.deliver_and_die(SOLO, 2).await;
    let worker = world.worker("next").start().await;
    world.wait_state("innocent", State::Done, s(30)).await;
    world.queues.wait_depth(SOLO, 0, s(30)).await;
    assert_eq!(world.queues.depth(DEAD).await, Some(0));
    assert!(world.store.parked(10).await.expect("MongoDB is there").is_empty());
    wait_until("the worker that settled it has taken its note back", s(30), async || {
        let notes = world.store.lone_deaths("next life", &id).await.expect("MongoDB is there");
        notes == Some(1)
    })
    .await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn poison_of_every_phase_is_put_aside_and_can_be_brought_back() {
    let phases = ["claim", "post", "applied", "settle"];
    for phase in phases {
        let world = world_with_money().await;
        let mut transfers: Vec<_> =
            (0..30).map(|n| transfer(&format!("t{n}"), "a", "b", 5)).collect();
        transfers.insert(9, transfer("poison", "a", "b", 7));
        world.submit(&transfers, 3).await;
        let mut supervisor =
            Supervisor::new(2, |name: &str| world.worker(name).poisoned(&["poison"], phase));
        supervisor
            .until("the poison is dead and its neighbours are done", async || {
                world.queues.depth(DEAD).await.is_some_and(|depth| depth > 0)
                    && world.count(&State::UNFINISHED).await == 1
            })
            .await;
        let deaths = supervisor.deaths.len();
        drop(supervisor);
        let letters = dead_letters_of(&world, &["poison"]).await.len();
        let state = world.state("poison").await;
        eprintln!("poison at {phase}: {letters} dead letters after {deaths} deaths, is {state}");
        ends_well(world, &["poison"]).await;
    }
}

#[tokio::test]
async fn many_poisons_take_none_of_the_healthy_with_them() {
    const POISONS: usize = 6;
    let world = world_with_money().await;
    let poisons: Vec<String> = (0..POISONS).map(|n| format!("poison-{n}")).collect();
    let poisons: Vec<&str> = poisons.iter().map(AsRef::as_ref).collect();
    // Each poisoned one kills a batch of its own, while those of earlier deaths wait for their
    // turn.
    let mut transfers = Vec::new();
    for (n, poison) in poisons.iter().enumerate() {
        let healthy = (0..10).map(|k| transfer(&format!("t{n}-{k}"), "a", "b", 5));
        transfers.extend(healthy);
        transfers.push(transfer(poison, "a", "b", 7));
    }
    world.submit(&transfers, 1).await;
    let plan = |name: &str| {
        let plan = world.worker(name).flag("--prefetch", 11).flag("--linger-ms", 50);
        plan.poisoned(&poisons, "post")
    };
    let mut supervisor = Supervisor::new(2, plan);
    supervisor
        .until("the poisons are dead and their neighbours are done", async || {
            // Not the number of letters: a poison may have two, when a dead worker held a second
            // message of it.
            world.store.parked(100).await.is_ok_and(|parked| parked.len() == POISONS)
                && world.queues.depth(DEAD).await.is_some_and(|depth| depth as usize >= POISONS)
                && world.count(&State::UNFINISHED).await == POISONS as u64
        })
        .await;
    let deaths = supervisor.deaths.len();
    drop(supervisor);
    let letters = dead_letters_of(&world, &poisons).await.len();
    eprintln!("{POISONS} poisons: {letters} dead letters after {deaths} deaths");
    ends_well(world, &poisons).await;
}
