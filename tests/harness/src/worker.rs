//! A worker process: its flags, its signals, its HTTP side.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rand::Rng;

use crate::http::{self, Answer, Metrics};
use crate::process::{Process, Signal, program, stat};
use crate::wait::{s, wait_until};

/// How long a worker may take to be ready, on a machine that is busy with other tests.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The lease of test workers: short, so that taking over does not take long.
pub const LEASE: Duration = Duration::from_millis(2_000);
/// Their grace.
pub const GRACE: Duration = Duration::from_millis(1_200);

/// The state of a process that does not go on until it is told to, as the kernel writes it.
const STOPPED: char = 'T';

/// Flags that every test worker has; a test sets its own over them.
const FLAGS: [(&str, &str); 7] = [
    ("--lease-ms", "2000"),
    ("--grace-ms", "1200"),
    ("--op-limit-ms", "1000"),
    ("--clock-skew-ms", "200"),
    ("--sweep-ms", "500"),
    ("--orphan-ms", "2000"),
    ("--log-format", "json"),
];

/// A worker that is not yet started.
pub struct Plan {
    pub(crate) name: String,
    pub(crate) logs: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
    flags: BTreeMap<String, String>,
    program: String,
}

impl Plan {
    pub(crate) fn new(name: &str, logs: PathBuf, env: BTreeMap<String, String>) -> Plan {
        let flags = FLAGS.map(|(flag, value)| (flag.to_owned(), value.to_owned()));
        Plan {
            name: name.to_owned(),
            logs,
            env,
            flags: BTreeMap::from(flags),
            program: "worker".to_owned(),
        }
    }

    /// Sets a flag.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: impl ToString) -> Plan {
        self.flags.insert(flag.to_owned(), value.to_string());
        self
    }

    /// Replaces all flags, also the short leases that tests begin with.
    #[must_use]
    pub fn only_flags(mut self, flags: BTreeMap<String, String>) -> Plan {
        self.flags = flags;
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Plan {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs another program in its place, for example a worker of an older version.
    #[must_use]
    pub fn program(self, path: String) -> Plan {
        Plan { program: path, ..self }
    }

    /// Makes it abort just before this operation on any of these transactions: `claim`, `post`,
    /// `applied`, `settle`. Allows so many attempts that the deaths end these transactions and not
    /// the limit of attempts: on a busy machine the sweeper publishes them again, and ten claims
    /// are soon used up.
    #[must_use]
    pub fn poisoned(self, ids: &[&str], at: &str) -> Plan {
        let plan = self
            .env("TANDEM_TEST_POISON", &ids.join(","))
            .env("TANDEM_TEST_POISON_AT", at)
            .flag("--attempts-max", 1_000);
        Plan { program: "poisoned".to_owned(), ..plan }
    }

    /// Sets its MongoDB connection string, for example that of a proxy.
    #[must_use]
    pub fn mongodb(self, uri: &str) -> Plan {
        self.env("TANDEM_MONGODB_URI", uri)
    }

    /// Sets its RabbitMQ connection string, for example that of a proxy.
    #[must_use]
    pub fn amqp(self, url: &str) -> Plan {
        self.env("TANDEM_AMQP_URL", url)
    }

    /// Starts it and waits until it says that it is ready.
    ///
    /// # Panics
    /// When it ends, or is not ready in time.
    pub async fn start(self) -> Worker {
        let mut worker = self.launch();
        wait_until("the worker is ready", READY_LIMIT, async || {
            assert!(worker.exited().is_none(), "the worker has ended by itself");
            worker.is_ready().await
        })
        .await;
        worker
    }

    /// Starts it.
    #[must_use]
    pub fn launch(self) -> Worker {
        let http = free_address();
        let log = self.logs.join(format!("worker-{}.log", self.name));
        let mut command = Command::new(program(&self.program));
        command.args(["--name", &self.name, "--http", &http.to_string()]).envs(&self.env);
        for (flag, value) in &self.flags {
            command.args([flag, value]);
        }
        Worker { process: Process::start(&mut command, log), http }
    }
}

/// A running worker; see [`Process`] for signals and its log.
pub struct Worker {
    process: Process,
    http: SocketAddr,
}

impl Deref for Worker {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Worker {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Worker {
    /// Its answer on a path; `None` if it does not answer.
    pub async fn get(&self, path: &str) -> Option<Answer> {
        http::get(self.http, path).await
    }

    /// Where its pages are.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.http
    }

    /// Whether it says that it is ready.
    pub async fn is_ready(&self) -> bool {
        self.get("/readyz").await.is_some_and(|answer| answer.status == 200)
    }

    /// Its metrics now.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn metrics(&self) -> Metrics {
        let answer = self.get("/metrics").await.expect("the worker answers");
        assert_eq!(answer.status, 200, "{}", answer.body);
        Metrics::new(answer.body)
    }

    /// Whether it stands by for another one.
    pub async fn stands_by(&self) -> bool {
        self.metrics().await.sum("tandem_standing_by", &[]) == 1.0
    }

    /// Stops it, as a machine that swaps would.
    ///
    /// # Panics
    /// When it does not stop.
    pub async fn freeze(&self) {
        self.signal(Signal::Stop);
        wait_until("the worker stands still", s(10), async || {
            stat(self.pid()).is_some_and(|stat| stat.state == STOPPED)
        })
        .await;
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::Cont);
    }
}

/// Waits until one of them is at work and all others stand by; returns its place.
///
/// # Panics
/// When it takes longer than `limit`.
pub async fn active(workers: &[&Worker], limit: Duration) -> usize {
    let mut at = None;
    wait_until("one is at work and the others stand by", limit, async || {
        let mut working = Vec::new();
        for (n, worker) in workers.iter().enumerate() {
            if !worker.stands_by().await {
                working.push(n);
            }
        }
        at = working.first().copied();
        working.len() == 1
    })
    .await;
    at.expect("one is at work")
}

/// An address for one worker. The port is below those that the system assigns by itself, so that no
/// other connection takes it before the worker does.
///
/// # Panics
/// When no port is free.
#[must_use]
pub fn free_address() -> SocketAddr {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 10_000;
    // Two runs of tests at the same time begin at different ports.
    static NEXT: LazyLock<AtomicU16> =
        LazyLock::new(|| AtomicU16::new(rand::rng().random_range(0..COUNT)));
    let mut ports = (0..COUNT).map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT);
    // Binding the port would hold it: a program that another test starts just then has a copy of
    // the socket until its exec.
    let free = ports.find(|port| TcpStream::connect(("127.0.0.1", *port)).is_err());
    SocketAddr::from(([127, 0, 0, 1], free.expect("a port is free")))
}

/// Waits until these workers together have published so many ids that looks of this kind have found.
/// A worker counts them when the broker has confirmed them, and they may be settled before that.
///
/// # Panics
/// When that takes more than 30 s.
pub async fn wait_swept(workers: &[&Worker], kind: &str, count: f64) {
    wait_until(&format!("{count} {kind} are counted as published"), s(30), async || {
        let mut swept = 0.0;
        for worker in workers {
            swept += worker.metrics().await.sum("tandem_swept_total", &[("kind", kind)]);
        }
        swept >= count
    })
    .await;
}
