//! What is wrong with a document, in the words of its owner.
//!
//! Owns how problems that name Tandem's fields are told to somebody whose fields have other names,
//! and how the refusals of Tandem's own statements are read. Promises that the remedy can be
//! followed in the owner's document.

use super::collection::Collection;
use super::once::TWICE;
use super::path::Path;
use super::words::NO_WORD;

/// What is read in place of an amount where something else than an object is on the way to a field.
/// The path of what is on the way follows, and [`AT_END`].
const IN_THE_WAY: &str = "something else than an object stands at `";
const AT_END: &str = "`";

/// Fields with which something may be wrong, and that stand under Tandem's own path.
const OWN_FIELDS: [&str; 5] =
    ["openingBalance", "pendingHolds", "captured", "reverses", "metadata"];

/// What the server says of a document for which one of Tandem's own statements fails; none if
/// something else has failed.
#[must_use]
pub fn refusal_in(message: &str) -> Option<String> {
    if message.contains(TWICE) {
        return Some(format!("{TWICE}; replace it by one without"));
    }
    path_in(message).map(in_the_way)
}

/// What is said of a path where something else than an object stands on the way to a field.
pub(crate) fn in_the_way(path: &str) -> String {
    format!("{IN_THE_WAY}{path}{AT_END}")
}

/// The path at which something else than an object stands, if that is the problem.
fn path_in(problem: &str) -> Option<&str> {
    let (_, path) = problem.split_once(IN_THE_WAY)?;
    path.split_once(AT_END).map(|(path, _)| path)
}

impl Collection {
    /// A problem that begins with one of Tandem's fields, with the path of that field.
    #[must_use]
    pub fn told(&self, problem: &str) -> String {
        if let Some(path) = path_in(problem) {
            let leads_to = |field: &&Path| field.parents().any(|parent| parent == path);
            let within = self.fields.values().filter(leads_to);
            // Tandem's own object is itself on the way.
            let within = within.chain(Some(&self.rest).filter(|own| own.as_str() == path));
            let within: Vec<String> = within.map(|field| format!("`{field}`")).collect();
            return format!(
                "`{path}` is no object, and the ledger has its fields there ({}); make it an object, \
                 or remove it",
                within.join(", ")
            );
        }
        let (field, words) = &self.spoken;
        if let Some((said, _)) = problem.split_once(NO_WORD)
            && let Some((_, word)) = said.split_once('"')
        {
            let path = self.path(field);
            return format!("{path}: \"{word}\" is no word of the schema; it has {}", words.told());
        }
        let named = |name: &str| self.fields.contains_key(name) || OWN_FIELDS.contains(&name);
        let end = problem.find([':', ' ']).unwrap_or(problem.len());
        let (name, rest) = problem.split_at(end);
        if named(name) { format!("{}{rest}", self.path(name)) } else { problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use crate::Layout;

    #[test]
    fn a_problem_names_the_owners_field_or_what_is_on_the_way_to_it() {
        let text = "[accounts.fields]\nbalance = \"wallet.sum\"\nfloor = \"wallet.least\"";
        let accounts = Layout::from_toml(text).expect("it is good").accounts;
        assert_eq!(accounts.told("balance: is a text"), "wallet.sum: is a text");
        assert_eq!(accounts.told("openingBalance: 5"), "tandem.openingBalance: 5");
        let unknown = format!("status \"asleep{}\" is not open", super::NO_WORD);
        let told = accounts.told(&unknown);
        assert!(
            told.starts_with("status: \"asleep\" is no word of the schema; it has \"open\" for")
        );
        let twice = "fields: one of them is there twice";
        assert_eq!(accounts.told(twice), twice);
        let said = format!("balance: {:?} is a text", super::in_the_way("wallet"));
        let told = accounts.told(&said);
        assert!(told.starts_with("`wallet` is no object"), "{told}");
        assert!(told.contains("(`wallet.sum`, `wallet.least`)"), "{told}");
    }
}
