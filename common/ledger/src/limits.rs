//! The limits on names, documents, messages and texts that others write, and how foreign text is
//! shown.
//!
//! A limit that only one part has (how much memory it takes, how many callers it serves) stands in
//! that part; the page `deploy/limits.md` is made of all of them. Documents, messages and files are
//! written by others, too. Whatever is read from them is checked once, where it is read, against
//! these numbers, so that everything behind that point may rely on them. The relations between the
//! numbers are asserted at compile time. [`echo`] is the only way in which foreign text gets into
//! an error, a reason, a header or a log line.

use std::borrow::Cow;

/// The longest `_id`, account name or currency, in bytes of UTF-8. An account's document holds one
/// mark (a transaction's `_id`) for every transaction in flight on it.
pub const NAME_BYTES_MAX: usize = 200;

/// The most legs of one transaction: all of them are in one document and in one batch of writes.
pub const LEGS_MAX: usize = 1_000;

/// The most marks of holds on one account. They may stay for days, and the account's document is
/// written anew with each posting to it.
pub const HOLDS_MAX: u32 = 1_000;

/// The largest `legs` array in bytes of BSON, fields that Tandem does not know included.
pub const LEGS_BYTES_MAX: usize = 512 << 10;

/// The largest `metadata` in bytes of BSON.
pub const METADATA_BYTES_MAX: usize = 256 << 10;

/// How deep `metadata` may be nested, itself included; the server allows 100 levels in all.
pub const METADATA_DEPTH_MAX: usize = 32;

/// The longest transaction or account as text, in bytes: a line of a file, a body, or an item of an
/// array. A value of JSON may be two bytes of text and a hundred of memory.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The most ids of one message: it is claimed, retried and dead-lettered as one.
pub const MESSAGE_IDS_MAX: usize = 1_000;

/// The largest body of a message that is looked at, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The longest reason that a person gives for an adjustment, a floor or an act, in bytes: people
/// read it.
pub const REASON_BYTES_MAX: usize = 1_000;

/// The longest name of a queue, an exchange, a consumer or a virtual host: AMQP counts their bytes
/// in one.
pub const AMQP_NAME_BYTES_MAX: usize = 255;

/// The longest prefix of queues and exchanges, in bytes.
pub const QUEUE_PREFIX_BYTES_MAX: usize = 200;

/// The longest name of a worker, in bytes.
pub const APPLICATION_BYTES_MAX: usize = 100;

/// The longest name of a client that MongoDB takes, in bytes.
pub const MONGODB_CLIENT_BYTES_MAX: usize = 128;

/// The longest name of a database that MongoDB takes, in bytes.
pub const DATABASE_BYTES_MAX: usize = 63;

/// The most transactions in one state that an overview counts.
pub const COUNTED_MAX: u64 = 100_000;

/// The most workers that are read for an overview: those that were seen last.
pub const WORKERS_MAX: usize = 200;

/// The largest document in which a worker says how it is, in bytes.
pub const WORKER_BYTES_MAX: usize = 4_000;

/// The most bytes of a foreign text that are shown.
pub const ECHO_BYTES_MAX: usize = 500;

/// The largest document of MongoDB, in bytes.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// What a leg takes beside its account's name: two field names, types, lengths, a Decimal128, its
/// own length and its index in the list.
const LEG_OVERHEAD_BYTES: usize = 64;

/// What a transaction takes beside legs and metadata: two dozen short fields, most of them names.
const FIELDS_BYTES: usize = 8 << 10;

/// What surrounds the ids of a message.
const MESSAGE_OVERHEAD_BYTES: usize = 1 << 10;

/// What is put after a prefix to name a queue, or around a worker's name to name a connection.
const NAME_OVERHEAD_BYTES: usize = 20;

/// What `echo` adds to a text that it has cut.
const ECHO_NOTE_BYTES_MAX: usize = 40;

// The most legs with the longest names fit.
const _: () = assert!(LEGS_MAX * (NAME_BYTES_MAX + LEG_OVERHEAD_BYTES) <= LEGS_BYTES_MAX);
// The largest transaction, with what is captured of its legs, is a document with much room to
// spare.
const _: () =
    assert!(2 * LEGS_BYTES_MAX + METADATA_BYTES_MAX + FIELDS_BYTES <= DOCUMENT_BYTES_MAX / 8);
// The largest transaction fits its text, if that is not full of escapes.
const _: () = assert!(LEGS_BYTES_MAX + METADATA_BYTES_MAX + FIELDS_BYTES <= TEXT_BYTES_MAX);
// The most ids with the longest names fit a message, even if JSON escapes every character of them.
const _: () = assert!(
    MESSAGE_IDS_MAX * (2 * NAME_BYTES_MAX + 3) + MESSAGE_OVERHEAD_BYTES <= MESSAGE_BYTES_MAX
);
// A name is never cut when it is shown.
const _: () = assert!(NAME_BYTES_MAX < ECHO_BYTES_MAX);
// The longest names that are made of a prefix or of a worker's name are taken.
const _: () = assert!(QUEUE_PREFIX_BYTES_MAX + NAME_OVERHEAD_BYTES <= AMQP_NAME_BYTES_MAX);
const _: () = assert!(APPLICATION_BYTES_MAX + NAME_OVERHEAD_BYTES <= MONGODB_CLIENT_BYTES_MAX);
const _: () = assert!(APPLICATION_BYTES_MAX + NAME_OVERHEAD_BYTES <= AMQP_NAME_BYTES_MAX);
// A few texts fit the frame of a message's headers, which is 128 KiB and closes the connection.
const _: () = assert!(16 * (ECHO_BYTES_MAX + ECHO_NOTE_BYTES_MAX) < 128 << 10);

/// A foreign text as it may be shown: at most [`ECHO_BYTES_MAX`] bytes of it, with its length where
/// it was cut, and with a `?` for each control character. A valid name comes back as it is.
#[must_use]
pub fn echo(text: &str) -> Cow<'_, str> {
    let start = &text[..char_boundary(text)];
    let cut = start.len() < text.len();
    if !cut && !start.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = start.replace(char::is_control, "?");
    if cut {
        shown.push_str(&format!("… ({} bytes)", text.len()));
    }
    Cow::Owned(shown)
}

/// [`echo`] for bytes that may not be text at all.
#[must_use]
pub fn echo_bytes(bytes: &[u8]) -> String {
    // Only the beginning is decoded. Where the cut splits a character, that one shows as `�`.
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(ECHO_BYTES_MAX)]);
    let end = char_boundary(&start);
    let shown = echo(&start[..end]);
    if end == start.len() && bytes.len() <= ECHO_BYTES_MAX {
        shown.into_owned()
    } else {
        format!("{shown}… ({} bytes)", bytes.len())
    }
}

/// Where to cut a text to at most [`ECHO_BYTES_MAX`] bytes without splitting a character.
fn char_boundary(text: &str) -> usize {
    if text.len() <= ECHO_BYTES_MAX {
        return text.len();
    }
    (0..=ECHO_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_cut_at_a_character_and_says_how_long_it_was() {
        let long = "ä".repeat(ECHO_BYTES_MAX);
        let odd = format!("x{long}");
        for (text, expected) in [
            ("plain", "plain".to_owned()),
            ("bad\n\u{0}\u{85}", "bad???".to_owned()),
            (&long, format!("{}… (1000 bytes)", "ä".repeat(ECHO_BYTES_MAX / 2))),
            (&odd, format!("x{}… (1001 bytes)", "ä".repeat(ECHO_BYTES_MAX / 2 - 1))),
        ] {
            assert_eq!(echo(text), expected);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_all_the_same() {
        assert_eq!(echo_bytes(b"a\xffb\n"), "a\u{fffd}b?");
        let shown = echo_bytes(&[0xff; 9_000]);
        assert!(shown.len() < ECHO_BYTES_MAX + 40, "{}", shown.len());
        assert!(shown.ends_with("… (9000 bytes)"), "{shown}");
    }
}
