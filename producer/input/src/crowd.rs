//! Texts of JSON that would be a crowd of values.
//!
//! A tree of many tiny values takes sixty times the memory of its text. Owns the limit, and a look at
//! the text that tells before there is a tree. Never fails.

use ledger::limits::{LEGS_MAX, METADATA_BYTES_MAX};

/// The most values within one transaction or account. Metadata of more values would be larger than
/// it may be, because each of them takes two bytes there at least; the legs have three each, and
/// with the other fields a fourth is enough. So whatever may be stored has fewer.
pub const VALUES_MAX: usize = METADATA_BYTES_MAX / 2 + 4 * LEGS_MAX;

/// Whether a text of JSON may have more values than [`VALUES_MAX`]: each value but the first follows
/// a comma, or what begins a list or an object.
#[must_use]
pub fn is_crowd(text: &[u8]) -> bool {
    // Each of them takes a byte at least. So most texts need not be looked at.
    if text.len() <= VALUES_MAX {
        return false;
    }
    let (mut values, mut in_text, mut is_escaped) = (1_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values > VALUES_MAX
}

/// How a crowd is refused.
#[must_use]
pub fn refusal() -> String {
    format!("has more than {VALUES_MAX} values")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_values_is_told_from_its_text_on_each_level_and_never_within_a_string() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values - 2));
        assert!(!is_crowd(list(VALUES_MAX).as_bytes()));
        assert!(is_crowd(list(VALUES_MAX + 1).as_bytes()));
        let nested = format!(r#"{{"a":{{"b":{}}}}}"#, list(VALUES_MAX));
        assert!(is_crowd(nested.as_bytes()));
        let commas = ",[{".repeat(VALUES_MAX);
        for text in [format!(r#"{{"a":"{commas}"}}"#), format!(r#""\"{commas}\\""#)] {
            assert!(!is_crowd(text.as_bytes()), "they are text");
        }
        let objects = format!("[{}{{}}]", "{},".repeat(VALUES_MAX / 2));
        assert!(is_crowd(objects.as_bytes()));
    }
}
