//! A terminal that `tmux` shows a command in, driven as a person drives it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::process::program;
use harness::wait::s;
use harness::world::World;

/// A terminal of a test's own.
pub(super) struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Runs a command in a terminal of this size, by a shell, which then says how it ended.
    pub(super) fn run(
        world: &World,
        size: (u16, u16),
        command: &str,
        env: &[(&str, &str)],
    ) -> Tmux {
        // A server of its own for each: `kill-server` returns before the server has ended, and who
        // connects to the same socket in between is told "server exited unexpectedly".
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tmux-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let tmux = Tmux { socket: world.directory().join(name) };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let mut starting = tmux.command();
        starting.args(["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height]);
        let told = world.env();
        let env = told
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(env.iter().copied());
        for (name, value) in env {
            starting.args(["-e", &format!("{name}={value}")]);
        }
        let program = program("producer");
        let line =
            format!("{} {command}; echo \"ended with $?\"; exec sleep 600", program.display());
        let started = starting.arg(line).output().expect("tmux is installed");
        assert!(started.status.success(), "{started:?}");
        tmux
    }

    fn command(&self) -> Command {
        let tmux = std::env::var("TANDEM_TMUX").expect("run the tests by deploy/test");
        let mut command = Command::new(tmux);
        command.arg("-S").arg(&self.socket).env("TERM", "xterm-256color").env_remove("TMUX");
        command
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("tmux is installed")
    }

    /// What stands on the screen.
    pub(super) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.ask(&["capture-pane", "-p"]).stdout).into_owned()
    }

    pub(super) fn press(&self, key: &str) {
        assert!(self.ask(&["send-keys", key]).status.success());
    }

    pub(super) fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        assert!(self.ask(&["resize-window", "-x", &width, "-y", &height]).status.success());
    }

    pub(super) async fn shows(&self, words: &str) -> String {
        let mut last = String::new();
        let looking = async {
            loop {
                last = self.screen();
                if last.contains(words) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        let shown = tokio::time::timeout(s(60), looking).await;
        assert!(shown.is_ok(), "{words:?} never came:\n{last}");
        last
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}
