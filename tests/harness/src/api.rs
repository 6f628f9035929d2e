//! The HTTP API of a world: `producer serve` as a process, and requests to it.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::http::{self, Answer};
use crate::process::Process;
use crate::wait::{s, wait_until};
use crate::worker::free_address;
use crate::world::World;

/// How long an answer may take, on a machine that is busy with other tests.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A running server; see [`Process`] for signals and its log.
pub struct Api {
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where probes and Prometheus find its pages.
    pub probes: SocketAddr,
    authorization: Option<String>,
}

impl Deref for Api {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Api {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl World {
    /// Starts the API and waits until it answers.
    ///
    /// # Panics
    /// When it ends, or does not answer in time.
    pub async fn api(&self, arguments: &[&str]) -> Api {
        self.api_with(arguments, &[]).await
    }

    /// The same with more environment.
    ///
    /// # Panics
    /// As [`World::api`].
    pub async fn api_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> Api {
        let mut api = self.launch_api(arguments, env);
        let address = api.address;
        api.wait_until_it_answers(address).await;
        api
    }

    /// Starts the API with a certificate, and waits until it serves.
    ///
    /// # Panics
    /// As [`World::api`].
    pub async fn api_by_tls(&self, arguments: &[&str]) -> Api {
        let mut api = self.launch_api(arguments, &[]);
        // Its probes speak no TLS, and answer when the API itself listens.
        let probes = api.probes;
        api.wait_until_it_answers(probes).await;
        api
    }

    fn launch_api(&self, arguments: &[&str], env: &[(&str, &str)]) -> Api {
        let (address, probes) = (free_address(), free_address());
        let (listen, http) = (address.to_string(), probes.to_string());
        let serve = ["serve", "--listen", listen.as_str(), "--http", http.as_str()];
        let process = self.spawn_producer(&[&serve, arguments].concat(), env);
        Api { process, address, probes, authorization: None }
    }

    /// Makes a token, and adds its line to the file of tokens.
    ///
    /// # Panics
    /// When it can't be made, or the line would hold the token itself.
    pub async fn token(&self, file: &Path, name: &str, scopes: &str) -> String {
        self.token_with(file, name, scopes, &[]).await
    }

    /// The same with more flags.
    ///
    /// # Panics
    /// As [`World::token`].
    pub async fn token_with(
        &self,
        file: &Path,
        name: &str,
        scopes: &str,
        flags: &[&str],
    ) -> String {
        let arguments = [&["token", name, "--scope", scopes], flags].concat();
        let made = self.producer(&arguments).await.expect_success();
        let before = std::fs::read_to_string(file).unwrap_or_default();
        std::fs::write(file, before + &made.stdout).expect("the file can be written");
        let token = made.stderr.split_whitespace().last().expect("it is shown").to_owned();
        assert!(!made.stdout.contains(&token), "the file holds no token");
        token
    }
}

impl Api {
    async fn wait_until_it_answers(&mut self, address: SocketAddr) {
        wait_until("the API answers", s(60), async || {
            assert!(self.exited().is_none(), "it has ended by itself");
            http::get(address, "/healthz").await.is_some_and(|answer| answer.status == 200)
        })
        .await;
    }

    /// Sends this token from now on.
    pub fn use_token(&mut self, token: &str) {
        self.authorization = Some(format!("Bearer {token}"));
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Sends JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[JSON], &body.to_string()).await
    }

    /// Sends JSON with more headers.
    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.send("POST", path, &[&[JSON], headers].concat(), &body.to_string()).await
    }

    /// Sends nothing.
    pub async fn act(&self, path: &str) -> Answer {
        self.send("POST", path, &[], "").await
    }

    /// Sends anything.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let authorization = self.authorization.as_deref().map(|token| ("Authorization", token));
        let headers: Vec<_> = authorization.into_iter().chain(headers.iter().copied()).collect();
        let answer = http::send(self.address, method, path, &headers, body, ANSWER_LIMIT).await;
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }
}
