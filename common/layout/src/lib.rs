#![doc = include_str!("../README.md")]

use bson::RawDocumentBuf;

mod collection;
mod command;
mod document;
mod expression;
mod file;
mod filter;
mod ids;
mod once;
mod path;
mod places;
mod projection;
#[cfg(test)]
mod tests;
mod told;
mod tree;
mod update;
mod words;

pub use collection::Collection;
pub use command::{Answer, Command};
pub use file::Layout;
pub use ids::IdKind;
pub use once::{KeptOnce, each_once, with_each_field_once};
pub use path::{Path, is_within};
pub use projection::EACH_FIELD_ONCE;
pub use told::refusal_in;

/// The path under which Tandem's own fields stand in documents that others have designed.
pub const OWN: &str = "tandem";

/// What works on bytes, which may be no BSON.
type Raw<T> = Result<T, bson::error::Error>;

/// An empty document that grows to so many bytes without another allocation: what is translated is
/// about as long as what it is made from.
fn with_room(bytes: usize) -> RawDocumentBuf {
    const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];
    let mut document = Vec::with_capacity(bytes + MORE_BYTES);
    document.extend_from_slice(&EMPTY);
    RawDocumentBuf::from_bytes(document).expect("it is an empty document")
}

/// A translated path is often so much longer than the name.
const MORE_BYTES: usize = 64;

fn cstr(name: &str) -> &bson::raw::CStr {
    name.try_into().expect("a name without a zero byte")
}
