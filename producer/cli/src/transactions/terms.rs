//! What a transfer asks for beside its legs, as flags.

use bson::DateTime;
use clap::Args;
use ledger::json;
use ledger::transaction::Terms;

use crate::advice::typed;
use crate::moment::{LATER, later};

/// The terms of a transfer.
#[derive(Args, Clone, Debug, Default)]
pub struct TermsArgs {
    /// Reserve the money only; the rest follows when it is confirmed
    #[arg(long)]
    pub hold: bool,
    /// Release the hold if it is not confirmed before this moment
    #[arg(long, value_parser = later, value_name = LATER, requires = "hold")]
    pub hold_expires_at: Option<DateTime>,
    /// Don't settle it before this moment
    #[arg(long, value_parser = later, value_name = LATER)]
    pub not_before: Option<DateTime>,
    /// Cancel it if it is not applied before this moment
    #[arg(long, value_parser = later, value_name = LATER)]
    pub expires_at: Option<DateTime>,
    /// Refuse it while another undecided transaction has this key
    #[arg(long, value_name = "KEY")]
    pub exclusive_key: Option<String>,
}

impl TermsArgs {
    /// The terms.
    pub fn terms(&self) -> Terms {
        Terms {
            hold: self.hold,
            hold_expires_at: self.hold_expires_at,
            not_before: self.not_before,
            expires_at: self.expires_at,
            exclusive_key: self.exclusive_key.clone(),
            ..Terms::default()
        }
    }

    /// The moments as they have to be typed to repeat the command. A time from now on would be
    /// another moment then, and so another transfer.
    pub fn typed_moments(&self) -> String {
        let moments = [
            ("--hold-expires-at", self.hold_expires_at),
            ("--not-before", self.not_before),
            ("--expires-at", self.expires_at),
        ];
        let given = moments.into_iter().filter_map(|(flag, moment)| Some((flag, moment?)));
        given.map(|(flag, moment)| format!(" {}", typed(flag, &json::timestamp(moment)))).collect()
    }
}
