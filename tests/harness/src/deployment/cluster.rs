//! A RabbitMQ cluster: nodes, each in a directory of its own, joined into one broker.
//!
//! The first node is started as it is. The others get its cookie and its port mapper before they
//! start, and join it once they serve. From then on each is an ordinary node: it can be killed, and
//! [`Deployment::up`] brings it back into the cluster. When a step fails, what runs stays for the
//! caller to take down.

use std::path::PathBuf;

use futures_util::future::try_join_all;

use super::directory::State;
use super::rabbitmq::{Node, home};
use super::{Deployment, Server, ports};
use crate::console::{Failure, say};

const COOKIE: &str = ".erlang.cookie";

/// Starts a node in each directory, and joins them.
///
/// # Errors
/// When a node does not start, or does not join.
pub async fn up(directories: &[PathBuf]) -> Result<Vec<Deployment>, Failure> {
    let node = |path: &PathBuf| Deployment::new(path).only(Server::Rabbitmq).private();
    let mut nodes: Vec<Deployment> = directories.iter().map(node).collect();
    let Some((first, others)) = nodes.split_first_mut() else { return Ok(nodes) };
    first.up().await?;
    for node in others.iter_mut() {
        introduce(first, node)?;
    }
    try_join_all(others.iter_mut().map(Deployment::up)).await?;
    for node in others.iter() {
        join(first, node).await?;
    }
    Ok(nodes)
}

/// Gives a node that has never run the first one's cookie and port mapper.
fn introduce(first: &Deployment, node: &Deployment) -> Result<(), Failure> {
    let known = node_of(first)?;
    let directory = &node.directory;
    directory.create()?;
    // The node reserves them no more once this function returns, and starts at once.
    let chosen = ports::choose(2)?;
    let [port, dist_port] = [chosen[0].port, chosen[1].port];
    let epmd = known.epmd.clone();
    let rabbitmq = Some(Node { epmd, ..Node::at([port, dist_port, known.epmd_port]) });
    directory.save(&State { rabbitmq, mongodb: None })?;
    let (from, to) = (home(&first.directory).join(COOKIE), home(directory).join(COOKIE));
    let copied = std::fs::create_dir_all(home(directory)).and_then(|()| std::fs::copy(&from, &to));
    copied.map(|_| ()).map_err(|error| Failure(format!("{}: {error}", from.display())))
}

async fn join(first: &Deployment, node: &Deployment) -> Result<(), Failure> {
    let (known, name) = (node_of(first)?.node.clone(), node_of(node)?.node.clone());
    say(format!("rabbitmq: {name} joins {known}"));
    for arguments in [&["stop_app"][..], &["join_cluster", &known], &["start_app"]] {
        node.rabbitmqctl(arguments).await?;
    }
    Ok(())
}

fn node_of(deployment: &Deployment) -> Result<&Node, Failure> {
    deployment.rabbitmq().ok_or_else(|| Failure("no broker was started".to_owned()))
}
