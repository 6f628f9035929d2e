//! What each program has to do on the broker, as permissions of RabbitMQ: three patterns for the
//! names of queues and exchanges.
//!
//! Owns the patterns. They stand for whole names, and whatever the prefix has in it stands for
//! itself. Nobody may configure, which is for whoever runs `producer init`, but the queues in which
//! a waiting program listens to events: those live as long as its connection.

use super::{DEAD, SOLO, TURN, Topology, WORK};

/// The pattern that no name has.
const NOTHING: &str = "^$";

/// What a user may do, as `rabbitmqctl set_permissions` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Whose: the name of its role in MongoDB.
    pub role: &'static str,
    /// What it may declare and delete.
    pub configure: String,
    /// What it may publish to, and bind.
    pub write: String,
    /// What it may consume, and bind to.
    pub read: String,
}

/// Those of a worker, a producer and the API; an auditor needs no broker.
#[must_use]
pub fn permissions(topology: &Topology) -> [Permissions; 3] {
    let exchange = escaped(&topology.exchange());
    let events = escaped(&topology.events_exchange());
    let retry = escaped(&topology.retry_exchange());
    let queue = |key| escaped(&topology.queue(key));
    let (work, solo, dead, turn) = (queue(WORK), queue(SOLO), queue(DEAD), queue(TURN));
    // Its own queues of events, whose names go on after the exchange's.
    let listening = format!("{events}\\..+");
    let client = |role, read: String| Permissions {
        role,
        configure: whole(&listening),
        write: whole(&format!("{exchange}|{listening}")),
        read: whole(&read),
    };
    let heard = format!("{events}|{listening}");
    [
        Permissions {
            role: "tandem-worker",
            configure: NOTHING.to_owned(),
            write: whole(&format!("{exchange}|{retry}|{events}")),
            read: whole(&format!("{work}|{solo}|{turn}")),
        },
        client("tandem-producer", heard.clone()),
        client("tandem-api", format!("{heard}|{dead}")),
    ]
}

fn whole(pattern: &str) -> String {
    format!("^({pattern})$")
}

/// A name as a pattern for itself.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_punctuation() && !"_-".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_itself() {
        let [worker, ..] = permissions(&Topology::new("a.b*c"));
        assert_eq!(worker.write, r"^(a\.b\*c|a\.b\*c\.retry|a\.b\*c\.events)$");
        assert_eq!(worker.read, r"^(a\.b\*c\.work\.v1|a\.b\*c\.solo\.v1|a\.b\*c\.turn\.v1)$");
        assert_eq!(worker.configure, NOTHING);
    }
}
