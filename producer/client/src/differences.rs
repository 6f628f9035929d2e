//! In which fields two transactions differ, so that a submission that is repeated is known by its
//! content.
//!
//! Owns what counts as the same content of a whole body; `equal` owns it for single values. Pure.

use std::collections::HashMap;

use ledger::amount::Amount;
use ledger::transaction::{AccountId, Body, Leg};
use mongodb::bson::{Document, RawDocumentBuf};

use crate::equal::same_documents;

/// The fields in which two bodies differ, by their names in JSON; the order of legs does not count,
/// and numbers in metadata are equal whatever their type. Of two transfers each field counts alone;
/// otherwise the legs as a whole.
pub(crate) fn differences(one: &Body, other: &Body) -> Vec<&'static str> {
    let mut differs = Vec::new();
    let mut compare = |field, is_same: bool| {
        if !is_same {
            differs.push(field);
        }
    };
    match (transfer(one), transfer(other)) {
        (Some((source, destination, value)), Some(other)) => {
            compare("source", source == other.0);
            compare("destination", destination == other.1);
            compare("value", value == other.2);
        }
        (_, _) => compare("legs", same_legs(one.legs(), other.legs())),
    }
    compare("currency", one.currency == other.currency);
    compare("reverses", one.reverses == other.reverses);
    compare("metadata", same_metadata(one.metadata.as_ref(), other.metadata.as_ref()));
    // What was captured of a hold, and a later moment for what is scheduled, are no other content.
    let (one, other) = (one.terms().as_submitted(), other.terms().as_submitted());
    compare("hold", one.hold == other.hold);
    compare("holdExpiresAt", one.hold_expires_at == other.hold_expires_at);
    compare("notBefore", one.not_before == other.not_before);
    compare("expiresAt", one.expires_at == other.expires_at);
    compare("exclusiveKey", one.exclusive_key == other.exclusive_key);
    differs
}

/// Source, destination and value of a body of two legs.
fn transfer(body: &Body) -> Option<(&AccountId, &AccountId, Amount)> {
    match body.legs() {
        [one, other] if one.amount.is_negative() => {
            Some((&one.account, &other.account, other.amount))
        }
        [one, other] => Some((&other.account, &one.account, one.amount)),
        _ => None,
    }
}

fn same_metadata(one: Option<&RawDocumentBuf>, other: Option<&RawDocumentBuf>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one == other => true,
        (Some(one), Some(other)) => match (Document::try_from(one), Document::try_from(other)) {
            (Ok(one), Ok(other)) => same_documents(&one, &other),
            (_, _) => false,
        },
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn same_legs(one: &[Leg], other: &[Leg]) -> bool {
    one.len() == other.len() && {
        let amounts: HashMap<_, _> = other.iter().map(|leg| (&leg.account, leg.amount)).collect();
        one.iter().all(|leg| amounts.get(&leg.account) == Some(&leg.amount))
    }
}
