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
/// The collection of notes on events that no broker has confirmed.
pub const EVENTS: &str = "tandem.events";
/// The collection of notes on transactions that can't go on and whose documents can't be written.
pub const NOTES: &str = "tandem.parked";
/// The collection in which workers say how they are.
pub const WORKERS: &str = "tandem.workers";
/// The collection of arrays that came under an idempotency key.
pub const REQUESTS: &str = "tandem.requests";
/// The collection of the ledger's settings.
pub const SETTINGS: &str = "tandem.settings";

/// All collections of a ledger. Those of notes, due events, requests and settings have no
/// definition.
pub(super) const COLLECTIONS: [&str; 8] =
    [ACCOUNTS, TRANSACTIONS, JOURNAL, NOTES, EVENTS, SETTINGS, WORKERS, REQUESTS];

/// The index of transactions in flight, by when others may take them over.
pub const IN_FLIGHT: &str = "in_flight";
/// The index of what is due or expires.
pub const DUE: &str = "due";
/// The index of `initial` transactions that nobody has claimed, in a ledger without lists.
pub const UNCLAIMED: &str = "unclaimed";
/// The index of transactions by their state.
pub const BY_STATE: &str = "by_state";
/// The index of lines by the accounts that they name.
pub const BY_ACCOUNT: &str = "by_account";
/// The index that keeps exclusive keys unique.
pub const EXCLUSIVE_KEY: &str = "exclusive_key";
/// The index of workers by when they were last seen.
pub const SEEN: &str = "seen";
