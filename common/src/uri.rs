//! Names as parts of a URI (RFC 3986).

/// A name as one segment of a path: what is not unreserved is percent-encoded.
#[must_use]
pub fn segment(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}
