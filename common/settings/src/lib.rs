//! Settings that producer and worker share, and how names and commands are written.
//!
//! - [`MongoSettings`], [`AmqpSettings`], [`TimingSettings`], [`TraceSettings`]: plain values, checked against
//!   each other.
//! - [`secret_files`]: secrets out of files.
//! - [`shell`]: commands in messages.

mod config;
pub mod secret_files;
pub mod shell;

pub use config::{
    AmqpSettings, MongoSettings, TimingSettings, TraceSettings, name_is_good, redacted,
};
