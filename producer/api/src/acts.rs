//! The list of what people have done.

use axum::http::StatusCode;
use client::{ActFilter, ActSubject, ActWho, SeenAct, SubjectKind};
use ledger::json::timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Answer;
use super::call::Call;
use super::problem::{Code, Problem};
use super::received::Received;
use super::words;

/// A page of acts.
#[derive(Debug, Serialize, ToSchema)]
pub struct Acts {
    /// The acts, newest first. With `who` or `what`, a page looks at 10,000 acts at most: it may be
    /// short or empty and have a next one all the same.
    items: Vec<Act>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    next: Option<String>,
    /// The cursor of the page before, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    prev: Option<String>,
}

/// What somebody has done.
#[derive(Debug, Serialize, ToSchema)]
pub struct Act {
    /// Its id.
    id: String,
    /// When it was begun, on the database's clock.
    #[schema(format = DateTime)]
    at: String,
    /// What it was.
    #[schema(example = "transaction.cancel")]
    what: String,
    /// What it was done to.
    on: Subject,
    /// Who did it.
    who: Who,
    /// Why, as it was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    reason: Option<String>,
    /// What became of it. If it is missing, that is not known: it goes on, or whoever did it has
    /// died.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    ended: Option<End>,
}

/// What an act was done to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActSubject)]
pub struct Subject {
    /// What these are.
    #[schema(value_type = words::SubjectKind)]
    kind: &'static str,
    /// Their ids, at most 100.
    ids: Vec<String>,
    /// How many there are, if not all are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    count: Option<u64>,
}

/// Who has acted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActWho)]
pub struct Who {
    /// The name of the token; on the command line, of the user of the operating system.
    name: String,
    /// The person beside the token, where a proxy that signs people in has said who that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    person: Option<String>,
    /// By which way.
    #[schema(value_type = words::ActVia)]
    via: &'static str,
    /// From where: the address of the peer, or the name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    from: Option<String>,
    /// Whether nobody has checked the name, as on the command line.
    claimed: bool,
    /// The id of the request, as the log has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    request: Option<String>,
}

/// How an act has ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActEnd)]
pub struct End {
    /// When, on the database's clock.
    #[schema(format = DateTime)]
    at: String,
    /// What became of it.
    #[schema(value_type = words::ActResult)]
    result: &'static str,
    /// Why it was refused, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    code: Option<String>,
    /// What became of it, in a sentence.
    message: String,
}

impl From<SeenAct> for Act {
    fn from(act: SeenAct) -> Act {
        let ActSubject { kind, ids, count } = act.on;
        let ActWho { name, person, via, from, claimed, request } = act.who;
        let ended = act.ended.map(|end| End {
            at: timestamp(end.at),
            result: end.result.as_str(),
            code: end.code,
            message: end.message,
        });
        Act {
            id: act.id,
            at: timestamp(act.at),
            what: act.what,
            on: Subject { kind: kind.as_str(), ids, count },
            who: Who { name, person, via: via.as_str(), from, claimed, request },
            reason: act.reason,
            ended,
        }
    }
}

/// `GET /v1/acts`
pub async fn list(call: Call) -> Result<Answer, Problem> {
    let filter = filter(&call)?;
    let page = call.api.client.acts(&filter, call.limit()?, call.text("cursor")).await;
    let page = page.map_err(|error| Problem::from(error).of_parameters())?;
    let items = page.items.into_iter().map(Act::from).collect();
    Ok(Answer::json(StatusCode::OK, &Acts { items, next: page.next, prev: page.prev }))
}

/// Which acts a list is about.
fn filter(received: &Received) -> Result<ActFilter, Problem> {
    let account = received.named("account")?.map(|id| (SubjectKind::Account, id));
    let transaction = received.named("transaction")?.map(|id| (SubjectKind::Transaction, id));
    if account.is_some() && transaction.is_some() {
        let problem = "account and transaction: name one of them";
        return Err(Problem::new(Code::Malformed, problem));
    }
    let text = |name| received.text(name).map(str::to_owned);
    Ok(ActFilter {
        subject: account.or(transaction),
        who: text("who"),
        what: text("what"),
        since: received.moment("since")?,
        until: received.moment("until")?,
    })
}
