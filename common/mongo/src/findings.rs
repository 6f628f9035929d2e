//! What a database lacks to be a ledger of this version, in words that tell its owner what to do.
//!
//! Pure: `compare` finds them. `producer init --apply` applies some [`Finding`]s. The others
//! concern something of the user's own, so they name the command for `mongosh`.

use std::fmt;

use ledger::limits::echo;
use ledger::notation::Form;
use ledger::remedy::Remedy;
use mongodb::bson::{Document, doc};

use super::ground::{Harm, drop_index};
use super::ledger_settings::Misfit;
use super::names::WORKERS;
use super::shell;
use super::unsuitable::Unsuitable;

/// One thing that a database lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The collection that lacks it, by Tandem's name.
    pub collection: &'static str,
    /// The same by its name in the database.
    pub stored: String,
    /// What it is.
    pub lack: Lack,
}

/// What a collection may lack.
#[derive(Clone, Debug, PartialEq)]
pub enum Lack {
    /// The whole collection.
    Collection,
    /// The collection has a property that a ledger can't have and that can't be changed, so it has
    /// to be created anew.
    Plainness(Unsuitable),
    /// An index: its name, and its definition as `mongosh` takes it.
    Index {
        /// The name.
        name: &'static str,
        /// The arguments of `createIndex`.
        arguments: String,
    },
    /// A unique index over the field by which accounts are known, in the owner's own documents.
    Key {
        /// The path of the field.
        path: String,
    },
    /// An index of this name is there with another definition.
    IndexDiffers {
        /// The name.
        name: &'static str,
    },
    /// An index with this definition exists under another name. The queries would not find it, and
    /// the server accepts no second index with the same definition.
    IndexNamed {
        /// The name that it needs.
        name: &'static str,
        /// The name that it has.
        theirs: String,
    },
    /// An index of the user's own removes documents, or may refuse writes.
    IndexHarms(Harm),
    /// A collection of Tandem's own has a validator, which may refuse writes.
    ValidatorOnOwn,
    /// A validator: there is none.
    Validator,
    /// This version's validator: there is that of another version.
    ValidatorVersion,
    /// Tandem's rules: the collection has a validator of the user's own. Holds both validators
    /// merged.
    ValidatorForeign {
        /// The command for `mongosh` that merges them.
        command: String,
    },
    /// The validator is there, but its level or action lets some bad writes through.
    ValidatorLax {
        /// Whether it is Tandem's alone.
        ours: bool,
    },
    /// The settings document.
    Settings,
    /// A settings document of this version.
    SettingsVersion(Misfit),
    /// The settings document does not say yet whether validators are wanted.
    SettingsValidators {
        /// Whether they are.
        wanted: bool,
    },
    /// The settings document does not say yet whether workers publish events.
    SettingsEvents {
        /// Whether they are to.
        wanted: bool,
    },
    /// The settings document does not say yet whether there are indexes for lists and statements.
    SettingsHistory {
        /// Whether there are to be.
        wanted: bool,
    },
    /// The settings document does not say yet whether there are exclusive keys.
    SettingsKeys {
        /// Whether there are to be.
        wanted: bool,
    },
    /// The settings document does not say yet whether workers stand by for one another.
    SettingsStandby {
        /// Whether they are to.
        wanted: bool,
    },
    /// The settings document names another form of amounts.
    SettingsAmounts {
        /// The form that is chosen.
        wanted: Form,
    },
}

impl Finding {
    /// Whether `producer init --apply` repairs it. If not, the user has to, by [`Finding::command`]
    /// where there is one.
    #[must_use]
    pub fn applies(&self) -> bool {
        !self.is_unsuitable() && self.command().is_none()
    }

    /// Whether nothing works without it. If not, operators see less.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.collection != WORKERS || self.removes()
    }

    /// Whether the server removes documents of the ledger.
    pub(super) fn removes(&self) -> bool {
        matches!(&self.lack, Lack::IndexHarms(harm) if harm.removes())
    }

    /// Whether the collection can hold no ledger as it is, whatever is added to it.
    #[must_use]
    pub fn is_unsuitable(&self) -> bool {
        matches!(self.lack, Lack::Plainness(_)) || self.removes()
    }

    /// A short name for scripts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.lack {
            Lack::Collection => "collection",
            Lack::Plainness(why) => why.kind(),
            Lack::Index { .. } => "index",
            Lack::Key { .. } => "key",
            Lack::IndexDiffers { .. } => "index_differs",
            Lack::IndexNamed { .. } => "index_named",
            Lack::IndexHarms(harm) => harm.kind(),
            Lack::ValidatorOnOwn => "validator_on_own",
            Lack::Validator => "validator",
            Lack::ValidatorVersion => "validator_version",
            Lack::ValidatorForeign { .. } => "validator_foreign",
            Lack::ValidatorLax { .. } => "validator_lax",
            Lack::Settings => "settings",
            Lack::SettingsVersion(_) => "settings_version",
            Lack::SettingsValidators { .. } => "settings_validators",
            Lack::SettingsEvents { .. } => "settings_events",
            Lack::SettingsHistory { .. } => "settings_history",
            Lack::SettingsKeys { .. } => "settings_exclusive_keys",
            Lack::SettingsStandby { .. } => "settings_replicas",
            Lack::SettingsAmounts { .. } => "settings_amounts",
        }
    }

    /// What to run in `mongosh`, where the user has to decide.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let collection = self.stored.as_str();
        match &self.lack {
            Lack::IndexDiffers { name } => Some(drop_index(collection, name)),
            Lack::IndexNamed { theirs, .. } => Some(drop_index(collection, theirs)),
            Lack::IndexHarms(harm) => Some(drop_index(collection, &harm.index)),
            Lack::ValidatorOnOwn => {
                let none = doc! { "collMod": collection, "validator": {} };
                Some(format!("db.runCommand({})", shell::document(&none)))
            }
            Lack::ValidatorForeign { command } => Some(command.clone()),
            Lack::ValidatorLax { ours: false } => {
                Some(format!("db.runCommand({})", shell::document(&strict(collection))))
            }
            Lack::Collection
            | Lack::Plainness(_)
            | Lack::Index { .. }
            | Lack::Key { .. }
            | Lack::Validator
            | Lack::ValidatorVersion
            | Lack::ValidatorLax { ours: true }
            | Lack::Settings
            | Lack::SettingsVersion(_)
            | Lack::SettingsValidators { .. }
            | Lack::SettingsEvents { .. }
            | Lack::SettingsHistory { .. }
            | Lack::SettingsKeys { .. }
            | Lack::SettingsStandby { .. }
            | Lack::SettingsAmounts { .. } => None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collection = self.stored.as_str();
        match &self.lack {
            Lack::Collection => write!(f, "the collection `{collection}` is missing"),
            Lack::Plainness(why) => write!(
                f,
                "the collection `{collection}` {why}: create it anew without that, or use another \
                 database (TANDEM_DATABASE)"
            ),
            Lack::Index { name, arguments } => {
                write!(f, "`{collection}` has no index `{name}`: {arguments}")
            }
            Lack::Key { path } => write!(
                f,
                "`{collection}` has no index that keeps `{path}` unique, by which its accounts are \
                 known (a partial or hidden one, and one with a collation, can't serve)"
            ),
            Lack::IndexDiffers { name } => write!(
                f,
                "the index `{name}` of `{collection}` is defined otherwise: drop it, then run \
                 {}",
                Remedy::Apply
            ),
            Lack::IndexNamed { name, theirs } => write!(
                f,
                "`{collection}` has the index `{name}` under the name `{}`, and the server takes no \
                 second one: drop it, then run {}",
                echo(theirs),
                Remedy::Apply
            ),
            Lack::IndexHarms(harm) => harm.write(collection, f),
            Lack::ValidatorOnOwn => write!(
                f,
                "`{collection}` has a validator, which may refuse what Tandem writes: remove it"
            ),
            Lack::Validator => write!(f, "`{collection}` has no validator"),
            Lack::ValidatorVersion => {
                write!(f, "`{collection}` has the validator of another version of Tandem")
            }
            Lack::ValidatorForeign { .. } => write!(
                f,
                "`{collection}` has a validator of your own without Tandem's rules: merge the two, \
                 or run {}",
                Remedy::ApplyWithoutValidator
            ),
            Lack::ValidatorLax { .. } => write!(
                f,
                "the validator of `{collection}` does not refuse every bad write: level and action \
                 must be `strict` and `error`"
            ),
            Lack::Settings => write!(f, "the settings document of the ledger is missing"),
            Lack::SettingsVersion(misfit) => write!(f, "{misfit}"),
            Lack::SettingsValidators { wanted } => {
                let wanted = if *wanted { "wanted" } else { "not wanted" };
                write!(f, "the settings document does not say that validators are {wanted}")
            }
            Lack::SettingsEvents { wanted } => {
                let wanted = if *wanted { "on" } else { "off" };
                write!(f, "the settings document does not say that events are {wanted}")
            }
            Lack::SettingsHistory { wanted } => {
                let wanted = if *wanted { "on" } else { "off" };
                write!(f, "the settings document does not say that history is {wanted}")
            }
            Lack::SettingsKeys { wanted } => {
                let wanted = if *wanted { "on" } else { "off" };
                write!(f, "the settings document does not say that exclusive keys are {wanted}")
            }
            Lack::SettingsStandby { wanted } => {
                let wanted = if *wanted { "stand by for one another" } else { "share the work" };
                write!(f, "the settings document does not say that workers {wanted}")
            }
            Lack::SettingsAmounts { wanted } => {
                write!(f, "the settings document does not say that {}", wanted.told())
            }
        }
    }
}

/// The command that makes a collection's validator refuse every bad write.
pub(super) fn strict(collection: &str) -> Document {
    doc! { "collMod": collection, "validationLevel": "strict", "validationAction": "error" }
}
