//! Lines of a file of any size, in bounded memory, with their numbers.
//!
//! Promises that at most `LINE_BYTES_MAX` bytes of a line are in memory, that a byte-order mark
//! is skipped, and that the digest covers every byte. A bad line is an item and does not end the
//! reading.

use std::io::{self, BufRead};

use sha2::{Digest, Sha256};

/// The longest line that is read.
const LINE_BYTES_MAX: usize = ledger::limits::TEXT_BYTES_MAX;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line and its number, from 1; or what is wrong with the line.
pub struct Line {
    /// Its number.
    pub number: u32,
    /// Its text, without the line's end.
    pub text: Result<String, String>,
}

/// Reads lines, and digests what it reads.
pub struct Lines<R> {
    source: R,
    number: u32,
    digest: Sha256,
    /// Whether the last line that was returned has an end.
    has_end: bool,
}

impl<R: BufRead> Lines<R> {
    /// Lines from the source's present position on.
    pub fn new(source: R) -> Lines<R> {
        Lines { source, number: 0, digest: Sha256::new(), has_end: true }
    }

    /// The next line that is not blank.
    ///
    /// # Errors
    /// When the source can't be read, or has more lines than can be counted.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let Some((length, has_end)) = self.read_line(&mut bytes)? else {
                return Ok(None);
            };
            self.number = self
                .number
                .checked_add(1)
                .ok_or_else(|| io::Error::other("has more than 4294967295 lines; split it"))?;
            let text = decode(&bytes, length, self.number);
            if text.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                continue;
            }
            self.has_end = has_end;
            return Ok(Some(Line { number: self.number, text }));
        }
    }

    /// Whether the last line that was returned has an end. One without may have been cut.
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    /// The digest of everything read so far.
    pub fn digest(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }

    /// Reads up to and with the next line feed; keeps the first bytes and returns the full length,
    /// and whether there was a line feed.
    fn read_line(&mut self, kept: &mut Vec<u8>) -> io::Result<Option<(usize, bool)>> {
        let mut length = 0;
        loop {
            let buffer = self.source.fill_buf()?;
            if buffer.is_empty() {
                return Ok((length > 0).then_some((length, false)));
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |at| at + 1);
            let room = (LINE_BYTES_MAX + 2).saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..taken.min(room)]);
            self.digest.update(&buffer[..taken]);
            length += taken;
            self.source.consume(taken);
            if end.is_some() {
                return Ok(Some((length, true)));
            }
        }
    }
}

fn decode(bytes: &[u8], length: usize, number: u32) -> Result<String, String> {
    let bytes = match number {
        1 => bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes),
        _ => bytes,
    };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.len() > LINE_BYTES_MAX {
        return Err(format!("the line has {length} bytes; the limit is {LINE_BYTES_MAX}"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(format!(
            "is not UTF-8 (at byte {} of the line); convert the file to UTF-8",
            error.valid_up_to() + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(u32, Result<String, String>)> {
        let mut lines = Lines::new(bytes);
        std::iter::from_fn(|| lines.next_line().expect("a slice"))
            .map(|line| (line.number, line.text))
            .collect()
    }

    #[test]
    fn marks_blank_lines_and_line_ends_do_not_show() {
        let found = all(b"\xEF\xBB\xBFa\r\n\n  \t\r\nb\n\nc");
        assert_eq!(found, [(1, Ok("a".into())), (4, Ok("b".into())), (6, Ok("c".into()))]);
    }

    #[test]
    fn a_last_line_without_an_end_is_known_and_blanks_behind_the_last_one_are_none() {
        for (bytes, has_end) in
            [("a\nb\n", true), ("a\nb", false), ("a\r\nb\r\n", true), ("a\n  ", true), ("", true)]
        {
            let mut lines = Lines::new(bytes.as_bytes());
            while lines.next_line().expect("a slice").is_some() {}
            assert_eq!(lines.has_end(), has_end, "{bytes:?}");
        }
    }

    #[test]
    fn a_bad_line_is_named_and_the_next_one_is_read() {
        let mut bytes = b"ok\n\xFF\xFE\n".to_vec();
        bytes.extend(vec![b'x'; LINE_BYTES_MAX + 1]);
        bytes.extend(b"\nlast\n");
        let found = all(&bytes);
        assert!(found[1].1.as_ref().is_err_and(|e| e.contains("UTF-8")));
        assert!(found[2].1.as_ref().is_err_and(|e| e.contains("limit")));
        assert_eq!(found[3], (4, Ok("last".into())));
    }

    #[test]
    fn the_digest_covers_every_byte() {
        let digest = |bytes: &[u8]| {
            let mut lines = Lines::new(bytes);
            while lines.next_line().expect("a slice").is_some() {}
            lines.digest()
        };
        assert_eq!(digest(b"a\nb\n"), digest(b"a\nb\n"));
        assert_ne!(digest(b"a\nb\n"), digest(b"a\nb"));
        assert_ne!(digest(b"a\nb\n"), digest(b"a\n\nb\n"));
    }
}
