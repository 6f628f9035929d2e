//! A MongoDB replica set of a test's own, whose files are copied and put back as an operator does.
//!
//! Owns the steps of a backup: a secondary is locked for writing, its files are copied, it goes on;
//! and those of a restore: all members stop, each gets the copy, all start. Secondaries can be held
//! back. The set is always taken down with the value. Panics where an operator would stop and look.

use std::path::{Path, PathBuf};
use std::process::Command;

use mongodb::Client;
use mongodb::bson::doc;

use crate::deployment::{Deployment, Keep, STOP_LIMIT, Server, mongodb as member};
use crate::servers::{Servers, own, required, take_down};
use crate::wait::{eventually, s, wait_until};

const MEMBERS: usize = 3;

/// Three members.
pub struct OwnSet {
    deployment: Deployment,
    uri: String,
}

impl OwnSet {
    /// Starts them, and waits until there is a primary.
    ///
    /// # Panics
    /// When they do not start.
    pub async fn start(name: &str) -> OwnSet {
        let deployment = own(&format!("{name}-set"), Server::Mongodb).members(MEMBERS);
        let mut set = OwnSet { deployment, uri: String::new() };
        set.up().await;
        set
    }

    /// This set, beside the broker that the environment names.
    ///
    /// # Panics
    /// When it names none.
    #[must_use]
    pub fn servers(&self) -> Servers {
        Servers { mongodb_uri: self.uri.clone(), amqp_url: required("TANDEM_AMQP_URL") }
    }

    /// Copies the files of a secondary that is locked meanwhile. It has everything that a majority
    /// had when this was called.
    ///
    /// # Panics
    /// When it refuses, or the copy fails.
    pub async fn back_up(&self, into: &Path) {
        let (index, client) = self.secondaries(1).await.remove(0);
        self.wait_until_it_has_everything(&client).await;
        lock(&client).await;
        copy(&self.data(index), into);
        let admin = client.database("admin");
        admin.run_command(doc! { "fsyncUnlock": 1 }).await.expect("it can go on");
        // It belongs to the process.
        std::fs::remove_file(into.join("mongod.lock")).expect("it is in the copy");
    }

    /// From now on only the primary has what is written; the others are there, and fall behind.
    ///
    /// # Panics
    /// When one refuses.
    pub async fn hold_back_secondaries(&self) {
        for (_, client) in self.secondaries(MEMBERS - 1).await {
            lock(&client).await;
        }
    }

    /// Puts the files of a backup in the place of those of all members.
    ///
    /// # Panics
    /// When the set does not serve with them.
    pub async fn restore(&mut self, from: &Path) {
        self.deployment.down(STOP_LIMIT, Keep::Everything).await.expect("they stop");
        for index in 0..MEMBERS {
            std::fs::remove_dir_all(self.data(index)).expect("nobody uses it");
            copy(from, &self.data(index));
        }
        self.up().await;
    }

    async fn up(&mut self) {
        let addresses = self.deployment.up().await;
        self.uri = addresses.unwrap_or_else(|failure| panic!("{failure}")).mongodb_uri;
    }

    fn data(&self, index: usize) -> PathBuf {
        self.deployment.directory().data.join(format!("mongodb-{index}"))
    }

    /// All secondaries, once there are so many.
    async fn secondaries(&self, at_least: usize) -> Vec<(usize, Client)> {
        let ports: Vec<u16> = self.ports();
        eventually("there are secondaries", s(30), async || {
            let mut found = Vec::new();
            for (index, port) in ports.iter().enumerate() {
                let client = member::client(*port, s(5)).await.expect("the options are good");
                let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
                if hello.is_ok_and(|hello| hello.get_bool("secondary").unwrap_or(false)) {
                    found.push((index, client));
                }
            }
            (found.len() >= at_least).then_some(found)
        })
        .await
    }

    /// Waits until it has applied what the primary had when this was called.
    async fn wait_until_it_has_everything(&self, secondary: &Client) {
        let primary = Client::with_uri_str(&self.uri).await.expect("the uri is good");
        let hello = doc! { "hello": 1 };
        let write = async |client: &Client| {
            let hello = client.database("admin").run_command(hello.clone()).await.ok()?;
            hello
                .get_document("lastWrite")
                .ok()?
                .get_document("opTime")
                .ok()?
                .get_timestamp("ts")
                .ok()
        };
        let wanted = write(&primary).await.expect("it has written");
        wait_until("the secondary has it all", s(30), async || {
            write(secondary).await.is_some_and(|there| there >= wanted)
        })
        .await;
    }

    fn ports(&self) -> Vec<u16> {
        let set = self.deployment.mongodb().expect("it was started");
        set.members.iter().map(|member| member.port).collect()
    }
}

impl Drop for OwnSet {
    fn drop(&mut self) {
        take_down(&self.deployment);
    }
}

/// Nothing is written to it until it is unlocked.
async fn lock(member: &Client) {
    let admin = member.database("admin");
    admin.run_command(doc! { "fsync": 1, "lock": true }).await.expect("it can be locked");
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success(), "{} cannot be copied to {}", from.display(), to.display());
}
