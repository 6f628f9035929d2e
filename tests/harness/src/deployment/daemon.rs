//! Starts daemons.
//!
//! A daemon has a process group of its own, so that ^C in the terminal does not reach it, no
//! input, and a log that is appended to. It carries a mark (see [`mark`](super::mark)).

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::identity::Identity;
use super::mark::MARK;
use crate::console::Failure;

/// Kept so that ended children are waited for: otherwise they would stay as zombies.
static CHILDREN: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Starts a daemon with a mark, and returns how to recognise it.
///
/// # Errors
/// When the program or its log can't be opened.
pub fn start(command: &mut Command, log: &Path, mark: &Path) -> Result<Identity, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| Failure(format!("cannot start {program}: {error}"));
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let out = OpenOptions::new().append(true).create(true).open(log).map_err(failed)?;
    let err = out.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).env(MARK, mark);
    let child = command.spawn().map_err(failed)?;
    // Not waited for yet, so the kernel knows it, be it as a zombie.
    let identity = Identity::read(child.id());
    children().push(child);
    let (identity, _) = identity.ok_or_else(|| Failure(format!("{program} is not in /proc")))?;
    Ok(identity)
}

/// Waits for those children that have ended.
pub(super) fn reap() {
    children().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

fn children() -> std::sync::MutexGuard<'static, Vec<Child>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::deployment::identity::stop;
    use crate::deployment::mark::{owned, sweep};

    /// A shell script as a daemon, which is killed with the value.
    struct Script {
        home: PathBuf,
        identity: Identity,
    }

    impl Script {
        fn start(script: &str) -> Script {
            let home = crate::servers::directory(&format!("daemon-{}", uuid::Uuid::new_v4()));
            let mut command = Command::new("sh");
            let identity = start(command.args(["-c", script]), &home.join("log"), &home);
            Script { identity: identity.expect("sh can be started"), home }
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            sweep(&self.home).expect("it is ours");
            std::fs::remove_dir_all(&self.home).expect("the directory is ours");
        }
    }

    #[test]
    fn a_pid_of_another_process_is_never_signalled() {
        let script = Script::start("sleep 60");
        let mut told = serde_json::to_value(&script.identity).expect("it has a text");
        let started = told["started"].as_u64().expect("a number");
        told["started"] = (started - 1).into();
        let predecessor: Identity = serde_json::from_value(told).expect("it can be read");
        assert!(!predecessor.is_alive());
        assert!(!predecessor.kill().expect("it is nobody's"));
        assert_eq!(stop(&[predecessor], Duration::ZERO).expect("nothing to stop"), []);
        assert!(script.identity.is_alive());
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed_after_the_limit() {
        let script = Script::start("trap '' TERM; echo set; while :; do sleep 0.05; done");
        while std::fs::read(script.home.join("log")).unwrap_or_default().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let one = std::slice::from_ref(&script.identity);
        assert_eq!(stop(one, Duration::from_millis(300)).expect("it ends"), one);
        assert!(!script.identity.is_alive());
    }

    #[test]
    fn a_sweep_ends_marked_processes_and_their_children_only() {
        let (unmarked, marked) = (Script::start("sleep 60"), Script::start("sleep 60 & sleep 60"));
        let killed = sweep(&marked.home).expect("they are ours");
        assert!(!killed.is_empty());
        assert_eq!(owned(&marked.home), []);
        assert!(!marked.identity.is_alive());
        assert!(unmarked.identity.is_alive());
    }

    #[test]
    fn a_sweep_of_a_directory_ends_what_is_marked_with_something_in_it_and_nothing_beside_it() {
        let (inside, beside) = (Script::start("sleep 60"), Script::start("sleep 60"));
        let mut name = inside.home.clone().into_os_string();
        name.push("-longer");
        assert_eq!(owned(Path::new(&name)), []);
        assert_eq!(owned(&inside.home.join("below")), []);
        let both = inside.home.parent().expect("a directory");
        let found = owned(both);
        assert!(found.contains(&inside.identity) && found.contains(&beside.identity));
    }

    #[test]
    fn a_program_that_is_missing_is_explained() {
        let home = crate::servers::directory(&format!("daemon-{}", uuid::Uuid::new_v4()));
        let missing = start(&mut Command::new("/no/such/program"), &home.join("log"), &home);
        let failure = missing.expect_err("there is no such program").to_string();
        assert!(failure.contains("cannot start /no/such/program"), "{failure}");
        std::fs::remove_dir_all(home).expect("the directory is ours");
    }
}
