//! Dead letters.
//!
//! Looking takes nothing out. One look runs at a time, at whichever server (`one_look`), because
//! another one would not see the letters that this one holds. Who can't look in time is told so,
//! and nothing was changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bson::DateTime;
use client::{Asked, DeadLetter, DeadLetters, Error, Fate, HeldLetter, Replay};
use ledger::limits::{echo, echo_bytes};
use ledger::transaction::{State, TransactionId};
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Answer;
use super::call::Call;
use super::one_look::OneLook;
use super::problem::{Code, Problem};
use super::words;

/// The most letters that a list looks at.
pub const LOOKED_AT_MAX: u64 = 10_000;

/// For how long a list looks at letters.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// How long a look may wait for its turn, and then for the broker.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);

/// A message that workers have given up.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// Its id.
    id: String,
    /// Why, as a word.
    #[schema(example = "kills_worker")]
    reason: String,
    /// Why, as a sentence.
    detail: String,
    /// When it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    died_at: Option<String>,
    /// What it says; a long one is cut.
    body: String,
}

/// Letters with the same reason.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LetterReason)]
pub struct Group {
    /// The reason.
    reason: String,
    /// How many there are.
    count: u64,
}

/// The dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Letters {
    /// How many were looked at, the oldest first: at most 10,000, for a second at most.
    count: u64,
    /// Whether these are all that there are.
    complete: bool,
    /// By reason, the most frequent first.
    groups: Vec<Group>,
    /// The first of those that were asked for.
    items: Vec<Letter>,
}

/// How a transaction that a letter names stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LetterTransaction)]
pub struct Named {
    /// The transaction.
    id: String,
    /// How it stands.
    #[schema(value_type = words::LetterFate)]
    is: &'static str,
    /// Its state, where it is in flight or final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, value_type = words::State)]
    state: Option<&'static str>,
    /// Why it is stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    problem: Option<String>,
}

/// A letter, what it asks for, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LetterReport)]
pub struct LookedAt {
    letter: Letter,
    /// The transactions that it names.
    transactions: Vec<Named>,
    /// Why it, or a part of it, can never be replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    problem: Option<String>,
    outcome: Outcome,
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LetterOutcome)]
pub enum Outcome {
    /// It stays.
    Stays,
    /// It stays, and there is nothing to replay.
    AllFinal,
    /// What it asks for is published, and it is out of the queue.
    Replayed,
    /// It is out of the queue.
    Discarded,
}

impl Letter {
    fn of(letter: &DeadLetter) -> Letter {
        let millis = letter.died_at.and_then(|at| i64::try_from(at.checked_mul(1_000)?).ok());
        let died_at = millis.map(DateTime::from_millis);
        Letter {
            id: letter.id.clone(),
            reason: echo(&letter.reason).into_owned(),
            detail: echo(&letter.detail).into_owned(),
            died_at: died_at.and_then(|at| at.try_to_rfc3339_string().ok()),
            body: echo_bytes(&letter.body),
        }
    }
}

impl LookedAt {
    fn of(letter: &DeadLetter, asked: Asked, outcome: Outcome) -> LookedAt {
        let named = |(id, fate): (TransactionId, Fate)| Named {
            id: id.to_string(),
            is: fate.as_str(),
            state: fate.state().map(State::as_str),
            problem: fate.problem().map(str::to_owned),
        };
        LookedAt {
            letter: Letter::of(letter),
            transactions: asked.transactions.into_iter().map(named).collect(),
            problem: asked.problem,
            outcome,
        }
    }
}

/// A look through the queue.
struct Look {
    letters: DeadLetters,
    alone: OneLook,
}

impl Look {
    async fn begin(call: &Call) -> Result<Look, Problem> {
        call.api.gate.needs_broker(Instant::now())?;
        let away = |why: &str| {
            let again = "Nothing was changed; try again in some seconds";
            Problem::new(Code::Unavailable, format!("{why}. {again}"))
        };
        let until = tokio::time::Instant::now() + BEGIN_LIMIT;
        let alone = OneLook::begin(&call.api, until).await?;
        let alone = alone.ok_or_else(|| {
            away("another look at the dead letters goes on, at this server or at another one")
        })?;
        // A broker that is cut off says nothing at all. What is dropped then may still hold a
        // letter, so the turn runs out by itself.
        match tokio::time::timeout(BEGIN_LIMIT, call.api.client.dead_letters()).await {
            Ok(Ok(letters)) => Ok(Look { letters, alone }),
            Ok(Err(error)) => {
                alone.end().await;
                Err(error.into())
            }
            Err(_) => Err(away("RabbitMQ gives no letters: it does not answer")),
        }
    }

    async fn next(&mut self) -> Result<Option<HeldLetter>, Problem> {
        if self.alone.is_lost() {
            let why = "this look has taken too long, and another one has begun: look again";
            return Err(Problem::new(Code::Unavailable, why));
        }
        Ok(self.letters.next().await.map_err(Error::from)?)
    }

    /// The next one begins when the broker has put back what this one held.
    async fn end(self) {
        self.letters.close().await;
        self.alone.end().await;
    }
}

/// `GET /v1/dead-letters`
pub async fn list(call: Call) -> Result<Answer, Problem> {
    let (limit, reason) = (call.limit()? as usize, call.text("reason"));
    let mut look = Look::begin(&call).await?;
    let listed = listed(&mut look, limit, reason).await;
    look.end().await;
    Ok(Answer::json(StatusCode::OK, &listed?))
}

async fn listed(look: &mut Look, limit: usize, reason: Option<&str>) -> Result<Letters, Problem> {
    let (mut groups, mut items, mut count) = (BTreeMap::<String, u64>::new(), Vec::new(), 0);
    let begun = Instant::now();
    while count < LOOKED_AT_MAX && begun.elapsed() < LOOK_LIMIT {
        let Some(held) = look.next().await? else { break };
        let letter = Letter::of(&held.letter);
        count += 1;
        *groups.entry(letter.reason.clone()).or_default() += 1;
        if items.len() < limit && reason.is_none_or(|reason| reason == letter.reason) {
            items.push(letter);
        }
    }
    let complete = look.letters.left() == 0;
    let group = |(reason, count)| Group { reason, count };
    let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(Letters { count, complete, groups, items })
}

/// What is done with a letter.
#[derive(Clone, Copy)]
enum Act {
    Show,
    Replay,
    Discard,
}

/// `GET /v1/dead-letters/{id}`
pub async fn show(call: Call) -> Result<Answer, Problem> {
    one(&call, Act::Show).await
}

/// `POST /v1/dead-letters/{id}/replay`
pub async fn replay(call: Call) -> Result<Answer, Problem> {
    call.api.gate.needs_broker(Instant::now())?;
    call.api.client.ensure_queue().await?;
    one(&call, Act::Replay).await
}

/// `POST /v1/dead-letters/{id}/discard`
pub async fn discard(call: Call) -> Result<Answer, Problem> {
    one(&call, Act::Discard).await
}

/// Does something with the letter that the address names.
async fn one(call: &Call, act: Act) -> Result<Answer, Problem> {
    let mut look = Look::begin(call).await?;
    let done = find_and_do(call, act, &mut look).await;
    look.end().await;
    Ok(Answer::json(StatusCode::OK, &done?))
}

async fn find_and_do(call: &Call, act: Act, look: &mut Look) -> Result<LookedAt, Problem> {
    let client = &call.api.client;
    while let Some(held) = look.next().await? {
        if held.letter.id != call.id {
            continue;
        }
        let (asked, outcome) = match act {
            Act::Show => {
                let asked = client.asked(&held.letter).await?;
                let is_final = asked.replay() == Replay::AllFinal;
                (asked, if is_final { Outcome::AllFinal } else { Outcome::Stays })
            }
            Act::Replay => (replayed(client.replay(&held).await?)?, Outcome::Replayed),
            Act::Discard => {
                let asked = client.asked(&held.letter).await?;
                client.discard(&held).await?;
                (asked, Outcome::Discarded)
            }
        };
        return Ok(LookedAt::of(&held.letter, asked, outcome));
    }
    Err(Problem::new(Code::NotFound, "there is no such dead letter"))
}

/// What was asked for, if the letter has gone; else why it stays.
fn replayed(asked: Asked) -> Result<Asked, Problem> {
    let why = match asked.replay() {
        Replay::Removed => return Ok(asked),
        Replay::AllFinal => {
            "all of its transactions are final, so there is nothing to replay; discard it".into()
        }
        Replay::Stays => {
            let stuck = |fate: &Fate| matches!(fate, Fate::Unknown | Fate::Stuck(_));
            let named = asked.transactions.iter().find(|(_, fate)| stuck(fate));
            match (named, asked.problem) {
                (Some((id, fate)), _) => format!("it stays: {} is {}", echo(id), fate.as_str()),
                (None, problem) => format!("it stays: {}", problem.unwrap_or_default()),
            }
        }
    };
    Err(Problem::new(Code::Refused, why))
}
