#![doc = include_str!("../README.md")]

mod config;
pub mod secret_files;

pub use config::{
    AmqpSettings, MongoSettings, TimingSettings, TraceSettings, name_is_good, redacted,
};
