//! End-to-end tests: every promise to users, on real servers, with real processes.
//!
//! Run them by `deploy/test`. All of them are one program, so that they share one build and run at
//! the same time; each has a database and queues of its own. Each module is one subject; a test's
//! name is the promise that it holds.

mod absorb;
mod addresses;
mod adopt;
mod advice;
mod alarms;
mod api;
mod articles;
mod audit;
mod batches;
mod broker;
mod cancel;
mod client;
mod collections;
mod components;
mod database;
mod dead_letters;
mod deaths;
mod decimals;
mod events;
mod examples;
mod fence;
mod ground;
mod history;
mod holds;
mod keys;
mod lanes;
mod large_messages;
mod layouts;
mod layouts_audit;
mod layouts_lists;
mod lines;
mod mark;
mod messages;
mod multileg;
mod names;
mod native;
mod neighbours;
mod numbers;
mod operating;
mod ownership;
mod poison;
mod producer;
mod refusals;
mod remedies;
mod reversals;
mod rights;
mod roles;
mod schedules;
mod schema;
mod schemas;
mod secrets;
mod settle;
mod sweeper;
mod takeover;
mod terms;
mod three_words;
mod tls;
mod top;
mod tracing;
mod watching;
mod worker_process;
