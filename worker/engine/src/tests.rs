//! What the simulator finds too rarely, set up by hand.

use std::sync::Mutex;
use std::sync::atomic::AtomicI64;

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::journal::{Heading, Line};
use ledger::transaction::{Body, State};
use ledger::{
    AccountRead, Cancelation, Claim, Claimed, Commit, Content, Ending, LedgerError, Look, Parking,
    Posting, Removal, RemovalKind, Seen, ServerMs, Size, Transacted, Verdict, Written,
};

use super::*;

const LEASE_MS: i64 = 10_000;

/// A ledger that wins every claim at the given times and notes the deadlines of posts; in a native
/// transaction it has room for so many, and notes how many were tried.
#[derive(Default)]
struct Scripted {
    claimed_at: Vec<ServerMs>,
    deadlines: Mutex<Vec<ServerMs>>,
    room: usize,
    tried: Mutex<Vec<usize>>,
    /// How often it was asked for transactions that nobody has claimed.
    reads: AtomicUsize,
    /// The legs of each transaction, by its size.
    legs: usize,
    /// The time, and how much of it one post takes for each mark.
    clock: Arc<AtomicI64>,
    ms_a_mark: i64,
    /// How many transactions each line had.
    ends: Mutex<Vec<usize>>,
    /// The server refuses to write the end of these.
    unwritable: Vec<&'static str>,
}

fn transfer() -> Result<Body, String> {
    Body::transfer("a", "b", Amount::Int(1)).map_err(|error| error.to_string())
}

fn all(count: usize) -> Result<Written, LedgerError> {
    Ok(Written { count, refused: Vec::new() })
}

fn seen(id: &TransactionId, state: State) -> Seen {
    Seen {
        id: id.clone(),
        state,
        claim: None,
        lease_until: 0,
        takeover_at: 0,
        attempts: 1,
        attempts_alone: 0,
        created_at: 0,
        parked: false,
        never_posted: false,
        server_now: 0,
        size: Size { legs: 2, bytes: 100 },
        body: Some(transfer()),
    }
}

impl Ledger for Scripted {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Claimed, LedgerError> {
        let server_now = self.claimed_at.iter().copied().max().unwrap_or_default();
        let won = |(id, claimed_at): (&TransactionId, &ServerMs)| Seen {
            claim: Some(claim.token.clone()),
            lease_until: claimed_at + LEASE_MS,
            takeover_at: claimed_at + LEASE_MS + 4_000,
            server_now,
            size: Size { legs: self.legs, bytes: 100 },
            ..seen(id, State::Pending)
        };
        let seen = ids.iter().zip(&self.claimed_at).map(won).collect();
        Ok(Claimed { seen, refused: Vec::new() })
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<Written, LedgerError> {
        self.deadlines.lock().expect("one thread").push(before);
        let marks: usize = postings.iter().map(|posting| posting.transactions.len()).sum();
        let marks = i64::try_from(marks).expect("few");
        self.clock.fetch_add(marks * self.ms_a_mark, Ordering::Relaxed);
        all(postings.len())
    }

    async fn remove(&self, _: RemovalKind, removals: &[Removal]) -> Result<Written, LedgerError> {
        all(removals.len())
    }

    async fn commit(
        &self,
        _: Commit,
        ids: &[TransactionId],
        _: &Claim,
    ) -> Result<Written, LedgerError> {
        all(ids.len())
    }

    async fn end(&self, line: &Line, _: &Claim) -> Result<Ending, LedgerError> {
        self.ends.lock().expect("one thread").push(line.entries.len());
        match line.entries.iter().find(|entry| self.unwritable.contains(&&*entry.id)) {
            Some(bad) => Err(LedgerError::lasting("end", format!("{} can't be written", bad.id))),
            None => Ok(Ending::Written),
        }
    }

    async fn rest(
        &self,
        ids: &[TransactionId],
        _: &Claim,
        _: ServerMs,
    ) -> Result<Written, LedgerError> {
        all(ids.len())
    }

    async fn cancel(&self, refused: &[Cancelation], _: &Claim) -> Result<Written, LedgerError> {
        all(refused.len())
    }

    async fn release(
        &self,
        _: &[TransactionId],
        _: &Claim,
        _: i64,
        _: ServerMs,
    ) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn unclaim(&self, _: &[TransactionId], _: &Claim) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn park(&self, parkings: &[Parking]) -> Result<Vec<TransactionId>, LedgerError> {
        Ok(parkings.iter().map(|parking| parking.id.clone()).collect())
    }

    async fn read(&self, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(ids.iter().map(|id| Seen { attempts: 0, ..seen(id, State::Initial) }).collect())
    }

    async fn bodies(&self, ids: &[TransactionId]) -> Result<Vec<Content>, LedgerError> {
        Ok(ids.iter().map(|id| (id.clone(), transfer())).collect())
    }

    async fn accounts(&self, looks: &[Look]) -> Result<Vec<AccountRead>, LedgerError> {
        let account = |(id, _): &Look| AccountRead {
            id: id.clone(),
            marks: Some(Default::default()),
            account: Ok(Account::new(id, Amount::Int(1))),
            as_written: true,
        };
        Ok(looks.iter().map(account).collect())
    }

    async fn forget_events(&self, _: &[String]) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn transact(&self, contents: &[Content], _: &Heading) -> Result<Transacted, LedgerError> {
        self.tried.lock().expect("one thread").push(contents.len());
        if contents.len() > self.room {
            return Ok(Transacted::Conflict);
        }
        let done = |(id, _): &Content| Verdict { id: id.clone(), refused: None };
        Ok(Transacted::Committed(contents.iter().map(done).collect()))
    }
}

/// Time that does not pass while somebody sleeps, but remembers for how many milliseconds.
#[derive(Default)]
struct Still {
    slept: AtomicUsize,
    clock: Arc<AtomicI64>,
}

impl Environment for Still {
    fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    async fn sleep(&self, delay: Duration) {
        let ms = usize::try_from(delay.as_millis()).expect("short");
        self.slept.fetch_add(ms, Ordering::Relaxed);
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    fn token(&self) -> String {
        "token".into()
    }
}

fn engine(kind: EngineKind, ledger: Scripted) -> Engine<Scripted, Still> {
    let settings = EngineSettings {
        kind,
        application: "test".into(),
        post_window_ms: 3_000,
        grace_ms: 4_000,
        attempts_max: 10,
        retry: Policy::IN_PLACE,
        tries_in_place: 3,
        ride_wait: Duration::ZERO,
        rides_from: usize::MAX,
        full_from: usize::MAX,
        split_from: 128,
    };
    let environment = Still { clock: ledger.clock.clone(), ..Still::default() };
    Engine::new(ledger, environment, None, settings, Arc::new(()))
}

#[tokio::test]
async fn no_post_outlives_the_earliest_lease_of_its_batch() {
    // A claim whose first reply was lost: it won one transaction then, the others when repeated.
    for claimed_at in [vec![0, 9_000], vec![9_000, 0]] {
        let ledger = Scripted { claimed_at, ..Scripted::default() };
        let engine = engine(EngineKind::TwoPhase, ledger);
        engine.run(&["one".into(), "two".into()]).await;
        let deadlines = engine.ledger.deadlines.lock().expect("one thread");
        assert_eq!(*deadlines, [LEASE_MS], "the first lease ends before the window does");
    }
}

#[tokio::test]
async fn batches_become_smaller_until_they_are_posted_well_within_a_lease_and_then_larger() {
    let ids: Vec<TransactionId> = (0..32).map(|n| format!("{n:02}").into()).collect();
    let ledger =
        Scripted { claimed_at: vec![0; 32], legs: 512, ms_a_mark: 150, ..Scripted::default() };
    let mut engine = engine(EngineKind::TwoPhase, ledger);
    let mut kept = Vec::new();
    for ms_a_mark in [150, 150, 150, 1, 1, 1, 1] {
        engine.ledger.ms_a_mark = ms_a_mark;
        engine.ledger.clock.store(0, Ordering::Relaxed);
        let outcomes = engine.run(&ids).await;
        let surplus = |outcome: &&(_, _)| matches!(outcome.1, Outcome::Surplus { .. });
        kept.push(ids.len() - outcomes.iter().filter(surplus).count());
    }
    // Two marks each: 9.6 s, 4.8 s (long enough), and then next to nothing.
    assert_eq!(kept, [32, 16, 16, 16, 32, 32, 32]);
}

#[tokio::test]
async fn settlements_wait_for_a_ride_only_while_there_are_posts_to_ride_on() {
    for (others_posting, waited) in [(0, 100), (1, 1_000)] {
        let ledger = Scripted { claimed_at: vec![0], ..Scripted::default() };
        let mut engine = engine(EngineKind::TwoPhase, ledger);
        engine.settings.ride_wait = Duration::from_secs(1);
        engine.settings.rides_from = 1;
        engine.before_commit.store(others_posting, Ordering::Relaxed);
        let outcomes = engine.run(&["one".into()]).await;
        assert_eq!(outcomes, [("one".into(), Outcome::Final)]);
        assert_eq!(engine.environment.slept.load(Ordering::Relaxed), waited);
    }
}

#[tokio::test]
async fn what_the_server_refuses_to_end_is_set_apart_and_all_others_end() {
    let ids: Vec<TransactionId> = (0..64).map(|n| format!("{n:02}").into()).collect();
    let unwritable = vec!["07", "40"];
    let ledger = Scripted { claimed_at: vec![0; 64], unwritable, ..Scripted::default() };
    let engine = engine(EngineKind::TwoPhase, ledger);
    let outcomes = engine.run(&ids).await;
    assert_eq!(outcomes.len(), ids.len());
    for (id, outcome) in outcomes {
        let is_bad = engine.ledger.unwritable.contains(&&*id);
        assert_eq!(outcome, if is_bad { Outcome::Parked } else { Outcome::Final }, "{id}");
    }
    // All of them, two halves, and from there on the two parts of each half with a culprit.
    assert_eq!(engine.ledger.ends.lock().expect("one thread").len(), 1 + 2 + 2 * (2 * 5));
}

async fn tried_with_room_for(room: usize) -> (Vec<usize>, usize) {
    let ids: Vec<TransactionId> = ["1", "2", "3", "4"].map(Into::into).to_vec();
    let ledger = Scripted { room, claimed_at: vec![0; 4], ..Scripted::default() };
    let engine = engine(EngineKind::Transaction, ledger);
    let outcomes = engine.run(&ids).await;
    assert_eq!(outcomes.len(), ids.len());
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Final), "{outcomes:?}");
    let in_phases = engine.ledger.deadlines.lock().expect("one thread").len();
    let tried = engine.ledger.tried.lock().expect("one thread").clone();
    (tried, in_phases)
}

#[tokio::test]
async fn a_native_transaction_that_conflicts_is_halved_and_at_last_goes_in_two_phases() {
    assert_eq!(tried_with_room_for(4).await, (vec![4], 0));
    assert_eq!(tried_with_room_for(2).await, (vec![4, 4, 4, 2, 2], 0));
    let down_to_one = vec![4, 4, 4, 2, 2, 2, 1, 1, 2, 2, 2, 1, 1];
    assert_eq!(tried_with_room_for(1).await, (down_to_one, 0));
    // Twelve in a row are enough for all that is left, which is then one batch in two phases.
    let hopeless = vec![4, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1, 2];
    assert_eq!(tried_with_room_for(0).await, (hopeless, 1));
}

#[tokio::test]
async fn what_has_waited_for_its_accounts_is_read_once_and_after_a_conflict_again() {
    let ids: Vec<TransactionId> = ["1", "2"].map(Into::into).to_vec();
    for (room, reads) in [(2, 1), (1, 5)] {
        let ledger = Scripted { room, ..Scripted::default() };
        let engine = engine(EngineKind::Transaction, ledger);
        let other = vec![seen(&"other".into(), State::Initial)];
        let ((_, owned), _) = engine.reservations.name(other);
        let goes_away = async {
            tokio::task::yield_now().await;
            assert!(engine.ledger.tried.lock().expect("one thread").is_empty(), "did not wait");
            drop(owned);
        };
        let (outcomes, ()) = tokio::join!(engine.run(&ids), goes_away);
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Final), "{outcomes:?}");
        // Three attempts at both, of which the first had its read, and one at each.
        assert_eq!(engine.ledger.reads.load(Ordering::Relaxed), reads, "room for {room}");
    }
}

#[test]
fn full_batches_go_in_two_phases_where_the_database_is_far_away() {
    for (kind, native) in [(EngineKind::Auto, false), (EngineKind::Transaction, true)] {
        let mut engine = engine(kind, Scripted::default());
        engine.auto.full_from = 10;
        assert!(
            engine.auto.begins_native(10, &engine.environment),
            "{kind:?}: nobody knows how far it is"
        );
        engine.learn_round_trip(Duration::from_millis(12));
        assert_eq!(engine.auto.begins_native(10, &engine.environment), native, "{kind:?}");
        assert!(engine.auto.begins_native(9, &engine.environment), "{kind:?}: it is not full");
        engine.auto.in_phases.store(1, Ordering::Relaxed);
        assert_eq!(
            engine.auto.begins_native(9, &engine.environment),
            native,
            "{kind:?}: beside one in two phases"
        );
    }
}

#[tokio::test]
async fn only_conflicts_with_others_are_a_reason_to_leave_the_native_way() {
    let ids: Vec<TransactionId> = ["1", "2", "3", "4"].map(Into::into).to_vec();
    for (own_batches, stays) in [(1, true), (0, false)] {
        let ledger = Scripted { claimed_at: vec![0; 4], ..Scripted::default() };
        let mut engine = engine(EngineKind::Auto, ledger);
        engine.auto.full_from = 10;
        engine.auto.in_phases.store(own_batches, Ordering::Relaxed);
        engine.run(&ids).await;
        assert!(engine.ledger.tried.lock().expect("one thread").len() >= 3, "not native at all");
        assert_eq!(engine.auto.is_native(&engine.environment), stays, "{own_batches}");
        // What it leaves over goes in phases, too, but only because others are in the way.
        assert_eq!(engine.auto.in_phases.load(Ordering::Relaxed), own_batches);
    }
}
