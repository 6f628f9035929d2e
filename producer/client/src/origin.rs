//! Where a transaction comes from: who submits it, and under which idempotency key.
//!
//! Owns what is stored of that beside the transaction's content (`submittedBy`, `request`). It is
//! no part of the content, so it is never compared, with one exception: an id that was made from a
//! key stands only for what came under that key.

use std::sync::Arc;

use mongo::Under;
use tokio::sync::Semaphore;

/// Who submits a transaction, and what it comes under. Most come from nobody in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Who: stored as `submittedBy`.
    pub submitted_by: Option<Arc<str>>,
    /// The idempotency key that it comes under, as a digest: stored as `request`.
    pub request: Option<String>,
    /// Whether its id was made from that key. Then nothing that came otherwise counts as this one.
    pub id_from_key: bool,
    /// The array that it comes in, if that has a key.
    pub array: Option<KeyedArray>,
}

impl Origin {
    /// Somebody who names no key. None where it has no name either.
    pub fn of(submitter: Option<&Arc<str>>) -> Option<Arc<Origin>> {
        let of = |name: &Arc<str>| Origin { submitted_by: Some(name.clone()), ..Origin::default() };
        submitter.map(of).map(Arc::new)
    }
}

/// An array that came under an idempotency key.
#[derive(Clone, Debug)]
pub struct KeyedArray {
    /// Under which its items are inserted.
    pub under: Under,
    /// Its items are inserted one command after the other, because each changes the same document.
    pub turn: Arc<Semaphore>,
}

impl PartialEq for KeyedArray {
    fn eq(&self, other: &KeyedArray) -> bool {
        self.under == other.under
    }
}

impl Eq for KeyedArray {}
