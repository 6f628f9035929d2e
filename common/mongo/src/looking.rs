//! Looking at the ledger's collections: what is there, and what others have done to it since.
//!
//! Owns listing collections and indexes. Writes nothing. Promises to tell an index whose definition
//! makes no sense as well as any other. Fails when the server is away or refuses.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use ledger::LedgerError;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use mongodb::results::CollectionType;

use super::Store;
use super::catalogue::{Catalogue, CollectionThere};
use super::findings::Finding;
use super::intrusions::{refusing, unsuitable};
use super::ledger_settings::LedgerSettings;
use super::names::COLLECTIONS;
use super::not_ready::NotReady;
use super::schema::{NAMESPACE_NOT_FOUND, code};

impl Store {
    /// Looks again, while a program works, whether something removes documents of the ledger.
    /// Returns the indexes that may refuse writes and that nobody has accepted.
    ///
    /// # Errors
    /// [`NotReady::Unfit`] when something does; else when the server is away or refuses.
    pub async fn check_ground(
        &self,
        settings: Option<LedgerSettings>,
    ) -> Result<Vec<Finding>, NotReady> {
        let seen = self.seen(settings).await?;
        let unsuitable = unsuitable(&seen);
        if unsuitable.is_empty() { Ok(refusing(&seen).1) } else { Err(NotReady::Unfit(unsuitable)) }
    }

    /// The indexes that remove documents of the ledger, or may refuse writes and are not accepted:
    /// for people who look while programs work.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn harms(&self) -> Result<Vec<Finding>, LedgerError> {
        let look = async || {
            let seen = self.seen(self.settings().await?).await?;
            Ok(unsuitable(&seen).into_iter().chain(refusing(&seen).1).collect())
        };
        look().await.map_err(|error: NotReady| error.into_ledger("look at the indexes"))
    }

    pub(super) async fn seen(
        &self,
        settings: Option<LedgerSettings>,
    ) -> Result<Catalogue, NotReady> {
        let accepted = self.accepted_indexes.to_vec();
        let layout = self.layout().cloned();
        Ok(Catalogue { settings, collections: self.collections().await?, accepted, layout })
    }

    /// The ledger's collections that are there, with their options and indexes.
    async fn collections(&self) -> Result<BTreeMap<String, CollectionThere>, NotReady> {
        let stored = COLLECTIONS.map(|name| (self.stored_name(name).to_owned(), name));
        let names: Vec<Bson> = stored.iter().map(|(name, _)| name.into()).collect();
        let own: BTreeMap<String, &str> = stored.into();
        let database = self.database.clone();
        let list = async move {
            let filter = doc! { "name": { "$in": names } };
            database.list_collections().filter(filter).await?.try_collect::<Vec<_>>().await
        };
        let mut collections = BTreeMap::new();
        for found in self.permitted("list the collections", list).await? {
            let name = own.get(&found.name).copied().unwrap_or_default();
            // The server refuses to list the indexes of a view.
            if found.collection_type != CollectionType::Collection {
                collections.insert(name.to_owned(), (found, vec![]));
                continue;
            }
            let collection: Collection<Document> = self.database.collection(&found.name);
            let list = async move {
                match collection.list_indexes().await {
                    Ok(indexes) => indexes.with_type::<Document>().try_collect::<Vec<_>>().await,
                    // The collection was dropped after it was listed.
                    Err(error) if code(&error) == Some(NAMESPACE_NOT_FOUND) => Ok(vec![]),
                    Err(error) => Err(error),
                }
            };
            let indexes = self.permitted("list the indexes", list).await?;
            let indexes = indexes.into_iter().map(|index| self.own_index(name, index)).collect();
            collections.insert(name.to_owned(), (found, indexes));
        }
        Ok(collections)
    }
}
