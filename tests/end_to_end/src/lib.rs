//! Promises to users, held by real programs on real servers: `deploy/test` runs them.
//!
//! - `tests/end_to_end/tests/end_to_end`: what workers and producers promise, one file for each
//!   subject.
//! - `tests/end_to_end/tests/border`: what others may write into the database, and what is made of
//!   it.
//! - `poisoned`, the program: a worker whose process ends when it touches a poisoned transaction.
