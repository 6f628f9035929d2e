//! What workers have given up: dead letters, and transactions that are set apart.

use axum::http::StatusCode;

use super::{get, in_two_steps, letter, post, transaction};
use crate::operation::Operation;
use crate::param::{Param, string};
use crate::problem::Code;
use crate::tokens::Scope;
use crate::{letters, parked};

pub(super) fn all() -> Vec<Operation> {
    vec![
        get("/v1/dead-letters", "listDeadLetters", |call| Box::pin(letters::list(call)))
            .about(
                "Count and list the messages that workers have given up",
                "Nothing is taken out of the queue. It looks at the oldest 10,000 letters, for a \
                 second at most: `complete` says whether these are all.",
            )
            .needs(Scope::Operate)
            .params([
                Param::limit(),
                Param::text("reason", "Only letters with this reason", string().build()),
            ])
            .gives::<letters::Letters>(StatusCode::OK, "The letters")
            .long(),
        get("/v1/dead-letters/{id}", "showDeadLetter", |call| Box::pin(letters::show(call)))
            .about("Show a letter, and how its transactions stand", "")
            .needs(Scope::Operate)
            .gives::<letters::LookedAt>(StatusCode::OK, "The letter")
            .may(&[Code::NotFound])
            .long(),
        post("/v1/dead-letters/{id}/replay", "replayDeadLetter", |call| {
            Box::pin(letters::replay(call))
        })
        .about(
            "Bring the transactions of a letter back",
            "What waits is published, what is parked is unparked and published, what is in flight is \
             left to its worker. The letter goes when nothing of it is left.",
        )
        .act("letters.replay", letter)
        .needs(Scope::Operate)
        .gives::<letters::LookedAt>(StatusCode::OK, "It was replayed, and is out of the queue")
        .may(&[Code::NotFound, Code::Refused])
        .long(),
        post("/v1/dead-letters/{id}/discard", "discardDeadLetter", |call| {
            Box::pin(letters::discard(call))
        })
        .about("Take a letter out of the queue for good", "Its transactions stay as they are.")
        .act("letters.discard", letter)
        .needs(Scope::Operate)
        .gives::<letters::LookedAt>(StatusCode::OK, "It is out of the queue")
        .may(&[Code::NotFound])
        .long(),
        get("/v1/parked", "listParked", |call| Box::pin(parked::list(call)))
            .about("List the transactions that are set apart", "")
            .needs(Scope::Operate)
            .params([Param::limit()])
            .gives::<parked::AllParked>(StatusCode::OK, "The parked transactions"),
        in_two_steps("/v1/parked/{id}/replay", "replayParked", |call| {
            Box::pin(parked::replay(call))
        })
        .about("Bring a parked transaction back", "Do it when what was wrong is mended.")
        .act("transaction.unpark", transaction)
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::Refused]),
        in_two_steps("/v1/parked/{id}/discard", "discardParked", |call| {
            Box::pin(parked::discard(call))
        })
        .about(
            "Give a parked transaction up",
            "It is canceled, and a worker undoes what it has posted.",
        )
        .act("transaction.give-up", transaction)
        .needs(Scope::Operate)
        .may(&[Code::NotFound, Code::WrongState, Code::Refused]),
    ]
}
