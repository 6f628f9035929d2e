//! Books whose accounts were read at different moments, over all moments of a transaction's life:
//! those of two accounts, and those at which the transaction is read afterwards.

use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{Body, Leg, State, legs_to_bson};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp};

use super::bearing::{Before, Changes, Now, Standing};
use super::books::Books;
use super::chunks::Over;
use super::findings::Finding;
use super::raw::state_of;

/// What the documents are at one moment.
#[derive(Clone)]
struct Scene {
    state: State,
    captured: Option<i64>,
    /// The scene of its last change.
    changed: usize,
    /// The scene in which two phases have decided it.
    decided: Option<usize>,
    a: Account,
    b: Account,
}

/// Scenes in order, of a hold or of another transaction.
struct Life {
    is_hold: bool,
    steps: &'static str,
    scenes: Vec<Scene>,
}

fn account(id: &str) -> Account {
    Account::new(id, Amount::Int(100))
}

/// The life of a transfer of 10 from a to b, or of a hold, in scenes: each step changes one
/// document, or nothing, or natively all of them.
fn life(is_hold: bool, steps: &'static str) -> Life {
    let (a, b) = (account("a"), account("b"));
    let start = Scene { state: State::Initial, captured: None, changed: 0, decided: None, a, b };
    let mut scenes = vec![start];
    for step in steps.split(' ') {
        let scene = scenes.len();
        let mut next = scenes.last().expect("there is the first").clone();
        let effect = if is_hold { next.captured.unwrap_or(0) } else { 10 };
        let (a, b) = (&mut next.a, &mut next.b);
        let settled =
            |id, effect: i64| Account { balance: Amount::Int(100 + effect), ..account(id) };
        match step {
            "post-a" => {
                (a.balance, a.pending_debits) = (Amount::Int(90), Amount::Int(10));
                a.pending_transactions.insert("t".into());
            }
            "post-b" => {
                b.pending_credits = Amount::Int(effect);
                b.pending_transactions.insert("t".into());
            }
            "settle-a" => *a = settled("a", -effect),
            "settle-b" => *b = settled("b", effect),
            "undo-a" => *a = account("a"),
            "undo-b" => *b = account("b"),
            "wait" => {}
            "natively" => {
                (*a, *b) = (settled("a", -effect), settled("b", effect));
                (next.state, next.changed) = (State::Done, scene);
            }
            "capture" => {
                (next.state, next.captured, next.changed) = (State::Pending, Some(4), scene);
            }
            // Somebody takes it over.
            "claim" => next.changed = scene,
            state => {
                next.state = State::parse(state).expect("a step or a state");
                next.changed = scene;
                if matches!(next.state, State::Applied | State::Canceling) {
                    next.decided = Some(scene);
                }
            }
        }
        scenes.push(next);
    }
    Life { is_hold, steps, scenes }
}

fn lives() -> Vec<Life> {
    [
        (false, "pending post-a post-b applied settle-a settle-b done"),
        (false, "pending post-b post-a applied settle-b settle-a done"),
        (false, "pending post-a post-b applied settle-a claim settle-b done wait"),
        (false, "pending claim post-a post-b applied claim settle-b claim settle-a done"),
        (false, "pending post-a canceling undo-a canceled"),
        (false, "pending post-b post-a canceling undo-b undo-a canceled"),
        (false, "natively"),
        (false, "wait wait natively wait wait"),
        (false, "pending initial natively wait"),
        (false, "canceled wait"),
        (true, "pending post-a held"),
        (true, "pending post-a held capture post-b applied settle-a settle-b done"),
        (true, "pending post-a held wait capture post-b applied settle-b claim settle-a done"),
        (true, "pending post-a held capture post-b canceling undo-b undo-a canceled"),
        (true, "pending post-a held canceling undo-a canceled"),
    ]
    .into_iter()
    .map(|(is_hold, steps)| life(is_hold, steps))
    .collect()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document is BSON")
}

fn raw_account(account: &Account, is_hold: bool, id: &str) -> RawDocumentBuf {
    let mut document = account.to_document(DateTime::from_millis(0));
    let holds = is_hold && id == "a" && !account.pending_transactions.is_empty();
    document.insert("pendingHolds", i64::from(holds));
    raw(&document)
}

fn raw_transaction(scene: &Scene, is_hold: bool) -> RawDocumentBuf {
    let body = Body::transfer("a", "b", Amount::Int(10)).expect("valid");
    let mut document = body.to_document("t", DateTime::from_millis(0));
    document.insert("state", Bson::from(scene.state));
    if is_hold {
        document.insert("hold", true);
    }
    if let Some(captured) = scene.captured {
        let leg = |account: &str, amount| Leg { account: account.into(), amount };
        let legs = [leg("a", Amount::Int(-captured)), leg("b", Amount::Int(captured))];
        document.insert("captured", legs_to_bson(&legs));
    }
    raw(&document)
}

/// When the audit reads, and what clocks say.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The scenes in which a and b are read, each with the transaction if it has its mark.
    moments: [usize; 2],
    /// The scene in which the transaction is read afterwards.
    later: usize,
    /// If that is not clear, the scene up to which the server's log is read, and that in which the
    /// transaction is read once more.
    log: usize,
    again: usize,
    /// How many seconds there are from scene to scene.
    pace_s: u32,
    /// By how much the dates in the document differ from the server's log.
    skew_s: i64,
}

impl Plan {
    fn first(&self) -> usize {
        self.moments[0].min(self.moments[1])
    }

    fn at(&self, scene: usize) -> Timestamp {
        let scene = u32::try_from(scene).expect("there are few");
        Timestamp { time: 1_000 + scene * self.pace_s, increment: 1 }
    }

    fn date(&self, scene: usize) -> DateTime {
        DateTime::from_millis((i64::from(self.at(scene).time) + self.skew_s) * 1_000)
    }

    fn now(&self, scene: &Scene) -> Now {
        Now {
            state: Some(scene.state),
            last_modified: Some(self.date(scene.changed)),
            decided_at: scene.decided.map(|decided| self.date(decided)),
            now_ms: i64::from(self.at(self.later).time) * 1_000,
        }
    }

    /// What the server's log says.
    fn changes(&self, life: &Life) -> Changes {
        let mut changes = Changes::default();
        for (scene, step) in (1..).zip(life.steps.split(' ')) {
            let is_new = life.scenes[scene].state != life.scenes[scene - 1].state;
            if is_new && scene > self.first() && scene <= self.log {
                changes.add(life.scenes[scene].state, self.at(scene), step == "natively");
            }
        }
        changes
    }
}

/// Every order of the reads, at several paces, with clocks that differ as far as they may.
fn plans(life: &Life) -> Vec<Plan> {
    let end = life.scenes.len() - 1;
    let mut plans = Vec::new();
    for first in 0..=end {
        // After a fail-over a later piece may stand for an earlier moment.
        for second in 0..=end {
            for later in first.max(second)..=end {
                for (log, again) in [(later, later), (later, end), (end, end)] {
                    for (pace_s, skew_s) in [(1, -30), (1, 30), (20, 0), (40, -30), (40, 30)] {
                        let moments = [first, second];
                        plans.push(Plan { moments, later, log, again, pace_s, skew_s });
                    }
                }
            }
        }
    }
    plans
}

/// How the later read was judged, and what was found.
struct Audited {
    standing: Standing,
    found: Vec<Finding>,
}

/// Audits a at one moment and b at another, and reads the transaction afterwards, as an audit
/// does.
fn audit(life: &Life, plan: Plan, excess: i64) -> Audited {
    let Life { is_hold, scenes, .. } = life;
    let mut books = Books::new(crate::shared::Collections::default(), false, 100);
    let mut seen = Vec::new();
    for (piece, moment) in plan.moments.into_iter().enumerate() {
        let scene = &scenes[moment];
        let mut account = if piece == 0 { scene.a.clone() } else { scene.b.clone() };
        let has_mark = !account.pending_transactions.is_empty();
        let Amount::Int(balance) = account.balance else { unreachable!("all are whole") };
        account.balance = Amount::Int(balance + excess * i64::try_from(piece).expect("small"));
        let (id, end) = [("a", Some("a".to_owned())), ("b", None)][piece].clone();
        books.account(&raw_account(&account, *is_hold, id));
        books.accounts.end(end);
        if has_mark {
            let transaction = raw_transaction(scene, *is_hold);
            books.transaction(&transaction, Over::Only(&[piece]), seen.is_empty());
            seen.push(piece);
        }
        books.end_piece();
    }
    let (moments, first) = (plan.moments.map(|moment| plan.at(moment)), seen.is_empty());
    let later = raw_transaction(&scenes[plan.later], *is_hold);
    let standing = plan.now(&scenes[plan.later]).standing(plan.at(plan.first()), &moments, &seen);
    match &standing {
        Standing::Always => books.transaction(&later, Over::All, first),
        Standing::Stood(stood) => books.stood(&later, first, stood, 2),
        Standing::Unclear => {
            let is_decided = scenes[plan.later].decided.is_some();
            let before = Before { state: scenes[plan.later].state, is_decided };
            let again = raw_transaction(&scenes[plan.again], *is_hold);
            let since = before.since(plan.changes(life));
            let stood = before.stood(state_of(&again), since, &moments, &seen);
            books.stood(&again, first, &stood, 2);
        }
    }
    Audited { standing, found: books.close().findings.into_kept() }
}

#[test]
fn accounts_that_were_read_at_different_moments_balance_whatever_a_transaction_did_between() {
    let (mut always, mut stood, mut unclear) = (0, 0, 0);
    for life in lives() {
        for plan in plans(&life) {
            let Audited { standing, found } = audit(&life, plan, 0);
            assert_eq!(found, [], "{} {plan:?} {standing:?}", life.steps);
            match standing {
                Standing::Always => always += 1,
                Standing::Stood(_) => stood += 1,
                Standing::Unclear => unclear += 1,
            }
        }
    }
    assert!(always.min(stood).min(unclear) > 2_000, "{always} {stood} {unclear}");
}

#[test]
fn one_unit_too_much_is_found_at_any_moments() {
    for life in lives() {
        for plan in plans(&life).into_iter().step_by(11) {
            let found = audit(&life, plan, 1).found;
            let found: Vec<&str> = found.iter().map(|one| one.document.as_str()).collect();
            let expected = ["accounts/b", "accounts (no currency)"];
            assert_eq!(found, expected, "{} {plan:?}", life.steps);
        }
    }
}

#[test]
fn a_hold_that_lacks_its_mark_is_found_by_the_later_read() {
    let mut life = life(true, "pending post-a held wait wait");
    // Somebody has removed the mark, and what it stands for.
    life.scenes.iter_mut().for_each(|scene| scene.a = account("a"));
    for plan in plans(&life) {
        let found = audit(&life, plan, 0).found;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let is_held = life.scenes[plan.moments[0]].state == State::Held;
        let expected = "transactions/t: is held, and account \"a\" lacks its mark (rule 4)";
        assert_eq!(found, vec![expected; usize::from(is_held)], "{plan:?}");
    }
}

#[test]
fn accounts_that_are_forgotten_and_read_anew_are_counted_once() {
    let mut books = Books::new(crate::shared::Collections::default(), false, 100);
    let (a, mut b) = (account("a"), account("b"));
    b.pending_transactions.insert("nobody".into());
    books.account(&raw_account(&a, false, "a"));
    books.accounts.end(Some("a".to_owned()));
    books.end_piece();
    for _ in 0..3 {
        books.account(&raw_account(&b, false, "b"));
        books.account(&raw(&mongodb::bson::doc! { "_id": "broken" }));
        books.forget_accounts();
    }
    books.account(&raw_account(&account("b"), false, "b"));
    books.accounts.end(None);
    let life = life(false, "pending post-a post-b applied settle-a settle-b done");
    let done = raw_transaction(life.scenes.last().expect("it has an end"), false);
    books.transaction(&done, Over::Only(&[]), true);
    let closed = books.close();
    assert_eq!(closed.accounts, 2);
    assert_eq!(closed.findings.into_kept(), []);
}
