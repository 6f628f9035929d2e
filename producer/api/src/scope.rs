//! What a token may be used for. No scope has another one in it: a token lists all that it may.

use std::fmt;

use strum::{EnumCount, EnumMessage, VariantArray};

/// What a token may be used for. The comments are shown to people, so each is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, EnumMessage, VariantArray)]
pub enum Scope {
    /// Reading.
    Read,
    /// Submitting transactions; and reading and canceling what was submitted under its name.
    Submit,
    /// Confirming and releasing holds.
    Hold,
    /// Taking applied transactions back.
    Reverse,
    /// Creating accounts without money on them; freezing, unfreezing and closing accounts; floors.
    Accounts,
    /// Operating: canceling, rescheduling, pausing, dead letters, what is parked, audits, acts.
    Operate,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; Scope::COUNT] =
        *Scope::VARIANTS.first_chunk().expect("as many as are counted");

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Submit => "submit",
            Scope::Hold => "hold",
            Scope::Reverse => "reverse",
            Scope::Accounts => "accounts",
            Scope::Operate => "operate",
        }
    }

    /// What it is for, in words.
    pub fn about(self) -> &'static str {
        self.get_documentation().expect("each has a comment").trim_end_matches('.')
    }

    /// The scope of this name.
    ///
    /// # Errors
    /// Says which names there are.
    pub fn parse(name: &str) -> Result<Scope, String> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| {
            let known = Scope::ALL.map(Scope::as_str).join(", ");
            format!("{name:?} is not one of {known}")
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
