//! The classes of answers: in which ways a command of Tandem fails.
//!
//! Owns codes, labels and how often. Promises that each way stands for a place in which the effect
//! may be: it surely has not happened, it has, or it happens when nobody waits any more.

use std::time::Duration;

use harness::failing::Failure;
use harness::proxy::Fault;
use mongodb::error::RETRYABLE_WRITE_ERROR;

/// Longer than a client with [`OP_LIMIT`](crate::ground::OP_LIMIT) waits for an answer.
pub const BLOCKED: Duration = Duration::from_millis(3_400);

/// More than the driver's own repetition bears.
const SEVERAL: usize = 3;

const LABELED: Option<&[&str]> = Some(&[RETRYABLE_WRITE_ERROR]);
const PLAIN: Option<&[&str]> = Some(&[]);
/// As the server itself labels such an error.
const SERVERS: Option<&[&str]> = None;

/// A way in which a command fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name in tables.
    pub name: &'static str,
    /// What happens to the command.
    pub fault: Fault,
    /// How many commands of the same name and purpose, one after the other, fail so.
    pub times: usize,
    /// Whether it is an error that no repetition cures, as far as anybody can see.
    pub lasts: bool,
}

impl Class {
    const fn of(name: &'static str, fault: Fault) -> Class {
        Class { name, fault, times: 1, lasts: false }
    }

    const fn error(
        name: &'static str,
        code: i32,
        labels: Option<&'static [&'static str]>,
    ) -> Class {
        Class::of(name, Fault::Server(Failure::Error { code, labels }))
    }

    const fn concern(
        name: &'static str,
        code: i32,
        labels: Option<&'static [&'static str]>,
    ) -> Class {
        Class::of(name, Fault::Server(Failure::WriteConcern { code, labels }))
    }

    const fn several(self) -> Class {
        Class { times: SEVERAL, ..self }
    }

    const fn lasting(self) -> Class {
        Class { lasts: true, ..self }
    }

    /// Whether only a command that waits for a write concern can fail so.
    #[must_use]
    pub fn needs_concern(&self) -> bool {
        matches!(self.fault, Fault::Server(Failure::WriteConcern { .. }))
    }
}

/// All classes.
pub const CLASSES: [Class; 21] = [
    // Before the effect.
    Class::error("error 91, labels of the server", 91, SERVERS),
    Class::error("error 91, labels of the server, 3 times", 91, SERVERS).several(),
    Class::error("error 10107 (not primary)", 10107, SERVERS),
    Class::error("error 112 (write conflict), no label", 112, PLAIN),
    Class::error("error 11601 (interrupted), no label", 11601, PLAIN),
    Class::error("error 50 (time limit), no label", 50, PLAIN),
    Class::error("error 96 (failed), no label", 96, PLAIN).lasting(),
    Class::error("error 13 (unauthorized), no label", 13, PLAIN).lasting(),
    Class::of("closed before", Fault::Server(Failure::Close)),
    Class::of("closed before, 3 times", Fault::Server(Failure::Close)).several(),
    // After the effect.
    Class::concern("write concern 91, retry label", 91, LABELED),
    Class::concern("write concern 91, retry label, 3 times", 91, LABELED).several(),
    Class::concern("write concern 91, no label", 91, PLAIN),
    Class::concern("write concern 64 (timeout), no label", 64, PLAIN),
    Class::concern("write concern 11601 (interrupted), no label", 11601, PLAIN),
    Class::concern("write concern 11601 (interrupted), no label, 3 times", 11601, PLAIN).several(),
    Class::concern("write concern 100 (unsatisfiable), no label", 100, PLAIN).lasting(),
    Class::of("closed after", Fault::ReplyLost),
    Class::of("closed after, 3 times", Fault::ReplyLost).several(),
    // Later than anybody waits.
    Class::of("closed, arrives late", Fault::Late),
    Class::of("blocked beyond the limit", Fault::Server(Failure::Block(BLOCKED))),
];

/// No class of answers: a refusal of what has been done. It is how a wrong class in a decision
/// would look, and has to turn every cell red.
pub const LIE: Class = Class::of("done, and answered with a refusal", Fault::Lie);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn classes_have_names_of_their_own_and_a_block_outlasts_every_wait_of_a_client() {
        let names: HashSet<&str> = CLASSES.iter().map(|class| class.name).collect();
        assert_eq!(names.len(), CLASSES.len());
        // What `Store::limited` waits.
        assert!(BLOCKED > crate::ground::OP_LIMIT * 2 + Duration::from_secs(2));
    }
}
