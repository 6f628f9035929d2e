//! Bytes as text.

/// Two hexadecimal digits for each byte, in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0, 0x0a, 0xff]), "000aff");
    }
}
