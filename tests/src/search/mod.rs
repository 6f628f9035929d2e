//! Exhaustive search of small scopes: every interleaving, within stated bounds.
mod articles;
mod engine;
mod explore;
mod intern;
mod protocol;
mod rest;
mod runs;
mod scope;
mod state;
mod trace;

pub use articles::{ARTICLES, Articles};
pub use engine::Tandem;
pub use explore::{Found, Violation, search};
pub use scope::{Client, SCOPES, Scope};
