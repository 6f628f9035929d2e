//! Whether whoever sends a request would rather have a page than JSON, by its header `Accept`
//! (RFC 9110, 12.5.1).
//!
//! Promises that a program gets JSON unless it wishes for HTML more: so without the header, with one
//! that takes anything, and with one that takes both alike. What can't be read counts as not named.
//! Pure.

/// How much HTML is wished for, and JSON, and anything else.
#[derive(Default)]
struct Wishes {
    html: f32,
    json: f32,
    any: f32,
}

/// Whether a header like this prefers HTML.
pub fn prefers_html(accept: Option<&[u8]>) -> bool {
    let text = accept.and_then(|accept| std::str::from_utf8(accept).ok()).unwrap_or_default();
    let mut wishes = Wishes::default();
    for range in text.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = quality.map_or(Some(1.0), |quality| quality.parse::<f32>().ok());
        let Some(quality) = quality.filter(|quality| (0.0..=1.0).contains(quality)) else {
            continue;
        };
        let wish = match media.as_str() {
            "text/html" => &mut wishes.html,
            "application/json" | "application/problem+json" | "application/*" => &mut wishes.json,
            "*/*" => &mut wishes.any,
            _ => continue,
        };
        *wish = wish.max(quality);
    }
    wishes.html > 0.0 && wishes.html > wishes.json && wishes.html >= wishes.any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_a_page_and_programs_json() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8";
        for (accept, is_html) in [
            (browser, true),
            ("text/html", true),
            ("Text/HTML; q=0.9, */*; q=0.5", true),
            ("text/html;level=1;q=0.3, application/json;q=0.2", true),
            ("*/*", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("application/json, text/html;q=0.5, */*;q=0.1", false),
            ("text/html;q=0.1, */*", false),
            ("text/html;q=0", false),
            ("text/html;q=much", false),
            ("text/htmlx", false),
            ("", false),
        ] {
            assert_eq!(prefers_html(Some(accept.as_bytes())), is_html, "{accept}");
        }
        assert!(!prefers_html(None));
        assert!(!prefers_html(Some(b"text/html\xff")));
    }
}
