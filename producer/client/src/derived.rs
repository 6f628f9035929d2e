//! The names of transactions that Tandem itself makes for something that has a name.
//!
//! Promises the same name for the same thing, in every version, and one that is no longer than a
//! name may be. Pure.

use ledger::hex::hex;
use ledger::limits::NAME_BYTES_MAX;
use sha2::{Digest, Sha256};

/// The name that `of` makes of this one; where that would be too long, what it makes of its hash.
pub(crate) fn named_after(name: &str, of: impl Fn(&str) -> String) -> String {
    let plain = of(name);
    if plain.len() <= NAME_BYTES_MAX {
        return plain;
    }
    of(&format!("sha256:{}", hex(&Sha256::digest(name.as_bytes()))))
}
