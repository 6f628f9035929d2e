//! The ids of accounts and transfers as a ledger has them: their texts, by the kinds that its
//! schema names.
//!
//! Promises that the ids of a load stay distinct, and that new transfers come behind older ones in
//! the order of the index, as ids of clients do; those that are observed stand apart from all
//! others.

use layout::{IdKind, Layout};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use uuid::Uuid;

use super::workload::{SAMPLE, account_id};

/// What ids are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    accounts: IdKind,
    transfers: IdKind,
}

impl Names {
    /// Those of a ledger of this layout.
    #[must_use]
    pub fn of(layout: Option<&Layout>) -> Names {
        layout.map_or_else(Names::default, |layout| Names {
            accounts: layout.accounts.id_kind(),
            transfers: layout.transactions.id_kind(),
        })
    }

    /// The text of an account's id.
    #[must_use]
    pub fn account(self, number: usize) -> String {
        match self.accounts {
            IdKind::Text | IdKind::ObjectId => self.accounts.derived(account_id(number)),
            IdKind::Int64 => number.to_string(),
        }
    }

    /// The text of a transfer's id, from that of the load.
    ///
    /// # Panics
    /// When that is no UUID: a mistake in this program.
    #[must_use]
    pub fn transfer(self, id: &str) -> String {
        if self.transfers == IdKind::Text {
            return id.to_owned();
        }
        let sampled = id.strip_prefix(SAMPLE);
        let uuid = Uuid::parse_str(sampled.unwrap_or(id)).expect("ids of a load are UUIDs");
        if self.transfers == IdKind::ObjectId {
            let [_, rest @ ..] = uuid.into_bytes();
            let mut bytes = [0; 12];
            bytes[1..].copy_from_slice(&rest[..11]);
            if sampled.is_some() {
                bytes[0] = FIRST_OF_SAMPLES;
            }
            return ObjectId::from_bytes(bytes).to_hex();
        }
        // The milliseconds first, then as many bits of chance as there is room for.
        let (moment, chance) = (uuid.as_u128() >> 80, uuid.as_u128() & ((1 << 31) - 1));
        let number = ((moment & u128::from(u32::MAX)) << 31) | chance;
        let number = i64::try_from(number).expect("it has 63 bits");
        (if sampled.is_some() { -1 - number } else { number }).to_string()
    }

    /// Which ids in the database are of transfers that are observed.
    #[must_use]
    pub fn sampled(self) -> Document {
        match self.transfers {
            IdKind::Text => doc! { "$regex": format!("^{SAMPLE}") },
            IdKind::ObjectId => {
                let mut bytes = [0; 12];
                bytes[0] = FIRST_OF_SAMPLES;
                doc! { "$gte": ObjectId::from_bytes(bytes) }
            }
            IdKind::Int64 => doc! { "$lt": 0_i64 },
        }
    }

    /// The text of a transfer's id in the database.
    #[must_use]
    pub fn text(self, id: &Bson) -> Option<String> {
        match (self.transfers, id) {
            (IdKind::Text, Bson::String(id)) => Some(id.clone()),
            (IdKind::ObjectId, Bson::ObjectId(id)) => Some(id.to_hex()),
            (IdKind::Int64, Bson::Int64(id)) => Some(id.to_string()),
            _ => None,
        }
    }
}

/// The first byte of an `ObjectId` that is observed; that of all others is 0.
const FIRST_OF_SAMPLES: u8 = 0xff;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::workload::{Load, Workload};
    use super::*;

    fn names(kind: &str) -> Names {
        let text = format!("[accounts]\nids = {kind:?}\n[transactions]\nids = {kind:?}\n");
        Names::of(Some(&Layout::from_toml(&text).expect("it is good")))
    }

    #[test]
    fn ids_of_every_kind_are_distinct_and_come_in_order_and_samples_stand_apart() {
        for (kind, of) in
            [("text", IdKind::Text), ("objectId", IdKind::ObjectId), ("int64", IdKind::Int64)]
        {
            let names = names(kind);
            let load = Load::generate(Workload::Uniform, 100, 1_000, 3);
            let ids: Vec<_> = load.transfers.iter().map(|one| names.transfer(&one.id)).collect();
            assert!(ids.iter().all(|id| of.takes(id)), "{kind}");
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1_000, "{kind}");
            assert!(ids.is_sorted_by(|one, other| of.order(one, other).is_lt()), "{kind}");
            let accounts: HashSet<_> = (0..100).map(|number| names.account(number)).collect();
            assert!(accounts.len() == 100 && accounts.iter().all(|id| of.takes(id)), "{kind}");
            let sample = names.transfer(&format!("{SAMPLE}{}", load.transfers[5].id));
            assert!(of.takes(&sample) && !ids.contains(&sample), "{kind}");
        }
        assert_eq!(Names::default().transfer("x"), "x");
    }
}
