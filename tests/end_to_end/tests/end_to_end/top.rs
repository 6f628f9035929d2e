//! `producer top`: the overview in a terminal, driven by tmux as a person drives it.

use std::path::PathBuf;
use std::process::{Command, Output};

use harness::process::program;
use harness::wait::{eventually, s, wait_until};
use harness::world::{World, transfer};
use serde_json::Value;

/// A terminal of a test's own.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Runs a command in a terminal of this size, by a shell, which then says how it ended.
    fn run(world: &World, size: (u16, u16), command: &str, env: &[(&str, &str)]) -> Tmux {
        let tmux = Tmux { socket: world.directory().join("tmux") };
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
    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.ask(&["capture-pane", "-p"]).stdout).into_owned()
    }

    fn press(&self, key: &str) {
        assert!(self.ask(&["send-keys", key]).status.success());
    }

    fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        assert!(self.ask(&["resize-window", "-x", &width, "-y", &height]).status.success());
    }

    async fn shows(&self, words: &str) -> String {
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

fn settled(screen: &str) -> Option<f64> {
    let rest = screen.lines().find_map(|line| line.trim().strip_prefix("settled "))?;
    rest.trim().split("/s").next()?.parse().ok()
}

#[tokio::test]
async fn top_starts_moves_under_load_follows_the_size_and_ends_cleanly_on_control_c() {
    let world = World::new().await;
    world.accounts(&[("a", 1_000_000), ("b", 0)]).await;
    let worker = world.worker("settles").start().await;
    let top = Tmux::run(&world, (120, 40), "top", &[]);
    top.shows("Nothing is wrong").await;
    let screen = top.shows("settles ").await;
    assert!(screen.contains("MongoDB up") && screen.contains("RabbitMQ up"), "{screen}");
    for batch in 0..6 {
        let ids = (0..100).map(|n| transfer(&format!("t{batch}-{n}"), "a", "b", 1));
        world.submit(&ids.collect::<Vec<_>>(), 10).await;
    }
    let moved = eventually("the rate moves", s(60), async || {
        settled(&top.screen()).filter(|rate| *rate > 0.0)
    });
    assert!(moved.await > 0.0);
    top.shows("p99 ").await;
    top.resize(50, 12);
    wait_until("it is drawn for a small terminal", s(20), async || {
        let screen = top.screen();
        screen.contains("workers    1") && screen.lines().all(|line| line.chars().count() <= 50)
    })
    .await;
    top.resize(160, 50);
    top.shows("SETTLES/S").await;
    top.press("C-c");
    let screen = top.shows("ended with 0").await;
    assert!(!screen.contains("SETTLES/S"), "the screen is what it was before:\n{screen}");
    drop((top, worker));
    world.finish().await;
}

#[tokio::test]
async fn top_survives_servers_that_go_away_and_come_back() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let (mongodb, uri) = world.mongodb_proxy().await;
    let (amqp, url) = world.amqp_proxy().await;
    let servers = [("TANDEM_MONGODB_URI", uri.as_str()), ("TANDEM_AMQP_URL", url.as_str())];
    let worker = world.worker("settles").start().await;
    let top = Tmux::run(&world, (120, 40), "top", &servers);
    top.shows("Nothing is wrong").await;
    mongodb.refuse();
    top.shows("MongoDB AWAY").await;
    let screen = top.shows("MongoDB does not answer").await;
    assert!(screen.contains("settles "), "what was known stays:\n{screen}");
    amqp.refuse();
    amqp.cut();
    top.shows("RabbitMQ does not answer").await;
    mongodb.restore();
    amqp.restore();
    top.shows("MongoDB up   RabbitMQ up").await;
    top.shows("Nothing is wrong").await;
    top.press("q");
    top.shows("ended with 0").await;
    drop((top, worker));
    world.finish().await;
}

#[tokio::test]
async fn without_a_terminal_top_says_what_to_run_and_looks_once_or_in_json() {
    let world = World::new().await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    let refused = world.producer(&["top"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--once") && refused.stderr.contains("stats --json"));
    let once = world.producer(&["top", "--once"]).await.expect_success();
    assert!(once.stdout.contains("No worker is there"), "{}", once.stdout);
    assert!(!once.stdout.contains('\u{1b}'), "plain text: {:?}", once.stdout);
    let json = world.producer(&["top", "--once", "--json"]).await.expect_success().json();
    assert_eq!(json["connections"]["mongodb"]["up"], Value::Bool(true));
    world.finish().await;
}
