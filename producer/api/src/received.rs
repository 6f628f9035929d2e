//! A request as it came: read as a whole, and understood without any server.
//!
//! Owns reading parameters, headers and JSON. Promises that what it reads from one request depends
//! on that request alone. Fails with a [`Problem`] that names what is wrong.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use bson::DateTime;
use input::crowd::{self, is_crowd};
use input::{Flaw, Unique};
use ledger::limits::{TEXT_BYTES_MAX, echo};
use ledger::transaction::check_name;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::items::{self, TooMuch};
use super::param::Param;
use super::problem::{Code, Problem};

/// The longest that a request may wait for an outcome.
pub const WAIT_MAX_S: u32 = 60;

/// What was received of a request.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// What stands in the address in place of `{id}`.
    pub id: String,
    /// The parameters after the question mark.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// How long the caller wants to wait, and whether it asked for that by the header `Prefer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long.
    pub limit: Duration,
    /// Whether the answer has to say that it was applied.
    pub preferred: bool,
}

impl Received {
    /// What came with this address and these headers. `id` stands in the address in place of
    /// `{id}`.
    pub fn new(id: String, query: &str, headers: HeaderMap, body: Bytes) -> Received {
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Received { id, query, headers, body }
    }

    /// A parameter. It is given once at most: see [`Received::only`].
    pub fn text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// Refuses unknown and repeated parameters.
    pub fn only(&self, params: &[Param]) -> Result<(), Problem> {
        let known = || params.iter().filter(|param| !param.is_header);
        for (at, (name, _)) in self.query.iter().enumerate() {
            let shown = echo(name);
            if !known().any(|param| param.is_called(name)) {
                let known = known().map(Param::shown).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none" } else { &known };
                let problem = format!("unknown parameter {shown:?}; known here: {known}");
                return Err(Problem::new(Code::Malformed, problem));
            }
            if self.query[..at].iter().any(|(earlier, _)| earlier == name) {
                let problem = format!("the parameter {shown:?} is given twice");
                return Err(Problem::new(Code::Malformed, problem));
            }
        }
        Ok(())
    }

    /// A whole number within limits.
    pub fn number(&self, name: &str, limits: RangeInclusive<u32>) -> Result<Option<u32>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse::<u32>() {
            Ok(number) if limits.contains(&number) => Ok(Some(number)),
            _ => {
                let (least, most) = limits.into_inner();
                let problem =
                    format!("{:?} is not a whole number from {least} to {most}", echo(text));
                Err(Problem::invalid(name, problem))
            }
        }
    }

    /// How many items a page has.
    pub fn limit(&self) -> Result<u32, Problem> {
        const DEFAULT: u32 = 100;
        Ok(self.number("limit", 1..=1_000)?.unwrap_or(DEFAULT))
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let problem = format!("{:?} is neither true nor false", echo(other));
                Err(Problem::invalid(name, problem))
            }
        }
    }

    /// A moment.
    pub fn moment(&self, name: &str) -> Result<Option<SystemTime>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match DateTime::parse_rfc3339_str(text) {
            Ok(moment) => Ok(Some(moment.to_system_time())),
            Err(_) => {
                // An address has a blank in place of a plus sign that was not escaped.
                let plus = text.replace(' ', "+");
                let hint = match DateTime::parse_rfc3339_str(&plus) {
                    Ok(_) => "; in an address, write %2B for the plus sign",
                    Err(_) => "",
                };
                let problem =
                    format!("{:?} is not a moment like 2026-11-01T00:00:00Z{hint}", echo(text));
                Err(Problem::invalid(name, problem))
            }
        }
    }

    /// The name of an account or a transaction.
    pub fn named(&self, name: &str) -> Result<Option<String>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match check_name(name, text) {
            Ok(()) => Ok(Some(text.to_owned())),
            Err(error) => {
                let Flaw { problem, .. } = error.into();
                Err(Problem::invalid(name, problem))
            }
        }
    }

    /// The name in the address, if anything can have it.
    pub fn name(&self) -> Result<&str, Problem> {
        match check_name("id", &self.id) {
            Ok(()) => Ok(&self.id),
            Err(_) => Err(Problem::new(Code::NotFound, "nothing can have this name")),
        }
    }

    /// The body as JSON in which no object names a field twice.
    pub fn json(&self) -> Result<Value, Problem> {
        self.require_json()?;
        if self.body.len() > TEXT_BYTES_MAX {
            return Err(too_much(TooMuch::Bytes(self.body.len())));
        }
        if is_crowd(&self.body) {
            return Err(too_much(TooMuch::Values));
        }
        let read = serde_json::from_slice::<Unique>(&self.body);
        read.map(|Unique(value)| value).map_err(|error| no_json(&error))
    }

    /// Whether the body is an array of JSON, as far as its beginning tells.
    pub fn is_array(&self) -> bool {
        self.body.trim_ascii_start().first() == Some(&b'[')
    }

    /// The body as an array of JSON of at most `most` items, item by item (see `items`). One that
    /// comes without an array belongs to the address `alone`.
    pub fn items<T>(
        &self,
        most: usize,
        alone: &str,
        mut each: impl FnMut(Result<Value, Problem>) -> T,
    ) -> Result<Vec<T>, Problem> {
        self.require_json()?;
        if !self.is_array() && serde_json::from_slice::<IgnoredAny>(&self.body).is_ok() {
            let problem = format!("is not an array; send one transaction to POST {alone}");
            return Err(Flaw { field: None, problem }.into());
        }
        let each = |item: Result<_, TooMuch>| each(item.map_err(too_much));
        let items = items::read(&self.body, most, TEXT_BYTES_MAX, each);
        let items = items.map_err(|error| no_json(&error))?;
        if items.count > most {
            let problem = format!("the array has {} items; the limit is {most}", items.count);
            return Err(Problem::new(Code::TooLarge, problem));
        }
        Ok(items.read)
    }

    fn require_json(&self) -> Result<(), Problem> {
        let text = |name: header::HeaderName| {
            self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
        };
        let given = text(header::CONTENT_TYPE);
        let media = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media != "application/json" {
            let problem = format!("the body is {:?}; it must be application/json", echo(given));
            return Err(Problem::new(Code::UnsupportedMediaType, problem));
        }
        Ok(())
    }

    /// The header `Idempotency-Key`, with or without quotes.
    pub fn key(&self) -> Result<Option<String>, Problem> {
        const NAME: &str = "Idempotency-Key";
        let Some(value) = self.headers.get(NAME) else { return Ok(None) };
        let flaw = |problem: &str| Problem::invalid(NAME, problem);
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| flaw("is not valid text"))?;
        let key = unquoted(text.trim()).ok_or_else(|| flaw("has a quote that does not end"))?;
        check_name(NAME, &key).map_err(|error| Problem::from(Flaw::from(error)))?;
        Ok(Some(key))
    }

    /// How long to wait for the outcome: `?wait=`, or else `Prefer: wait=`.
    pub fn wait(&self) -> Result<Option<Wait>, Problem> {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        if let Some(asked) = self.number("wait", 0..=WAIT_MAX_S)? {
            return Ok(Some(Wait { limit: seconds(asked), preferred: false }));
        }
        let prefer = self.headers.get_all("Prefer").iter().filter_map(|value| value.to_str().ok());
        // A preference that can't be read or met is ignored: RFC 7240, 2.
        let wished = prefer.flat_map(|value| value.split([',', ';'])).find_map(|preference| {
            let (name, value) = preference.split_once('=')?;
            let is_wait = name.trim().eq_ignore_ascii_case("wait");
            is_wait.then(|| value.trim().trim_matches('"').parse::<u32>().ok())?
        });
        Ok(wished.map(|wished| Wait { limit: seconds(wished.min(WAIT_MAX_S)), preferred: true }))
    }
}

fn too_much(why: TooMuch) -> Problem {
    let problem = match why {
        TooMuch::Bytes(bytes) => {
            format!("a text of {bytes} bytes; the limit for one is {TEXT_BYTES_MAX}")
        }
        TooMuch::Values => crowd::refusal(),
    };
    Problem::new(Code::TooLarge, problem)
}

fn no_json(error: &serde_json::Error) -> Problem {
    let problem = format!("the body is not JSON: {}", echo(&error.to_string()));
    Problem::new(Code::Malformed, problem)
}

/// A structured-field string (RFC 9651), or the plain text. `None` when a quote does not end.
fn unquoted(text: &str) -> Option<String> {
    let Some(quoted) = text.strip_prefix('"') else { return Some(text.to_owned()) };
    let (mut key, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(key),
            '\\' => key.push(chars.next()?),
            c => key.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_with_quotes_and_without() {
        assert_eq!(unquoted("rent-1").as_deref(), Some("rent-1"));
        assert_eq!(unquoted(r#""rent-1""#).as_deref(), Some("rent-1"));
        assert_eq!(unquoted(r#""a \"b\" \\ c""#).as_deref(), Some(r#"a "b" \ c"#));
        for broken in [r#"""#, r#""a"#, r#""a\"#, r#""a"b"#] {
            assert_eq!(unquoted(broken), None, "{broken}");
        }
    }
}
