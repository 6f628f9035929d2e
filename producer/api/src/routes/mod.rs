//! The operations of the API: what `producer serve` offers, in the order of its page.

mod accounts;
mod ledger;
mod letters;
mod transactions;
mod workers;

use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use client::{ActSubject, SubjectKind};
use observe::pages::Pages;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;

use super::answer::Answer;
use super::call::Call;
use super::operation::{Operation, Run};
use super::param::{Param, any_object, string};
use super::problem::{Code, Problem, ProblemDetails};
use super::received::{Received, WAIT_MAX_S};
use super::tokens::Scope;
use super::view::Stands;
use super::{openapi, page};

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let of_documents = [transactions::all(), accounts::all()];
    let of_operators = [ledger::all(), workers::all(), letters::all()];
    of_documents.into_iter().chain(of_operators).chain([about_itself()]).flatten().collect()
});

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter()
}

/// The operation of this name.
///
/// # Panics
/// When there is none.
pub fn named(name: &str) -> &'static Operation {
    all().find(|operation| operation.name == name).expect("an operation of the API")
}

fn get(path: &'static str, name: &'static str, run: Run) -> Operation {
    Operation::new(Method::GET, path, name, run)
}

fn post(path: &'static str, name: &'static str, run: Run) -> Operation {
    Operation::new(Method::POST, path, name, run)
}

/// The transaction that the address names.
fn transaction(received: &Received) -> ActSubject {
    ActSubject::of(SubjectKind::Transaction, [received.id.as_str()])
}

/// The transactions that the items of an array name.
fn each_transaction(received: &Received) -> ActSubject {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let items = serde_json::from_slice::<Vec<&RawValue>>(&received.body).unwrap_or_default();
    let named = |item: &&RawValue| Some(serde_json::from_str::<Named>(item.get()).ok()?.id);
    let ids: Vec<String> = items.iter().filter_map(named).collect();
    let mut on = ActSubject::of(SubjectKind::Transaction, ids.iter().map(String::as_str));
    if on.ids.len() < items.len() {
        on.count = u64::try_from(items.len()).ok();
    }
    on
}

/// The account that the address names.
fn account(received: &Received) -> ActSubject {
    ActSubject::of(SubjectKind::Account, [received.id.as_str()])
}

/// The dead letter that the address names.
fn letter(received: &Received) -> ActSubject {
    ActSubject::of(SubjectKind::Letter, [received.id.as_str()])
}

/// The worker that the address names.
fn worker(received: &Received) -> ActSubject {
    ActSubject::of(SubjectKind::Worker, [received.id.as_str()])
}

/// The ledger as a whole.
fn ledger(_: &Received) -> ActSubject {
    ActSubject::ledger()
}

/// The wish to wait for the outcome.
fn waiting() -> [Param; 2] {
    [
        Param::number("wait", "Wait so many seconds for the outcome", 0, WAIT_MAX_S),
        Param::header("Prefer", "wait=SECONDS: the same as a wish (RFC 7240)", string().build()),
    ]
}

/// Answers of operations that may begin something: 200 when it has ended, 202 when not.
fn in_two_steps(path: &'static str, name: &'static str, run: Run) -> Operation {
    post(path, name, run)
        .gives::<Stands>(StatusCode::OK, "It has come to its end; this is its outcome")
        .gives::<Stands>(StatusCode::ACCEPTED, "It is durable and on its way")
        .params(waiting())
}

fn about_itself() -> Vec<Operation> {
    vec![
        get("/v1/openapi.json", "openapi", |_| Box::pin(async { Ok(openapi::answer()) }))
            .about("This document", "")
            .gives_any::<ProblemDetails>(
                StatusCode::OK,
                "An OpenAPI document",
                RefOr::T(any_object().into()),
            ),
        get("/v1", "page", |_| Box::pin(async { Ok(page::answer()) }))
            .about("A page about the API", "")
            .gives_text("text/html; charset=utf-8", "The page"),
        get("/metrics", "metrics", |call| Box::pin(metrics(call)))
            .about("Figures for Prometheus", "")
            .needs(Scope::Read)
            .gives_text("text/plain; version=0.0.4", "The figures"),
        get("/healthz", "healthz", |_| Box::pin(async { Ok(Answer::text("text/plain", "ok\n")) }))
            .about("Whether the server lives", "")
            .probe()
            .gives_text("text/plain", "It lives"),
        get("/readyz", "readyz", |call| Box::pin(ready(call)))
            .about("Whether this process takes requests", "Also while a server is away")
            .probe()
            .gives_text("text/plain", "It does"),
    ]
}

async fn metrics(call: Call) -> Result<Answer, Problem> {
    Ok(Answer::text("text/plain; version=0.0.4", Pages::metrics(&*call.api)))
}

async fn ready(call: Call) -> Result<Answer, Problem> {
    match call.api.ready() {
        (StatusCode::OK, text) => Ok(Answer::text("text/plain", text)),
        (_, why) => Err(Problem::new(Code::Unavailable, why.trim_end())),
    }
}
