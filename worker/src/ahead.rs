//! How many messages the broker delivers ahead: as many as hold a few batches of ids.
//!
//! The broker counts messages, and a message may hold one id or thousands. Too few delivered ahead
//! leave the lanes waiting; too many wait here, while other workers have nothing. Promises a bound for
//! the messages, however few ids they hold. A pure decision: somebody else consumes.

/// The fewest messages: some are always on their way.
const MESSAGES_LEAST: f64 = 20.0;

/// The most messages: some megabytes.
const MESSAGES_MAX: f64 = 16_000.0;

/// How many messages are delivered ahead before it is known what they hold.
const MESSAGES_FIRST: u16 = 200;

/// So many messages say what the next ones hold.
const SAMPLE: u32 = 100;

/// Consuming anew costs some round trips, so it is done only for a difference of so many times.
const TIMES: f64 = 2.0;

/// What was delivered, and what is to be delivered ahead.
#[derive(Debug)]
pub struct Ahead {
    prefetch: u16,
    /// How many ids are to be here; `None` where the operator has set the messages.
    aim: Option<usize>,
    messages: u32,
    ids: usize,
}

impl Ahead {
    /// As many messages as the operator says, or as many as hold so many ids.
    #[must_use]
    pub fn new(messages: Option<u16>, ids: usize) -> Ahead {
        let aim = messages.is_none().then_some(ids);
        Ahead { prefetch: messages.unwrap_or(MESSAGES_FIRST), aim, messages: 0, ids: 0 }
    }

    /// How many messages are to be delivered ahead now.
    #[must_use]
    pub fn messages(&self) -> u16 {
        self.prefetch
    }

    /// The most messages that can ever be here.
    #[must_use]
    pub fn most(&self) -> usize {
        if self.aim.is_some() { MESSAGES_MAX as usize } else { self.prefetch.into() }
    }

    /// Takes notice of a message. True when from now on another number is to be delivered ahead.
    pub fn saw(&mut self, ids: usize) -> bool {
        let Some(aim) = self.aim else { return false };
        self.messages += 1;
        self.ids += ids;
        if self.messages < SAMPLE {
            return false;
        }
        let ids_per_message = self.ids.max(1) as f64 / f64::from(self.messages);
        (self.messages, self.ids) = (0, 0);
        let wanted = (aim as f64 / ids_per_message).clamp(MESSAGES_LEAST, MESSAGES_MAX);
        let now = f64::from(self.prefetch);
        if wanted < now * TIMES && wanted > now / TIMES {
            return false;
        }
        self.prefetch = wanted as u16;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ahead: &mut Ahead, ids: usize) -> (bool, u16) {
        let changes = (0..SAMPLE).filter(|_| ahead.saw(ids)).count();
        assert!(changes <= 1);
        (changes == 1, ahead.messages())
    }

    #[test]
    fn small_messages_come_in_numbers_and_large_ones_do_not() {
        let mut ahead = Ahead::new(None, 16_000);
        assert_eq!(after(&mut ahead, 100), (false, MESSAGES_FIRST));
        assert_eq!(after(&mut ahead, 20), (true, 800));
        assert_eq!(after(&mut ahead, 12), (false, 800), "not for less than twice as many");
        assert_eq!(after(&mut ahead, 38), (false, 800), "nor for more than half of them");
        assert_eq!(after(&mut ahead, 45), (true, 355), "half of them are enough");
        assert_eq!(after(&mut ahead, 1), (true, 16_000));
        assert_eq!(after(&mut ahead, 1_000), (true, 20));
        assert_eq!(after(&mut ahead, 1_000_000), (false, 20));
        assert_eq!(after(&mut ahead, 0), (true, 16_000));
    }

    #[test]
    fn what_the_operator_says_counts() {
        let mut ahead = Ahead::new(Some(7), 16_000);
        assert_eq!(after(&mut ahead, 1), (false, 7));
        assert_eq!(ahead.most(), 7);
    }
}
