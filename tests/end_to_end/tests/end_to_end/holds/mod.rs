//! Holds: debits are reserved, the rest waits for a confirmation.

mod engine;
