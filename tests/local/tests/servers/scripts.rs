//! Runs the program as a user does, with everything in a directory of one test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::deployment::identity::{Identity, wait_gone};
use harness::deployment::{Server, sweep};
use harness::process::{Process, program};
use harness::servers::directory;
use harness::wait::{eventually, s};
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use mongodb::{Client, Collection};
use serde_json::Value;

/// How long one call may take, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(240);

/// A directory whose processes are killed with the value.
pub struct Scratch {
    /// Where it is.
    pub path: PathBuf,
    /// What the program sees in addition to this one's environment.
    pub env: BTreeMap<String, String>,
}

/// What a call has said.
pub struct Said {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its results.
    pub stdout: String,
    /// Its progress.
    pub stderr: String,
}

impl Scratch {
    /// An empty one, without servers in the environment.
    pub fn new() -> Scratch {
        // With a space, because paths may have some.
        let path = directory(&format!("local {}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path).expect("it can be made");
        let none = Server::ALL.map(|server| (server.variable().to_owned(), String::new()));
        Scratch { path, env: none.into() }
    }

    /// Runs a command that ends with the option for this directory.
    pub async fn run(&self, arguments: &[&str], name: &str) -> Said {
        self.run_in(name, &[arguments, &["DIR"]].concat()).await
    }

    /// Runs a command in which `DIR` stands for this directory.
    pub async fn run_in(&self, name: &str, arguments: &[&str]) -> Said {
        let command = self.command(name, arguments);
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output();
        let output = tokio::time::timeout(LIMIT, output).await.expect("it ends in time");
        let output = output.expect("the program can be run");
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The same as [`Scratch::run`], without waiting for its end.
    pub fn launch(&self, arguments: &[&str], name: &str) -> Process {
        self.launch_in(name, &[arguments, &["DIR"]].concat())
    }

    /// The same as [`Scratch::run_in`], without waiting for its end.
    pub fn launch_in(&self, name: &str, arguments: &[&str]) -> Process {
        let log = self.path.join(format!("{}.out", uuid::Uuid::new_v4().simple()));
        Process::start(&mut self.command(name, arguments), log)
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("local"));
        for argument in arguments {
            match *argument {
                "DIR" => command.arg(self.path.join(name)),
                other => command.arg(other),
            };
        }
        command.envs(&self.env);
        command
    }

    /// Brings servers up; what is said about them.
    pub async fn up(&self, name: &str, arguments: &[&str]) -> Value {
        let said = self.run(&[&["up", "--json"], arguments, &["--dir"]].concat(), name).await;
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        serde_json::from_str(&said.stdout).expect("JSON")
    }

    /// Takes servers down; what is said about that.
    pub async fn down(&self, name: &str, arguments: &[&str]) -> String {
        let said = self.run(&[&["down"], arguments, &["--dir"]].concat(), name).await;
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout
    }

    /// Kills a server, and waits for its end.
    pub fn kill(&self, server: &Value) {
        let process = Identity::of(pid_of(server)).expect("it runs");
        assert!(process.kill().expect("it is ours"));
        assert_eq!(wait_gone(&[process], s(10)), []);
    }

    /// Inserts a document durably.
    pub async fn insert(&self, mongodb: &Value) {
        let kept = kept(mongodb).await;
        let inserted = kept.insert_one(doc! { "_id": 1 });
        inserted.write_concern(WriteConcern::majority()).await.expect("it can be inserted");
    }

    /// How many documents there are.
    pub async fn count(&self, mongodb: &Value) -> u64 {
        kept(mongodb).await.count_documents(doc! {}).await.expect("it can be counted")
    }

    /// The port of the member that is the primary.
    pub async fn primary(&self, ports: impl Iterator<Item = u16>) -> u16 {
        let ports: Vec<u16> = ports.collect();
        eventually("there is a primary", s(60), async || {
            for port in &ports {
                let admin = client(*port).await.database("admin");
                let hello = admin.run_command(doc! { "hello": 1 }).await;
                if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                    return Some(*port);
                }
            }
            None
        })
        .await
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(failure) = sweep(&self.path) {
            eprintln!("{failure}");
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

async fn client(port: u16) -> Client {
    let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true");
    let mut options = ClientOptions::parse(uri).await.expect("the uri is good");
    options.server_selection_timeout = Some(s(5));
    Client::with_options(options).expect("the options are good")
}

async fn kept(mongodb: &Value) -> Collection<Document> {
    client(port_of(mongodb)).await.database("test").collection("kept")
}

/// The process of a described server.
pub fn pid_of(server: &Value) -> u32 {
    u32::try_from(server["pid"].as_u64().expect("a pid")).expect("a pid is small")
}

/// Its port.
pub fn port_of(server: &Value) -> u16 {
    u16::try_from(server["port"].as_u64().expect("a port")).expect("a port is small")
}
