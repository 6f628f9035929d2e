//! Bodies of messages, as anybody with a login at the broker may publish them.

use fuzz::json::{Json, crowds, leaves, piece, text, write};
use fuzz::judge::{Memory, told, within};
use fuzz::transfers::names;
use fuzz::tree::{Tree, spoils};
use fuzz::{Verdict, bytes, judge, run};
use ledger::limits::MESSAGE_IDS_MAX;
use ledger::message::Message;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::value::RawValue;

/// What is told of a bad id takes a hundred bytes, for as many ids as a message may have; beyond
/// that, a good id takes at least three bytes of a message, and some fifty of memory.
const MEMORY: Memory = Memory { base: 256 << 10, per_byte: 24 };

#[test]
fn a_message_is_read_or_dead_lettered_with_a_reason() {
    run("messages", &inputs(), check);
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let ids = prop_oneof![
        20 => vec(names(), 1..6),
        1 => vec(names(), MESSAGE_IDS_MAX - 2..MESSAGE_IDS_MAX + 3),
        1 => names().prop_map(|name| vec![name; MESSAGE_IDS_MAX]),
    ];
    let counts = || prop_oneof![3 => Just(0_u32), 1 => 1..9_u32, 1 => Just(u32::MAX)];
    let marker = proptest::option::weighted(0.1, any::<i64>());
    let whole = (ids, counts(), counts(), marker).prop_map(|(ids, tries, strikes, marker)| {
        let ids = ids.iter().map(|id| text(id)).collect();
        let mut fields = vec![("ids", Tree::List(ids))];
        fields.extend((tries > 0).then(|| ("tries", piece(tries))));
        fields.extend((strikes > 0).then(|| ("strikes", piece(strikes))));
        fields.extend(marker.map(|at| ("marker", piece(at))));
        Json::object(fields)
    });
    let crowd = crowds().prop_map(|ids| Json::object([("ids", Tree::Leaf(ids))]));
    let whole = prop_oneof![50 => whole, 1 => crowd];
    (whole, spoils(leaves(), names(), 3), bytes::spoils()).prop_map(|(whole, of_tree, of_bytes)| {
        bytes::spoiled(write(&whole.spoiled(of_tree)).into_bytes(), of_bytes)
    })
}

fn check(input: &[u8]) -> Result<Verdict, String> {
    let parsed = match within(MEMORY, input, || Message::parse(input))? {
        Ok(parsed) => parsed,
        Err(problem) => {
            let names_it = [" ids; the limit is", " bytes; the limit is"];
            if !names_it.iter().any(|named| problem.contains(named)) {
                told(&problem, &["not a message of the form {\"ids\":[…]}: ", "ids is empty"])?;
            }
            return Ok(Verdict::REFUSED);
        }
    };
    let (message, bad) = (parsed.message, parsed.bad);
    let count = message.ids.len() + bad.len();
    if count > MESSAGE_IDS_MAX || (count == 0 && message.marker.is_none()) {
        return Err(format!("{count} ids were taken"));
    }
    for id in &message.ids {
        judge::name(id)?;
    }
    for id in &bad {
        told(&id.problem, &["ids: "])?;
        serde_json::from_str::<&RawValue>(&id.id).map_err(|e| format!("{id:?}: {e}"))?;
    }
    if message.ids.is_empty() && message.marker.is_none() {
        // Each of its ids is dead-lettered with its problem.
        return Ok(Verdict::REFUSED);
    }
    let again = Message::parse(&message.to_bytes())?;
    match again.message == message && again.bad.is_empty() {
        true => Ok(Verdict::ACCEPTED),
        false => Err(format!("{message:?} reads back as {again:?}")),
    }
}
