//! Whether everybody was told what is so.
//!
//! Owns the promises of an incident: what was accepted is in the ledger and has come to its end,
//! what was refused has had no effect, what was told as an end is the end, and nothing is decided
//! that nobody has asked for. What is unknown may be either, and is counted. Pure.

use std::collections::{BTreeMap, HashMap};

use ledger::transaction::{ReasonCode, State};

/// What somebody was told of a deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// It is durable.
    Accepted,
    /// It has no effect.
    Refused,
    /// It may have an effect.
    Unknown,
}

impl Word {
    /// What is known after the same was asked again: whoever was not told what became of the first
    /// request does not know more because the second was refused.
    #[must_use]
    pub fn then(self, again: Word) -> Word {
        match (self, again) {
            (Word::Accepted, _) | (_, Word::Accepted) => Word::Accepted,
            (Word::Unknown, _) | (_, Word::Unknown) => Word::Unknown,
            (Word::Refused, Word::Refused) => Word::Refused,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Word::Accepted => "accepted",
            Word::Refused => "refused",
            Word::Unknown => "unknown",
        }
    }
}

/// What somebody wanted of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// That it is there.
    Submit,
    /// That it is taken back.
    Cancel,
    /// That a hold is moved.
    Confirm,
    /// That a hold is given back.
    Release,
}

impl Deed {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Deed::Submit => "submit",
            Deed::Cancel => "cancel",
            Deed::Confirm => "confirm",
            Deed::Release => "release",
        }
    }
}

/// What was told of a deed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The transaction.
    pub id: String,
    /// What was asked.
    pub deed: Deed,
    /// What was told.
    pub word: Word,
}

/// How a transaction stands in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stands {
    /// Its state.
    pub state: State,
    /// Why it is canceled.
    pub reason: Option<String>,
    /// Whether it was submitted as a hold.
    pub is_hold: bool,
}

/// What the ledger says, by transaction.
pub type Ledger = HashMap<String, Stands>;

/// What came of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Promises that were broken, a sentence for each.
    pub broken: Vec<String>,
    /// How often what was told of what.
    pub words: BTreeMap<(Deed, Word), usize>,
    /// How many submissions were told as unknown and are in the ledger, and how many are not.
    pub unknown: (usize, usize),
}

/// Compares what was told with what is so, at rest.
#[must_use]
pub fn judge(
    answered: &[Answered],
    ends: &[(String, State)],
    lost: &[String],
    ledger: &Ledger,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut asked: HashMap<(&str, Deed), Word> = HashMap::new();
    for Answered { id, deed, word } in answered {
        *verdict.words.entry((*deed, *word)).or_default() += 1;
        let known = asked.entry((id.as_str(), *deed)).or_insert(*word);
        *known = known.then(*word);
    }
    for ((id, deed), word) in &asked {
        let stands = ledger.get(*id);
        if (*deed, *word) == (Deed::Submit, Word::Unknown) {
            let (there, not_there) = &mut verdict.unknown;
            *(if stands.is_some() { there } else { not_there }) += 1;
        }
        verdict.broken.extend(told_otherwise(id, *deed, *word, stands));
    }
    for (id, told) in ends {
        let state = ledger.get(id).map(|stands| stands.state);
        if state != Some(*told) {
            verdict.broken.push(format!("{id} was told as {told}, and {}", is(state)));
        }
    }
    let lost = lost.iter().map(|id| format!("{id} was accepted, and then it was not found"));
    verdict.broken.extend(lost);
    for (id, stands) in ledger {
        verdict.broken.extend(unasked(id, stands, &asked));
    }
    verdict.broken.sort();
    verdict
}

/// What is wrong with a deed, if the ledger says otherwise than its caller was told.
fn told_otherwise(id: &str, deed: Deed, word: Word, stands: Option<&Stands>) -> Option<String> {
    let state = stands.map(|stands| stands.state);
    let is_so = match (deed, word) {
        (_, Word::Unknown) => true,
        (Deed::Submit, Word::Accepted) => state.is_some_and(State::is_final),
        (Deed::Submit, Word::Refused) => state.is_none(),
        (Deed::Cancel | Deed::Release, Word::Accepted) => state == Some(State::Canceled),
        (Deed::Confirm, Word::Accepted) => state == Some(State::Done),
        // Whether it was decided otherwise is looked at by what has happened to it.
        (Deed::Cancel | Deed::Confirm | Deed::Release, Word::Refused) => true,
    };
    let told = || format!("{id}: {} was told as {}, and {}", deed.name(), word.name(), is(state));
    (!is_so).then(told)
}

/// What has happened to a transaction although nobody has asked for it, or was refused.
fn unasked(id: &str, stands: &Stands, asked: &HashMap<(&str, Deed), Word>) -> Option<String> {
    let is_for = |reason: ReasonCode| stands.reason.as_deref() == Some(reason.as_str());
    let deed = match stands.state {
        State::Done => stands.is_hold.then_some(Deed::Confirm),
        State::Canceled if is_for(ReasonCode::Requested) => Some(Deed::Cancel),
        State::Canceled => is_for(ReasonCode::Released).then_some(Deed::Release),
        State::Scheduled
        | State::Initial
        | State::Pending
        | State::Held
        | State::Applied
        | State::Canceling => None,
    }?;
    let by = asked.get(&(id, deed));
    let may_be = by.is_some_and(|word| *word != Word::Refused);
    let told = by.map_or("nobody asked for that", |_| "who asked for that was refused");
    (!may_be).then(|| format!("{id}: {} has taken effect, and {told}", deed.name()))
}

fn is(state: Option<State>) -> String {
    state.map_or_else(|| "it is not in the ledger".to_owned(), |state| format!("it is {state}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(id: &str, deed: Deed, word: Word) -> Answered {
        Answered { id: id.to_owned(), deed, word }
    }

    fn stands(state: State, reason: Option<ReasonCode>, is_hold: bool) -> Stands {
        Stands { state, reason: reason.map(|code| code.as_str().to_owned()), is_hold }
    }

    fn ledger(all: &[(&str, Stands)]) -> Ledger {
        all.iter().map(|(id, stands)| ((*id).to_owned(), stands.clone())).collect()
    }

    fn broken(answered: &[Answered], there: &[(&str, Stands)]) -> Vec<String> {
        judge(answered, &[], &[], &ledger(there)).broken
    }

    #[test]
    fn what_was_accepted_has_ended_and_what_was_refused_is_not_there() {
        let done = stands(State::Done, None, false);
        let accepted = answered("t", Deed::Submit, Word::Accepted);
        let refused = answered("t", Deed::Submit, Word::Refused);
        let there = [("t", done)];
        assert_eq!(broken(std::slice::from_ref(&accepted), &there), [""; 0]);
        assert_eq!(broken(std::slice::from_ref(&accepted), &[]).len(), 1, "it is lost");
        let pending = [("t", stands(State::Pending, None, false))];
        assert_eq!(broken(&[accepted], &pending).len(), 1, "it has not ended");
        assert_eq!(broken(std::slice::from_ref(&refused), &[]), [""; 0]);
        assert_eq!(broken(&[refused], &there).len(), 1, "it was not refused");
    }

    #[test]
    fn what_is_unknown_may_be_either_and_is_counted() {
        let unknown = ["t", "u"].map(|id| answered(id, Deed::Submit, Word::Unknown));
        let verdict =
            judge(&unknown, &[], &[], &ledger(&[("t", stands(State::Done, None, false))]));
        assert_eq!((verdict.broken.len(), verdict.unknown), (0, (1, 1)));
        // A refusal of the second request says nothing of the first.
        let again = [
            answered("t", Deed::Submit, Word::Unknown),
            answered("t", Deed::Submit, Word::Refused),
        ];
        assert_eq!(broken(&again, &[("t", stands(State::Done, None, false))]), [""; 0]);
        assert_eq!(Word::Unknown.then(Word::Accepted), Word::Accepted);
    }

    #[test]
    fn a_decision_is_as_its_caller_was_told_and_nobody_else_decides() {
        let released = stands(State::Canceled, Some(ReasonCode::Released), true);
        let confirmed = stands(State::Done, None, true);
        let canceled = stands(State::Canceled, Some(ReasonCode::Requested), false);
        let short = stands(State::Canceled, Some(ReasonCode::InsufficientFunds), false);
        for (deed, word, stands, is_so) in [
            (Deed::Release, Word::Accepted, &released, true),
            (Deed::Release, Word::Accepted, &confirmed, false),
            (Deed::Release, Word::Refused, &released, false),
            (Deed::Release, Word::Unknown, &released, true),
            (Deed::Confirm, Word::Accepted, &confirmed, true),
            (Deed::Confirm, Word::Accepted, &released, false),
            (Deed::Confirm, Word::Refused, &confirmed, false),
            (Deed::Cancel, Word::Accepted, &canceled, true),
            (Deed::Cancel, Word::Refused, &canceled, false),
            (Deed::Cancel, Word::Refused, &short, true),
        ] {
            let found = broken(&[answered("t", deed, word)], &[("t", stands.clone())]);
            assert_eq!(found.is_empty(), is_so, "{deed:?} {word:?} {stands:?}: {found:?}");
        }
        assert_eq!(broken(&[], &[("t", confirmed)]).len(), 1, "nobody has confirmed it");
        assert_eq!(broken(&[], &[("t", short)]), [""; 0]);
    }

    #[test]
    fn an_end_that_was_told_is_the_end_and_what_was_accepted_is_found() {
        let there = ledger(&[("t", stands(State::Done, None, false))]);
        let ends = |state| [("t".to_owned(), state)];
        assert!(judge(&[], &ends(State::Done), &[], &there).broken.is_empty());
        assert_eq!(judge(&[], &ends(State::Canceled), &[], &there).broken.len(), 1);
        assert_eq!(judge(&[], &[], &["t".to_owned()], &there).broken.len(), 1);
    }
}
