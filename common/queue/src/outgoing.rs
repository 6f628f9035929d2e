//! Messages on their way out: what they say, where they go, and what is written on them.
//!
//! Promises that every message is persistent, and that no header is too long for one frame.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString};
use ledger::event::{Event, SCHEMA};
use ledger::limits::echo;
use ledger::message::Message;
use ledger::transaction::TransactionId;
use observe::Traces;

use super::dead::{DETAIL, REASON};
use super::{DEAD, EVENT_KEY, SOLO, TURN, WORK, delay_class, traces};

/// The exchange that a message goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Through {
    /// The one in front of the queues of work.
    Main,
    /// The one in front of the retry queues.
    Retry,
    /// The one that subscribers bind their queues to.
    Events,
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub(super) through: Through,
    pub(super) routing_key: String,
    /// Same for the same message, where its consumers drop repeats by it.
    id: Option<String>,
    /// Whether it has to find a queue.
    pub(super) mandatory: bool,
    pub(super) body: Vec<u8>,
    headers: Vec<(&'static str, AMQPValue)>,
}

impl Outgoing {
    /// Work that anybody may take now.
    #[must_use]
    pub fn work(message: &Message) -> Outgoing {
        Outgoing::direct(WORK, message.to_bytes())
    }

    /// Work that is to be processed alone.
    #[must_use]
    pub fn solo(message: &Message) -> Outgoing {
        Outgoing::direct(SOLO, message.to_bytes())
    }

    /// A word to the worker whose turn it is: if there is none, it tells the next one that it is.
    #[must_use]
    pub fn turn() -> Outgoing {
        Outgoing::direct(TURN, b"turn".to_vec())
    }

    /// Work that comes back to the queue of `key` after about `delay`.
    #[must_use]
    pub fn retry(message: &Message, key: &str, delay: Duration) -> Outgoing {
        let routing_key = format!("{}.{key}", delay_class(delay));
        Outgoing { through: Through::Retry, ..Outgoing::direct(&routing_key, message.to_bytes()) }
    }

    /// A dead letter: the body as it came, with the reason beside it. The detail is cut: headers
    /// that do not fit one frame would close the connection.
    #[must_use]
    pub fn dead(body: Vec<u8>, reason: &str, detail: &str) -> Outgoing {
        let detail = echo(detail).into_owned();
        let headers = vec![(REASON, text(reason)), (DETAIL, text(&detail))];
        Outgoing { headers, ..Outgoing::direct(DEAD, body) }
    }

    /// An outcome event in the binary content mode of CloudEvents. `source` names the ledger. If it
    /// is `mandatory`, [`Unrouted`](super::Taken::Unrouted) tells that nobody has bound a queue for
    /// it.
    #[must_use]
    pub fn event(event: &Event, source: &str, mandatory: bool) -> Outgoing {
        let (id, end) = (event.id(), event.about.end.as_str());
        let headers = vec![
            ("cloudEvents_specversion", text("1.0")),
            ("cloudEvents_id", text(&id)),
            ("cloudEvents_source", text(source)),
            ("cloudEvents_type", text(&format!("tandem.transaction.{end}"))),
            ("cloudEvents_subject", text(&event.about.id)),
            ("cloudEvents_dataschema", text(SCHEMA)),
        ];
        let (through, routing_key) = (Through::Events, format!("{EVENT_KEY}.{end}"));
        let body = event.body.to_string().into_bytes();
        Outgoing { through, routing_key, id: Some(id), mandatory, body, headers }
    }

    /// The same, with the traces of those of its transactions that have one.
    #[must_use]
    pub fn traced(mut self, ids: &[TransactionId], traces: &Traces) -> Outgoing {
        self.headers.extend(traces::header(ids, traces));
        self
    }

    /// What it is: its body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Where it goes, and through which detour: the key of the queue it ends in, and the delay
    /// class in milliseconds if it waits first.
    #[must_use]
    pub fn destination(&self) -> (&str, Option<u32>) {
        match self.routing_key.split_once('.') {
            Some((delay, key)) if self.through == Through::Retry => (key, delay.parse().ok()),
            _ => (&self.routing_key, None),
        }
    }

    fn direct(routing_key: &str, body: Vec<u8>) -> Outgoing {
        Outgoing {
            through: Through::Main,
            routing_key: routing_key.to_owned(),
            id: None,
            mandatory: true,
            body,
            headers: vec![],
        }
    }

    pub(super) fn properties(&self) -> BasicProperties {
        const PERSISTENT: u8 = 2;
        let mut headers = FieldTable::default();
        for (name, value) in &self.headers {
            headers.insert((*name).into(), value.clone());
        }
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_headers(headers);
        let properties = match &self.id {
            Some(id) => properties.with_message_id(id.as_str().into()),
            None => properties,
        };
        // When it was given up: who looks at dead letters asks for their age.
        if self.routing_key == DEAD { properties.with_timestamp(now_s()) } else { properties }
    }
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
