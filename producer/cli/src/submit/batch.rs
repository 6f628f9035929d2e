//! Names of batches, and the ids of rows that have none of their own.
//!
//! Promises that such an id depends on the batch's name, the row's content and its occurrence (it
//! is the n-th row with this content), and on nothing else: neither on the line nor on other rows
//! of the file. So a corrected, longer or reordered file, submitted under the same name, finds the
//! transactions that exist already. The ids must be the same in every version.

use std::fmt;

use ledger::hex::hex;
use sha2::{Digest, Sha256};

use input::content::ContentDigest;

/// The longest name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A batch's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch(String);

impl Batch {
    /// A name that the user chose.
    ///
    /// # Errors
    /// When it is empty, too long, or has a control character in it.
    pub fn parse(name: &str) -> Result<Batch, String> {
        if name.is_empty() {
            return Err("is empty; write a name like 2024-05-payroll".to_owned());
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("has {} bytes; the limit is {NAME_BYTES_MAX}", name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err("has a control character in it; use letters, digits, - and _".to_owned());
        }
        Ok(Batch(name.to_owned()))
    }

    /// The name for a file that was submitted without one, from the digest of all its bytes.
    pub(super) fn of_file(digest: &[u8; 32]) -> Batch {
        Batch(hex(&digest[..12]))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of a row: `<batch>-<batch and content>-<occurrence>`, at most 48 characters.
    ///
    /// The part for the batch keeps the ids of one file together in the index on `_id`. Within this
    /// range they can't be in the order of the file, which may change.
    pub(super) fn id(&self, content: ContentDigest, occurrence: u32) -> String {
        let batch = Sha256::digest(self.0.as_bytes());
        // No name contains a zero byte, so a zero byte separates the two.
        let row = Sha256::new().chain_update(&self.0).chain_update([0]).chain_update(content.0);
        format!("{}-{}-{occurrence}", hex(&batch[..6]), hex(&row.finalize()[..12]))
    }
}

impl Batch {
    /// The id of a row that has no content yet, on this line of a file with this digest.
    pub(super) fn id_of_line(&self, file: &[u8; 32], line: u32) -> String {
        let batch = Sha256::digest(self.0.as_bytes());
        format!("{}-{}-line-{line}", hex(&batch[..6]), hex(&file[..8]))
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use ledger::amount::Amount;
    use ledger::transaction::Body;

    use super::*;

    fn batch(name: &str) -> Batch {
        Batch::parse(name).expect(name)
    }

    #[test]
    fn names_are_short_printable_and_not_empty() {
        for name in ["may", "2024-05 payroll", "Gehälter/Mai", &"x".repeat(64)] {
            assert_eq!(batch(name).as_str(), name);
        }
        let long = "x".repeat(65);
        for (name, expected) in
            [("", "is empty"), (long.as_str(), "65 bytes"), ("a\nb", "control character")]
        {
            let error = Batch::parse(name).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn ids_depend_on_batch_content_and_occurrence_only() {
        let id = |name: &str, content, occurrence| {
            batch(name).id(ContentDigest([content; 12]), occurrence)
        };
        assert_eq!(id("may", 1, 1), id("may", 1, 1));
        assert_ne!(id("may", 1, 1), id("may", 1, 2));
        assert_ne!(id("may", 1, 1), id("may", 2, 1));
        assert_ne!(id("may", 1, 1), id("june", 1, 1));
        let longest = id("may", 1, u32::MAX);
        assert!(longest.len() <= 48, "{longest}");
        assert!(longest.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{longest}");
    }

    /// If this changed, rows that an earlier version has submitted would be paid again.
    #[test]
    fn ids_are_the_same_in_every_version() {
        let mut body = Body::transfer("alice", "bob", Amount::parse("12.50").expect("a decimal"))
            .expect("valid")
            .in_currency(Some("EUR".to_owned()));
        let id = |body: &Body| batch("may").id(ContentDigest::of(body).expect("valid"), 1);
        assert_eq!(id(&body), "ee4d988c65de-991d923e7f92a99fd0082304-1");
        body.metadata = Some(rawdoc! { "note": "rent", "lines": [{ "n": 1_i64, "f": 1.5 }] });
        assert_eq!(id(&body), "ee4d988c65de-28b01451152ba52837942efc-1");
        let of_file = Batch::of_file(&[0xab; 32]);
        assert_eq!(of_file.as_str(), "abababababababababababab");
    }
}
