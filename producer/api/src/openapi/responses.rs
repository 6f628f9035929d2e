//! What an operation answers, as the document describes it.
//!
//! Problems that several operations end with alike are described once.

use std::collections::BTreeMap;

use axum::http::HeaderName;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use super::examples;
use crate::answer::REPLAYED;
use crate::dispatch::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::operation::{Gives, Operation, reference};
use crate::param::string;
use crate::problem::{self, Code, Problem, ProblemDetails};
use crate::submissions::APPLIED;

/// An answer that is no problem.
pub(super) fn given(operation: &Operation, gives: &Gives) -> Response {
    let (content_type, schema) = &gives.content;
    let example = examples::of(operation.name, gives.status.as_u16());
    let content = ContentBuilder::new().schema(Some(schema.clone())).example(example).build();
    let mut response =
        ResponseBuilder::new().description(gives.about).content(*content_type, content);
    if operation.takes.is_some() || operation.params.iter().any(|param| param.name == "Prefer") {
        response = header(response, &REPLAYED, "`true` when it was there already");
        response = header(response, &APPLIED, "That the wish to wait was heard");
    }
    if operation.scope.is_some() {
        response = limited(response);
    }
    response.build()
}

/// The problems that an operation may end with, by status.
pub(super) fn refusals(operation: &Operation) -> Vec<(String, RefOr<Response>)> {
    let named = |(status, codes): (String, Vec<Code>)| (status, refers_to(&name(&codes)));
    by_status(&operation.problems).into_iter().map(named).collect()
}

/// The same, described, by the names under which they are referred to.
pub(super) fn problems(operation: &Operation) -> Vec<(String, Response)> {
    by_status(&operation.problems).into_values().map(|codes| (name(&codes), bad(&codes))).collect()
}

fn refers_to(name: &str) -> RefOr<Response> {
    RefOr::Ref(Ref::from_response_name(name))
}

/// Several kinds of problems may have the same status.
fn by_status(codes: &[Code]) -> BTreeMap<String, Vec<Code>> {
    let mut by_status = BTreeMap::<String, Vec<Code>>::new();
    for code in codes {
        by_status.entry(code.status().as_str().to_owned()).or_default().push(*code);
    }
    by_status
}

fn name(codes: &[Code]) -> String {
    let words: Vec<String> = codes.iter().map(|code| format!("{code:?}")).collect();
    words.join("Or")
}

fn bad(codes: &[Code]) -> Response {
    let about: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.word(), code.title())).collect();
    let example = codes.first().map(|code| {
        serde_json::to_value(Problem::new(*code, code.title()).told()).expect("it is JSON")
    });
    let content = ContentBuilder::new().schema(Some(reference::<ProblemDetails>()));
    let content = content.example(example).build();
    let mut response = ResponseBuilder::new()
        .description(about.join(". "))
        .content("application/problem+json", content);
    for name in codes.iter().flat_map(|code| problem::headers(*code)) {
        response = header(response, name, "See RFC 9110");
    }
    if codes.contains(&Code::RateLimited) {
        response = limited(response);
    }
    response.build()
}

/// The headers of a server that limits how many requests a token may send.
fn limited(response: ResponseBuilder) -> ResponseBuilder {
    let about = "How many requests a token may send in how many seconds, if there is a limit";
    let response = header(response, &RATE_LIMIT_POLICY, about);
    header(response, &RATE_LIMIT, "How many of these are left, and for how many seconds")
}

fn header(response: ResponseBuilder, name: &HeaderName, about: &str) -> ResponseBuilder {
    let schema = Schema::from(string());
    let header = HeaderBuilder::new().schema(schema).description(Some(about)).build();
    response.header(name.as_str(), header)
}
