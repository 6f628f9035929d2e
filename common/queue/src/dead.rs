//! The dead-letter queue, as somebody reads it who decides what becomes of the letters.
//!
//! Owns a connection for the time of one look. Promises that looking takes nothing out: a letter
//! that is not removed is in the queue again when the look ends, also when the process dies. While
//! a look lasts, another one does not see what this one holds. Fails with the broker's error; what
//! was removed until then is removed, so a new look goes on where this one stopped.

use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Acker, BasicProperties, Channel, Connection};
use ledger::hex::hex;
use settings::AmqpSettings;
use sha2::{Digest, Sha256};

use super::{DEAD, QueueError, Topology, answered, channel, close, connect};

/// The header that says why, as one word.
pub(super) const REASON: &str = "tandem-reason";
/// The header that says why, as a sentence.
pub(super) const DETAIL: &str = "tandem-detail";

/// The header in which the broker says what has happened to a message, the last of it first.
const DEATHS: &str = "x-death";

/// The reason of a letter that the broker has put there because it was delivered too often.
const BY_THE_BROKER: &str = "delivery_limit";

/// The reason of a letter that the broker has put there because a worker rejected it: it was no
/// message.
const REJECTED: &str = "malformed";

/// The reason of a letter that somebody else has put there.
const UNKNOWN: &str = "unknown";

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Made of what it says and when it was given up: letters that are equal in this have the same.
    pub id: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, as a sentence.
    pub detail: String,
    /// When, in seconds since 1970 on the clock of the worker that gave it up.
    pub died_at: Option<u64>,
    /// The message as it came.
    pub body: Vec<u8>,
}

/// A letter that a look holds.
#[derive(Debug)]
pub struct HeldLetter {
    /// What it says.
    pub letter: DeadLetter,
    acker: Acker,
}

impl HeldLetter {
    /// Takes the letter out of the queue for good. When the answer gets lost it may be in the queue
    /// still.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn remove(&self) -> Result<(), QueueError> {
        let removed = self.acker.ack(BasicAckOptions::default());
        match answered("removing a dead letter", removed).await? {
            true => Ok(()),
            false => Err(QueueError::NotTaken("the look is over".into())),
        }
    }
}

/// One look through the queue.
pub struct DeadLetters {
    connection: Connection,
    channel: Channel,
    queue: String,
    first: Option<HeldLetter>,
    /// Those behind the first.
    left: u32,
}

impl DeadLetters {
    /// Begins a look at what is in the queue now.
    ///
    /// # Errors
    /// When the broker is away, or the queue is missing and can't be declared.
    pub async fn look(args: &AmqpSettings, name: &str) -> Result<DeadLetters, QueueError> {
        let topology = Topology::new(&args.queue_prefix);
        let connection = connect(&args.amqp_url, &format!("{name} dead letters")).await?;
        topology.declare(&connection).await?;
        let channel = channel(&connection).await?;
        let queue = topology.queue(DEAD);
        // A broker says the depth of a queue as it was some time ago; how many are behind a
        // message, it says as it is when it takes out the message.
        let (first, left) = match get(&channel, &queue).await? {
            Some((first, behind)) => (Some(first), behind),
            None => (None, 0),
        };
        Ok(DeadLetters { connection, channel, queue, first, left })
    }

    /// How many letters it has not come to yet.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left + u32::from(self.first.is_some())
    }

    /// The next letter. `None` at the end: what has come since the look began is for another one.
    ///
    /// # Errors
    /// When the broker is away.
    pub async fn next(&mut self) -> Result<Option<HeldLetter>, QueueError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let Some((held, _)) = get(&self.channel, &self.queue).await? else {
            self.left = 0;
            return Ok(None);
        };
        Ok(Some(held))
    }

    /// Ends the look: what was not removed is in the queue again. So the next look sees it, as far
    /// as the broker answers this one.
    pub async fn close(self) {
        // All that this channel holds. Without it the broker puts letters back some time after it
        // has said that the connection is closed.
        let options = BasicNackOptions { multiple: true, requeue: true };
        if let Err(error) =
            answered("giving dead letters back", self.channel.basic_nack(0, options)).await
        {
            tracing::debug!(%error, "the channel was already gone");
        }
        close(&self.connection).await;
    }
}

/// Holds the next letter; says how many are behind it.
async fn get(channel: &Channel, queue: &str) -> Result<Option<(HeldLetter, u32)>, QueueError> {
    let got = channel.basic_get(queue.into(), BasicGetOptions { no_ack: false });
    let Some(message) = answered("reading a dead letter", got).await? else {
        return Ok(None);
    };
    let (delivery, behind) = (message.delivery, message.message_count);
    let letter = letter(&delivery.properties, delivery.data);
    Ok(Some((HeldLetter { letter, acker: delivery.acker }, behind)))
}

fn letter(properties: &BasicProperties, body: Vec<u8>) -> DeadLetter {
    let headers = properties.headers().clone().unwrap_or_default();
    let (reason, detail) = match text(&headers, REASON) {
        Some(reason) => (reason, text(&headers, DETAIL).unwrap_or_default()),
        None if was_rejected(&headers) => {
            let detail = "a worker could not use it, and the broker took no dead letter from it";
            (REJECTED.to_owned(), detail.to_owned())
        }
        None if headers.contains_key(DEATHS) => {
            let detail = "the broker delivered it too often, and nobody finished it";
            (BY_THE_BROKER.to_owned(), detail.to_owned())
        }
        None => (UNKNOWN.to_owned(), "it was not put here by a worker".to_owned()),
    };
    let died_at = *properties.timestamp();
    let id = id(&reason, died_at, &body);
    DeadLetter { id, reason, detail, died_at, body }
}

/// Whether the broker has put it there because a worker rejected it.
fn was_rejected(headers: &FieldTable) -> bool {
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get(DEATHS) else { return false };
    match deaths.as_slice().first() {
        Some(AMQPValue::FieldTable(last)) => text(last, "reason").as_deref() == Some("rejected"),
        Some(_) | None => false,
    }
}

fn text(headers: &FieldTable, name: &str) -> Option<String> {
    match headers.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        _ => None,
    }
}

fn id(reason: &str, died_at: Option<u64>, body: &[u8]) -> String {
    const BYTES: usize = 8;
    let mut digest = Sha256::new();
    digest.update(reason);
    digest.update([0]);
    digest.update(died_at.unwrap_or_default().to_be_bytes());
    digest.update(body);
    hex(&digest.finalize()[..BYTES])
}

#[cfg(test)]
mod tests {
    use lapin::types::{FieldArray, LongString};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> BasicProperties {
        let mut table = FieldTable::default();
        for (name, value) in pairs {
            table.insert((*name).into(), AMQPValue::LongString(LongString::from(*value)));
        }
        BasicProperties::default().with_headers(table)
    }

    #[test]
    fn a_letter_says_why_whoever_put_it_there() {
        let reason = |properties| letter(&properties, b"{}".to_vec()).reason;
        assert_eq!(reason(headers(&[("tandem-reason", "malformed")])), "malformed");
        assert_eq!(reason(headers(&[("x-death", "")])), "delivery_limit");
        let died = |why: &str| {
            let last = headers(&[("reason", why)]).headers().clone().expect("they were given");
            let mut table = FieldTable::default();
            let deaths: FieldArray = vec![AMQPValue::FieldTable(last)].into();
            table.insert(DEATHS.into(), AMQPValue::FieldArray(deaths));
            BasicProperties::default().with_headers(table)
        };
        assert_eq!(reason(died("delivery_limit")), "delivery_limit");
        assert_eq!(reason(died("rejected")), "malformed");
        assert_eq!(reason(headers(&[])), "unknown");
        assert_eq!(reason(BasicProperties::default()), "unknown");
    }

    #[test]
    fn letters_that_differ_have_different_ids_and_the_same_letter_has_the_same() {
        let ids = [
            id("malformed", Some(1), b"a"),
            id("malformed", Some(2), b"a"),
            id("malformed", None, b"a"),
            id("malformed", Some(1), b"b"),
            id("unknown", Some(1), b"a"),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(id("malformed", Some(1), b"a"), ids[0]);
    }
}
