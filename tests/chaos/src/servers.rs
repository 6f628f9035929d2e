//! The servers as chaos sees them: where they are, how they die, how they come back.
//!
//! They are described by a file that `deploy/chaos` writes, and are started again by `deploy/up`,
//! with their data and on their ports. Fails with a sentence.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::doc;
use mongodb::options::ClientOptions;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::Mutex;

use harness::process::signal;
use harness::servers::address_of;

/// How long the replica set may be without a primary, or a start may take.
const SERVES_LIMIT: Duration = Duration::from_secs(120);

/// All servers of a run.
pub struct Servers {
    /// The replica set.
    pub database: Database,
    /// The broker, or the nodes of its cluster.
    pub brokers: Vec<Broker>,
    /// Held while a broker, or a queue, is being hit: one at a time.
    pub one_broker: Mutex<()>,
}

impl Servers {
    /// Reads the description.
    ///
    /// # Errors
    /// When something is missing in it.
    pub async fn read(path: &Path) -> Result<Servers, String> {
        let named = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        let told: Value = serde_json::from_str(&text).map_err(|error| named(&error))?;
        let up = PathBuf::from(text_of(&told, "up").map_err(|error| named(&error))?);
        let database = Database::new(&told["mongodb"], up.clone()).await;
        let brokers = told["brokers"].as_array().into_iter().flatten();
        let brokers: Result<Vec<_>, _> =
            brokers.map(|broker| Broker::new(broker, up.clone())).collect();
        Ok(Servers {
            database: database.map_err(|error| named(&error))?,
            brokers: brokers.map_err(|error| named(&error))?,
            one_broker: Mutex::new(()),
        })
    }
}

fn text_of(told: &Value, field: &str) -> Result<String, String> {
    told[field].as_str().map(str::to_owned).ok_or_else(|| format!("{field}: is missing"))
}

fn pid_of(told: &Value) -> Result<u32, String> {
    let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.ok_or_else(|| "pid: is missing".to_owned())
}

/// Starts again what does not run in a directory, and waits until it serves.
async fn bring_up(up: &Path, only: &str, directory: &Path) -> Result<Value, String> {
    let mut command = Command::new(up);
    command.args(["--private", "--json", "--only", only, "--dir"]).arg(directory);
    let output = tokio::time::timeout(SERVES_LIMIT, command.kill_on_drop(true).output()).await;
    let output = output
        .map_err(|_| format!("{only}: does not serve after {SERVES_LIMIT:?}"))?
        .map_err(|error| format!("{}: {error}", up.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{only} did not come back:\n{said}"));
    }
    let mut told: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("deploy/up: {error}"))?;
    Ok(told[only].take())
}

struct Member {
    address: SocketAddr,
    /// Past all proxies, and to this member only.
    client: Client,
    pid: Mutex<u32>,
}

/// The replica set.
pub struct Database {
    /// Where clients connect, past all proxies.
    pub uri: String,
    /// Its name.
    pub replica_set: String,
    members: Vec<Member>,
    directory: PathBuf,
    up: PathBuf,
    /// Held while a member is being hit: one at a time, so that a majority stays.
    one_member: Mutex<()>,
}

impl Database {
    async fn new(told: &Value, up: PathBuf) -> Result<Database, String> {
        let mut members = Vec::new();
        for member in told["members"].as_array().into_iter().flatten() {
            let port = member["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            let port = port.ok_or("members: a port is missing")?;
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let uri = format!("mongodb://{address}/?directConnection=true");
            let mut options =
                ClientOptions::parse(&uri).await.map_err(|error| error.to_string())?;
            options.server_selection_timeout = Some(Duration::from_secs(1));
            options.connect_timeout = Some(Duration::from_secs(1));
            let client = Client::with_options(options).map_err(|error| error.to_string())?;
            members.push(Member { address, client, pid: Mutex::new(pid_of(member)?) });
        }
        Ok(Database {
            uri: text_of(told, "uri")?,
            replica_set: text_of(told, "replica_set")?,
            members,
            directory: text_of(told, "directory")?.into(),
            up,
            one_member: Mutex::new(()),
        })
    }

    /// Where the members are.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address).collect()
    }

    /// Keeps everybody else from hitting a member until the guard goes.
    pub async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one_member.lock().await
    }

    async fn primary(&self) -> Option<&Member> {
        let asked = self.members.iter().map(async |member| {
            let hello = member.client.database("admin").run_command(doc! { "hello": 1 }).await;
            hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
        });
        let answers = futures_util::future::join_all(asked).await;
        let primary = answers.iter().position(|is_primary| *is_primary)?;
        self.members.get(primary)
    }

    /// Waits until there is a writable primary.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn wait_for_primary(&self) -> Result<(), String> {
        let begun = Instant::now();
        while self.primary().await.is_none() {
            if begun.elapsed() > SERVES_LIMIT {
                return Err(format!("no primary within {SERVES_LIMIT:?}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Kills the primary.
    ///
    /// # Errors
    /// When there is none.
    pub async fn kill_primary(&self) -> Result<(), String> {
        let primary = self.primary().await.ok_or("there is no primary to kill")?;
        let pid = *primary.pid.lock().await;
        if signal(pid, "KILL") { Ok(()) } else { Err(format!("mongod {pid} is not there")) }
    }

    /// Starts again whatever member was killed, and waits until all are in step.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn restart(&self) -> Result<(), String> {
        let told = bring_up(&self.up, "mongodb", &self.directory).await?;
        for (member, told) in
            self.members.iter().zip(told["members"].as_array().into_iter().flatten())
        {
            *member.pid.lock().await = pid_of(told)?;
        }
        Ok(())
    }

    /// Lets the primary step down.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub async fn step_down(&self) -> Result<(), String> {
        let primary = self.primary().await.ok_or("there is no primary to step down")?;
        let command = doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 5 };
        let answer = primary.client.database("admin").run_command(command).await;
        answer.map(|_| ()).map_err(|error| format!("stepping down: {error}"))
    }
}

/// A broker's node.
pub struct Broker {
    /// Where clients connect, past all proxies.
    pub url: String,
    directory: PathBuf,
    pid: Mutex<u32>,
    up: PathBuf,
    control: PathBuf,
    control_env: Vec<(String, String)>,
}

impl Broker {
    fn new(told: &Value, up: PathBuf) -> Result<Broker, String> {
        let env = told["control"]["env"].as_object().into_iter().flatten();
        let env = env.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Ok(Broker {
            url: text_of(told, "uri")?,
            directory: text_of(told, "directory")?.into(),
            pid: Mutex::new(pid_of(told)?),
            up,
            control: text_of(&told["control"], "program")?.into(),
            control_env: env.collect(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        address_of(&self.url)
    }

    /// Kills it.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill(&self) -> Result<(), String> {
        let pid = *self.pid.lock().await;
        if signal(pid, "KILL") { Ok(()) } else { Err(format!("the broker {pid} is not there")) }
    }

    /// Starts it again, and waits until it serves.
    ///
    /// # Errors
    /// When it does not.
    pub async fn restart(&self) -> Result<(), String> {
        let told = bring_up(&self.up, "rabbitmq", &self.directory).await?;
        *self.pid.lock().await = pid_of(&told)?;
        Ok(())
    }

    /// Closes all connections, as an administrator would.
    ///
    /// # Errors
    /// When the administrator's program fails.
    pub async fn close_connections(&self) -> Result<(), String> {
        let mut command = Command::new(&self.control);
        command.args(["--timeout", "20", "close_all_connections", "chaos"]);
        command.envs(self.control_env.iter().map(|(name, value)| (name, value)));
        let output = command.kill_on_drop(true).output().await;
        let output = output.map_err(|error| format!("{}: {error}", self.control.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("close_all_connections: {}", String::from_utf8_lossy(&said)))
    }
}
