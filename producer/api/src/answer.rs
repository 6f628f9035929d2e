//! What a request is answered with.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use client::{ActEnd, Told};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// Says that nothing was inserted, because it was there already.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// An answer, before it is a response.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its content.
    pub body: Body,
    /// What is noted of it if it is an act, where the status does not say that.
    pub ended: Option<ActEnd>,
}

/// An item of a list as JSON, in which it takes much less memory than as a tree.
pub fn as_text(item: &impl Serialize) -> Told<Box<RawValue>> {
    let item = to_raw_value(item).expect("keys are texts, and numbers are finite");
    Told { bytes: item.get().len(), item }
}

impl Answer {
    /// JSON.
    pub fn json(status: StatusCode, content: &impl Serialize) -> Answer {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let content = serde_json::to_vec(content).expect("keys are texts, and numbers are finite");
        Answer::new(status, JSON, Body::from(content))
    }

    /// A text that is there for as long as the program.
    pub fn text(content_type: &'static str, content: impl Into<Bytes>) -> Answer {
        let content_type = HeaderValue::from_static(content_type);
        Answer::new(StatusCode::OK, content_type, Body::from(content.into()))
    }

    /// Any content.
    pub fn new(status: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]);
        Answer { status, headers, body, ended: None }
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Answer {
        self.headers.insert(name, value);
        self
    }

    /// The same, which says so if what was asked for was there already.
    #[must_use]
    pub fn replayed_if(self, was_there: bool) -> Answer {
        match was_there {
            true => self.with(REPLAYED, HeaderValue::from_static("true")),
            false => self,
        }
    }

    /// The response.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
