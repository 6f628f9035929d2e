//! The groups of operations: a generated client has a module of each.

use utoipa::openapi::tag::{Tag, TagBuilder};

/// Name and description.
const TAGS: [(&str, &str); 6] = [
    ("transactions", "Submit transactions, look at them, confirm, cancel and reverse them"),
    ("accounts", "Create accounts, look at them, set their floors, freeze and close them"),
    ("events", "What ended, in an order that never changes"),
    ("ledger", "The ledger as a whole"),
    ("incidents", "What was set apart until somebody looks"),
    ("server", "The server itself"),
];

/// All of them.
pub(super) fn all() -> Vec<Tag> {
    TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build()).to_vec()
}

/// The one of an address.
pub(super) fn of(path: &str) -> &'static str {
    let first = path.strip_prefix("/v1/").and_then(|path| path.split('/').next());
    match first.unwrap_or_default() {
        "transactions" | "batch" | "export" => "transactions",
        "accounts" => "accounts",
        "events" => "events",
        "overview" | "stats" | "audit" | "settlement" | "workers" | "acts" => "ledger",
        "dead-letters" | "parked" => "incidents",
        _ => "server",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes;

    #[test]
    fn each_operation_is_in_a_group_that_is_described_and_each_group_has_one() {
        let named: BTreeSet<&str> = routes::all().map(|operation| of(operation.path)).collect();
        assert_eq!(named, TAGS.map(|(name, _)| name).into_iter().collect());
    }
}
