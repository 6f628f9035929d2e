//! Indexes and options of both collections: what `producer init` says of them, before there is a
//! ledger.
//!
//! Owns which of its findings concern somebody who looks: those about documents, indexes and
//! collections of the owner's own, and none about what `init` makes itself. Validators are tried
//! (`validators`). Fails when the server is away or refuses.

use client::{Client, Error, Slowing};
use mongo::{ACCOUNTS, Choice, Finding, Lack, TRANSACTIONS};

use super::report::Noted;

/// What is there.
#[derive(Clone, Debug, Default)]
pub(super) struct There {
    findings: Vec<Finding>,
    slowing: Vec<Slowing>,
}

/// Looks at the collections.
pub(super) async fn look(client: &Client) -> Result<There, Error> {
    let inspected = client.inspect(Choice::default()).await?;
    let is_of_documents =
        |finding: &Finding| [ACCOUNTS, TRANSACTIONS].contains(&finding.collection);
    let findings = inspected.findings.into_iter().filter(is_of_documents).collect();
    Ok(There { findings, slowing: inspected.slowing })
}

impl There {
    /// Whether documents can be read in the order of their `_id`s: a view has no index.
    pub(super) fn can_be_read(&self, stored: &str) -> bool {
        let is_odd = |finding: &Finding| {
            finding.stored == stored && ["view", "time_series"].contains(&finding.kind())
        };
        !self.findings.iter().any(is_odd)
    }

    /// Whether an index keeps the ids of accounts unique.
    pub(super) fn has_key(&self) -> bool {
        !self.findings.iter().any(|finding| matches!(finding.lack, Lack::Key { .. }))
    }

    /// Those that hurt or cost.
    pub(super) fn noted(&self) -> Vec<Noted> {
        let hurting = self.findings.iter().filter_map(|finding| {
            let hurts = hurts(&finding.lack)?;
            Some(Noted {
                collection: finding.stored.clone(),
                kind: finding.kind().to_owned(),
                hurts,
                message: finding.to_string(),
                command: finding.command(),
            })
        });
        let slow = self.slowing.iter().map(|slowing| Noted {
            collection: slowing.collection.clone(),
            kind: "index_slows".to_owned(),
            hurts: false,
            message: slowing.to_string(),
            command: None,
        });
        hurting.chain(slow).collect()
    }
}

/// Whether something of the owner's own keeps a ledger from working; none for what concerns nobody
/// who looks, because `init` makes it.
fn hurts(lack: &Lack) -> Option<bool> {
    match lack {
        Lack::Plainness(_)
        | Lack::IndexHarms(_)
        | Lack::IndexDiffers { .. }
        | Lack::IndexNamed { .. } => Some(true),
        // `init` makes it, where no id stands twice.
        Lack::Key { .. } => Some(false),
        Lack::Collection
        | Lack::Index { .. }
        | Lack::ValidatorOnOwn
        | Lack::Validator
        | Lack::ValidatorVersion
        | Lack::ValidatorForeign { .. }
        | Lack::ValidatorLax { .. }
        | Lack::Settings
        | Lack::SettingsVersion(_)
        | Lack::SettingsValidators { .. }
        | Lack::SettingsEvents { .. }
        | Lack::SettingsHistory { .. }
        | Lack::SettingsKeys { .. }
        | Lack::SettingsStandby { .. }
        | Lack::SettingsAmounts { .. } => None,
    }
}
