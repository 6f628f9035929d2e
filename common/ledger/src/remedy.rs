//! What a message tells somebody to run.
//!
//! Owns every command that stands in an error, a reason, a problem or a note; the help of the
//! programs has its own examples. Promises that a command can be copied as it stands: names in it
//! are words of a shell, and no name is taken for a flag. Tests follow each of them, and a test
//! looks whether a command stands anywhere else in the code. Never fails.

use std::fmt;

use strum::{EnumDiscriminants, VariantArray};

use crate::shell::quoted;

/// A command that helps. Shown between backticks, as commands stand in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumDiscriminants)]
#[strum_discriminants(name(RemedyKind), derive(VariantArray), doc = "Its kind.")]
pub enum Remedy<'a> {
    /// Lists what database and queues lack, and makes missing queues.
    Init,
    /// Sets a ledger up in collections and fields of its owner.
    InitSchema,
    /// Creates what the database lacks.
    Apply,
    /// The same, and leaves the owner's validators as they are.
    ApplyWithoutValidator,
    /// Has workers publish events, or not.
    Events(bool),
    /// Makes the indexes of lists and statements.
    History,
    /// Makes the index of exclusive keys.
    ExclusiveKeys,
    /// Accepts an index of the owner's that may refuse writes.
    AcceptIndex(&'a str),
    /// Tells of a currency of the owner's.
    Currency(&'a str),
    /// Gives the users of Tandem the rights that this version needs.
    Roles,
    /// Lets a transaction go on that was set apart.
    Unpark(&'a str),
    /// The same of one that the reader has to name.
    UnparkNamed,
    /// Shows what was set apart, and why.
    ListParked,
    /// Shows what was refused lately.
    ListRefused,
    /// Shows who has a transaction.
    Status(&'a str),
    /// Cancels a transaction without an effect.
    Cancel(&'a str),
    /// Takes the effect of a transaction back.
    Reverse(&'a str),
    /// Shows an account.
    ShowAccount(&'a str),
    /// Gives an account this floor.
    SetFloor(&'a str, &'a str),
    /// Shows the messages that were given up, and why.
    DeadLetters,
    /// Brings them back.
    Replay,
    /// Makes a token for the API.
    Token,
    /// Looks whether every rule holds.
    Audit,
    /// Looks at documents that are to be adopted.
    LookAtAdoption,
    /// Books what other programs have moved.
    Absorb,
    /// Lets settlement go on that somebody has paused.
    Resume,
    /// Lets a worker settle again that somebody has drained.
    ResumeWorker(&'a str),
    /// Prints the overview once, as text.
    TopOnce,
    /// Prints the overview for programs.
    TopJson,
    /// Prints counts for programs.
    StatsJson,
}

/// All kinds, so that a test can follow each of them.
pub const KINDS: &[RemedyKind] = <RemedyKind as VariantArray>::VARIANTS;

impl Remedy<'_> {
    /// What is typed.
    #[must_use]
    pub fn command(&self) -> String {
        let fixed = |words: &str| format!("producer {words}");
        match self {
            Remedy::Init => fixed("init"),
            Remedy::InitSchema => fixed("init --schema FILE"),
            Remedy::Apply => fixed("init --apply"),
            Remedy::ApplyWithoutValidator => fixed("init --apply --no-validator"),
            Remedy::Events(true) => fixed("init --apply --events on"),
            Remedy::Events(false) => fixed("init --apply --events off"),
            Remedy::History => fixed("init --apply --history on"),
            Remedy::ExclusiveKeys => fixed("init --apply --exclusive-keys on"),
            // A value that begins with a dash is no flag in this way.
            Remedy::AcceptIndex(name) => fixed(&format!("init --accept-index={}", quoted(name))),
            Remedy::Currency(code) => {
                fixed(&format!("init --currency={}", quoted(&format!("{code}=PLACES"))))
            }
            Remedy::Roles => fixed("roles --apply"),
            Remedy::Unpark(id) => of_one("unpark", id),
            Remedy::UnparkNamed => fixed("unpark ID"),
            Remedy::ListParked => fixed("list --parked"),
            Remedy::ListRefused => fixed("list --state canceled --since 1h"),
            Remedy::Status(id) => of_one("status", id),
            Remedy::Cancel(id) => of_one("cancel", id),
            Remedy::Reverse(id) => of_one("reverse", id),
            Remedy::ShowAccount(id) => of_one("accounts show", id),
            Remedy::SetFloor(id, floor) => {
                format!("{} {}", of_one("accounts set-floor", id), quoted(floor))
            }
            Remedy::DeadLetters => fixed("dead-letters list"),
            Remedy::Replay => fixed("dead-letters replay --all"),
            Remedy::Token => fixed("token NAME --scope read,submit"),
            Remedy::Audit => fixed("audit"),
            Remedy::LookAtAdoption => fixed("adopt --dry-run"),
            Remedy::Absorb => fixed("accounts absorb --reason TEXT"),
            Remedy::Resume => fixed("resume"),
            Remedy::ResumeWorker(name) => of_one("workers resume", name),
            Remedy::TopOnce => fixed("top --once"),
            Remedy::TopJson => fixed("top --json"),
            Remedy::StatsJson => fixed("stats --json"),
        }
    }
}

impl RemedyKind {
    /// One of this kind.
    #[must_use]
    pub fn example(self) -> Remedy<'static> {
        match self {
            RemedyKind::Init => Remedy::Init,
            RemedyKind::InitSchema => Remedy::InitSchema,
            RemedyKind::Apply => Remedy::Apply,
            RemedyKind::ApplyWithoutValidator => Remedy::ApplyWithoutValidator,
            RemedyKind::Events => Remedy::Events(true),
            RemedyKind::History => Remedy::History,
            RemedyKind::ExclusiveKeys => Remedy::ExclusiveKeys,
            RemedyKind::AcceptIndex => Remedy::AcceptIndex("reference_1"),
            RemedyKind::Currency => Remedy::Currency("POINTS"),
            RemedyKind::Roles => Remedy::Roles,
            RemedyKind::Unpark => Remedy::Unpark("t"),
            RemedyKind::UnparkNamed => Remedy::UnparkNamed,
            RemedyKind::ListParked => Remedy::ListParked,
            RemedyKind::ListRefused => Remedy::ListRefused,
            RemedyKind::Status => Remedy::Status("t"),
            RemedyKind::Cancel => Remedy::Cancel("t"),
            RemedyKind::Reverse => Remedy::Reverse("t"),
            RemedyKind::ShowAccount => Remedy::ShowAccount("alice"),
            RemedyKind::SetFloor => Remedy::SetFloor("alice", "-500"),
            RemedyKind::DeadLetters => Remedy::DeadLetters,
            RemedyKind::Replay => Remedy::Replay,
            RemedyKind::Token => Remedy::Token,
            RemedyKind::Audit => Remedy::Audit,
            RemedyKind::LookAtAdoption => Remedy::LookAtAdoption,
            RemedyKind::Absorb => Remedy::Absorb,
            RemedyKind::Resume => Remedy::Resume,
            RemedyKind::ResumeWorker => Remedy::ResumeWorker("settle-1"),
            RemedyKind::TopOnce => Remedy::TopOnce,
            RemedyKind::TopJson => Remedy::TopJson,
            RemedyKind::StatsJson => Remedy::StatsJson,
        }
    }
}

/// A command for one transaction or account. Without the dashes, an id that begins with one would
/// be read as a flag.
fn of_one(command: &str, id: &str) -> String {
    let dashes = if id.starts_with('-') { "-- " } else { "" };
    format!("producer {command} {dashes}{}", quoted(id))
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.command())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_and_never_a_flag() {
        for (remedy, typed) in [
            (Remedy::Unpark("t1"), "producer unpark t1"),
            (Remedy::Unpark("t 1"), "producer unpark 't 1'"),
            (Remedy::Reverse("-t"), "producer reverse -- -t"),
            (Remedy::Status("it's"), r"producer status 'it'\''s'"),
            (Remedy::SetFloor("al ice", "-5"), "producer accounts set-floor 'al ice' -5"),
            (Remedy::SetFloor("-a", "none"), "producer accounts set-floor -- -a none"),
            (Remedy::Unpark("a`b"), r#"producer unpark 'a'"$(printf '\140')"'b'"#),
            (Remedy::AcceptIndex("by name"), "producer init --accept-index='by name'"),
            (Remedy::Currency("eur"), "producer init --currency='eur=PLACES'"),
        ] {
            assert_eq!(remedy.command(), typed);
            assert_eq!(remedy.to_string(), format!("`{typed}`"));
        }
    }
}
