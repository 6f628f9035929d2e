//! What an operator can do: in words, as the operation of the API that does it, and as buttons.
//! Pure.

use std::collections::BTreeMap;

use api::routes;
use maud::{Markup, html};
use serde_json::Value;
use strum::{EnumCount, VariantArray};

use super::html::{link, text};
use super::visit::Visit;

/// What an operator can do.
#[derive(Clone, Copy, PartialEq, Eq, EnumCount, VariantArray)]
pub enum Act {
    /// Takes a transaction back before it is applied.
    Cancel,
    /// Changes when a scheduled transaction is due.
    Reschedule,
    /// Captures a hold, or a part of it.
    Confirm,
    /// Releases a hold.
    Release,
    /// Takes an applied transaction back.
    Reverse,
    /// Brings a parked transaction back.
    Unpark,
    /// Gives a parked transaction up.
    GiveUp,
    /// Freezes an account.
    Freeze,
    /// Opens a frozen account.
    Unfreeze,
    /// Closes an account.
    Close,
    /// Changes the floor of an account.
    SetFloor,
    /// Replays a dead letter.
    Replay,
    /// Takes a dead letter away.
    Discard,
    /// Pauses settlement of the ledger.
    Pause,
    /// Lets settlement go on.
    Resume,
    /// Takes one worker out of settlement.
    Drain,
    /// Lets a worker settle again.
    ResumeWorker,
    /// Audits the ledger.
    Audit,
}

/// How an act is told.
pub struct Wording {
    pub name: &'static str,
    pub operation: &'static str,
    pub verb: &'static str,
    pub effect: &'static str,
    /// The page of what it is about.
    pub page: &'static str,
    /// The operation that shows what it is about.
    pub shown_by: &'static str,
}

impl Act {
    /// All of them.
    pub const ALL: [Act; Act::COUNT] =
        *Act::VARIANTS.first_chunk().expect("as many as are counted");

    /// Its name in addresses and in the log.
    pub fn name(self) -> &'static str {
        self.told().name
    }

    /// The operation of the API that it is.
    pub fn operation(self) -> &'static str {
        self.told().operation
    }

    /// What is done, in words.
    pub fn verb(self) -> &'static str {
        self.told().verb
    }

    /// What follows from it.
    pub fn effect(self) -> &'static str {
        self.told().effect
    }

    /// Whether it is about the ledger as a whole, and not about one document.
    pub fn is_of_ledger(self) -> bool {
        matches!(self, Act::Pause | Act::Resume | Act::Audit)
    }

    pub fn parse(name: &str) -> Option<Act> {
        Act::ALL.into_iter().find(|act| act.name() == name)
    }

    /// Why the visitor may not do it with what is shown, if so.
    fn lacking(self, visit: &Visit, shown: &Value) -> Option<String> {
        let operation = routes::named(self.operation());
        let own = Some(text(shown, "submittedBy")).filter(|by| !by.is_empty());
        // Who may only submit cancels what it has submitted, unless that is a hold.
        let is_own = own == visit.caller.submitter().as_deref() && shown["hold"] != true;
        match operation.scope.filter(|scope| !visit.caller.may(*scope)) {
            Some(scope) if !(is_own && visit.may(self.operation())) => {
                Some(format!("needs a token that has the scope {scope}"))
            }
            Some(_) | None if !visit.may(self.operation()) => {
                Some("is not for a token that is bound to accounts".to_owned())
            }
            Some(_) | None => None,
        }
    }

    pub fn told(self) -> Wording {
        let told = |name, operation, verb, effect, page, shown_by| Wording {
            name,
            operation,
            verb,
            effect,
            page,
            shown_by,
        };
        let transaction = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/console/transaction", "showTransaction")
        };
        let account = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/console/account", "showAccount")
        };
        let letter = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/console/letter", "showDeadLetter")
        };
        let settlement = |name, operation, verb, effect| {
            told(name, operation, verb, effect, "/", "showSettlement")
        };
        let worker =
            |name, operation, verb, effect| told(name, operation, verb, effect, "/", "showWorker");
        match self {
            Act::Cancel => transaction(
                "cancel",
                "cancel",
                "Cancel the transaction",
                "A worker undoes what it has posted. No money moves by it.",
            ),
            Act::Reschedule => transaction(
                "reschedule",
                "reschedule",
                "Reschedule the transaction",
                "Nobody settles it before the new moment. It has to be before the moment at which it expires.",
            ),
            Act::Confirm => transaction(
                "confirm",
                "confirm",
                "Confirm the hold",
                "A worker pays what is captured, and the rest goes home. A hold is confirmed once.",
            ),
            Act::Release => transaction(
                "release",
                "release",
                "Release the hold",
                "All that is held goes home. It can't be confirmed any more.",
            ),
            Act::Reverse => transaction(
                "reverse",
                "reverse",
                "Reverse the transaction",
                "A new transaction moves the same money back. It may be refused, for example when the money is spent.",
            ),
            Act::Unpark => transaction(
                "unpark",
                "replayParked",
                "Bring the parked transaction back",
                "It is published again, and a worker goes on with it. Do it when what was wrong is mended.",
            ),
            Act::GiveUp => transaction(
                "give-up",
                "discardParked",
                "Give the parked transaction up",
                "It is canceled for good, and a worker undoes what it has posted.",
            ),
            Act::Freeze => account(
                "freeze",
                "freeze",
                "Freeze the account",
                "New postings are refused until it is unfrozen. What is posted already comes to its end.",
            ),
            Act::Unfreeze => {
                account("unfreeze", "unfreeze", "Unfreeze the account", "It takes postings again.")
            }
            Act::Close => account(
                "close",
                "close",
                "Close the account",
                "It takes no postings any more, for good. It has to be empty.",
            ),
            Act::SetFloor => account(
                "set-floor",
                "setFloor",
                "Set the floor of the account",
                "No debit leaves less on it than this. It is refused if the account has less now. What is in flight comes to its end.",
            ),
            Act::Replay => letter(
                "replay",
                "replayDeadLetter",
                "Replay the letter",
                "What waits is published, what is parked is unparked. The letter goes when nothing of it is left.",
            ),
            Act::Discard => letter(
                "discard",
                "discardDeadLetter",
                "Discard the letter",
                "It leaves the queue for good. Its transactions stay as they are.",
            ),
            Act::Pause => settlement(
                "pause",
                "pause",
                "Pause settlement",
                "Within a second, workers begin nothing more and finish what they have begun. What is submitted is accepted and waits. Everybody is shown the reason.",
            ),
            Act::Resume => settlement(
                "resume",
                "resume",
                "Let settlement go on",
                "Within a second, workers take up what waits.",
            ),
            Act::Drain => worker(
                "drain",
                "drainWorker",
                "Drain the worker",
                "Within a second it begins nothing more, gives back what it has not begun, and finishes the rest. It stays drained when it is started again under its name. Other workers settle what comes; when all are drained, nothing is settled.",
            ),
            Act::ResumeWorker => worker(
                "resume-worker",
                "resumeWorker",
                "Let the worker settle again",
                "Within a second it settles again.",
            ),
            Act::Audit => told(
                "audit",
                "audit",
                "Start an audit",
                "It reads everything that is stored, which takes the database a while. It changes nothing.",
                "/console/audit",
                "",
            ),
        }
    }
}

/// Links to the confirmations of those acts that the visitor may do with what is shown; of the others,
/// why there are none.
pub fn buttons(visit: &Visit, id: &str, shown: &Value, acts: &[Act]) -> Markup {
    let (mut may, mut lacking) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for act in acts {
        match act.lacking(visit, shown) {
            None => may.push(act),
            Some(why) => lacking.entry(why).or_default().push(act.verb()),
        }
    }
    html! {
        @if !may.is_empty() {
            p.acts {
                @for act in may {
                    a.button href=(link("/console/confirm", &[("act", act.name()), ("id", id)])) { (act.told().verb) }
                }
            }
        }
        @for (why, verbs) in &lacking { p.note { (verbs.join(", ")) ": this " (why) "." } }
    }
}
