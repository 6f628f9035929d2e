//! All transactions that a filter names, as a file.
//!
//! Owns the forms of the file, and reading it page by page. Promises that memory is bounded: a page
//! is read when the one before has been taken, and so many exports run at the same time, each of
//! which waits for its turn among the lists with every page. And that nobody takes a part for the
//! whole: where the reading fails, the server is stopped or the token is none any more, the answer
//! ends without its last chunk, which clients tell as an error. What fails before the first page is
//! answered as a problem.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use bson::Document;
use client::{Error, LOOK_FOR, Page, Tell, Told, TransactionFilter};
use futures_util::{StreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;

use super::answer::Answer;
use super::call::Call;
use super::listeners::Listening;
use super::problem::{Code, Problem};
use super::view::Transaction;
use super::{Api, csv as table, transactions};

/// How many files are exported at the same time.
pub const AT_ONCE: usize = 8;

/// How many transactions a page has.
const PAGE: u32 = 500;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of names, then a line for each transaction.
    Csv,
    /// A line of JSON for each transaction.
    JsonLines,
}

impl Form {
    /// All of them.
    const ALL: [Form; 2] = [Form::Csv, Form::JsonLines];

    /// What the answer says of its content.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Csv => "text/csv; charset=utf-8",
            Form::JsonLines => "application/x-ndjson",
        }
    }

    /// Whether a content is a file.
    pub fn is_of(content_type: &HeaderValue) -> bool {
        Form::ALL.into_iter().any(|form| content_type == form.content_type())
    }

    fn saved_as(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Form::Csv => "attachment; filename=\"transactions.csv\"",
            Form::JsonLines => "attachment; filename=\"transactions.jsonl\"",
        })
    }

    fn heading(self) -> String {
        match self {
            Form::Csv => table::heading(),
            Form::JsonLines => String::new(),
        }
    }

    fn tell(self) -> Tell<String> {
        match self {
            Form::Csv => |document| told(table::line(&json(&document))),
            Form::JsonLines => |document| told(format!("{}\n", json(&document))),
        }
    }
}

fn told(item: String) -> Told<String> {
    Told { bytes: item.len(), item }
}

fn json(document: &Document) -> serde_json::Value {
    let told = serde_json::to_value(Transaction::of(document));
    told.expect("keys are texts, and numbers are finite")
}

/// `GET /v1/export/transactions.csv`
pub async fn csv(call: Call) -> Result<Answer, Problem> {
    export(call, Form::Csv).await
}

/// `GET /v1/export/transactions.jsonl`
pub async fn json_lines(call: Call) -> Result<Answer, Problem> {
    export(call, Form::JsonLines).await
}

async fn export(call: Call, form: Form) -> Result<Answer, Problem> {
    let asked = transactions::asked(&call)?;
    let mut first = form.heading();
    let mut reading = None;
    if let Some(filter) = asked {
        let mut begun = Reading::begin(&call, form, filter)?;
        let page = begun.page().await.map_err(|error| Problem::from(error).of_parameters())?;
        first.push_str(&page);
        reading = begun.goes_on().then_some(begun);
    }
    let rest = stream::unfold(reading, |reading| async move {
        let mut reading = reading?;
        let piece = reading.piece().await;
        let goes_on = piece.is_ok() && reading.goes_on();
        Some((piece, goes_on.then_some(reading)))
    });
    let first = stream::iter([Ok(Bytes::from(first))]);
    let content = Body::from_stream(first.chain(rest));
    const NEVER: HeaderValue = HeaderValue::from_static("no-store");
    let content_type = HeaderValue::from_static(form.content_type());
    Ok(Answer::new(StatusCode::OK, content_type, content)
        .with(header::CONTENT_DISPOSITION, form.saved_as())
        .with(header::CACHE_CONTROL, NEVER))
}

/// A file that is read.
struct Reading {
    api: Arc<Api>,
    form: Form,
    filter: TransactionFilter,
    /// Where the next page begins; none at the beginning.
    cursor: Option<String>,
    is_over: bool,
    _one_of_all: OwnedSemaphorePermit,
    _one_of_the_caller: Listening,
}

impl Reading {
    fn begin(call: &Call, form: Form, filter: TransactionFilter) -> Result<Reading, Problem> {
        let api = call.api.clone();
        let full = |_| Problem::new(Code::RateLimited, format!("{AT_ONCE} exports run already"));
        let one_of_the_caller = api.listeners.enter(call.access.submitter())?;
        let one_of_all = api.exports.clone().try_acquire_owned().map_err(full)?;
        Ok(Reading {
            api,
            form,
            filter,
            cursor: None,
            is_over: false,
            _one_of_all: one_of_all,
            _one_of_the_caller: one_of_the_caller,
        })
    }

    fn goes_on(&self) -> bool {
        !self.is_over
    }

    /// The lines of the next page, which may be none.
    async fn page(&mut self) -> Result<String, Error> {
        let Reading { api, form, filter, cursor, .. } = &*self;
        let page = {
            let _room = api.room_for_a_list().await;
            let (cursor, tell) = (cursor.as_deref(), form.tell());
            api.client.transactions_told(filter, PAGE, cursor, LOOK_FOR, tell).await?
        };
        let Page { items, next, .. } = page;
        self.is_over = next.is_none();
        self.cursor = next;
        Ok(items.concat())
    }

    /// The next lines, which may be none at the end of the list only; an error where the file is cut
    /// off.
    async fn piece(&mut self) -> io::Result<Bytes> {
        let stop = self.api.stop.clone();
        let reading = async {
            loop {
                let lines = self.page().await?;
                if !lines.is_empty() || !self.goes_on() {
                    return Ok::<_, Error>(lines);
                }
            }
        };
        match stop.run_until_cancelled(reading).await {
            Some(Ok(lines)) => Ok(lines.into()),
            Some(Err(error)) => {
                tracing::warn!(%error, "an export is cut off");
                Err(io::Error::other(error))
            }
            None => Err(io::Error::other("this server is about to end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_transaction_is_one_line_in_each_form() {
        let document = doc! {
            "_id": "t\n1", "state": "done", "source": "=a", "destination": "b", "value": 5_i64,
        };
        let [csv, json_lines] = Form::ALL.map(|form| (form.tell())(document.clone()));
        assert!(csv.item.starts_with("\"t\n1\",done,'=a,b,5,"), "{}", csv.item);
        assert_eq!(json_lines.item.matches('\n').count(), 1);
        assert_eq!(json_lines.bytes, json_lines.item.len());
        let read: serde_json::Value = serde_json::from_str(&json_lines.item).expect("JSON");
        assert_eq!((&read["id"], &read["source"]), (&"t\n1".into(), &"=a".into()));
        assert!(
            Form::ALL
                .iter()
                .all(|form| { Form::is_of(&HeaderValue::from_static(form.content_type())) })
        );
        assert!(!Form::is_of(&HeaderValue::from_static("text/event-stream")));
    }
}
