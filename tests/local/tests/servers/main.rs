//! What `deploy/up`, `deploy/down` and `local run` promise, on real servers.

mod scripts;

use std::collections::HashMap;
use std::net::TcpListener;
use std::time::Duration;

use harness::deployment::identity::{Identity, wait_gone};
use harness::deployment::mark::owned;
use harness::process::Signal;
use harness::wait::{s, wait_until};
use scripts::{Scratch, pid_of, port_of};

#[tokio::test]
async fn a_second_up_starts_nothing_and_a_killed_server_returns_on_its_port_with_its_data() {
    let scratch = Scratch::new();
    let first = scratch.up("a", &[]).await;
    let (mongodb, rabbitmq) = (&first["mongodb"], &first["rabbitmq"]);
    scratch.insert(mongodb).await;
    assert_eq!(scratch.up("a", &[]).await, first);

    scratch.kill(rabbitmq);
    let again = scratch.up("a", &["--only", "rabbitmq"]).await["rabbitmq"].clone();
    assert_ne!(again["pid"], rabbitmq["pid"]);
    assert_eq!((&again["uri"], &again["node"]), (&rabbitmq["uri"], &rabbitmq["node"]));
    assert!(Identity::of(pid_of(mongodb)).is_some(), "the other server runs on");

    scratch.kill(mongodb);
    let after = scratch.up("a", &[]).await;
    assert_eq!(after["mongodb"]["uri"], mongodb["uri"]);
    assert_eq!(after["rabbitmq"], again);
    assert_eq!(scratch.count(mongodb).await, 1);

    let started = owned(&scratch.path);
    assert!(scratch.down("a", &[]).await.contains("stopped rabbitmq: beam.smp"));
    assert_eq!(wait_gone(&started, s(5)), []);
    assert!(scratch.down("a", &[]).await.contains("nothing was running"));
    let only = scratch.up("a", &["--only", "mongodb"]).await;
    assert_eq!(only["mongodb"]["uri"], mongodb["uri"]);
    assert_eq!(scratch.count(mongodb).await, 1);
    scratch.down("a", &["--wipe"]).await;
    assert!(!scratch.path.join("a").exists());
}

#[tokio::test]
async fn directories_are_independent_and_the_same_one_is_started_once() {
    let scratch = Scratch::new();
    let up = |name| scratch.up(name, &[]);
    let (a, b, a_again) = tokio::join!(up("a"), up("b"), up("a"));
    assert_eq!(a, a_again);
    for server in ["mongodb", "rabbitmq"] {
        assert_ne!(a[server]["port"], b[server]["port"]);
    }
    scratch.down("a", &[]).await;
    assert_eq!(scratch.up("b", &[]).await, b);
    scratch.insert(&b["mongodb"]).await;
}

#[tokio::test]
async fn three_members_elect_a_new_primary_and_their_number_stays() {
    let scratch = Scratch::new();
    let set = scratch.up("a", &["--only", "mongodb", "--members", "3"]).await["mongodb"].clone();
    let members = set["members"].as_array().expect("a list").clone();
    let mut pids: HashMap<u16, u32> = members.iter().map(|m| (port_of(m), pid_of(m))).collect();
    let primary = scratch.primary(pids.keys().copied()).await;
    let killed = Identity::of(pids.remove(&primary).expect("a member")).expect("it runs");
    assert!(killed.kill().expect("it is ours"));
    wait_until("another member is the primary", s(60), async || {
        scratch.primary(pids.keys().copied()).await != primary
    })
    .await;
    let again = scratch.up("a", &["--only", "mongodb"]).await["mongodb"].clone();
    assert_eq!(again["uri"], set["uri"]);
    let refused = scratch.run(&["up", "--members", "1", "--dir"], "a").await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("3 member(s)"), "{}", refused.stderr);
}

#[tokio::test]
async fn an_interrupted_start_leaves_nothing_and_the_next_completes_it() {
    let scratch = Scratch::new();
    for (signal, code, started) in [(Signal::Int, 130, "beam.smp"), (Signal::Term, 143, "mongod")] {
        let mut up = scratch.launch(&["up", "--dir"], "a");
        wait_until("a server was started", s(60), async || {
            owned(&scratch.path).iter().any(|process| process.name() == started)
        })
        .await;
        up.signal(signal);
        assert_eq!(up.exit(s(30)).await.code(), Some(code));
        assert_eq!(wait_gone(&owned(&scratch.path), s(5)), []);
        assert_eq!(owned(&scratch.path), []);
    }
    scratch.up("a", &["--only", "mongodb"]).await;
}

#[tokio::test]
async fn a_start_that_was_killed_is_completed_by_the_next_one() {
    let scratch = Scratch::new();
    let mut up = scratch.launch(&["up", "--only", "mongodb", "--dir"], "a");
    wait_until("a server was started", s(60), async || !owned(&scratch.path).is_empty()).await;
    up.kill();
    let set = scratch.up("a", &["--only", "mongodb"]).await;
    scratch.insert(&set["mongodb"]).await;
    let running: Vec<u32> = owned(&scratch.path).iter().map(|process| process.pid).collect();
    assert_eq!(running, [pid_of(&set["mongodb"])]);
}

#[tokio::test]
async fn a_recorded_port_that_was_taken_is_explained() {
    let scratch = Scratch::new();
    let port = port_of(&scratch.up("a", &["--only", "mongodb"]).await["mongodb"]);
    scratch.down("a", &[]).await;
    let _taken = TcpListener::bind(("127.0.0.1", port)).expect("the server has left its port");
    let refused = scratch.run(&["up", "--only", "mongodb", "--dir"], "a").await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains(&format!("port {port}")), "{}", refused.stderr);
}

#[tokio::test]
async fn servers_named_by_the_environment_are_used_as_they_are() {
    let mut scratch = Scratch::new();
    let named = [("TANDEM_MONGODB_URI", "mongodb://db/x"), ("TANDEM_AMQP_URL", "amqp://mq/x")];
    scratch.env.extend(named.map(|(name, uri)| (name.to_owned(), uri.to_owned())));
    let told = scratch.run(&["up", "--dir"], "a").await;
    let lines = named.map(|(name, uri)| format!("{name}={uri}\n")).concat();
    assert_eq!((told.code, told.stdout), (Some(0), lines));
    assert!(!scratch.path.join("a").exists());
    let told = scratch.up("a", &[]).await;
    assert_eq!(told["rabbitmq"]["external"], true);
    let own = scratch.up("a", &["--only", "mongodb", "--private"]).await;
    assert_eq!(own["mongodb"]["external"], false);
}

#[tokio::test]
async fn what_up_prints_can_be_exported_by_a_shell() {
    let scratch = Scratch::new();
    let told = scratch.run(&["up", "--only", "mongodb", "--dir"], "a").await;
    let uri = told.stdout.trim_end().strip_prefix("TANDEM_MONGODB_URI=").expect("the variable");
    let port = uri.strip_prefix("mongodb://127.0.0.1:").expect("an address");
    let (port, rest) = port.split_once('/').expect("a database");
    assert!(port.parse::<u16>().is_ok(), "{uri}");
    assert_eq!(rest, "tandem?replicaSet=tandem");
}

#[tokio::test]
async fn without_the_servers_programs_the_scripts_are_named() {
    let mut scratch = Scratch::new();
    scratch.env.insert("TANDEM_MONGOD".to_owned(), String::new());
    let refused = scratch.run(&["up", "--only", "mongodb", "--dir"], "a").await;
    assert_eq!(refused.code, Some(1));
    let said = refused.stderr;
    assert!(said.contains("TANDEM_MONGOD is not set") && said.contains("deploy/"), "{said}");
}

#[tokio::test]
async fn a_run_has_servers_while_it_lasts_and_its_exit_code_is_the_programs() {
    let scratch = Scratch::new();
    let script = "echo $TANDEM_MONGODB_URI $TANDEM_MONGODB_PID; sleep 600 & exit 7";
    let arguments = ["run", "--only", "mongodb", "--measured", "--dir", "DIR", "--", "sh", "-c"];
    let ran = scratch.run_in("a", &[&arguments[..], &[script]].concat()).await;
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    let (uri, pid) = ran.stdout.trim().split_once(' ').expect("two words");
    assert!(uri.starts_with("mongodb://127.0.0.1:"), "{uri}");
    assert_eq!(Identity::of(pid.parse().expect("a pid")), None);
    assert!(ran.stderr.contains("killed a process that was left: sleep"), "{}", ran.stderr);
    assert_eq!(owned(&scratch.path), []);
    assert!(!scratch.path.join("a").exists());
}

#[tokio::test]
async fn a_killed_run_is_cleaned_up_after_by_the_next_one_and_a_running_one_is_left_alone() {
    let scratch = Scratch::new();
    let run = ["run", "--only", "mongodb", "--dir", "DIR", "--", "sh", "-c"];
    let mut killed = scratch.launch_in("a", &[&run[..], &["sleep 601 & sleep 600"]].concat());
    let sleeps = async || owned(&scratch.path).iter().filter(|p| p.name() == "sleep").count() == 2;
    wait_until("the program runs", s(90), sleeps).await;
    let refused = scratch.run_in("a", &[&run[..], &["true"]].concat()).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("another run holds"), "{}", refused.stderr);
    killed.kill();
    let left = owned(&scratch.path);
    assert!(left.len() >= 3, "a server and two programs are left: {left:?}");
    let next = scratch.run_in("a", &[&run[..], &["true"]].concat()).await;
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert_eq!(wait_gone(&left, Duration::ZERO), []);
    assert_eq!(owned(&scratch.path), []);
}

#[tokio::test]
async fn an_interrupted_run_ends_its_servers_and_its_program() {
    let scratch = Scratch::new();
    let run = ["run", "--only", "mongodb", "--dir", "DIR", "--", "sleep", "600"];
    let mut running = scratch.launch_in("a", &run);
    let sleeps = async || owned(&scratch.path).iter().any(|p| p.name() == "sleep");
    wait_until("the program runs", s(90), sleeps).await;
    running.signal(Signal::Int);
    assert_eq!(running.exit(s(30)).await.code(), Some(130));
    assert_eq!(owned(&scratch.path), []);
}

#[tokio::test]
async fn a_directory_with_somebodys_files_is_not_taken_for_a_runs() {
    let scratch = Scratch::new();
    let mine = scratch.path.join("a").join("mine");
    std::fs::create_dir_all(scratch.path.join("a")).expect("it can be made");
    std::fs::write(&mine, "precious").expect("it can be written");
    let refused = scratch.run_in("a", &["run", "--dir", "DIR", "--", "true"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("choose another --dir"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(mine).expect("it is there"), "precious");
}
