//! What the demo promises, on real servers: those of the run, or of its own.
//!
//! Each test has a directory of its own, and sweeps it whatever happens.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use harness::deployment::mark::owned;
use harness::deployment::{Keep, down, sweep};
use harness::process::{Process, Signal};
use harness::wait::{s, wait_until};

/// On a machine that is busy with other tests.
const DEMO_LIMIT: Duration = Duration::from_secs(300);

/// A directory for a demo. Nothing runs for it, and it is gone, when the value goes.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        Home(harness::servers::directory(&format!("demo-{name}-{}", std::process::id())))
    }

    fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
        command.args(["demo", "--dir"]).arg(&self.0).args(arguments).stdin(Stdio::null());
        command
    }

    fn refused(&self, arguments: &[&str]) -> Output {
        self.demo(arguments).output().expect("the demo can be run")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for ended in [sweep(&self.0).map(drop), down(&self.0, s(0), Keep::Nothing).map(drop)] {
            if let Err(failure) = ended {
                eprintln!("{failure}");
            }
        }
        // Fails when the demo has made none.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn every_transfer_comes_to_its_end_while_a_worker_is_killed_and_nothing_is_left() {
    let home = Home::new("whole");
    let mut command = home.demo(&["--transfers", "2000", "--accounts", "100"]);
    let log = home.0.join("demo.out");
    let mut demo = Process::start(&mut command, log);
    let status = demo.exit(DEMO_LIMIT).await;
    let said = demo.log();
    assert!(status.success(), "{said}");
    for line in [
        "submitting 2,000 transfers",
        "done                                 1,940\n",
        "canceled: account_frozen             20\n",
        "canceled: account_not_found          20\n",
        "canceled: insufficient_funds         20\n",
        "worker killed",
        "demo: every transfer came to its end, the books balance\n",
    ] {
        assert!(said.contains(line), "{line:?} is not in\n{said}");
    }
    assert_eq!(owned(&home.0), []);
    let logs: Vec<_> = (1..=3).map(|n| home.0.join(format!("logs/demo-worker-{n}.log"))).collect();
    assert!(logs.iter().all(|log| log.exists()), "{logs:?}");
}

#[tokio::test]
async fn an_interrupted_demo_leaves_nothing_and_says_so() {
    let home = Home::new("interrupted");
    let mut demo = Process::start(&mut home.demo(&[]), home.0.join("demo.out"));
    wait_until("it submits", DEMO_LIMIT, async || demo.log().contains("submitting")).await;
    assert!(owned(&home.0).len() >= 3, "three workers run");

    let second = home.refused(&[]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another run holds"), "{said}");

    demo.signal(Signal::Int);
    assert_eq!(demo.exit(s(60)).await.code(), Some(130));
    assert!(demo.log().contains("interrupted by SIGINT"), "{}", demo.log());
    assert_eq!(owned(&home.0), []);
}

#[test]
fn numbers_that_cannot_work_are_bad_usage_and_nothing_is_started() {
    let home = Home::new("usage");
    let refused = home.refused(&["--transfers", "9"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--transfers must be at least 10"), "{said}");
    assert!(!home.0.exists());
}
