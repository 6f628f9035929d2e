//! What is heard of the ledger as a whole: what ended, how it is, and whether it is right.

use ::overview::types::Overview;
use axum::http::StatusCode;
use serde_json::json;

use super::{get, post, waiting};
use crate::operation::{Operation, name_schema, reference};
use crate::param::{Param, string};
use crate::problem::Code;
use crate::tokens::Scope;
use crate::{acts, events, ledger, overview, settlement};

/// Which ends a caller wants to hear of.
fn of_ends() -> [Param; 4] {
    let end = string().enum_values(Some(["done", "canceled"])).build();
    let currency = string().build();
    [
        Param::text("state", "Only this end", end),
        Param::text("account", "Only those that name this account", name_schema().build()),
        Param::text("currency", "Only those in this currency", currency),
        Param::family(
            events::METADATA,
            "`metadata.NAME=VALUE` or `metadata[NAME]=VALUE`: only those whose metadata has this \
             field with this value; a NAME with points leads into objects",
        ),
    ]
}

fn list_events() -> Operation {
    let after = string().pattern(Some("^([0-9]+|last)$")).build();
    let about = "After the end with this number: 0, which is the default, is the beginning, and \
                 `last` is after all that has ended; then the `next` of the page before";
    get("/v1/events", "listEvents", |call| Box::pin(events::list(call)))
        .about(
            "List what ended, in an order that never changes",
            "Each end has a number, from 1 on, without a gap. Who only follows the numbers misses \
             nothing, on any server and after any pause. With `wait`, an empty page waits for \
             what comes. A page looks at 10,000 ends at most, so with filters it may have fewer \
             items than `limit`, or none: `next` moves on all the same, and `last` says whether \
             there was more. It is no order of commits: what one worker has ended may have a \
             smaller number than what another one has ended some milliseconds before. A token that \
             is bound to accounts gets what it may read: what touches an account of its own. Of the \
             rest it is told that there are numbers.",
        )
        .needs(Scope::Read)
        .of_accounts()
        .params([Param::text("after", about, after), Param::limit()])
        .params(of_ends())
        .params(waiting())
        .gives::<events::Events>(StatusCode::OK, "A page")
        .may(&[Code::Lacking])
}

fn follow_events() -> Operation {
    let last = "The id of the last event that was received: what ended since comes first";
    get("/v1/events/stream", "followEvents", |call| Box::pin(events::follow(call)))
        .about(
            "Follow what ends",
            "Server-sent events `transaction.done` and `transaction.canceled`, in the order of \
             `GET /v1/events`; an event's id is its number there. The schema of the data is \
             `common/schemas/outcome.json`. Who comes back with `Last-Event-ID`, to any server, \
             gets what has ended since. Where nothing passes the filters for 15 s, an id comes without \
             data, which moves `Last-Event-ID` on. A token that is bound to accounts hears of what \
             touches an account of its own, and may see from the ids that there are others.",
        )
        .needs(Scope::Read)
        .of_accounts()
        .params(of_ends())
        .params([Param::header("Last-Event-ID", last, string().build())])
        .gives_text("text/event-stream", "The events, without an end")
        .may(&[Code::Lacking])
}

fn show_settlement() -> Operation {
    get("/v1/settlement", "showSettlement", |call| Box::pin(settlement::show(call)))
        .about(
            "Whether settlement is paused",
            "Since when, by whom and why; and which live workers do not do so yet.",
        )
        .needs(Scope::Read)
        .gives::<settlement::Settlement>(StatusCode::OK, "How it stands")
}

fn pause() -> Operation {
    post("/v1/settlement/pause", "pause", |call| Box::pin(settlement::pause(call)))
        .about(
            "Pause settlement of the ledger",
            "Workers see it within a second: they begin nothing more, and finish what they have begun. \
             What is submitted meanwhile is accepted and waits. Where settlement is paused already, \
             nothing changes, and the answer says who has paused it.",
        )
        .act_with_body("settlement.pause", super::ledger)
        .needs(Scope::Operate)
        .takes::<settlement::Pause>(
            reference::<settlement::Pause>(),
            vec![("pause", json!({ "reason": "the price list is wrong" }))],
        )
        .gives::<settlement::Settlement>(StatusCode::OK, "It is paused")
}

fn resume() -> Operation {
    post("/v1/settlement/resume", "resume", |call| Box::pin(settlement::resume(call)))
        .about(
            "Let settlement go on",
            "Workers see it within a second. Where settlement is not paused, nothing changes.",
        )
        .act_with_body("settlement.resume", super::ledger)
        .needs(Scope::Operate)
        .may_take::<settlement::Resume>(vec![(
            "resume",
            json!({ "reason": "the price list is right" }),
        )])
        .gives::<settlement::Settlement>(StatusCode::OK, "It goes on")
}

fn list_acts() -> Operation {
    let name = |about, name| Param::text(name, about, string().build());
    get("/v1/acts", "listActs", |call| Box::pin(acts::list(call)))
        .about(
            "List what people have done, newest first",
            "Who did what by the API, the console and the command line, why, and what became of it. \
             What programs submit and confirm is not in it. An act is noted before it is carried \
             out: one without `ended` goes on, or nobody knows what became of it.",
        )
        .needs(Scope::Operate)
        .params([
            Param::text("account", "Only what was done to this account", name_schema().build()),
            Param::text(
                "transaction",
                "Only what was done to this transaction",
                name_schema().build(),
            ),
            name("Only what somebody of this name has done", "who"),
            name("Only acts of this name, like transaction.cancel", "what"),
            Param::moment("since", "Only what was begun then or later"),
            Param::moment("until", "Only what was begun before"),
        ])
        .params(Param::paged_both_ways())
        .gives::<acts::Acts>(StatusCode::OK, "A page")
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        list_events(),
        follow_events(),
        get("/v1/overview", "overview", |call| Box::pin(overview::show(call)))
            .about(
                "What operators look at first",
                "Rates, latency, what waits, workers, queues, and what is wrong, in words. It is \
                 looked at every two seconds while somebody asks, and for all who ask at once; an \
                 answer comes also while a server is away, with the age of what was known.",
            )
            .needs(Scope::Read)
            .gives::<Overview>(StatusCode::OK, "The newest look, and points of 15 minutes"),
        get("/v1/overview/stream", "watchOverview", |call| Box::pin(overview::follow(call)))
            .about(
                "Follow the overview",
                "Server-sent events. The first is `overview`, as `GET /v1/overview` tells it: take it in \
                 place of everything. Each `sample` after it is the same, but for `points`, which has \
                 only those that are new: append them. A client that comes back begins anew.",
            )
            .needs(Scope::Read)
            .gives_text("text/event-stream", "The events, without an end"),
        get("/v1/stats", "stats", |call| Box::pin(ledger::stats(call)))
            .about(
                "Count transactions by state and reason",
                "The counts may be ten seconds old. Of more than 100,000 documents they are \
                 estimated by a sample; `GET /v1/overview` counts what is not final.",
            )
            .needs(Scope::Read)
            .gives::<ledger::Stats>(StatusCode::OK, "The counts"),
        show_settlement(),
        pause(),
        resume(),
        post("/v1/audit", "audit", |call| Box::pin(ledger::audit(call)))
            .about(
                "Check every rule of the ledger on every document",
                "It reads everything that is stored; what it says stands for one moment. One audit \
                 runs at a time.",
            )
            .act("audit.begin", super::ledger)
            .needs(Scope::Operate)
            .params([Param::flag("atRest", "Count what is not final as a violation")])
            .gives::<ledger::Audit>(StatusCode::OK, "What it found")
            .long(),
        list_acts(),
    ]
}
