//! Cursors: where a page ends, as text that a caller hands back for the next page.
//!
//! A cursor is bound to its list: it carries a digest of the list's name and filter and of its own
//! content. So one that is used for another list, or that was changed on its way, is refused with
//! [`Error::Invalid`], and never continues somewhere else. It carries no secret: whoever makes one
//! up only misleads himself.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Error;

/// How many bytes of the digest a cursor carries.
const DIGEST_BYTES: usize = 12;

/// The last item of a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    /// Its moment, in milliseconds since 1970; 0 where the order has none.
    pub at: i64,
    /// Its `_id`.
    pub id: String,
}

/// Where an entry stands in the journal: the order of what has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LinePlace {
    /// The moment of its line, in milliseconds since 1970.
    pub at: i64,
    /// The `_id` of its line.
    pub line: String,
    /// Its place in the line.
    pub entry: u32,
}

/// The cursor that continues the list `of` after what `content` says.
pub(super) fn write(of: &Value, content: &impl Serialize) -> String {
    let content = serde_json::json!(content).to_string();
    let mut bytes = digest(of, content.as_bytes()).to_vec();
    bytes.extend(content.into_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What a cursor says, if it was written for the list `of`.
pub(super) fn read<T: for<'a> Deserialize<'a>>(of: &Value, cursor: &str) -> Result<T, Error> {
    let content = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| {
        let (carried, content) = bytes.split_at_checked(DIGEST_BYTES)?;
        if digest(of, content) != carried {
            return None;
        }
        serde_json::from_slice(content).ok()
    });
    content.ok_or_else(|| {
        let problem = "does not belong to this list with this filter, or was changed; ask without \
                       a cursor to begin again";
        Error::invalid("cursor", problem)
    })
}

fn digest(of: &Value, content: &[u8]) -> [u8; DIGEST_BYTES] {
    let of = of.to_string();
    let hash = Sha256::new()
        .chain_update((of.len() as u64).to_be_bytes())
        .chain_update(of)
        .chain_update(content)
        .finalize();
    std::array::from_fn(|at| hash[at])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> Place {
        Place { at: 1_700_000_000_123, id: "miete \u{1f600}/1".to_owned() }
    }

    #[test]
    fn a_cursor_says_the_same_again_and_fits_a_url() {
        let of = json!(["transactions", "a"]);
        let cursor = write(&of, &place());
        assert!(cursor.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{cursor}");
        assert_eq!(read(&of, &cursor), Ok(place()));
    }

    #[test]
    fn a_cursor_of_another_list_or_a_changed_one_is_refused() {
        let of = json!(["transactions", "a"]);
        let cursor = write(&of, &place());
        let refused = |of: &Value, cursor: &str| {
            let error = read::<Place>(of, cursor).expect_err(cursor);
            assert!(matches!(&error, Error::Invalid { field, .. } if field == "cursor"), "{error}");
        };
        for other in [json!(["transactions", "b"]), json!(["statement", "a"]), json!([])] {
            refused(&other, &cursor);
        }
        for at in 0..cursor.len() {
            let other = if &cursor[at..=at] == "A" { "B" } else { "A" };
            refused(&of, &format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]));
            refused(&of, &cursor[..at]);
        }
        refused(&of, &format!("{cursor}A"));
        refused(&of, "not a cursor");
    }
}
