//! Starts the servers of a deployment that do not run.
//!
//! Each process is written down before the next one starts. What one call has started is killed
//! when the call does not end well.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::identity::Identity;
use super::mongodb::{self, ReplicaSet};
use super::rabbitmq::{self, Node, Reports};
use super::{Deployment, Server, daemon, ports, programs, sweep};
use crate::console::{Failure, say};

impl Deployment {
    /// Starts what does not run; returns where the broker will report itself, if it was started.
    pub(super) async fn start(
        &mut self,
        starting: &mut Starting,
    ) -> Result<Option<Reports>, Failure> {
        self.directory.create()?;
        self.state = self.directory.load()?;
        let own = self.own();
        if own.contains(&Server::Mongodb) {
            self.start_mongodb(starting).await?;
        }
        if own.contains(&Server::Rabbitmq) { self.start_rabbitmq(starting).await } else { Ok(None) }
    }

    async fn start_mongodb(&mut self, starting: &mut Starting) -> Result<(), Failure> {
        if self.state.mongodb.is_none() {
            let ports = starting.reserve(self.members.unwrap_or(1))?;
            let set = ReplicaSet::at(&ports, self.frugal);
            self.state.mongodb = Some(ReplicaSet { test_commands: self.test_commands, ..set });
            self.directory.save(&self.state)?;
        }
        let Some(set) = self.state.mongodb.clone() else { return Ok(()) };
        let present = set.members.len();
        if let Some(members) = self.members.filter(|members| *members != present) {
            return Err(Failure(format!(
                "{} holds a replica set with {present} member(s), not {members}: choose another \
                 --dir, or `deploy/down --wipe` it first",
                self.directory.path.display()
            )));
        }
        for (index, member) in set.members.iter().enumerate() {
            if member.is_alive() {
                continue;
            }
            let (name, data) = (mongodb::name(index), mongodb::data(&self.directory, index));
            // A member that was started and never written down would hold the files.
            sweep(&data)?;
            ports::require_free(member.port, &name).await?;
            say(format!("{name}: starting on 127.0.0.1:{}", member.port));
            std::fs::create_dir_all(&data)
                .map_err(|error| Failure(format!("{}: {error}", data.display())))?;
            let mut command = set.command(&self.directory, index, &programs::mongod()?);
            let log = mongodb::output(&self.directory, index);
            let process = starting.start(&mut command, &log, data)?;
            if let Some(set) = &mut self.state.mongodb {
                set.members[index].process = Some(process);
            }
            self.directory.save(&self.state)?;
        }
        Ok(())
    }

    async fn start_rabbitmq(
        &mut self,
        starting: &mut Starting,
    ) -> Result<Option<Reports>, Failure> {
        let directory = self.directory.clone();
        if self.state.rabbitmq.is_none() {
            let ports = starting.reserve(3)?;
            self.state.rabbitmq = Some(Node::at([ports[0], ports[1], ports[2]]));
            directory.save(&self.state)?;
        }
        let Some(mut node) = self.state.rabbitmq.clone() else { return Ok(None) };
        if !node.epmd.as_ref().is_some_and(Identity::is_alive) {
            sweep(&rabbitmq::epmd_mark(&directory))?;
            ports::require_free(node.epmd_port, "RabbitMQ's epmd").await?;
            let mut command = node.epmd_command(&directory, &programs::epmd()?);
            let (log, mark) = (rabbitmq::epmd_output(&directory), rabbitmq::epmd_mark(&directory));
            node.epmd = Some(starting.start(&mut command, &log, mark)?);
            self.state.rabbitmq = Some(node.clone());
            directory.save(&self.state)?;
            node.wait_for_epmd(&directory).await?;
        }
        if node.process.as_ref().is_some_and(Identity::is_alive) {
            return Ok(None);
        }
        // What a killed node has left behind would hold its files.
        sweep(&rabbitmq::home(&directory))?;
        for (port, what) in node.ports() {
            ports::require_free(port, what).await?;
        }
        say(format!("rabbitmq: starting on 127.0.0.1:{}", node.port));
        let (mut command, reports) = node.command(&directory, &programs::rabbitmq_server()?)?;
        let (log, mark) = (rabbitmq::output(&directory), rabbitmq::home(&directory));
        node.process = Some(starting.start(&mut command, &log, mark)?);
        self.state.rabbitmq = Some(node);
        directory.save(&self.state)?;
        Ok(Some(reports))
    }
}

/// What one call of [`Deployment::up`] has started; killed with the value unless it succeeded.
#[derive(Default)]
pub(super) struct Starting {
    marks: Vec<PathBuf>,
    reserved: Vec<ports::Reserved>,
}

impl Starting {
    /// Chooses ports, which stay reserved until the servers listen.
    fn reserve(&mut self, count: usize) -> Result<Vec<u16>, Failure> {
        let chosen = ports::choose(count)?;
        let ports = chosen.iter().map(|one| one.port).collect();
        self.reserved.extend(chosen);
        Ok(ports)
    }

    fn start(
        &mut self,
        command: &mut Command,
        log: &Path,
        mark: PathBuf,
    ) -> Result<Identity, Failure> {
        let started = daemon::start(command, log, &mark)?;
        self.marks.push(mark);
        Ok(started)
    }

    /// Lets everything run on; whether anything was started.
    pub(super) fn succeeded(mut self) -> bool {
        !std::mem::take(&mut self.marks).is_empty()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        for mark in &self.marks {
            if let Err(failure) = sweep(mark) {
                say(failure);
            }
        }
    }
}
