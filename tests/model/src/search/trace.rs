//! A way through the states as text.

use std::collections::BTreeMap;

use ledger::account::Account;
use ledger::event::Ended;
use ledger::journal::Entry;
use ledger::transaction::{Leg, TransactionId};
use ledger::{Posting, Removal};

use super::protocol::{Next, Protocol};
use super::runs::{Event, Hears};
use super::state::{Action, Progress, Run, Stage, State, Whose, World};
use crate::sim::journal::StoredLine;
use crate::sim::model::{Books, Transaction};
use crate::sim::request::Request;

/// The name of a run in traces.
#[must_use]
pub fn worker(run: usize) -> String {
    let letter = u8::try_from(run).map_or('?', |run| char::from(b'A'.saturating_add(run)));
    format!("worker {letter}")
}

/// The steps between these fingerprints, one a line.
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
        // Time that passes is told together with the next event.
        if action != Action::Tick {
            lines.push(format!("{:>2}. at {}: {line}", lines.len() + 1, state.now));
        }
        state = after;
    }
    lines
}

fn told<P: Protocol>(world: &World<P>, before: &State, action: Action, after: &State) -> String {
    let name = |request: u32| world.protocol.describe(world.runs.requests.value(request));
    let asked = |run: usize| match before.runs[run].map(|(node, _)| world.runs.next(node)) {
        Some(Next::Request(request)) => name(request),
        Some(Next::Sleep | Next::Over) | None => "nothing".to_owned(),
    };
    match action {
        Action::Tick => "time passes".to_owned(),
        Action::Hear(run, event) => {
            let what = match event.hears {
                Hears::Awake => "goes on".to_owned(),
                Hears::Answer(_) => format!("hears the answer to: {}", asked(run)),
                Hears::Lost => format!("gives up: {}", asked(run)),
            };
            format!("{} {what}{}", worker(run), way(world, before.runs[run], event))
        }
        Action::Lose(run) => format!("{} will get no answer to: {}", worker(run), asked(run)),
        Action::Proceed(Whose::Run(run)) => {
            let stage = before.runs[run].map(|(_, stage)| stage);
            let starts =
                matches!(after.runs[run], Some((_, Stage::Running(Progress { next: 0, .. }))));
            let outcome = outcome(world, before, after, starts);
            format!("{}: {}{}{outcome}", worker(run), asked(run), step(stage))
        }
        Action::Proceed(Whose::Adrift(index)) => {
            let (request, stage) = before.adrift[index];
            let next = (request, Stage::Running(Progress::start(before.now)));
            let outcome = outcome(world, before, after, after.adrift.contains(&next));
            format!("unattended: {}{}{outcome}", name(request), step(Some(stage)))
        }
    }
}

/// The way that a run goes after an event, where it chooses.
fn way<P: Protocol>(world: &World<P>, run: Run, event: Event) -> &'static str {
    match run.map(|(node, _)| world.runs.chooses(node, event)) {
        Some(true) if event.native => ", and chooses the native way",
        Some(true) => ", and chooses two phases",
        Some(false) | None => "",
    }
}

fn step(stage: Option<Stage>) -> String {
    match stage {
        Some(Stage::Running(Progress { next, .. })) => format!(", step {}", next + 1),
        Some(Stage::OnTheWay | Stage::Executed { .. } | Stage::Lost) | None => String::new(),
    }
}

fn outcome<P: Protocol>(world: &World<P>, before: &State, after: &State, starts: bool) -> String {
    let changes = changes(world.books.value(before.books), world.books.value(after.books));
    if changes.is_empty() {
        return if starts { " starts".to_owned() } else { String::new() };
    }
    format!(" → {}", changes.join("; "))
}

/// The documents that a step has changed, as they are after it.
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
    let aside = books.aside.keys().map(|id| (format!("{id}, beside it,"), "parked".to_owned()));
    let sent = books.sent.iter().map(|event| (shown_event(event), "sent".to_owned()));
    let lines =
        books.journal.iter().map(|(name, line)| (format!("the line {name}"), shown_line(line)));
    let due = books.due.keys().map(|line| (format!("the note on {line}"), "is there".to_owned()));
    let open = books.keyed.open.iter();
    let open = open.map(|(attempt, doc)| (attempt.clone(), format!("has {} open", doc.id)));
    accounts
        .chain(transactions)
        .chain(aside)
        .chain(lines)
        .chain(sent)
        .chain(due)
        .chain(open)
        .collect()
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
    let parked = if doc.parked.is_some() { ", parked" } else { "" };
    if doc.takeover_at == 0 {
        return format!("is {}{owner}{parked}", doc.state);
    }
    format!("is {}{owner}{parked}, others after {}", doc.state, doc.takeover_at)
}

fn shown_event(event: &Ended) -> String {
    format!("the event that {} is {}", event.id, event.end.as_str())
}

fn shown_line(line: &StoredLine) -> String {
    let leg = |leg: &Leg| format!(" {} {}", leg.account, leg.amount);
    let done = line
        .done
        .iter()
        .map(|(id, legs)| format!("{id} is done:{}", legs.iter().map(leg).collect::<String>()));
    let canceled = line.canceled.iter().map(|(id, _)| format!("{id} is canceled"));
    format!("says that {}", done.chain(canceled).collect::<Vec<_>>().join(", "))
}

fn joined<'a>(ids: impl IntoIterator<Item = &'a TransactionId>) -> String {
    ids.into_iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(" ")
}

fn posting(posting: &Posting) -> String {
    let Posting { account, debits, credits, transactions, ride, .. } = posting;
    let settling = |ride: &Removal| format!(" settling {}", joined(&ride.transactions));
    let ride = ride.as_ref().map_or(String::new(), settling);
    format!("{account} −{debits} +{credits} for {}{ride}", joined(transactions))
}

fn removal(removal: &Removal) -> String {
    let Removal { account, debits, credits, released, transactions, .. } = removal;
    let released = match released.is_zero() {
        true => String::new(),
        false => format!(" of which {released} goes home"),
    };
    format!("{account} −{debits}{released} +{credits} for {}", joined(transactions))
}

/// A request of the engine or of a client.
#[must_use]
pub fn request(request: &Request) -> String {
    let name = request.name();
    match request {
        Request::Post(postings, before) => {
            let postings: Vec<_> = postings.iter().map(posting).collect();
            format!("post {} before {before}", postings.join(", "))
        }
        Request::Remove(_, removals) => {
            let removals: Vec<_> = removals.iter().map(removal).collect();
            format!("{name} {}", removals.join(", "))
        }
        Request::Claim(ids, ..)
        | Request::Read(ids)
        | Request::Bodies(ids)
        | Request::ParkById(ids, _)
        | Request::Commit(_, ids, _)
        | Request::Release(ids, ..)
        | Request::Rest(ids, ..)
        | Request::Unclaim(ids, _) => format!("{name} {}", joined(ids)),
        Request::Insert(id, _)
        | Request::AskCancel(id)
        | Request::ExpireHold(id)
        | Request::MakeDue(id)
        | Request::Expire(id)
        | Request::Reschedule(id, _)
        | Request::Unpark(id)
        | Request::Mend(id) => format!("{name} {id}"),
        Request::InsertKeyed(attempt, _, id, _) => format!("{name} {id} in {attempt}"),
        Request::CommitKeyed(what) | Request::Holder(what) => format!("{name} {what}"),
        Request::Confirm(id, captured) => {
            let amount = |leg: &Leg| format!(" {} {}", leg.account, leg.amount);
            format!("{name} {id}:{}", captured.iter().map(amount).collect::<String>())
        }
        Request::Spoil(id, oddity) => format!("{name} {id}: {}", oddity.name()),
        Request::Accounts(looks) => {
            let accounts: Vec<&str> = looks.iter().map(|(account, _)| &**account).collect();
            format!("{name} {}", accounts.join(" "))
        }
        Request::Park(parkings) => {
            format!("{name} {}", joined(parkings.iter().map(|parking| &parking.id)))
        }
        Request::SetStatus(id, status) => format!("{name} {id} {}", status.as_str()),
        Request::Transact(_, orders, ..) => {
            format!("{name} {}", joined(orders.iter().map(|(id, _)| id)))
        }
        Request::End(_, line, _) => {
            let entry = |entry: &Entry| format!("{} {}", entry.id, entry.end.as_str());
            let entries: Vec<_> = line.entries.iter().map(entry).collect();
            format!("{name} {} by the line {}", entries.join(" "), line.heading.id)
        }
        Request::Announce(events) => {
            format!("{name} {}", joined(events.iter().map(|event| &event.id)))
        }
        Request::Note(line, _) => format!("{name} {line}"),
        Request::Number(_, lines, _) => {
            format!(
                "{name} {}",
                lines.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>().join(", ")
            )
        }
        Request::Forget(lines) => format!("{name} {}", lines.join(", ")),
        Request::Cancel(refused, _) => {
            format!("{name} {}", joined(refused.iter().map(|refused| &refused.id)))
        }
    }
}
