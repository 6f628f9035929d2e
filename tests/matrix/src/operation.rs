//! The operations of the client: what each needs to be there, how it is called, and its effect.
//!
//! Every cell has accounts and ids of its own, so that whatever is found is known to be its work.

use std::time::{Duration, SystemTime};

use client::{Capture, Change, Client, Error, NewFloor, Submission};
use futures_util::TryStreamExt;
use harness::wait::{s, wait_until};
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::transaction::{ParkCode, State, TransactionId};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::ground::Ground;

/// What is moved.
const VALUE: i64 = 7;
/// The floor that an account gets.
const FLOOR: Amount = Amount::Int(-VALUE);
/// How many items an array has.
const ITEMS: usize = 3;
/// When a scheduled transaction is due: in 2099.
const DUE: Duration = Duration::from_secs(4_070_908_800);
/// When it is due after it was rescheduled: in 2100.
const DUE_LATER: Duration = Duration::from_secs(4_102_444_800);

/// An operation of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A transfer.
    Submit,
    /// Several transfers in one call.
    SubmitArray,
    /// A transfer with an exclusive key.
    SubmitKeyed,
    /// Several transfers, each with an exclusive key of its own, in one call.
    SubmitKeyedArray,
    /// A transfer whose exclusive key another one has, which is refused without any fault.
    SubmitKeyTaken,
    /// All of a hold is captured.
    Confirm,
    /// A hold is released.
    Release,
    /// A scheduled transaction is canceled.
    CancelScheduled,
    /// A held transaction is canceled.
    CancelHeld,
    /// A transfer that is done is taken back.
    Reverse,
    /// A scheduled transaction gets another moment.
    Reschedule,
    /// A parked transaction is brought back.
    Unpark,
    /// Accounts are created.
    CreateAccounts,
    /// An account is frozen.
    Freeze,
    /// An empty account is closed.
    Close,
    /// An account gets another floor.
    SetFloor,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 16] = [
        Operation::Submit,
        Operation::SubmitArray,
        Operation::SubmitKeyed,
        Operation::SubmitKeyedArray,
        Operation::SubmitKeyTaken,
        Operation::Confirm,
        Operation::Release,
        Operation::CancelScheduled,
        Operation::CancelHeld,
        Operation::Reverse,
        Operation::Reschedule,
        Operation::Unpark,
        Operation::CreateAccounts,
        Operation::Freeze,
        Operation::Close,
        Operation::SetFloor,
    ];

    /// Its name in tables and in the ids of its cells.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Submit => "submit",
            Operation::SubmitArray => "submit-array",
            Operation::SubmitKeyed => "submit-keyed",
            Operation::SubmitKeyedArray => "submit-keyed-array",
            Operation::SubmitKeyTaken => "submit-key-taken",
            Operation::Confirm => "confirm",
            Operation::Release => "release",
            Operation::CancelScheduled => "cancel-scheduled",
            Operation::CancelHeld => "cancel-held",
            Operation::Reverse => "reverse",
            Operation::Reschedule => "reschedule",
            Operation::Unpark => "unpark",
            Operation::CreateAccounts => "create-accounts",
            Operation::Freeze => "freeze",
            Operation::Close => "close",
            Operation::SetFloor => "set-floor",
        }
    }

    /// Whether it has its effect when nothing fails; otherwise it is refused.
    #[must_use]
    pub fn succeeds(self) -> bool {
        self != Operation::SubmitKeyTaken
    }

    /// Makes what it needs for these subjects.
    ///
    /// # Panics
    /// When a healthy client or worker does not do what it is asked for.
    pub async fn prepare(self, ground: &Ground, subjects: &[String]) {
        let accounts = subjects.iter().flat_map(|subject| {
            let of =
                |role: &str, balance| Account::new(&account(subject, role), Amount::Int(balance));
            [of("from", 1_000), of("to", 0)]
        });
        ground.world.open(&accounts.collect::<Vec<_>>()).await;
        let due = SystemTime::UNIX_EPOCH + DUE;
        let all = |with: fn(Submission) -> Submission| -> Vec<Submission> {
            subjects.iter().map(|subject| with(transfer(subject))).collect()
        };
        match self {
            Operation::Submit
            | Operation::SubmitArray
            | Operation::SubmitKeyed
            | Operation::SubmitKeyedArray
            | Operation::CreateAccounts
            | Operation::Freeze
            | Operation::Close
            | Operation::SetFloor => {}
            Operation::Confirm | Operation::Release | Operation::CancelHeld => {
                bring(ground, all(Submission::held), subjects, State::Held).await;
            }
            Operation::CancelScheduled | Operation::Reschedule => {
                bring(
                    ground,
                    all(|one| one.not_before(SystemTime::UNIX_EPOCH + DUE)),
                    subjects,
                    State::Scheduled,
                )
                .await;
            }
            Operation::Reverse => bring(ground, all(|one| one), subjects, State::Done).await,
            Operation::SubmitKeyTaken => {
                let holders: Vec<String> =
                    subjects.iter().map(|of| format!("{of}/holder")).collect();
                let waiting = |subject: &str| {
                    let holder = to(&format!("{subject}/holder"), subject).not_before(due);
                    holder.with_exclusive_key(subject)
                };
                let submissions = subjects.iter().map(|subject| waiting(subject));
                bring(ground, submissions.collect(), &holders, State::Scheduled).await;
            }
            Operation::Unpark => park(ground, subjects).await,
        }
    }

    /// Calls it; a result for each item.
    pub async fn call(self, client: &Client, subject: &str) -> Vec<Result<(), Error>> {
        match self {
            Operation::Submit => vec![client.submit(transfer(subject)).await.map(drop)],
            Operation::SubmitKeyed | Operation::SubmitKeyTaken => {
                vec![client.submit(keyed(subject)).await.map(drop)]
            }
            Operation::SubmitArray => many(client, items(subject).map(|id| to(&id, subject))).await,
            Operation::SubmitKeyedArray => {
                many(client, items(subject).map(|id| to(&id, subject).with_exclusive_key(&id)))
                    .await
            }
            Operation::Confirm => vec![client.confirm(subject, &Capture::All).await.map(drop)],
            Operation::Release => vec![client.release(subject).await.map(drop)],
            Operation::CancelScheduled | Operation::CancelHeld => {
                vec![client.cancel(subject).await.map(drop)]
            }
            Operation::Reverse => vec![client.reverse(subject).await.map(drop)],
            Operation::Reschedule => vec![client.reschedule(subject, later()).await.map(drop)],
            Operation::Unpark => vec![unpark(client, subject).await],
            Operation::CreateAccounts => create(client, subject).await,
            Operation::Freeze => {
                vec![client.change_status(Change::Freeze, &account(subject, "to")).await]
            }
            Operation::Close => {
                vec![client.change_status(Change::Close, &account(subject, "to")).await]
            }
            Operation::SetFloor => {
                let wanted = NewFloor { floor: Some(FLOOR), ..NewFloor::default() };
                vec![client.set_floor(&account(subject, "to"), &wanted).await.map(drop)]
            }
        }
    }

    /// Whether the effect of each item is there, by documents that a majority has.
    pub async fn effect(self, ground: &Ground, subject: &str) -> Vec<bool> {
        let status =
            |status: &'static str| doc! { "_id": account(subject, "to"), "status": status };
        let reason = |code: &str| doc! { "_id": subject, "reason.code": code };
        match self {
            Operation::Submit | Operation::SubmitKeyed | Operation::SubmitKeyTaken => {
                vec![ground.has_transaction(doc! { "_id": subject }).await]
            }
            Operation::SubmitArray | Operation::SubmitKeyedArray => {
                let there = ground.transactions(doc! { "_id": { "$in": items(subject).to_vec() } });
                among(&items(subject), &there.await)
            }
            Operation::Confirm => {
                let confirmed = doc! { "_id": subject, "captured": { "$exists": true } };
                vec![ground.has_transaction(confirmed).await]
            }
            Operation::Release => vec![ground.has_transaction(reason("released")).await],
            Operation::CancelScheduled => vec![ground.has_transaction(reason("requested")).await],
            Operation::CancelHeld => vec![
                ground.has_transaction(reason("released")).await
                    || ground.has_transaction(reason("requested")).await,
            ],
            Operation::Reverse => {
                vec![ground.has_transaction(doc! { "_id": format!("reverse:{subject}") }).await]
            }
            Operation::Reschedule => {
                let moment = DateTime::from_system_time(later());
                vec![ground.has_transaction(doc! { "_id": subject, "notBefore": moment }).await]
            }
            Operation::Unpark => {
                vec![ground.has_transaction(doc! { "_id": subject, "parked": null }).await]
            }
            Operation::CreateAccounts => {
                let ids = opened(subject);
                let there = ground.accounts(doc! { "_id": { "$in": ids.to_vec() } });
                among(&ids, &there.await)
            }
            Operation::Freeze => vec![!ground.accounts(status("frozen")).await.is_empty()],
            Operation::Close => vec![!ground.accounts(status("closed")).await.is_empty()],
            Operation::SetFloor => {
                let floor = doc! { "_id": account(subject, "to"), "floor": FLOOR };
                vec![!ground.accounts(floor).await.is_empty()]
            }
        }
    }
}

/// An account of a subject.
fn account(subject: &str, role: &str) -> String {
    format!("{subject}/{role}")
}

fn transfer(subject: &str) -> Submission {
    to(subject, subject)
}

fn to(id: &str, subject: &str) -> Submission {
    Submission::transfer(&account(subject, "from"), &account(subject, "to"), VALUE).with_id(id)
}

fn keyed(subject: &str) -> Submission {
    transfer(subject).with_exclusive_key(subject)
}

fn items(subject: &str) -> [String; ITEMS] {
    std::array::from_fn(|item| format!("{subject}/{item}"))
}

fn opened(subject: &str) -> [String; ITEMS] {
    std::array::from_fn(|item| account(subject, &format!("opened-{item}")))
}

fn later() -> SystemTime {
    SystemTime::UNIX_EPOCH + DUE_LATER
}

fn among(ids: &[String], there: &[Document]) -> Vec<bool> {
    let has = |id: &String| there.iter().any(|one| one.get_str("_id").is_ok_and(|of| of == id));
    ids.iter().map(has).collect()
}

async fn many(
    client: &Client,
    submissions: impl IntoIterator<Item = Submission>,
) -> Vec<Result<(), Error>> {
    let results = client.submit_all(submissions).await;
    results.into_iter().map(|result| result.map(drop)).collect()
}

async fn create(client: &Client, subject: &str) -> Vec<Result<(), Error>> {
    let accounts = opened(subject).map(|id| Account::new(&id, Amount::Int(0)));
    match client.create_accounts(&accounts).await {
        Ok(results) => results.into_iter().map(|result| result.map(drop)).collect(),
        Err(error) => vec![Err(error); ITEMS],
    }
}

async fn unpark(client: &Client, subject: &str) -> Result<(), Error> {
    let unparked = client.unpark(&[TransactionId::from(subject)]).await?;
    match unparked.refused.into_iter().next() {
        None => Ok(()),
        Some((id, problem)) => Err(Error::Refused { id: id.to_string(), problem }),
    }
}

/// Submits by a healthy client, and waits for a state.
async fn bring(ground: &Ground, submissions: Vec<Submission>, ids: &[String], state: State) {
    for result in ground.client.submit_all(submissions).await {
        result.expect("a healthy client submits");
    }
    let ids: Vec<Bson> = ids.iter().map(Bson::from).collect();
    wait_until("a healthy worker has brought all of them there", s(60), async || {
        let filter = doc! { "_id": { "$in": ids.clone() }, "state": state.as_str() };
        ground.world.store.transactions().count_documents(filter).await.expect("MongoDB is there")
            == ids.len() as u64
    })
    .await;
}

/// Inserts transactions that are parked from the beginning, so that no worker is faster.
async fn park(ground: &Ground, subjects: &[String]) {
    let now = DateTime::now();
    let code = ParkCode::TransactionUnwritable.as_str();
    let parked = doc! { "code": code, "message": "for a test", "at": now };
    let documents = subjects.iter().map(|subject| {
        let (id, body) = harness::world::transfer(
            subject,
            &account(subject, "from"),
            &account(subject, "to"),
            VALUE,
        );
        let mut document = body.to_document(&id, now);
        document.insert("parked", parked.clone());
        document
    });
    let inserted = ground.world.store.transactions().insert_many(documents).await;
    inserted.expect("MongoDB is there");
}

impl Ground {
    async fn has_transaction(&self, filter: Document) -> bool {
        !self.transactions(filter).await.is_empty()
    }

    async fn transactions(&self, filter: Document) -> Vec<Document> {
        let found = self.world.store.transactions().find(filter).await.expect("MongoDB is there");
        found.try_collect().await.expect("MongoDB is there")
    }

    async fn accounts(&self, filter: Document) -> Vec<Document> {
        let found = self.world.store.accounts().find(filter).await.expect("MongoDB is there");
        found.try_collect().await.expect("MongoDB is there")
    }
}
