//! What the user should do when a command fails or is interrupted before its end.
//!
//! Each command sets its own advice, because only the command knows what a repetition of it does: a
//! transfer without `--id`, for example, gets a new id each time. Before a command sets an advice,
//! and for commands that only read, the advice is that nothing was written. Never fails.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use ledger::shell::quoted;
use tokio_util::sync::CancellationToken;

/// What to do: the rest of a sentence that begins with what went wrong, and what to type, if that
/// is more than the same command again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Todo {
    sentence: String,
    typed: Option<String>,
}

impl Todo {
    /// A sentence that leads to what is to be typed: a command, or flags.
    pub fn with(sentence: impl Into<String>, typed: impl Into<String>) -> Todo {
        Todo { sentence: sentence.into(), typed: Some(typed.into()) }
    }
}

impl From<&str> for Todo {
    fn from(sentence: &str) -> Todo {
        Todo { sentence: sentence.to_owned(), typed: None }
    }
}

/// What is to be typed is a line of its own with nothing behind it: whoever copies the line types
/// what is meant.
impl fmt::Display for Todo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        self.typed.iter().try_for_each(|typed| write!(f, "\n  {typed}"))
    }
}

/// The advice that is true at this moment. Clones share it: the command sets it, and the code that
/// reports a failure or an interruption reads it.
#[derive(Clone, Debug)]
pub struct Advice {
    todo: Arc<Mutex<Todo>>,
    stop: Arc<OnceLock<CancellationToken>>,
}

impl Default for Advice {
    fn default() -> Advice {
        let todo = Arc::new(Mutex::new("nothing was written".into()));
        Advice { todo, stop: Arc::default() }
    }
}

impl Advice {
    /// Replaces the advice.
    pub fn set(&self, advice: impl Into<Todo>) {
        *self.todo.lock().expect("no holder panics") = advice.into();
    }

    /// Says that the command ends by itself, in good order, when this token is canceled by a
    /// signal.
    pub fn ends_by_itself(&self) -> CancellationToken {
        self.stop.get_or_init(CancellationToken::new).clone()
    }

    /// What to cancel on a signal, if the command ends by itself.
    #[must_use]
    pub fn stop(&self) -> Option<&CancellationToken> {
        self.stop.get()
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.todo.lock().expect("no holder panics").fmt(f)
    }
}

/// A flag and its value as they have to be typed in a shell.
#[must_use]
pub fn typed(flag: &str, value: &str) -> String {
    // Without the equals sign, a value that begins with a dash would be read as another flag.
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{flag}{between}{}", quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_advises_is_what_is_reported() {
        let advice = Advice::default();
        let reported = advice.clone();
        assert_eq!(reported.to_string(), "nothing was written");
        advice.set("run it again");
        assert_eq!(reported.to_string(), "run it again");
        advice.set(Todo::with("run it again with", "--id t"));
        assert_eq!(reported.to_string(), "run it again with\n  --id t");
    }

    #[test]
    fn an_advised_flag_can_be_pasted_into_a_shell() {
        for (value, expected) in [
            ("0190-a", "--id 0190-a"),
            ("-a", "--id=-a"),
            ("a b", "--id 'a b'"),
            ("it's $HOME", r"--id 'it'\''s $HOME'"),
            ("", "--id ''"),
        ] {
            assert_eq!(typed("--id", value), expected);
        }
    }
}
