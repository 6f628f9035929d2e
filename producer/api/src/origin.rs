//! Which pages of a browser may send requests.
//!
//! A page of any site can make the browser of whoever looks at it send requests to a server that
//! only this browser reaches. Promises that no such request changes anything, and that without
//! tokens a name that somebody else has pointed at this machine is not served (DNS rebinding).

use axum::http::{HeaderMap, Method, header};

use super::problem::{Code, Problem};
use super::tokens::Tokens;

/// Refuses a request that another site's page has sent.
pub fn check(tokens: &Tokens, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST.as_str()).unwrap_or_default();
    if matches!(tokens, Tokens::Everybody(_)) && !is_own(host) {
        let problem = "without tokens, requests must be sent to localhost or a loopback address";
        return Err(Problem::new(Code::Forbidden, problem));
    }
    if method.is_safe() {
        return Ok(());
    }
    let foreign_site =
        text("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    let foreign_origin = text(header::ORIGIN.as_str())
        .is_some_and(|origin| origin.split_once("://").is_none_or(|(_, from)| from != host));
    match foreign_site || foreign_origin {
        true => Err(Problem::new(Code::Forbidden, "another site's page has sent this request")),
        false => Ok(()),
    }
}

/// Whether a host, with or without a port, is this machine itself.
fn is_own(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect(name), value.parse().expect(value)))
            .collect()
    }

    #[test]
    fn without_tokens_only_this_machine_s_own_names_are_served() {
        let tokens = Tokens::everybody(None);
        for (host, served) in [
            ("localhost:8080", true),
            ("LOCALHOST", true),
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("192.168.0.1", false),
            ("", false),
        ] {
            let checked = check(&tokens, &Method::GET, &headers(&[("host", host)]));
            assert_eq!(checked.is_ok(), served, "{host}");
        }
    }

    #[test]
    fn what_another_site_s_page_sends_changes_nothing() {
        let tokens = Tokens::Known(Vec::new());
        let host = ("host", "api.example");
        for (header, allowed) in [
            (("sec-fetch-site", "cross-site"), false),
            (("sec-fetch-site", "same-site"), false),
            (("sec-fetch-site", "same-origin"), true),
            (("sec-fetch-site", "none"), true),
            (("origin", "https://evil.example"), false),
            (("origin", "null"), false),
            (("origin", "https://api.example"), true),
            (("accept", "*/*"), true),
        ] {
            let headers = headers(&[host, header]);
            assert_eq!(check(&tokens, &Method::POST, &headers).is_ok(), allowed, "{header:?}");
            assert!(check(&tokens, &Method::GET, &headers).is_ok(), "reading is free");
        }
    }
}
