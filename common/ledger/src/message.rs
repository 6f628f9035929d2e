//! The message on the queue: JSON with one or more transaction ids.
//!
//! A message is a hint, not the truth: losing one delays its transactions, a duplicate changes
//! nothing. Owns the format. Anybody with a login at the broker may publish messages, so an id that
//! no transaction can have is told apart from its neighbours, and costs them nothing. Fails with a
//! sentence that becomes the dead letter's reason; foreign text in it is cut.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::{MESSAGE_BYTES_MAX, echo};
use crate::transaction::{TransactionId, check_name};

pub use crate::limits::MESSAGE_IDS_MAX;

/// The form of a message, for errors.
const FORM: &str = "{\"ids\":[…]}";

/// A hint that these transactions wait for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// The transactions' `_id`s.
    pub ids: Vec<TransactionId>,
    /// How often none of the ids was found in the database.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// How often it was delivered alone and its worker did not live to acknowledge it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strikes: u32,
    /// How often the messages that it stands for were delivered from the work queue and not
    /// finished. The broker counts the deliveries of one message only; whoever publishes its ids
    /// again adds what it has counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deliveries: u32,
    /// A sweeper's marker, which has no ids: when it was published, on the database's clock, in
    /// milliseconds. Whoever gets it knows that all that was published before has been delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<i64>,
}

/// A delivery as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The message with those of its ids that a transaction may have; it may be left with none.
    pub message: Message,
    /// The others.
    pub bad: Vec<BadId>,
}

/// An element of `ids` that is no transaction's `_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadId {
    /// What stands there, as JSON.
    pub id: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A message whose ids may be anything that JSON's grammar allows: also what no value of ours can
/// hold, like half a character or a number beyond every float.
#[derive(Deserialize)]
struct Lenient<'a> {
    #[serde(borrow)]
    ids: Vec<&'a RawValue>,
    #[serde(default)]
    tries: u32,
    #[serde(default)]
    strikes: u32,
    #[serde(default)]
    deliveries: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Message {
    /// A fresh message.
    #[must_use]
    pub fn new(ids: Vec<TransactionId>) -> Message {
        Message { ids, tries: 0, strikes: 0, deliveries: 0, marker: None }
    }

    /// A sweeper's marker, published at this moment of the database's clock.
    #[must_use]
    pub fn marker(published: i64) -> Message {
        Message { marker: Some(published), ..Message::new(Vec::new()) }
    }

    /// Splits many ids into messages of at most `size` ids (at most [`MESSAGE_IDS_MAX`]) each.
    pub fn chunked(ids: &[TransactionId], size: usize) -> impl Iterator<Item = Message> {
        ids.chunks(size.clamp(1, MESSAGE_IDS_MAX)).map(|ids| Message::new(ids.to_vec()))
    }

    /// Reads a delivery.
    ///
    /// # Errors
    /// Says why nothing of it can be used: too large, not JSON of our form, no ids, too many of
    /// them.
    pub fn parse(body: &[u8]) -> Result<Parsed, String> {
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(format!("{} bytes; the limit is {MESSAGE_BYTES_MAX}", body.len()));
        }
        // A list would be read as the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(format!("not a message of the form {FORM}: not an object"));
        }
        // Nearly all messages have only good ids; these are read without a tree.
        match serde_json::from_slice::<Message>(body) {
            Ok(message) => {
                require_count(message.ids.len(), message.marker.is_some())?;
                Ok(sort_out(message))
            }
            Err(_) => {
                let lenient = serde_json::from_slice::<Lenient<'_>>(body).map_err(|error| {
                    let problem = error.to_string();
                    format!("not a message of the form {FORM}: {}", echo(&problem))
                })?;
                require_count(lenient.ids.len(), false)?;
                Ok(sort_out_values(lenient))
            }
        }
    }

    /// The bytes to publish.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always serialize")
    }
}

/// Looks at the number of ids before anything is made of them: what is told of a bad id takes a
/// hundred bytes, and the id itself may be two.
fn require_count(count: usize, is_marker: bool) -> Result<(), String> {
    match count {
        0 if !is_marker => Err("ids is empty".to_owned()),
        count if count > MESSAGE_IDS_MAX => {
            Err(format!("{count} ids; the limit is {MESSAGE_IDS_MAX}"))
        }
        _ => Ok(()),
    }
}

fn sort_out(mut message: Message) -> Parsed {
    let mut bad = Vec::new();
    // With ids it is no marker, whatever else it says.
    if !message.ids.is_empty() {
        message.marker = None;
    }
    message.ids.retain(|id| match check_name("ids", id) {
        Ok(()) => true,
        Err(error) => {
            let id = serde_json::to_string(id).expect("a text always serializes");
            bad.push(BadId { id, problem: error.to_string() });
            false
        }
    });
    Parsed { message, bad }
}

fn sort_out_values(lenient: Lenient<'_>) -> Parsed {
    let Lenient { ids, tries, strikes, deliveries } = lenient;
    let (mut texts, mut bad) = (Vec::new(), Vec::new());
    for id in ids {
        match serde_json::from_str::<TransactionId>(id.get()) {
            Ok(text) => texts.push(text),
            Err(_) => bad.push(BadId {
                id: id.get().to_owned(),
                problem: "ids: holds something else than a string".to_owned(),
            }),
        }
    }
    let mut parsed = sort_out(Message { tries, strikes, deliveries, ..Message::new(texts) });
    parsed.bad.append(&mut bad);
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::NAME_BYTES_MAX;

    fn good(message: Message) -> Parsed {
        Parsed { message, bad: Vec::new() }
    }

    #[test]
    fn messages_read_back_as_what_was_written() {
        let ids = vec!["a".into(), "b".into()];
        let message = Message { tries: 2, strikes: u32::MAX, deliveries: 3, ..Message::new(ids) };
        assert_eq!(Message::parse(&message.to_bytes()), Ok(good(message)));
        let plain = Message::new(vec!["a".into()]);
        assert_eq!(Message::parse(br#"{"ids":["a"]}"#), Ok(good(plain)));
        let with_ids = Message::parse(br#"{"ids":["a"],"marker":5}"#).expect("a message");
        assert_eq!(with_ids.message.marker, None, "its ids are not forgotten for a marker");
        let marker = Message::marker(1_000);
        assert_eq!(Message::parse(&marker.to_bytes()), Ok(good(marker)));
    }

    #[test]
    fn the_largest_message_of_the_longest_ids_is_read() {
        let id: TransactionId = "\"".repeat(NAME_BYTES_MAX).into();
        let message = Message::new(vec![id; MESSAGE_IDS_MAX]);
        assert_eq!(Message::parse(&message.to_bytes()), Ok(good(message)));
    }

    #[test]
    fn poison_is_named() {
        let many = format!("{{\"ids\":[{}]}}", vec!["\"a\""; MESSAGE_IDS_MAX + 1].join(","));
        let many_bad = format!("{{\"ids\":[{}]}}", vec!["1"; MESSAGE_IDS_MAX + 1].join(","));
        let text = format!("{{\"ids\":\"{}\"}}", "x".repeat(200_000));
        let large = format!("{{\"ids\":[\"{}\"]}}", "x".repeat(MESSAGE_BYTES_MAX));
        for (body, expected) in [
            ("{", "not a message"),
            ("[]", "not a message"),
            (r#"[["a"],0,0]"#, "not an object"),
            ("\u{0}", "not a message"),
            (r#"{"ids":{}}"#, "not a message"),
            (r#"{"ids":["a"],"tries":-1}"#, "not a message"),
            (r#"{"ids":["a"],"strikes":4294967296}"#, "not a message"),
            (r#"{"ids":["a"],"ids":["b"]}"#, "not a message"),
            (r#"{"ids":[]}"#, "empty"),
            (many.as_str(), "1001 ids; the limit"),
            (many_bad.as_str(), "1001 ids; the limit"),
            (text.as_str(), "not a message"),
            (large.as_str(), "bytes; the limit"),
        ] {
            let error = Message::parse(body.as_bytes()).expect_err(expected);
            assert!(error.contains(expected), "{error}");
            assert!(error.len() < 1_000, "{} bytes", error.len());
        }
    }

    #[test]
    fn a_bad_id_costs_its_neighbours_nothing() {
        let long = "x".repeat(9_000);
        for (bad, expected) in [
            ("\"\"".to_owned(), "empty"),
            ("\"bad\\n\"".to_owned(), "control"),
            ("\"bad\\u0085\"".to_owned(), "control"),
            (format!("\"{long}\""), "longer than"),
            ("1".to_owned(), "a string"),
            ("null".to_owned(), "a string"),
            (format!("[\"{long}\"]"), "a string"),
            (r#""\ud800""#.to_owned(), "a string"),
            ("1e999".to_owned(), "a string"),
            (format!("{}{}", "[".repeat(1_000), "]".repeat(1_000)), "a string"),
        ] {
            let body = format!("{{\"ids\":[\"a\",{bad},\"b\"],\"tries\":3}}");
            let Parsed { message, bad: found } =
                Message::parse(body.as_bytes()).expect("two good ids");
            assert_eq!(message, Message { tries: 3, ..Message::new(vec!["a".into(), "b".into()]) });
            let [found] = &found[..] else { panic!("one bad id, not {found:?}") };
            // As it stood, or as we would write it.
            let same = serde_json::from_str::<String>(&found.id).ok()
                == serde_json::from_str::<String>(&bad).ok();
            assert!(found.id == bad || same, "{found:?}");
            assert!(found.problem.contains(expected), "{found:?}");
        }
        let parsed = Message::parse(br#"{"ids":["",7]}"#).expect("a message of ours");
        assert_eq!((parsed.message.ids.len(), parsed.bad.len()), (0, 2));
    }
}
