//! The traces of a message's transactions, as headers beside its body.
//!
//! A message of one id has the header that OpenTelemetry's conventions name, `traceparent`. One of
//! several ids has [`TRACES`], a list of texts, each of them a traceparent, a space and an id; only
//! sampled transactions are in it. Promises that the headers stay far below one frame, and that a
//! header that says something else is ignored.

use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString};
use ledger::transaction::TransactionId;
use observe::{TRACEPARENT, TRACES_MAX, TraceParent, Traces};

/// The header of a message with several ids.
pub const TRACES: &str = "tandem-traceparents";

/// The most bytes of such a header; a frame holds at least 128 KiB.
const BYTES_MAX: usize = 32 << 10;

/// The header for a message of these ids, if one of them has a trace.
pub(super) fn header(ids: &[TransactionId], traces: &Traces) -> Option<(&'static str, AMQPValue)> {
    if traces.is_empty() {
        return None;
    }
    let text = |text: String| AMQPValue::LongString(LongString::from(text));
    if let [id] = ids {
        return Some((TRACEPARENT, text(traces.of(id)?.to_string())));
    }
    let (mut list, mut bytes) = (FieldArray::default(), 0);
    for id in ids {
        let Some(parent) = traces.of(id) else { continue };
        let entry = format!("{parent} {id}");
        bytes += entry.len();
        if bytes > BYTES_MAX {
            break;
        }
        list.push(text(entry));
    }
    (!list.as_slice().is_empty()).then_some((TRACES, AMQPValue::FieldArray(list)))
}

/// The traces that a delivery names for its ids. A producer that knows nothing of Tandem's list
/// gives all of a message's transactions the trace of the message.
#[must_use]
pub fn traces(headers: Option<&FieldTable>, ids: &[TransactionId]) -> Traces {
    let mut traces = Traces::default();
    let Some(headers) = headers.map(FieldTable::inner) else { return traces };
    if let Some(parent) = headers.get(TRACEPARENT).and_then(as_text).and_then(TraceParent::parse) {
        ids.iter().for_each(|id| traces.add(id, parent.clone()));
    }
    if let Some(AMQPValue::FieldArray(list)) = headers.get(TRACES) {
        for entry in list.as_slice().iter().take(TRACES_MAX).filter_map(as_text) {
            let Some((parent, id)) = entry.split_once(' ') else { continue };
            if let (Some(parent), Some(id)) =
                (TraceParent::parse(parent), ids.iter().find(|ours| ***ours == *id))
            {
                traces.add(id, parent);
            }
        }
    }
    traces
}

fn as_text(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parent() -> TraceParent {
        TraceParent::parse(SAMPLED).expect("as in the standard")
    }

    fn ids(names: &[&str]) -> Vec<TransactionId> {
        names.iter().map(|name| TransactionId::from(*name)).collect()
    }

    fn table(name: &str, value: AMQPValue) -> FieldTable {
        let mut table = FieldTable::default();
        table.insert(name.into(), value);
        table
    }

    #[test]
    fn traces_read_back_as_they_were_written_and_the_others_add_no_byte() {
        let mut some = Traces::default();
        some.add(&"b c".into(), parent());
        for all in [ids(&["a", "b c", "d"]), ids(&["b c"])] {
            let (name, value) = header(&all, &some).expect("b c has a trace");
            assert_eq!(traces(Some(&table(name, value)), &all), some);
        }
        assert_eq!(header(&ids(&["a"]), &some), None);
        assert_eq!(header(&ids(&["a", "d"]), &some), None);
        assert_eq!(header(&ids(&["a"]), &Traces::default()), None);
    }

    #[test]
    fn the_longest_ids_stay_far_below_a_frame() {
        let long: Vec<TransactionId> = (0..100)
            .map(|n| format!("{n:0width$}", width = ledger::limits::NAME_BYTES_MAX).into())
            .collect();
        let mut all = Traces::default();
        long.iter().for_each(|id| all.add(id, parent()));
        let (name, value) = header(&long, &all).expect("some fit");
        let read = traces(Some(&table(name, value)), &long);
        let bytes: usize = read.iter().map(|(id, _)| id.len() + SAMPLED.len() + 1).sum();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{bytes}");
    }

    #[test]
    fn a_message_of_a_stranger_gives_its_trace_to_all_and_odd_headers_to_nobody() {
        let two = ids(&["a", "b"]);
        let text = |text: &str| AMQPValue::LongString(text.into());
        let of_all = traces(Some(&table(TRACEPARENT, text(SAMPLED))), &two);
        assert_eq!(of_all.iter().count(), 2);
        let list = |entries: &[&str]| {
            let mut list = FieldArray::default();
            entries.iter().for_each(|entry| list.push(text(entry)));
            AMQPValue::FieldArray(list)
        };
        let many = vec!["x"; 50_000].join(" ");
        for (name, odd) in [
            (TRACEPARENT, text("hello")),
            (TRACEPARENT, AMQPValue::LongInt(5)),
            (TRACEPARENT, AMQPValue::LongString(vec![0xff, 0xfe].into())),
            (TRACEPARENT, list(&[SAMPLED])),
            (TRACES, text(SAMPLED)),
            (
                TRACES,
                list(&["", " ", SAMPLED, "a", &format!("{SAMPLED} "), &format!("{SAMPLED} c")]),
            ),
            (TRACES, list(&[&many])),
        ] {
            assert!(traces(Some(&table(name, odd)), &two).is_empty(), "{name}");
        }
        assert!(traces(None, &two).is_empty());
    }
}
