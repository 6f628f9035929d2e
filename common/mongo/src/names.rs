//! The names of Tandem's collections and indexes, each in one place.
//!
//! An index that is changed gets a new name. The old one stays for the workers of the old version,
//! and the server refuses a second definition under a name that is taken.

/// The collection of accounts.
pub const ACCOUNTS: &str = "accounts";
/// The collection of transactions.
pub const TRANSACTIONS: &str = "transactions";

/// The collection of lines: what has ended together.
pub const JOURNAL: &str = "tandem.journal";
/// The collection of the order of what ended: which lines were numbered together.
pub const ORDER: &str = "tandem.order";
/// The collection of sums: what the lines of a time have booked on each account.
pub const SUMS: &str = "tandem.sums";
/// The collection of notes on events that no broker has confirmed.
pub const EVENTS: &str = "tandem.events";
/// The collection of notes on transactions that can't go on and whose documents can't be written.
pub const NOTES: &str = "tandem.parked";
/// The collection in which workers say how they are.
pub const WORKERS: &str = "tandem.workers";
/// The collection of arrays that came under an idempotency key.
pub const REQUESTS: &str = "tandem.requests";
/// The collection of files that were submitted.
pub const FILES: &str = "tandem.files";
/// The collection of what people have done.
pub const ACTS: &str = "tandem.acts";
/// The collection of jobs, and of whose turn it is to look at the dead letters.
pub const JOBS: &str = "tandem.jobs";
/// The collection of how far sweepers have come.
pub const PROGRESS: &str = "tandem.progress";
/// The collection of the ledger's settings.
pub const SETTINGS: &str = "tandem.settings";
/// The collection of what was last said of whether workers settle.
pub const SETTLEMENT: &str = "tandem.settlement";

/// All collections of a ledger. Those of notes, due events, requests, files, settings, settlement
/// and progress have no definition.
pub(super) const COLLECTIONS: [&str; 15] = [
    ACCOUNTS,
    TRANSACTIONS,
    JOURNAL,
    ORDER,
    SUMS,
    NOTES,
    EVENTS,
    SETTINGS,
    SETTLEMENT,
    WORKERS,
    REQUESTS,
    FILES,
    ACTS,
    JOBS,
    PROGRESS,
];

/// The index of all transactions, by when they were created.
pub const BY_CREATION: &str = "by_creation";
/// The index of what sweepers have stamped, by when they look at it again.
pub const SWEPT: &str = "swept";
/// The index of what is parked, by when it was.
pub const PARKED: &str = "parked";
/// The index of what is due or expires.
pub const DUE: &str = "due";
/// The index of what is inserted and not published.
pub const INSERTED: &str = "inserted";
/// The indexes of lines and of sums by the accounts that they name.
pub const BY_ACCOUNT: &str = "by_account";
/// The indexes of lines, of what people have done, and of jobs, by their moments.
pub const BY_TIME: &str = "by_time";
/// The index of what people have done, by what they have done it to.
pub const BY_SUBJECT: &str = "by_subject";
/// The index of jobs that are under way, one of each kind.
pub const ALIVE: &str = "alive";
/// The index of pages of the order by the lines that they name.
pub const BY_LINE: &str = "by_line";
/// The index that keeps exclusive keys unique.
pub const EXCLUSIVE_KEY: &str = "exclusive_key";
/// The index of workers by when they were last seen.
pub const SEEN: &str = "seen";
