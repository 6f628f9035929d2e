//! What is done with one worker.

use axum::http::StatusCode;
use serde_json::json;

use super::{get, post, worker};
use crate::operation::{Operation, reference};
use crate::problem::Code;
use crate::tokens::Scope;
use crate::{settlement, workers};

pub(super) fn all() -> Vec<Operation> {
    vec![show(), drain(), resume()]
}

fn show() -> Operation {
    get("/v1/workers/{id}", "showWorker", |call| Box::pin(workers::show(call)))
        .about(
            "Whether a worker is drained",
            "Since when, by whom and why; and what it still does. `GET /v1/overview` has the names \
             of the workers.",
        )
        .needs(Scope::Read)
        .gives::<workers::WorkerSettlement>(StatusCode::OK, "How it stands")
        .may(&[Code::NotFound])
}

fn drain() -> Operation {
    post("/v1/workers/{id}/drain", "drainWorker", |call| Box::pin(workers::drain(call)))
        .about(
            "Take one worker out of settlement",
            "It sees it within a second: it begins nothing more, gives back what it has not begun, \
             finishes the rest, and stands by, also when it is started again under its name. Others \
             settle what comes. Where it is drained already, nothing changes, and the answer says who \
             has drained it. A name that no worker had within a day is not found, and the problem \
             names those that there were.",
        )
        .act_with_body("worker.drain", worker)
        .needs(Scope::Operate)
        .takes::<settlement::Pause>(
            reference::<settlement::Pause>(),
            vec![("drain", json!({ "reason": "its machine is to be replaced" }))],
        )
        .gives::<workers::WorkerSettlement>(StatusCode::OK, "It is to be drained")
        .may(&[Code::NotFound])
}

fn resume() -> Operation {
    post("/v1/workers/{id}/resume", "resumeWorker", |call| Box::pin(workers::resume(call)))
        .about(
            "Let a worker settle again",
            "It sees it within a second. Where it is not drained, nothing changes.",
        )
        .act_with_body("worker.resume", worker)
        .needs(Scope::Operate)
        .may_take::<settlement::Resume>(vec![(
            "resume",
            json!({ "reason": "the machine is replaced" }),
        )])
        .gives::<workers::WorkerSettlement>(StatusCode::OK, "It is to settle again")
        .may(&[Code::NotFound])
}
