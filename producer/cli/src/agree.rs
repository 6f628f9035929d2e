//! The question before something that cannot be taken back.

use std::io::{BufRead, IsTerminal};

use crate::context::Context;
use crate::exit::Error;

/// What is asked, and what is said where nobody agrees.
pub struct Question<'a> {
    /// What would happen; people answer it.
    pub asked: String,
    /// What is said where nobody can answer.
    pub nobody: &'a str,
    /// What has not happened, once somebody has declined.
    pub declined: &'a str,
}

impl Question<'_> {
    /// Whether somebody at a terminal agrees.
    ///
    /// # Errors
    /// When nobody does, or there is no terminal.
    pub fn ask(&self, context: &Context) -> Result<(), Error> {
        let refused = |problem: &str| Err(Error::BadInput(problem.to_owned()));
        if !std::io::stdin().is_terminal() {
            return refused(self.nobody);
        }
        context.console.note(format!("{} Type yes to go on:", self.asked));
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        match read.is_ok() && answer.trim() == "yes" {
            true => Ok(()),
            false => refused(self.declined),
        }
    }
}
