//! Transactions that an old processor has left in flight, and the next step of each.
//!
//! The old processor works as the articles do: it marks an account with the transaction in the
//! update that changes its balance, credits at once, removes the marks once all accounts are marked,
//! and says in `state` how far it is. Owns [`Flight`] and [`step`]. Promises that a step is the one
//! of the articles' recovery: what is pending goes forward, or back where an account cannot take it;
//! what is applied goes forward; what is canceling goes back. Pure.

use layout::IdKind;
use ledger::transaction::State;
use mongodb::bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use rust_decimal::Decimal;

use super::class::Class;
use super::number::{shown, value};
use super::plan::{field, its_id, path, unchanged};
use super::shape::{Shape, at, present};
use super::standing::{STEPS, Standing};
use super::transaction::is_claimed;

/// Who pays, and who is paid.
pub(super) const PAYER: usize = 0;
/// See [`PAYER`].
pub(super) const PAYEE: usize = 1;

/// Why something can't be done, and where that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) class: Class,
    pub(super) path: String,
    pub(super) told: String,
}

impl Problem {
    pub(super) fn new(class: Class, path: &str, told: String) -> Problem {
        Problem { class, path: path.to_owned(), told }
    }
}

/// A transaction in flight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flight<'a> {
    /// Its `_id`, by which accounts are marked.
    pub(super) id: RawBsonRef<'a>,
    pub(super) state: State,
    /// The ids of payer and payee.
    pub(super) ends: [RawBsonRef<'a>; 2],
    /// How much, in the units of the old processor, and as what it is stored.
    pub(super) value: (Decimal, RawBsonRef<'a>),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// This posting, if the transaction still is pending.
    Post(RawDocumentBuf),
    /// This update of an account.
    Account(RawDocumentBuf),
    /// The transaction comes to this state, once these updates of accounts are written.
    Become(State, Vec<RawDocumentBuf>),
    /// Nothing; it stays as it is.
    Left(Problem),
}

impl<'a> Flight<'a> {
    /// Reads a transaction between accounts with ids of this kind; none where it is not in flight
    /// under an old processor.
    ///
    /// # Errors
    /// When the articles' rules don't say how it goes on.
    pub(super) fn of(
        document: &'a RawDocument,
        shape: Shape<'_>,
        accounts: IdKind,
    ) -> Result<Option<Flight<'a>>, Problem> {
        let read = shape.read(document).ok();
        let word = read.as_ref().and_then(|read| read.get_str("state").ok());
        let state = match word.and_then(State::parse) {
            Some(state @ (State::Pending | State::Applied | State::Canceling)) => state,
            Some(_) | None => return Ok(None),
        };
        if is_claimed(document, shape) {
            return Ok(None);
        }
        let path = shape.path("legs");
        if let Some(legs) = present(document, &path).map(shown) {
            return Err(Problem::new(Class::NotReadable, &path, legs));
        }
        let field = |name: &str| {
            let path = shape.path(name);
            let missing = || Problem::new(Class::NotReadable, &path, "missing".to_owned());
            present(document, &path).ok_or_else(missing)
        };
        let ends = [field("source")?, field("destination")?];
        let mut names = [String::new(), String::new()];
        for (end, field) in ["source", "destination"].into_iter().enumerate() {
            // Who else is an account to the old processor is not known here, nor what it holds.
            let another =
                || Problem::new(Class::IdOfAnotherKind, &shape.path(field), shown(ends[end]));
            names[end] = accounts.text(ends[end]).ok_or_else(another)?;
        }
        if names[PAYER] == names[PAYEE] {
            let told = format!("{}, which is the payer, too", shown(ends[PAYEE]));
            return Err(Problem::new(Class::NotReadable, &shape.path("destination"), told));
        }
        let stored = field("value")?;
        let amount = value(stored).filter(|amount| *amount > Decimal::ZERO);
        let Some(amount) = amount.filter(|_| !matches!(stored, RawBsonRef::String(_))) else {
            let path = shape.path("value");
            return Err(Problem::new(Class::NotReadable, &path, shown(stored)));
        };
        let id = document.get("_id").ok().flatten();
        let Some(id) = id.filter(|id| shape.id_kind().text(*id).is_some()) else {
            let told = id.map_or_else(|| "missing".to_owned(), shown);
            return Err(Problem::new(Class::IdOfAnotherKind, "_id", told));
        };
        Ok(Some(Flight { id, state, ends, value: (amount, stored) }))
    }
}

/// Says what is to be done next, from how payer and payee stand.
pub(super) fn step(state: State, [payer, payee]: [&Standing; 2]) -> Step {
    let both = [payer, payee];
    for account in both {
        if let Standing::Unclear(problem) = account {
            return Step::Left(problem.clone());
        }
    }
    match state {
        State::Pending => forward(both),
        State::Applied => {
            let unmark = |account: &Standing| match account {
                Standing::Marked { unmark, .. } => Some(unmark.clone()),
                _ => None,
            };
            let done = Step::Become(State::Done, Vec::new());
            both.into_iter().find_map(unmark).map_or(done, Step::Account)
        }
        // The articles take back the credit first.
        _ => match [payee, payer].into_iter().find_map(undo) {
            None => Step::Become(State::Canceled, both.into_iter().filter_map(fence).collect()),
            Some(Ok(undo)) => Step::Account(undo),
            Some(Err(problem)) => Step::Left(problem),
        },
    }
}

fn undo(account: &Standing) -> Option<Result<RawDocumentBuf, Problem>> {
    match account {
        Standing::Marked { undo, .. } => Some(undo.clone()),
        _ => None,
    }
}

fn fence(account: &Standing) -> Option<RawDocumentBuf> {
    match account {
        Standing::Takes { fence, .. } => Some(fence.clone()),
        Standing::Refuses { fence } => fence.clone(),
        _ => None,
    }
}

/// Posts to each account that is not marked, payer first. Where one of them refuses that, the
/// transaction goes back, if it can; both are asked before anything is posted.
fn forward(both: [&Standing; 2]) -> Step {
    if both.iter().any(|account| matches!(account, Standing::Refuses { .. })) {
        let stuck = both.into_iter().find_map(|account| undo(account)?.err());
        return stuck.map_or(Step::Become(State::Canceling, Vec::new()), Step::Left);
    }
    let post = both.into_iter().find_map(|account| match account {
        Standing::Takes { post, .. } => Some(post.clone()),
        _ => None,
    });
    post.map_or(Step::Become(State::Applied, Vec::new()), Step::Post)
}

/// The update that matches while a transaction is as it was read and no worker of Tandem has claimed
/// it.
pub(super) fn confirming(document: &RawDocument, shape: Shape<'_>) -> Option<RawDocumentBuf> {
    let more = field(shape, STEPS, 1_i64);
    Some(rawdoc! { "q": unclaimed(document, shape)?, "u": { "$inc": more } })
}

fn unclaimed(document: &RawDocument, shape: Shape<'_>) -> Option<RawDocumentBuf> {
    let mut filter = its_id(document)?;
    filter.append(path(shape, "state"), unchanged(at(document, &shape.path("state"))));
    ["claim", "attempts"].iter().for_each(|name| filter.append(path(shape, name), RawBson::Null));
    Some(filter)
}

/// The update by which a transaction comes to a state, while it is as it was read and no worker of
/// Tandem has claimed it. The moment of its last change is kept where there is one.
pub(super) fn becoming(
    document: &RawDocument,
    shape: Shape<'_>,
    state: State,
    now: DateTime,
) -> Option<RawDocumentBuf> {
    let filter = unclaimed(document, shape)?;
    let modified = shape.path("lastModified");
    let mut set = field(shape, "state", *shape.words(&[state]).first()?);
    if matches!(at(document, &modified), Some(RawBsonRef::DateTime(_))) {
        set.append(path(shape, "lastModified"), now);
    }
    Some(rawdoc! { "q": filter, "u": { "$set": set } })
}

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
