//! The message on the queue: JSON with one or more transaction ids.
//!
//! A message is a hint, not the truth: losing one delays its transactions, a duplicate changes
//! nothing. Owns the format; fails with a sentence that becomes the dead letter's reason.

use serde::{Deserialize, Serialize};

use crate::transaction::{TransactionId, check_name};

/// The most ids of one message: it is claimed, retried and dead-lettered as one.
pub const IDS_MAX: usize = 1_000;

/// A hint that these transactions wait for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The transactions' `_id`s.
    pub ids: Vec<TransactionId>,
    /// How often none of the ids was found in the database.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// How often it was delivered alone and its worker did not live to acknowledge it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strikes: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Message {
    /// A fresh message.
    #[must_use]
    pub fn new(ids: Vec<TransactionId>) -> Message {
        Message { ids, tries: 0, strikes: 0 }
    }

    /// Splits many ids into messages of at most `size` ids (at most [`IDS_MAX`]) each.
    pub fn chunked(ids: &[TransactionId], size: usize) -> impl Iterator<Item = Message> {
        ids.chunks(size.clamp(1, IDS_MAX)).map(|ids| Message::new(ids.to_vec()))
    }

    /// Reads a delivery.
    ///
    /// # Errors
    /// Says why it is poison: not JSON, no ids, too many of them, or an impossible id.
    pub fn parse(body: &[u8]) -> Result<Message, String> {
        let message: Message = serde_json::from_slice(body)
            .map_err(|error| format!("not a message of the form {{\"ids\":[…]}}: {error}"))?;
        if message.ids.is_empty() {
            return Err("ids is empty".into());
        }
        if message.ids.len() > IDS_MAX {
            return Err(format!("{} ids; the limit is {IDS_MAX}", message.ids.len()));
        }
        for id in &message.ids {
            check_name("ids", id).map_err(|error| error.to_string())?;
        }
        Ok(message)
    }

    /// The bytes to publish.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always serialize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_as_what_was_written() {
        let message = Message { ids: vec!["a".into(), "b".into()], tries: 2, strikes: 1 };
        assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        assert_eq!(Message::parse(br#"{"ids":["a"]}"#), Ok(Message::new(vec!["a".into()])));
    }

    #[test]
    fn poison_is_named() {
        let many = format!("{{\"ids\":[{}]}}", vec!["\"a\""; IDS_MAX + 1].join(","));
        for (body, expected) in [
            ("{", "not a message"),
            ("[]", "not a message"),
            ("\u{0}", "not a message"),
            (r#"{"ids":[]}"#, "empty"),
            (r#"{"ids":[""]}"#, "empty"),
            (r#"{"ids":[1]}"#, "not a message"),
            (many.as_str(), "limit"),
        ] {
            let error = Message::parse(body.as_bytes()).expect_err(body);
            assert!(error.contains(expected), "{error}");
        }
    }
}
