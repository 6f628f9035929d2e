//! A way through the states, for people.

use std::collections::BTreeMap;

use common::account::Account;
use common::ledger::Posting;
use common::transaction::{AccountId, TransactionId};

use super::protocol::{Next, Protocol};
use super::state::{Action, Stage, State, Whose, World};
use crate::sim::model::{Books, Transaction};
use crate::sim::server::Request;

/// The name of a run in traces.
#[must_use]
pub fn worker(run: usize) -> String {
    let letter = u8::try_from(run).map_or('?', |run| char::from(b'A'.saturating_add(run)));
    format!("worker {letter}")
}

/// The way with these fingerprints, a line a step.
pub fn lines<P: Protocol>(
    world: &mut World<P>,
    first: &State,
    way: &[u64],
    fingerprint: impl Fn(&State) -> u64,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut state = first.clone();
    for step in way {
        let next = world.successors(&state);
        let Some((action, after)) = next.into_iter().find(|(_, next)| fingerprint(next) == *step)
        else {
            lines.push("the way can't be followed: two states share a fingerprint".to_owned());
            break;
        };
        let line = told(world, &state, action, &after);
        // Time that passes is told once, with what happens then.
        if action != Action::Tick {
            lines.push(format!("{:>2}. at {}: {line}", lines.len() + 1, state.now));
        }
        state = after;
    }
    lines
}

fn told<P: Protocol>(world: &World<P>, before: &State, action: Action, after: &State) -> String {
    let changes = changes(world.books.value(before.books), world.books.value(after.books));
    let asked = |run: usize| {
        before.runs[run].and_then(|(node, _)| match world.runs.next(node) {
            Next::Request(request) => {
                Some(world.protocol.describe(world.runs.requests.value(request)))
            }
            Next::Sleep | Next::Over => None,
        })
    };
    let (who, stage, request) = match action {
        Action::Tick => return "time passes".to_owned(),
        Action::Notice(run) => return format!("{} notices", worker(run)),
        Action::Wake(run) => return format!("{} tries again", worker(run)),
        Action::Answer(run) => {
            return format!(
                "{} hears the answer to {}",
                worker(run),
                asked(run).unwrap_or_default()
            );
        }
        Action::Lose(run) => {
            return format!(
                "{} loses its connection during {}",
                worker(run),
                asked(run).unwrap_or_default()
            );
        }
        Action::Proceed(Whose::Run(run)) => {
            let stage = before.runs[run].map(|(_, stage)| stage);
            (worker(run), stage, asked(run).unwrap_or_default())
        }
        Action::Proceed(Whose::Adrift(index)) => {
            let (request, stage) = before.adrift[index];
            let request = world.protocol.describe(world.runs.requests.value(request));
            ("nobody".to_owned(), Some(stage), request)
        }
    };
    let starts = stage == Some(Stage::OnTheWay);
    let verb = if starts { "" } else { " (goes on)" };
    if changes.is_empty() && before.books == after.books {
        let dwells = starts && matches!(action, Action::Proceed(whose) if is_running(after, whose));
        let what = if dwells { "starts" } else { "changes nothing" };
        return format!("{who}: {request}{verb} {what}");
    }
    format!("{who}: {request}{verb} → {}", changes.join("; "))
}

fn is_running(state: &State, whose: Whose) -> bool {
    match whose {
        Whose::Run(run) => matches!(state.runs[run], Some((_, Stage::Running { next: 0, .. }))),
        Whose::Adrift(_) => {
            state.adrift.iter().any(|(_, stage)| matches!(stage, Stage::Running { next: 0, .. }))
        }
    }
}

/// The documents that differ, as they are afterwards.
fn changes(before: &Books, after: &Books) -> Vec<String> {
    let (before, after) = (shown(before), shown(after));
    let differ = |(name, document): &(&String, &String)| before.get(*name) != Some(*document);
    after.iter().filter(differ).map(|(name, document)| format!("{name} {document}")).collect()
}

fn shown(books: &Books) -> BTreeMap<String, String> {
    let accounts =
        books.accounts.values().map(|account| (account.id.to_string(), shown_account(account)));
    let transactions =
        books.transactions.values().map(|doc| (doc.id.to_string(), shown_transaction(doc)));
    accounts.chain(transactions).collect()
}

fn shown_account(account: &Account) -> String {
    let mut text = format!("has {}", account.balance);
    if !account.pending_debits.is_zero() || !account.pending_credits.is_zero() {
        text += &format!(", held −{} +{}", account.pending_debits, account.pending_credits);
    }
    format!("{text}, marks [{}]", joined(&account.pending_transactions))
}

fn shown_transaction(doc: &Transaction) -> String {
    let owner = doc.claim.as_deref().map(|claim| format!(" by {claim}")).unwrap_or_default();
    if doc.takeover_at == 0 {
        return format!("is {}{owner}", doc.state);
    }
    format!("is {}{owner}, others after {}", doc.state, doc.takeover_at)
}

fn joined<'a>(ids: impl IntoIterator<Item = &'a TransactionId>) -> String {
    ids.into_iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(" ")
}

/// A request of the engine or of a client.
#[must_use]
pub fn request(request: &Request) -> String {
    let postings = |postings: &[Posting]| -> String {
        let one = |posting: &Posting| {
            let ids = joined(&posting.transactions);
            format!("{} −{} +{} for {ids}", posting.account, posting.debits, posting.credits)
        };
        postings.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let name = request.name();
    match request {
        Request::Post(posted, before) => format!("post {} before {before}", postings(posted)),
        Request::Remove(_, removed) => format!("{name} {}", postings(removed)),
        Request::Claim(ids, ..)
        | Request::Read(ids)
        | Request::Advance(_, ids, _)
        | Request::Release(ids, ..) => format!("{name} {}", joined(ids)),
        Request::Insert(id, _) | Request::AskCancel(id) => format!("{name} {id}"),
        Request::Accounts(ids) => {
            format!("{name} {}", ids.iter().map(AccountId::as_ref).collect::<Vec<_>>().join(" "))
        }
        Request::SetStatus(id, status) => format!("{name} {id} {}", status.as_str()),
        Request::Cancel(refused, _) => {
            format!("{name} {}", joined(refused.iter().map(|(id, _)| id)))
        }
    }
}
