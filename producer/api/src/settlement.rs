//! Pausing settlement, letting it go on, and how it stands.
//!
//! Promises that a pause is stored with the name of the token, that doing it again changes nothing
//! and says who was first, and that the answer does not wait for workers: it names those that do not
//! do yet what was said.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bson::DateTime;
use client::{Error, Lagging, PAUSE_REASON_BYTES_MAX, Settlement as Said, Switched, Whose};
use ledger::json::timestamp;
use ledger::limits::echo;
use ledger::remedy::Remedy;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;

use super::Api;
use super::acting::REASON;
use super::answer::Answer;
use super::call::Call;
use super::param::string;
use super::problem::Problem;
use super::received::Received;

/// Who pauses where nobody needs a token.
const ANYBODY: &str = "anybody";

/// How old what was said may be when a page is drawn.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// How long whoever has waited waits to be told of a pause.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

/// What was said of settlement when it was last looked at, for all who ask: pages look often.
#[derive(Default)]
pub struct Seen(Mutex<Option<(Instant, Option<Said>)>>);

impl Api {
    /// What was last said of settlement, at most a second ago. A courtesy: where it can't be looked
    /// at, nothing is told.
    pub async fn settlement(&self) -> Option<Said> {
        // Whoever comes while it is looked at waits for the same answer.
        let mut seen = self.seen.0.lock().await;
        match &*seen {
            Some((at, said)) if at.elapsed() < FRESH_FOR => said.clone(),
            Some(_) | None => {
                let said = self.client.store().settlement().await.ok().flatten();
                seen.insert((Instant::now(), said)).1.clone()
            }
        }
    }
}

/// Why settlement is to be paused.
#[derive(ToSchema)]
#[schema(as = NewPause)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct Pause {
    /// Why, on one line; everybody is shown it.
    #[schema(schema_with = a_reason)]
    reason: (),
}

/// Why settlement is to go on.
#[derive(ToSchema)]
#[schema(as = NewResume)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "requests are read field by field, so that errors name the field")]
pub struct Resume {
    /// Why, on one line.
    #[schema(schema_with = a_reason)]
    reason: Option<()>,
}

fn a_reason() -> Schema {
    let text = string().min_length(Some(1)).max_length(Some(PAUSE_REASON_BYTES_MAX));
    let about = "At most 500 bytes of UTF-8, and not only spaces";
    text.pattern(Some(r"^[^\x00-\x1f\x7f-\x9f]+$")).description(Some(about)).into()
}

/// Whether workers settle.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settlement {
    /// Whether settlement is paused: workers begin nothing, and what is submitted waits.
    pub(super) paused: bool,
    /// Since when, by the database's clock. Absent where nobody has ever paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false, format = DateTime)]
    pub(super) since: Option<String>,
    /// Who has said so: the name of a token, or of a user as claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(super) by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(super) reason: Option<String>,
    /// What the live workers still do that do not do so yet, as they have said last; ask again until
    /// it is empty.
    pub(super) workers_left: Vec<String>,
}

impl Settlement {
    fn new(said: Option<&Said>, left: &[Lagging]) -> Settlement {
        Settlement {
            paused: said.is_some_and(|said| said.paused),
            since: said.map(|said| timestamp(DateTime::from_millis(said.since))),
            by: said.map(|said| echo(&said.by).into_owned()),
            reason: said.and_then(|said| Some(echo(said.reason.as_ref()?).into_owned())),
            workers_left: left.iter().map(|one| echo(&one.to_string()).into_owned()).collect(),
        }
    }
}

/// `GET /v1/settlement`
pub async fn show(call: Call) -> Result<Answer, Problem> {
    let said = call.api.client.settlement().await?;
    Ok(told(&call.api, said.as_ref()).await?)
}

/// `POST /v1/settlement/pause`
pub async fn pause(call: Call) -> Result<Answer, Problem> {
    let reason = needed_reason(&call)?;
    let switched = call.api.client.pause(by(&call), &reason).await?;
    switched_to(&call.api, switched).await
}

/// `POST /v1/settlement/resume`
pub async fn resume(call: Call) -> Result<Answer, Problem> {
    let reason = reason(&call)?;
    let switched = call.api.client.resume(by(&call), reason.as_deref()).await?;
    switched_to(&call.api, switched).await
}

async fn switched_to(api: &Api, switched: Switched) -> Result<Answer, Problem> {
    *api.seen.0.lock().await = Some((Instant::now(), switched.settlement.clone()));
    let answer = told(api, switched.settlement.as_ref()).await.map_err(Error::after_a_write)?;
    Ok(answer.replayed_if(!switched.changed))
}

async fn told(api: &Api, said: Option<&Said>) -> Result<Answer, Error> {
    Ok(Answer::json(StatusCode::OK, &stands(api, &Whose::Ledger, said).await?))
}

/// How all workers stand, or one, after what was last said of them.
pub async fn stands(api: &Api, whose: &Whose, said: Option<&Said>) -> Result<Settlement, Error> {
    let left = match said {
        Some(said) => api.client.not_there_yet(whose, said).await?,
        None => vec![],
    };
    Ok(Settlement::new(said, &left))
}

/// Who says so.
pub fn by(call: &Call) -> &str {
    call.access.submitter().map_or(ANYBODY, |name| name)
}

/// The reason in a body, which has to have one.
pub fn needed_reason(received: &Received) -> Result<String, Problem> {
    reason(received)?.ok_or_else(|| Problem::field(REASON, "is needed: everybody is shown it"))
}

/// The reason in a body; none where there is no body.
pub fn reason(received: &Received) -> Result<Option<String>, Problem> {
    if received.body.is_empty() {
        return Ok(None);
    }
    let Value::Object(fields) = received.json()? else {
        return Err(Problem::field(REASON, "is missing: the body is not an object"));
    };
    if let Some(field) = fields.keys().find(|field| *field != REASON) {
        return Err(Problem::field(&echo(field), "is unknown"));
    }
    match fields.get(REASON) {
        None => Ok(None),
        Some(Value::String(reason)) => Ok(Some(reason.clone())),
        Some(_) => Err(Problem::field(REASON, "is no text")),
    }
}

/// Why something still waits that somebody has waited for, if that is because settlement is paused.
/// A courtesy: where it can't be looked at, nothing is said.
pub async fn note(api: &Api) -> Option<String> {
    let looked = tokio::time::timeout(NOTE_LIMIT, api.settlement()).await.ok().flatten();
    let told = looked.filter(|said| said.paused)?.told();
    Some(format!("settlement is paused {told}; {} lets it go on", Remedy::Resume))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(body: &str) -> Result<Option<String>, Problem> {
        let headers = axum::http::HeaderMap::from_iter([(
            axum::http::header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json"),
        )]);
        reason(&Received { headers, body: body.to_owned().into(), ..Received::default() })
    }

    #[test]
    fn a_body_may_be_left_out_and_what_it_has_beside_the_reason_is_named() {
        assert_eq!(reason_of("").ok(), Some(None));
        assert_eq!(reason_of("{}").ok(), Some(None));
        assert_eq!(reason_of(r#"{"reason": "why"}"#).ok(), Some(Some("why".to_owned())));
        for (body, named) in [
            (r#"{"reason": 7}"#, "no text"),
            (r#"{"reason": null}"#, "no text"),
            (r#"{"because": "why"}"#, "because"),
            ("[]", "not an object"),
        ] {
            let problem = reason_of(body).expect_err(body);
            assert!(problem.detail.contains(named), "{}", problem.detail);
        }
    }
}
