//! Names as parts of a URI (RFC 3986), and back.

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

/// A part of a URI without its percent-encoding.
///
/// # Errors
/// When a `%` begins no code, or the result is no UTF-8. The sentence holds nothing of the part,
/// which may be a secret.
pub fn percent_decoded(part: &str) -> Result<String, &'static str> {
    let mut pieces = part.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece.get(..2).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.ok_or("two hexadecimal digits follow a `%`; write a `%` itself as %25")?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| "what is percent-encoded in it is no UTF-8")
}
