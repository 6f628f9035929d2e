//! How often the broker has delivered a message before.
//!
//! A quorum queue counts in a header. The count is also one higher for each message that a worker
//! only had in its hands, unbegun, when it died or lost its connection; so it suggests a suspect,
//! and proves nothing.

use lapin::types::{AMQPValue, FieldTable};

/// The header in which a quorum queue counts.
const COUNT: &str = "x-delivery-count";

/// How often a message was delivered before. Not every return of a message is counted by every
/// version of the broker: what is marked as delivered before was so once at least. A stranger may
/// have published the header, so it counts only beside that mark.
#[must_use]
pub fn deliveries_before(redelivered: bool, headers: Option<&FieldTable>) -> u32 {
    if !redelivered {
        return 0;
    }
    let count =
        headers.and_then(|headers| headers.inner().get(COUNT)).and_then(|count| match count {
            AMQPValue::ShortShortInt(count) => Some(i64::from(*count)),
            AMQPValue::ShortShortUInt(count) => Some(i64::from(*count)),
            AMQPValue::ShortInt(count) => Some(i64::from(*count)),
            AMQPValue::ShortUInt(count) => Some(i64::from(*count)),
            AMQPValue::LongInt(count) => Some(i64::from(*count)),
            AMQPValue::LongUInt(count) => Some(i64::from(*count)),
            AMQPValue::LongLongInt(count) => Some(*count),
            _no_number => None,
        });
    u32::try_from(count.unwrap_or(1).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_counts_only_for_what_is_marked_as_delivered_before() {
        for (redelivered, count, expected) in [
            (false, None, 0),
            (false, Some(AMQPValue::LongLongInt(7)), 0),
            (true, None, 1),
            (true, Some(AMQPValue::LongLongInt(0)), 1),
            (true, Some(AMQPValue::LongLongInt(-7)), 1),
            (true, Some(AMQPValue::LongLongInt(2)), 2),
            (true, Some(AMQPValue::LongInt(3)), 3),
            (true, Some(AMQPValue::LongLongInt(i64::MAX)), u32::MAX),
            (true, Some(AMQPValue::LongString("many".into())), 1),
        ] {
            let mut headers = FieldTable::default();
            if let Some(count) = count {
                headers.insert(COUNT.into(), count);
            }
            let found = deliveries_before(redelivered, Some(&headers));
            assert_eq!(found, expected, "{redelivered} {headers:?}");
        }
        assert_eq!(deliveries_before(true, None), 1);
    }
}
