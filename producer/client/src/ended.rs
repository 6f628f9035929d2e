//! Outcomes of the ledger, for whoever listens: as they come, or of the past, made anew from the
//! documents.
//!
//! Promises that [`Client::outcomes`] tells of every transaction that is submitted after it has
//! returned, at least once and in no order, for as long as the connection to the broker lasts.
//! Fails with [`Error::Unavailable`] when it breaks; what ends until the next call is told by
//! [`Client::ended_since`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{Stream, TryStreamExt};
use ledger::event::{End, Event, FIELDS};
use mongo::TRANSACTIONS;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use queue::{Outgoing, QueueError, Taken};

use crate::client::Client;
use crate::error::Error;
use crate::outcomes::{Ended, Outcomes};
use crate::servers::Servers;

/// How long the broker may take to confirm a message.
const CONFIRM_LIMIT: Duration = Duration::from_secs(30);

impl Client {
    /// Outcomes as they come, of all transactions of the ledger: at least once, in no order. A
    /// ledger that was set up without events tells nothing.
    ///
    /// # Errors
    /// When the broker stays away or refuses.
    pub async fn outcomes(&self) -> Result<Outcomes, Error> {
        let servers: &Arc<Servers> = self.servers();
        self.insist(|| Outcomes::open(servers)).await
    }

    /// What has ended since a moment, from the documents as they are now, in no order. This reads
    /// through all transactions.
    ///
    /// # Errors
    /// When the database is away; the stream may also end with such an error.
    pub async fn ended_since(
        &self,
        since: SystemTime,
    ) -> Result<impl Stream<Item = Result<Ended, Error>> + Send + use<>, Error> {
        let events = self.events_since(since).await?;
        let ended = |event: Event| async move { Ok(Ended::of(event.body)) };
        Ok(events.try_filter_map(ended))
    }

    async fn events_since(
        &self,
        since: SystemTime,
    ) -> Result<impl Stream<Item = Result<Event, Error>> + Send + use<>, Error> {
        self.known_rules().await?;
        let states: Vec<Bson> = End::ALL.map(|end| Bson::from(end.state())).to_vec();
        let since = DateTime::from_system_time(since);
        let mut filter = doc! { "state": { "$in": states }, "lastModified": { "$gte": since } };
        if self.store().layout().is_some() {
            // What others have ended in the same collection was never told.
            filter.insert("line", doc! { "$exists": true });
        }
        let mut fields: Document =
            FIELDS.iter().map(|field| ((*field).to_owned(), Bson::from(1))).collect();
        fields.insert("state", 1);
        let failed = |error| Error::from(mongo::query_failed("events", &error));
        let asked = doc! { "filter": filter, "projection": fields };
        let query = self.store().query(TRANSACTIONS, asked).map_err(failed)?;
        let found = query.find().await.map_err(failed)?;
        let event = move |document: RawDocumentBuf| {
            let document = query.read(&document);
            let end = document.get_str("state").ok().and_then(End::parse);
            std::future::ready(Ok(end.and_then(|end| Event::of(&document, end))))
        };
        Ok(found.map_err(failed).try_filter_map(event))
    }

    /// Publishes the events of what has ended since a moment once more, for a subscriber whose
    /// queue was lost. `told` is called with the number so far. Returns how many were published,
    /// and how many of them nobody has bound a queue for.
    ///
    /// # Errors
    /// When a server is away, or a queue takes no more. What was published until then is published:
    /// run it again, repeats are the same.
    pub async fn replay_events(
        &self,
        since: SystemTime,
        mut told: impl FnMut(u64) + Send,
    ) -> Result<(u64, u64), Error> {
        const AT_A_TIME: usize = 500;
        let source = ledger::event::source(self.store().database().name());
        let events = self.events_since(since).await?.try_chunks(AT_A_TIME);
        let mut events = std::pin::pin!(events);
        let (mut published, mut unrouted) = (0, 0);
        while let Some(chunk) = events.try_next().await.map_err(|error| error.1)? {
            for end in End::ALL {
                let of_this_end = chunk.iter().filter(|event| event.about.end == end);
                // The first one finds out whether somebody listens.
                let outgoing = |(at, event)| Outgoing::event(event, &source, at == 0);
                let messages: Vec<_> = of_this_end.enumerate().map(outgoing).collect();
                if !self.replay_some(&messages).await? {
                    unrouted += messages.len() as u64;
                }
            }
            published += chunk.len() as u64;
            told(published);
        }
        Ok((published, unrouted))
    }

    /// Publishes events of one end; returns whether somebody has bound a queue for them.
    async fn replay_some(&self, messages: &[Outgoing]) -> Result<bool, Error> {
        let (taken, result) = self.publisher().publish_each(messages, CONFIRM_LIMIT).await;
        // Some of them may be there.
        result.map_err(|error| Error::from(error).after_a_write())?;
        if taken.contains(&Taken::Refused) {
            let problem = "a queue of a subscriber takes no more events".to_owned();
            return Err(QueueError::NotTaken(problem).into());
        }
        Ok(!taken.contains(&Taken::Unrouted))
    }
}
