//! How many documents are read at a time, and how whoever waits is told of them.

/// Every how many documents progress is shown.
const PROGRESS_EVERY: u64 = 1 << 13;

/// Is told how many documents were read, and of which kind.
pub(super) type Progress<'a> = dyn Fn(u64, &str) + Send + Sync + 'a;

pub(super) const BATCH: u32 = 5_000;

/// How much was read.
pub(super) struct ReadCount<'a> {
    progress: &'a Progress<'a>,
    read: u64,
}

impl<'a> ReadCount<'a> {
    /// Nothing was read yet.
    pub(super) fn new(progress: &'a Progress<'a>) -> ReadCount<'a> {
        ReadCount { progress, read: 0 }
    }

    /// One more document was read.
    pub(super) fn one(&mut self, what: &str) {
        self.read += 1;
        if self.read.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.read, what);
        }
    }
}
