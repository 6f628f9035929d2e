//! A RabbitMQ node on 127.0.0.1, with an Erlang port mapper (epmd) of its own.
//!
//! Everything the node writes lies in its directory, nothing is read from the machine's RabbitMQ
//! configuration, and its epmd is private, so any number of nodes fit on one machine and none
//! touches a RabbitMQ that the machine runs as a service. `wait` returns when the node has reported
//! itself ready (as it does to systemd) and a client can log in and declare a queue. The node
//! listens before that, so an open port alone says nothing.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::net::UnixDatagram;

use super::answers;
use super::directory::Directory;
use super::identity::Identity;
use super::mark::MARK;
use crate::console::{Failure, tail};

const READY_LIMIT: Duration = Duration::from_secs(120);
const EPMD_LIMIT: Duration = Duration::from_secs(60);
const LOGIN_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);
/// More than any report to systemd is long.
const REPORT_BYTES_MAX: usize = 4_096;

/// A node, and its port mapper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Where clients connect.
    pub port: u16,
    /// Where other nodes connect.
    pub dist_port: u16,
    /// Where its port mapper listens.
    pub epmd_port: u16,
    /// Its name among nodes. Its data belongs to the name, so the name outlives any other change.
    pub node: String,
    /// The process that was started last.
    pub process: Option<Identity>,
    /// The port mapper's.
    pub epmd: Option<Identity>,
}

impl Node {
    /// A node that has never run, with its port, that of the distribution, and its epmd's.
    #[must_use]
    pub fn at([port, dist_port, epmd_port]: [u16; 3]) -> Node {
        let node = format!("tandem-{port}@localhost");
        Node { port, dist_port, epmd_port, node, process: None, epmd: None }
    }

    /// The node's ports and what each is for.
    #[must_use]
    pub fn ports(&self) -> [(u16, &'static str); 2] {
        [(self.port, "RabbitMQ"), (self.dist_port, "RabbitMQ's distribution")]
    }

    /// Where applications connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// The node's process id; 0 before it has ever run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, |process| process.pid)
    }

    /// What `deploy/up --json` says about the node.
    #[must_use]
    pub fn describe(&self, directory: &Directory, server: &Path) -> Value {
        let env = self.control_environment(directory).into_iter();
        let env: Map<String, Value> = env
            .map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned().into()))
            .collect();
        json!({
            "uri": self.url(),
            "external": false,
            "port": self.port,
            "pid": self.pid(),
            "node": self.node,
            "dist_port": self.dist_port,
            "epmd_port": self.epmd_port,
            "epmd_pid": self.epmd.as_ref().map(|epmd| epmd.pid),
            "data_dir": home(directory),
            "log": log(directory),
            "control": { "program": control_program(server), "env": env },
        })
    }

    /// The administrator's program (`rabbitmqctl`) for the node.
    #[must_use]
    pub fn control(&self, directory: &Directory, server: &Path) -> Command {
        let mut command = Command::new(control_program(server));
        command.envs(self.control_environment(directory)).env(MARK, home(directory));
        command
    }

    fn control_environment(&self, directory: &Directory) -> [(&'static str, OsString); 6] {
        [
            ("HOME", home(directory).into()),
            ("RABBITMQ_NODENAME", self.node.clone().into()),
            ("RABBITMQ_CONF_ENV_FILE", directory.run.join("rabbitmq-env.conf").into()),
            ("RABBITMQ_LOG_BASE", directory.logs.clone().into()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".into()),
            ("ERL_EPMD_PORT", self.epmd_port.to_string().into()),
        ]
    }

    /// What starts the port mapper.
    #[must_use]
    pub fn epmd_command(&self, directory: &Directory, epmd: &Path) -> Command {
        let mut command = Command::new(epmd);
        command.args(["-address", "127.0.0.1", "-port", &self.epmd_port.to_string()]);
        self.set_environment(&mut command, directory);
        command
    }

    /// Returns when the port mapper answers.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn wait_for_epmd(&self, directory: &Directory) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < EPMD_LIMIT {
            if answers(self.epmd_port).await {
                return Ok(());
            }
            tokio::time::sleep(POLL / 5).await;
        }
        let end = tail(&epmd_output(directory));
        Err(Failure(format!("epmd does not answer on port {}:\n{end}", self.epmd_port)))
    }

    /// Writes the node's configuration; what starts the node, and where it will report itself.
    ///
    /// # Errors
    /// When the configuration can't be written.
    pub fn command(
        &self,
        directory: &Directory,
        server: &Path,
    ) -> Result<(Command, Reports), Failure> {
        self.configure(directory)
            .map_err(|error| Failure(format!("{}: {error}", directory.run.display())))?;
        let (name, reports) = Reports::listen(self.port)
            .map_err(|error| Failure(format!("cannot listen for RabbitMQ's report: {error}")))?;
        let mut command = Command::new(server);
        self.set_environment(&mut command, directory);
        // With it the start script becomes the node, instead of staying as the node's parent.
        command.env("NOTIFY_SOCKET", name);
        Ok((command, reports))
    }

    fn configure(&self, directory: &Directory) -> std::io::Result<()> {
        let configuration = format!(
            "# Generated by deploy/up; changes are lost.\n\
             listeners.tcp.1 = 127.0.0.1:{}\n\
             disk_free_limit.absolute = 50MB\n\
             log.console = false\n\
             log.file.level = info\n",
            self.port
        );
        std::fs::create_dir_all(home(directory))?;
        std::fs::write(directory.run.join("rabbitmq.conf"), configuration)?;
        std::fs::write(directory.run.join("enabled_plugins"), "[].\n")?;
        // An empty one, in place of the machine's.
        std::fs::write(directory.run.join("rabbitmq-env.conf"), "")
    }

    /// The machine's environment without its RabbitMQ and Erlang settings, with ours.
    fn set_environment(&self, command: &mut Command, directory: &Directory) {
        for (name, _) in std::env::vars_os() {
            let known = name.to_string_lossy();
            if ["RABBITMQ_", "ERL_", "NOTIFY_"].iter().any(|prefix| known.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        let (run, home) = (&directory.run, home(directory));
        command
            .env("RABBITMQ_DIST_PORT", self.dist_port.to_string())
            .env("RABBITMQ_MNESIA_BASE", home.join("mnesia"))
            .env("RABBITMQ_LOGS", log(directory))
            .env("RABBITMQ_UPGRADE_LOG", directory.logs.join("rabbitmq-upgrade.log"))
            .env("RABBITMQ_PID_FILE", run.join("rabbitmq.pid"))
            .env("RABBITMQ_CONFIG_FILE", run.join("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", run.join("advanced.config"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", run.join("enabled_plugins"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", format!("{INTERFACE} {PATIENCE}"))
            .env("ERL_CRASH_DUMP", directory.logs.join("erl_crash.dump"))
            .envs(self.control_environment(directory));
    }

    /// Returns when the node serves. Without `reports` it was started by an earlier run, whose
    /// socket is gone, and a login has to be enough.
    ///
    /// # Errors
    /// When it has ended by itself, or does not serve in time.
    pub async fn wait(
        &self,
        directory: &Directory,
        reports: Option<Reports>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut problem = "it has not reported itself ready".to_owned();
        let mut ready = reports.is_none();
        while begun.elapsed() < READY_LIMIT {
            if !self.process.as_ref().is_some_and(Identity::is_alive) {
                return Err(Failure(format!(
                    "rabbitmq has ended by itself:\n{}",
                    tails(directory)
                )));
            }
            if let (false, Some(reports)) = (ready, &reports) {
                ready = reports.say_ready().await;
            } else {
                match login(&self.url()).await {
                    Ok(()) => return Ok(()),
                    Err(error) => problem = error,
                }
                tokio::time::sleep(POLL).await;
            }
        }
        let end = tails(directory);
        Err(Failure(format!("rabbitmq does not serve after {READY_LIMIT:?}: {problem}\n{end}")))
    }
}

const INTERFACE: &str = "-kernel inet_dist_use_interface {127,0,0,1}";

/// RabbitMQ 3.10 gives up dead lettering for good when two of its workers have crashed within 5 s
/// (rabbitmq-server issue 16652; 4.0 bears a hundred in a second). They do where a busy machine lets
/// the declaration of a queue time out. From then on no quorum queue that dead letters at least once
/// can be declared. So their supervisor, once it is there, is told to start them again however often
/// they crash: element 6 of its state is that limit. The start script splits at blanks, so there is
/// only one.
const PATIENCE: &str = "-eval spawn(fun()->Wait=fun(Again,undefined)->timer:sleep(100),\
     Again(Again,whereis(rabbit_fifo_dlx_sup));\
     (_,Supervisor)->sys:replace_state(Supervisor,\
     fun(State)when(is_integer(element(6,State)))->setelement(6,State,1000000);(State)->(State)end)end,\
     Wait(Wait,undefined)end).";

/// A socket for what a service tells systemd.
#[derive(Debug)]
pub struct Reports {
    socket: UnixDatagram,
}

impl Reports {
    /// The socket, and its name for `NOTIFY_SOCKET`.
    fn listen(port: u16) -> std::io::Result<(String, Reports)> {
        let name = format!("tandem-{port}-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
        let socket = std::os::unix::net::UnixDatagram::bind_addr(&address)?;
        socket.set_nonblocking(true)?;
        Ok((format!("@{name}"), Reports { socket: UnixDatagram::from_std(socket)? }))
    }

    /// Waits a moment for a report; whether it was the one.
    async fn say_ready(&self) -> bool {
        let mut report = [0; REPORT_BYTES_MAX];
        match tokio::time::timeout(POLL, self.socket.recv(&mut report)).await {
            Ok(Ok(length)) => report[..length].windows(7).any(|word| word == b"READY=1"),
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

/// Logs in and declares a queue, which the broker drops with the connection.
async fn login(url: &str) -> Result<(), String> {
    let login = async {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare("".into(), exclusive, FieldTable::default()).await?;
        connection.close(200, "".into()).await
    };
    match tokio::time::timeout(LOGIN_LIMIT, login).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {LOGIN_LIMIT:?}")),
    }
}

fn tails(directory: &Directory) -> String {
    format!("{}\n{}", tail(&log(directory)), tail(&output(directory)))
}

/// Where the node keeps its data and its cookie; also the mark of its processes.
pub(super) fn home(directory: &Directory) -> PathBuf {
    directory.data.join("rabbitmq")
}

/// The mark of the port mapper.
pub(super) fn epmd_mark(directory: &Directory) -> PathBuf {
    directory.data.join("epmd")
}

/// Where the node logs.
pub(super) fn log(directory: &Directory) -> PathBuf {
    directory.logs.join("rabbitmq.log")
}

/// Where what the node prints goes.
pub(super) fn output(directory: &Directory) -> PathBuf {
    directory.logs.join("rabbitmq.out")
}

/// Where what the port mapper prints goes.
pub(super) fn epmd_output(directory: &Directory) -> PathBuf {
    directory.logs.join("epmd.out")
}

fn control_program(server: &Path) -> PathBuf {
    let server = server.canonicalize().unwrap_or_else(|_| server.to_owned());
    server.with_file_name("rabbitmqctl")
}
