//! Bytes as text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two hexadecimal digits for each byte, in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]).collect()
}

/// The bytes of such a text; none where it is another text, or has not so many.
#[must_use]
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = byte_of(*pair)?;
    }
    Some(bytes)
}

/// The same of as many bytes as there are.
#[must_use]
pub fn all_from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|pair| byte_of(*pair)).collect())?
}

fn byte_of([high, low]: [u8; 2]) -> Option<u8> {
    let half = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(half(high)? << 4 | half(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0, 0x0a, 0xff]), "000aff");
    }

    #[test]
    fn digits_are_read_back_and_nothing_else_is() {
        assert_eq!(from_hex("000aff"), Some([0, 0x0a, 0xff]));
        assert_eq!(all_from_hex("000aff"), Some(vec![0, 0x0a, 0xff]));
        assert_eq!(all_from_hex(""), Some(vec![]));
        assert_eq!((all_from_hex("000af"), all_from_hex("000aFF")), (None, None));
        for other in ["", "000af", "000aff0", "000aff00", "000aFF", "000agf", " 00aff", "00é0"] {
            assert_eq!(from_hex::<3>(other), None, "{other:?}");
        }
    }
}
