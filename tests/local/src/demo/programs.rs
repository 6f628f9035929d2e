//! Where the project's programs are, and the environment they run in.
//!
//! They lie beside this program, because one build makes them all. Fails when one is missing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use harness::console::Failure;
use harness::deployment::mark::MARK;

/// The programs, with the environment that names servers, database and queues.
pub struct Programs {
    directory: PathBuf,
    environment: BTreeMap<&'static str, String>,
    /// What marks the processes of this run, so that they can be found whatever becomes of it.
    pub mark: PathBuf,
}

impl Programs {
    /// The programs beside this one.
    ///
    /// # Errors
    /// When they are not built.
    pub fn new(
        mark: PathBuf,
        environment: BTreeMap<&'static str, String>,
    ) -> Result<Programs, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure(format!("cannot find this program: {error}")))?;
        let directory = own.parent().map_or_else(PathBuf::new, PathBuf::from);
        for name in ["producer", "worker"] {
            let program = directory.join(name);
            if !program.exists() {
                let program = program.display();
                return Err(Failure(format!("{program} is not built: run deploy/demo")));
            }
        }
        Ok(Programs { directory, environment, mark })
    }

    /// A program, ready to get its arguments.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join(name));
        command.envs(&self.environment).env(MARK, &self.mark);
        command
    }
}
