//! Chaos on real servers: load, faults from a seed, rest, and a verdict.
//!
//! - [`schedule`]: which fault comes when. [`load`]: what is submitted. Both from one seed.
//! - [`site`]: what runs and can be hit: [`servers`], [`links`], [`programs`], [`produce`],
//!   [`clerk`] (and [`holds`], what becomes of what is held, [`terms`], of what is scheduled or
//!   expires), [`keys`], [`neighbour`] (and [`mischief`], what that one does), [`orders`], [`outsider`].
//! - [`faults`]: hitting it. [`observe`], [`progress`]: what is unfinished meanwhile.
//! - [`home`]: the directory of a run, in which nothing is left running.
//! - [`verdict`], [`judge`]: whether everything is as everybody was told.
//! - [`books`]: somebody who hears of nothing but outcomes, and keeps the balances. [`numbers`]:
//!   somebody who follows the numbers of what ended.
//! - [`recovery`], [`report`], [`timeline`]: how long it took, in figures and as a picture.
//! - [`run`](mod@run): one run from its start to its report.
//!
//! Promises that nothing is judged by hearsay: an outcome that nobody was told is read from the
//! ledger, and only then judged.

pub mod books;
pub mod clerk;
pub mod faults;
pub mod holds;
pub mod home;
pub mod judge;
pub mod keys;
pub mod links;
pub mod load;
pub mod mischief;
pub mod neighbour;
pub mod numbers;
pub mod observe;
pub mod orders;
pub mod outsider;
pub mod produce;
pub mod programs;
pub mod progress;
pub mod recovery;
mod replicas;
pub mod report;
mod resting;
pub mod run;
pub mod schedule;
pub mod servers;
pub mod site;
pub mod terms;
pub mod timeline;
pub mod verdict;
