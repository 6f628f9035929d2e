//! Acts of people: which requests are noted, and how.
//!
//! Owns what is noted of a request: the name of its token, by which way and from where it came, and
//! its reason. Promises that an operation that is an act is carried out only when it was noted that
//! somebody is about to do it, and that its end is noted before it is answered (see
//! [`client::Client::act`]). Refuses a reason that is too long, and what can't be noted.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use client::{ActEnd, ActError, ActResult, ActSubject, ActVia, ActWho, Error, NewAct, act_reason};

use super::Api;
use super::answer::{Answer, REPLAYED};
use super::call::Call;
use super::operation::Operation;
use super::problem::{Code, Problem};
use super::received::Received;
use super::tokens::{Caller, Scope};

/// The parameter that says why.
pub const REASON: &str = "reason";

/// Somebody in the console, beside the token.
#[derive(Clone, Debug, Default)]
pub struct Person {
    /// The name, where a proxy that signs people in has said it.
    pub name: Option<String>,
    /// The address of the browser.
    pub from: Option<IpAddr>,
    /// The id of the request, as the log has it.
    pub request: String,
    /// Why it is done; none for what is only looked at.
    pub reason: Option<String>,
}

impl Person {
    /// How acts name them both.
    pub(super) fn who(&self, caller: &Caller) -> ActWho {
        let who = who(ActVia::Console, &caller.name, self.from, &self.request);
        ActWho { person: self.name.clone(), ..who }
    }

    fn reason(&self) -> Result<Option<String>, Problem> {
        self.reason.as_deref().map_or(Ok(None), read_reason)
    }
}

/// Somebody whose token is known. `name` is that of the token.
fn who(via: ActVia, name: &str, from: Option<IpAddr>, request: &str) -> ActWho {
    ActWho {
        name: name.to_owned(),
        person: None,
        via,
        from: from.map(|from| from.to_string()),
        claimed: false,
        request: Some(request.to_owned()),
    }
}

fn read_reason(text: &str) -> Result<Option<String>, Problem> {
    act_reason(text).map_err(|problem| Problem::invalid(REASON, problem))
}

/// The reason of an object of JSON. What else is wrong with it is the operation's to say.
fn reason_in(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Why {
        reason: Option<String>,
    }
    serde_json::from_slice::<Why>(body).ok()?.reason
}

/// The act that a request of a program is, if it is one. `name` is that of its token.
pub fn of_request(
    operation: &Operation,
    received: &Received,
    name: &str,
    from: Option<IpAddr>,
    request: &str,
) -> Result<Option<NewAct>, Problem> {
    let Some(act) = operation.act.as_ref().filter(|act| !act.of_people_only) else {
        return Ok(None);
    };
    let reason = match act.is_reason_in_body {
        false => received.text(REASON).map_or(Ok(None), read_reason)?,
        true => {
            let in_body = reason_in(&received.body);
            let read = in_body.as_deref().map_or(Ok(None), act_reason);
            read.map_err(|problem| Problem::field(REASON, problem))?
        }
    };
    let who = who(ActVia::Api, name, from, request);
    Ok(Some(NewAct { what: act.what, on: (act.on)(received), who, reason }))
}

/// The act that an operation is which somebody in the console asks for, if it is one.
pub fn of_person(
    operation: &Operation,
    received: &Received,
    caller: &Caller,
    person: &Person,
) -> Result<Option<NewAct>, Problem> {
    let Some(act) = &operation.act else { return Ok(None) };
    let (who, reason) = (person.who(caller), person.reason()?);
    Ok(Some(NewAct { what: act.what, on: (act.on)(received), who, reason }))
}

/// Carries an operation out, and notes it if it is an act.
pub async fn noted(
    operation: &'static Operation,
    call: Call,
    act: Option<NewAct>,
) -> Result<Answer, Problem> {
    let Some(act) = act else { return (operation.run)(call).await };
    let client = call.api.client.clone();
    client.act(&act, (operation.run)(call), told).await
}

/// What an answer says of an act.
fn told(answer: &Answer) -> ActEnd {
    if let Some(ended) = &answer.ended {
        return ended.clone();
    }
    ActEnd::ok(match (answer.status, answer.headers.contains_key(REPLAYED)) {
        (_, true) => "it was so before",
        (StatusCode::ACCEPTED, false) => "it is durable and on its way",
        (_, false) => "it is done",
    })
}

impl ActError for Problem {
    fn ended(&self) -> ActEnd {
        let result = match self.code {
            Code::Unknown => ActResult::Unknown,
            Code::Internal | Code::Unavailable | Code::RequestTimeout => ActResult::Failed,
            Code::Malformed
            | Code::Unauthorized
            | Code::Forbidden
            | Code::NotFound
            | Code::MethodNotAllowed
            | Code::Conflict
            | Code::KeyInUse
            | Code::WrongState
            | Code::AlreadyConfirmed
            | Code::Refused
            | Code::Lacking
            | Code::TooLarge
            | Code::UnsupportedMediaType
            | Code::Invalid
            | Code::KeyReused
            | Code::RateLimited => ActResult::Refused,
        };
        let code = (result == ActResult::Refused).then(|| self.code.word());
        ActEnd { result, code, message: self.detail.clone() }
    }

    /// Also where the database refuses for good: whoever asks is told that nothing was done.
    fn not_noted(error: Error) -> Problem {
        tracing::error!(%error, "an act can't be noted, and is not done");
        Problem::new(Code::Unavailable, error.to_string())
    }
}

impl Api {
    /// Does something that somebody in the console asks for and that is no operation, and notes it.
    ///
    /// # Errors
    /// As `work`, and where the caller may not do it, or it can't be noted.
    pub(super) async fn note_act<T>(
        self: &Arc<Api>,
        (caller, person): (&Caller, &Person),
        (what, on): (&'static str, ActSubject),
        work: impl Future<Output = Result<T, Problem>>,
        told: &str,
    ) -> Result<T, Problem> {
        caller.require(Scope::Operate)?;
        let act = NewAct { what, on, who: person.who(caller), reason: person.reason()? };
        self.client.act(&act, work, |_| ActEnd::ok(told)).await
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::routes;

    fn operation(name: &str) -> &'static Operation {
        routes::all().find(|operation| operation.name == name).expect("it is one")
    }

    fn request(name: &str, received: &Received) -> Result<Option<NewAct>, Problem> {
        let from = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        of_request(operation(name), received, "shop", from, "r-1")
    }

    #[test]
    fn what_changes_something_is_an_act_but_for_what_programs_do_in_the_course_of_their_work() {
        for operation in routes::all() {
            let changes = operation.method == axum::http::Method::POST;
            let submits = operation.scope == Some(Scope::Submit);
            assert_eq!(operation.act.is_some(), changes && !submits, "{}", operation.name);
        }
        let received = Received { id: "t".to_owned(), ..Received::default() };
        assert_eq!(request("confirm", &received), Ok(None));
        let now = bson::DateTime::now();
        let caller = crate::Tokens::everybody(None).caller(None, now).cloned().expect("anybody");
        let by = of_person(operation("confirm"), &received, &caller, &Person::default());
        assert_eq!(by.expect("it is good").map(|act| act.what), Some("hold.confirm"));
    }

    #[test]
    fn a_request_is_noted_with_who_from_where_why_and_what_it_is_about() {
        let query = vec![(REASON.to_owned(), " a slip ".to_owned())];
        let received = Received { id: "t".to_owned(), query, ..Received::default() };
        let act = request("cancel", &received).expect("it is good").expect("it is an act");
        assert_eq!(
            (act.what, act.on.ids.as_slice()),
            ("transaction.cancel", &["t".to_owned()][..])
        );
        assert_eq!((act.who.name.as_str(), act.who.from.as_deref()), ("shop", Some("127.0.0.1")));
        assert_eq!(act.reason.as_deref(), Some("a slip"));
        let query = vec![(REASON.to_owned(), "x".repeat(9_000))];
        let long = Received { query, ..Received::default() };
        assert_eq!(request("cancel", &long).map_err(|refused| refused.code), Err(Code::Invalid));
    }

    #[test]
    fn an_account_is_named_by_the_body_that_opens_it() {
        let header = axum::http::header::CONTENT_TYPE;
        let json = axum::http::HeaderValue::from_static("application/json");
        let headers = axum::http::HeaderMap::from_iter([(header, json)]);
        let named = |body: &'static str| {
            let received =
                Received { headers: headers.clone(), body: body.into(), ..Received::default() };
            request("createAccount", &received).expect("it is good").expect("an act").on.ids
        };
        assert_eq!(named(r#"{"account":"alice","balance":5}"#), ["alice"]);
        assert!(named("[]").is_empty() && named("no JSON").is_empty());
    }

    #[test]
    fn only_what_surely_had_no_effect_is_noted_as_refused_or_failed() {
        for code in Code::ALL {
            let end = Problem::new(code, "why").ended();
            assert_eq!(end.result == ActResult::Unknown, code == Code::Unknown, "{code:?}");
            assert_eq!(end.code.is_some(), end.result == ActResult::Refused, "{code:?}");
        }
    }
}
