//! What can be wrong with a request: one list, of which status, problem type, OpenAPI document and
//! page are made (RFC 9457).
//!
//! Promises that a code never changes its meaning: programs decide by it. Every code but
//! [`Code::Unknown`] says that the request has had no effect. Foreign text in a problem is cut
//! where it is read.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use client::{Effect, Error};
use input::Flaw;
use serde::Serialize;
use strum::{EnumCount, VariantArray};
use utoipa::ToSchema;

use super::answer::Answer;
use super::words::ProblemType;

/// When to try again, if a server is away.
pub const AWAY: Duration = Duration::from_secs(5);

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount, VariantArray)]
pub enum Code {
    /// The request can't be read.
    Malformed,
    /// No token, an unknown one, or one that has expired.
    Unauthorized,
    /// The token does not allow it, or another site's page has sent it.
    Forbidden,
    /// Nothing has this name.
    NotFound,
    /// The address has no such method.
    MethodNotAllowed,
    /// The request did not come in time.
    RequestTimeout,
    /// The id belongs to something with other content.
    Conflict,
    /// Another undecided transaction has the exclusive key.
    KeyInUse,
    /// The state of the transaction does not allow it.
    WrongState,
    /// The hold was confirmed before, with another capture.
    AlreadyConfirmed,
    /// Something in the database is in the way.
    Refused,
    /// The ledger was set up without what this needs.
    Lacking,
    /// The body or the array is too large.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// A field breaks a rule.
    Invalid,
    /// The idempotency key stands for something else already.
    KeyReused,
    /// Too many requests.
    RateLimited,
    /// A mistake of the server or of its configuration.
    Internal,
    /// MongoDB or RabbitMQ is away or blocked, or too much waits already. Nothing was done.
    Unavailable,
    /// A server has failed in a way that leaves open whether the request has taken effect.
    Unknown,
}

impl Code {
    /// All of them.
    pub const ALL: [Code; Code::COUNT] =
        *Code::VARIANTS.first_chunk().expect("as many as are counted");

    /// Its status.
    pub fn status(self) -> StatusCode {
        match self {
            Code::Malformed => StatusCode::BAD_REQUEST,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Code::Conflict
            | Code::KeyInUse
            | Code::WrongState
            | Code::AlreadyConfirmed
            | Code::Refused
            | Code::Lacking => StatusCode::CONFLICT,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::Invalid | Code::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Code::Unavailable | Code::Unknown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The word by which programs know it: the end of its type.
    pub fn word(self) -> &'static str {
        match self {
            Code::Malformed => "malformed",
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::NotFound => "not-found",
            Code::MethodNotAllowed => "method-not-allowed",
            Code::RequestTimeout => "request-timeout",
            Code::Conflict => "conflict",
            Code::KeyInUse => "key-in-use",
            Code::WrongState => "wrong-state",
            Code::AlreadyConfirmed => "already-confirmed",
            Code::Refused => "refused",
            Code::Lacking => "lacking",
            Code::TooLarge => "too-large",
            Code::UnsupportedMediaType => "unsupported-media-type",
            Code::Invalid => "invalid",
            Code::KeyReused => "key-reused",
            Code::RateLimited => "rate-limited",
            Code::Internal => "internal",
            Code::Unavailable => "unavailable",
            Code::Unknown => "unknown",
        }
    }

    /// What it means and what to do, in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Code::Malformed => "The request can't be read; correct it",
            Code::Unauthorized => "A token is needed: Authorization: Bearer TOKEN",
            Code::Forbidden => "The token does not allow this, or another site's page has sent it",
            Code::NotFound => "Nothing has this name",
            Code::MethodNotAllowed => "This address has other methods; see the header Allow",
            Code::RequestTimeout => "The request did not come in time; send it again",
            Code::Conflict => "The id belongs to something with other content; choose another id",
            Code::KeyInUse => {
                "Another transaction has this exclusive key; send it again when that is decided"
            }
            Code::WrongState => "The state of the transaction does not allow this",
            Code::AlreadyConfirmed => "The hold was confirmed before, with another capture",
            Code::Refused => "Something in the database is in the way",
            Code::Lacking => "The ledger was set up without what this needs",
            Code::TooLarge => "The body or the array is too large; send it in parts",
            Code::UnsupportedMediaType => "The body must be JSON: Content-Type: application/json",
            Code::Invalid => "A field breaks a rule; correct it",
            Code::KeyReused => {
                "The Idempotency-Key stands for something else; send that again, or choose another key"
            }
            Code::RateLimited => "Too many requests; try again after Retry-After seconds",
            Code::Internal => "A mistake of the server or of its configuration; see its log",
            Code::Unavailable => {
                "A server is away, or too much waits; nothing was done. Try again after Retry-After"
            }
            Code::Unknown => {
                "Perhaps this has taken effect, or will; send it again after Retry-After, with the \
                 same id or Idempotency-Key"
            }
        }
    }

    /// Its name in answers.
    pub fn uri(self) -> String {
        format!("urn:tandem:problem:{}", self.word())
    }
}

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// What is wrong with it, and what to do.
    pub detail: String,
    /// Which field: a JSON pointer into the body, or the name of a parameter or header.
    #[schema(example = "#/legs/0/amount")]
    pub pointer: String,
}

/// A problem, as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemDetails {
    /// What kind it is, for programs.
    #[schema(value_type = ProblemType)]
    r#type: String,
    /// What kind it is, for people.
    title: &'static str,
    /// The status of the response, or of this item of an array.
    status: u16,
    /// What is wrong.
    detail: String,
    /// The fields that break a rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<FieldError>,
    /// Where to find what has this id already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    existing: Option<String>,
    /// In which fields that differs from what was sent, as JSON pointers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, example = json!(["/value"]))]
    differs: Vec<String>,
    /// The id of the transaction that has the exclusive key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    holder: Option<String>,
    /// The transactions that came under the idempotency key before, and which this request lacks or
    /// changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub ids: Vec<String>,
}

/// A problem that a request ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub code: Code,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// The fields that break a rule.
    pub errors: Vec<FieldError>,
    /// The address of what has the id already.
    pub existing: Option<Box<str>>,
    /// The fields in which that differs.
    pub differs: Box<[&'static str]>,
    /// The other transactions that it is about: the one that has the exclusive key, or those that
    /// came under the idempotency key before.
    pub others: Box<[String]>,
    /// When to try again.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        let retry_after = match code {
            Code::RateLimited => Some(Duration::from_secs(1)),
            Code::Unavailable | Code::Unknown => Some(AWAY),
            _ => None,
        };
        Problem {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            existing: None,
            differs: Box::default(),
            others: Box::default(),
            retry_after,
        }
    }

    /// A parameter or a header that breaks a rule.
    pub fn invalid(name: &str, detail: impl Into<String>) -> Problem {
        let error = FieldError { detail: detail.into(), pointer: name.to_owned() };
        let whole = format!("{name}: {}", error.detail);
        Problem { errors: vec![error], ..Problem::new(Code::Invalid, whole) }
    }

    /// A field of the body that breaks a rule.
    pub fn field(name: &str, detail: impl Into<String>) -> Problem {
        Flaw { field: Some(name.to_owned()), problem: detail.into() }.into()
    }

    /// The same, as something that the token does not allow.
    pub fn forbidden(mut self) -> Problem {
        self.code = Code::Forbidden;
        self
    }

    /// The same about parameters: the fields that it names are not in a body.
    pub fn of_parameters(mut self) -> Problem {
        for error in &mut self.errors {
            error.pointer = error.pointer.replace("#/", "");
        }
        self
    }

    /// The same of a request that changes nothing, so that nothing is open.
    pub fn of_a_look(mut self) -> Problem {
        if self.code == Code::Unknown {
            self.code = Code::Unavailable;
        }
        self
    }

    /// The same, with the address of what is there already.
    pub fn existing(mut self, address: String) -> Problem {
        self.existing = Some(address.into());
        self
    }

    /// As it is told, for a response or an item of one.
    pub fn told(&self) -> ProblemDetails {
        ProblemDetails {
            r#type: self.code.uri(),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            existing: self.existing.as_deref().map(str::to_owned),
            differs: self.differs.iter().map(|field| format!("/{field}")).collect(),
            holder: self.others.first().filter(|_| self.code == Code::KeyInUse).cloned(),
            ids: if self.code == Code::KeyReused { self.others.to_vec() } else { Vec::new() },
        }
    }

    /// The header `Retry-After`, if there is a moment to try again.
    pub fn seconds_to_wait(&self) -> Option<HeaderValue> {
        let seconds = self.retry_after?.as_secs_f64().ceil() as u64;
        Some(HeaderValue::from(seconds.max(1)))
    }

    /// The response.
    pub fn answer(&self) -> Answer {
        const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
        let mut answer =
            Answer::json(self.code.status(), &self.told()).with(header::CONTENT_TYPE, CONTENT_TYPE);
        if let Some(after) = self.seconds_to_wait() {
            answer = answer.with(header::RETRY_AFTER, after);
        }
        if self.code == Code::Unauthorized {
            const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
            answer = answer.with(header::WWW_AUTHENTICATE, BEARER);
        }
        answer
    }
}

/// The headers that a problem of this kind has beside its type.
pub fn headers(code: Code) -> &'static [HeaderName] {
    match code {
        Code::RateLimited | Code::Unavailable | Code::Unknown => &[header::RETRY_AFTER],
        Code::Unauthorized => &[header::WWW_AUTHENTICATE],
        Code::MethodNotAllowed => &[header::ALLOW],
        _ => &[],
    }
}

/// `legs[0].amount` as a JSON pointer in a fragment.
fn pointer(field: &str) -> String {
    let mut pointer = "#/".to_owned();
    for c in field.chars() {
        match c {
            '[' | '.' => pointer.push('/'),
            ']' => {}
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
    pointer
}

impl From<Flaw> for Problem {
    fn from(flaw: Flaw) -> Problem {
        let whole = flaw.to_string();
        let pointer = flaw.field.as_deref().map_or_else(|| "#".to_owned(), pointer);
        let error = FieldError { detail: flaw.problem, pointer };
        Problem { errors: vec![error], ..Problem::new(Code::Invalid, whole) }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let whole = error.to_string();
        match error {
            Error::Invalid { field, .. } if field == "cursor" => {
                Problem::new(Code::Malformed, whole)
            }
            Error::Invalid { field, problem } => Problem::field(&field, problem),
            Error::Conflict { differs, .. } => {
                Problem { differs: differs.into(), ..Problem::new(Code::Conflict, whole) }
            }
            Error::KeyInUse { holder, .. } => {
                Problem { others: [holder].into(), ..Problem::new(Code::KeyInUse, whole) }
            }
            Error::WithoutKeys(_) => Problem::new(Code::Lacking, whole),
            Error::WithoutHistory | Error::WithoutEvents => Problem::new(Code::Lacking, whole),
            Error::WrongState { .. } => Problem::new(Code::WrongState, whole),
            Error::Captured { .. } => Problem::new(Code::AlreadyConfirmed, whole),
            Error::Refused { .. } => Problem::new(Code::Refused, whole),
            Error::NotFound { .. } | Error::NoWorker { .. } => Problem::new(Code::NotFound, whole),
            Error::Unavailable { effect: Effect::None, .. } => {
                Problem::new(Code::Unavailable, whole)
            }
            Error::Unavailable { effect: Effect::Unknown, .. } => {
                Problem::new(Code::Unknown, whole)
            }
            Error::Denied { .. } => {
                tracing::error!(error = whole, "a server refuses a request");
                Problem::new(Code::Internal, "a server refuses the request; see the log")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_a_word_of_its_own_and_says_what_to_do() {
        let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.status().is_client_error() || code.status().is_server_error());
            assert!(code.title().len() > 15, "{code:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_named_by_a_pointer() {
        let flaw = Flaw { field: Some("legs[3].amount".into()), problem: "is missing".into() };
        let problem = Problem::from(flaw);
        assert_eq!(problem.code, Code::Invalid);
        assert_eq!(problem.detail, "legs[3].amount: is missing");
        assert_eq!(problem.errors[0].pointer, "#/legs/3/amount");
        assert_eq!(pointer("a/b~c"), "#/a~1b~0c");
    }
}
