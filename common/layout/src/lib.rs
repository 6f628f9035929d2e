#![doc = include_str!("../README.md")]

mod collection;
mod command;
mod document;
mod expression;
mod file;
mod filter;
mod ids;
mod once;
mod path;
#[cfg(test)]
mod tests;
mod tree;
mod update;
mod words;

pub use collection::Collection;
pub use command::{Answer, Command, EACH_FIELD_ONCE};
pub use file::Layout;
pub use ids::IdKind;
pub use once::{TWICE, with_each_field_once};
pub use path::Path;

/// The path under which Tandem's own fields stand in documents that others have designed.
pub const OWN: &str = "tandem";

/// What is read in place of an amount or a state where something else than an object is on the way
/// to a field.
const NO_OBJECT: &str = "something else than an object stands on the way to a field";

/// What works on bytes, which may be no BSON.
type Raw<T> = Result<T, bson::error::Error>;

fn cstr(name: &str) -> &bson::raw::CStr {
    name.try_into().expect("a name without a zero byte")
}
