//! What an `Idempotency-Key` stands for, and the ids that are made from it.
//!
//! Promises that a key belongs to the name of its token and to the form of its request: equal keys
//! of two names, or of a single transaction and an array, have nothing in common. The id of an item
//! of an array depends on key, content and occurrence (it is the n-th item with this content), and
//! not on its place or on other items, so leaving an item out changes no other id. The ids must be
//! the same in every version.

use std::collections::BTreeMap;
use std::sync::Arc;

use input::content::ContentDigest;
use ledger::hex::hex;
use sha2::{Digest, Sha256};

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One transaction.
    Single,
    /// An array of transactions.
    Array,
}

/// A key, and whose it is.
#[derive(Clone, Debug)]
pub struct Key {
    /// As it came.
    pub text: String,
    /// The name of the token. None where the server has no tokens.
    pub submitter: Option<Arc<str>>,
    digest: [u8; 32],
}

impl Key {
    /// A key of somebody, for a request of this form.
    pub fn new(form: Form, submitter: Option<&Arc<str>>, text: String) -> Key {
        let form = match form {
            Form::Single => "single",
            Form::Array => "array",
        };
        // None of the three has a zero byte in it, so zero bytes separate them. No token has an
        // empty name.
        let parts = [form, submitter.map_or("", |name| name), &text];
        let digest = Sha256::digest(parts.join("\0")).into();
        Key { text, submitter: submitter.cloned(), digest }
    }

    /// The key as a digest: what is stored with everything that comes under it.
    pub fn request(&self) -> String {
        hex(&self.digest[..16])
    }

    /// The id of a single transaction.
    pub fn id(&self) -> String {
        self.request()
    }

    /// The id of an item of an array. The part for the key keeps the ids of one array together in
    /// the index on `_id`.
    fn item_id(&self, content: ContentDigest, occurrence: u32) -> String {
        let item = Sha256::new().chain_update(self.digest).chain_update(content.0).finalize();
        format!("{}-{}-{occurrence}", hex(&self.digest[..6]), hex(&item[..12]))
    }
}

/// Makes the ids of the items of one array.
pub struct ItemIds<'a> {
    key: &'a Key,
    seen: BTreeMap<ContentDigest, u32>,
}

impl ItemIds<'_> {
    /// No item so far.
    pub fn new(key: &Key) -> ItemIds<'_> {
        ItemIds { key, seen: BTreeMap::new() }
    }

    /// The id of the next item, which has this content.
    pub fn next(&mut self, content: ContentDigest) -> String {
        let occurrence = self.seen.entry(content).or_default();
        *occurrence += 1;
        self.key.item_id(content, *occurrence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(form: Form, submitter: Option<&str>, text: &str) -> Key {
        Key::new(form, submitter.map(Arc::from).as_ref(), text.to_owned())
    }

    #[test]
    fn a_key_belongs_to_its_form_and_to_the_name_of_its_token() {
        let one = key(Form::Single, Some("shop"), "1");
        assert_eq!(one.id(), key(Form::Single, Some("shop"), "1").id());
        for other in [
            key(Form::Array, Some("shop"), "1"),
            key(Form::Single, Some("bank"), "1"),
            key(Form::Single, None, "1"),
            key(Form::Single, Some("shop"), "2"),
            key(Form::Single, Some("sho"), "p1"),
        ] {
            assert_ne!(one.request(), other.request(), "{other:?}");
            assert_ne!(one.id(), other.id(), "{other:?}");
        }
    }

    #[test]
    fn leaving_an_item_out_changes_no_other_id() {
        let key = key(Form::Array, None, "run1");
        let ids = |contents: &[u8]| {
            let mut ids = ItemIds::new(&key);
            contents.iter().map(|it| ids.next(ContentDigest([*it; 12]))).collect::<Vec<_>>()
        };
        let all = ids(&[1, 2, 1, 3]);
        assert_eq!(ids(&[3, 1, 2, 1]), [&*all[3], &*all[0], &*all[1], &*all[2]]);
        assert_eq!(ids(&[1, 3]), [&*all[0], &*all[3]]);
        assert_ne!(all[0], all[2], "two payments of the same content");
        assert!(all.iter().all(|id| id.len() <= 48));
    }

    /// If this changed, what came under a key before would be paid again.
    #[test]
    fn ids_are_the_same_in_every_version() {
        assert_eq!(key(Form::Single, Some("shop"), "1").id(), "8fbf9286a9dacf5c9031ab487965e403");
        let item = key(Form::Array, None, "run1").item_id(ContentDigest([7; 12]), 1);
        assert_eq!(item, "2e9495f6c6e8-070fec89473cf1f51ed14e7c-1");
    }
}
