//! The name of a person, as a proxy says it that signs people in.
//!
//! Owns who is believed: anybody can write a header, so the name counts only in a request whose
//! connection comes from one address. From any other one the header says nothing. Promises that a name
//! that counts stands there once, alone, short, and with nothing in it that nobody sees: a request
//! from the proxy with another one is refused, because somebody may have added it. The name says who
//! has acted, beside the token. It gives no right: the token says what may be done.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use ledger::transaction::check_name;
use ledger::visible;

use super::problem::{Code, Problem};
use super::rates::Peer;

/// Headers that say something else, and secrets, that would be noted as names.
const NO_NAMES: [HeaderName; 4] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, header::HOST];

/// The header in which a proxy says who somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserHeader {
    name: HeaderName,
    proxy: IpAddr,
}

impl UserHeader {
    /// A header of this name, believed from this address alone.
    ///
    /// # Errors
    /// When no header has the name, or one that says something else.
    pub fn new(name: &str, proxy: IpAddr) -> Result<UserHeader, String> {
        let bad = |why: &str| format!("{name:?} {why}; name a header that the proxy sets itself");
        let header = HeaderName::from_bytes(name.as_bytes());
        let header = header.map_err(|_| bad("is no name of a header"))?;
        match NO_NAMES.contains(&header) {
            true => Err(bad("says something else than a name")),
            false => Ok(UserHeader { name: header, proxy: proxy.to_canonical() }),
        }
    }

    /// The name of whoever sends a request; none where it does not come from the proxy, or the proxy
    /// names nobody.
    ///
    /// # Errors
    /// When the proxy has sent what is not one good name.
    pub fn person(&self, request: &Parts) -> Result<Option<String>, Problem> {
        if Peer::of(request) != Some(self.proxy) {
            return Ok(None);
        }
        let refused = |why: &str| {
            let problem = format!("the header {} {why}; see the proxy in front", self.name);
            Problem::new(Code::Malformed, problem)
        };
        let mut values = request.headers.get_all(&self.name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(refused("stands there twice"));
        }
        let name = std::str::from_utf8(value.as_bytes()).map_err(|_| refused("is no text"))?;
        if name.contains(',') {
            return Err(refused("is a list, and names one person only"));
        }
        let is_good = check_name("name", name).is_ok() && visible::problem(name).is_none();
        match is_good {
            true => Ok(Some(name.to_owned())),
            false => Err(refused("is no name of at most 200 bytes that can be read")),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn request(peer: Option<&str>, values: &[&[u8]]) -> Parts {
        let (mut parts, ()) = axum::http::Request::new(()).into_parts();
        for value in values {
            let value = HeaderValue::from_bytes(value).expect("a header may have it");
            parts.headers.append("x-user", value);
        }
        if let Some(peer) = peer {
            parts.extensions.insert(Peer(peer.parse().expect("an address")));
        }
        parts
    }

    fn person(peer: Option<&str>, values: &[&[u8]]) -> Result<Option<String>, Code> {
        let header = UserHeader::new("X-User", "10.0.0.1".parse().expect("an address"));
        let found = header.expect("a good name").person(&request(peer, values));
        found.map_err(|problem| problem.code)
    }

    #[test]
    fn only_the_proxy_that_is_named_says_who_somebody_is() {
        let ada = Ok(Some("ada@example".to_owned()));
        assert_eq!(person(Some("10.0.0.1"), &[b"ada@example"]), ada);
        assert_eq!(person(Some("::ffff:10.0.0.1"), &[b"ada@example"]), ada);
        for peer in [Some("10.0.0.2"), Some("::1"), None] {
            for spoofed in [&[&b"ada@example"[..]][..], &[b"ada", b"bob"], &[b""], &[b"\xff"]] {
                assert_eq!(person(peer, spoofed), Ok(None), "{peer:?}");
            }
        }
    }

    #[test]
    fn what_the_proxy_sends_is_one_good_name_or_the_request_is_refused() {
        let proxy = Some("10.0.0.1");
        assert_eq!(person(proxy, &[]), Ok(None));
        assert_eq!(person(proxy, &["Jürgen".as_bytes()]), Ok(Some("Jürgen".to_owned())));
        let long = [b'x'; 201];
        let unseen = "ada\u{200b}".as_bytes();
        for values in [
            &[&b"ada"[..], b"bob"][..],
            &[b"ada", b"ada"],
            &[b"ada, bob"],
            &[b""],
            &[b" "],
            &[b"\xff"],
            &[b"ada\tbob"],
            &[unseen],
            &[&long],
        ] {
            assert_eq!(person(proxy, values), Err(Code::Malformed), "{values:?}");
        }
    }

    #[test]
    fn no_header_with_a_secret_in_it_is_taken_for_a_name() {
        let proxy = "10.0.0.1".parse().expect("an address");
        for name in ["Authorization", "cookie", "", "X User"] {
            assert!(UserHeader::new(name, proxy).is_err(), "{name:?}");
        }
    }
}
