//! The broker's address: how `TANDEM_AMQP_URL` is read
//! ([URI specification](https://www.rabbitmq.com/docs/uri-spec)).
//!
//! Promises that what is connected to is what was written: each part counts literally, after its
//! percent-encoding is undone, and only a part that is left out as a whole gets its default (port
//! 5672 or 5671, user and password `guest`, virtual host `/`). The parser of the broker's client is
//! not used: it takes an IPv6 host and a missing host for `localhost`, and an empty password for
//! `guest`. Fails, before anything is connected to, with the part that is wrong and how to write
//! it. No error holds anything of user, password or a parameter's value.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::str::FromStr;

use lapin::uri::{
    AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism,
};
use ledger::limits::AMQP_NAME_BYTES_MAX;
use ledger::uri::percent_decoded;

use super::{HEARTBEAT_S, QueueError};

const HEARTBEAT: &str = "heartbeat";
const FRAME_MAX: &str = "frame_max";
const CHANNEL_MAX: &str = "channel_max";
const MECHANISM: &str = "auth_mechanism";
pub(super) const AUTHORITY: &str = "cacertfile";
pub(super) const CERTIFICATE: &str = "certfile";
pub(super) const KEY: &str = "keyfile";
pub(super) const VERIFY: &str = "verify";
/// The parameters that count. `tls` says what follows from the last four.
const PARAMETERS: [&str; 8] =
    [HEARTBEAT, FRAME_MAX, CHANNEL_MAX, MECHANISM, AUTHORITY, CERTIFICATE, KEY, VERIFY];

/// A broker's address, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// For the broker's client. An IPv6 host has no brackets here.
    pub(super) uri: AMQPUri,
    parameters: BTreeMap<String, String>,
}

impl Address {
    /// Reads a connection string.
    ///
    /// # Errors
    /// When a part is missing or can be read in more than one way.
    pub(super) fn parse(url: &str) -> Result<Address, QueueError> {
        parse(url).map_err(QueueError::Url)
    }

    /// The value of a parameter behind the `?`.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }
}

fn parse(url: &str) -> Result<Address, String> {
    if let Some(odd) = url.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '#') {
        return Err(format!("it has {odd:?} in it, which must be percent-encoded, as %23 for `#`"));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "amqp" => AMQPScheme::AMQP,
        "amqps" => AMQPScheme::AMQPS,
        _ => return Err("it does not begin with amqp:// or amqps://".to_owned()),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match place.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (place, None),
    };
    if query.contains('@') || path.is_some_and(|path| path.contains('@')) {
        return Err("an `@` follows the first `/` or `?`; in a user or password write `/` as %2F \
                    and `?` as %3F, and elsewhere `@` as %40"
            .to_owned());
    }
    let parameters = parameters(query)?;
    let query = query_string(&parameters)?;
    let (userinfo, host) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    let is_external = query.auth_mechanism == Some(SASLMechanism::External);
    let (host, port) = host_and_port(host)?;
    let port = port.unwrap_or_else(|| scheme.default_port());
    let authority = AMQPAuthority { userinfo: user(userinfo, is_external)?, host, port };
    let uri = AMQPUri { scheme, authority, vhost: virtual_host(path)?, query };
    Ok(Address { uri, parameters })
}

/// User and password.
fn user(written: Option<&str>, is_external: bool) -> Result<AMQPUserInfo, String> {
    let Some(written) = written else { return Ok(AMQPUserInfo::default()) };
    let (username, password) = match written.split_once(':') {
        Some(both) => both,
        // The user is the one of the certificate then.
        None if is_external => (written, ""),
        None => return Err("a user without a password; write user:password@".to_owned()),
    };
    if username.is_empty() {
        return Err("the user in front of `@` is empty".to_owned());
    }
    let username = literal("the user", username)?;
    Ok(AMQPUserInfo { username, password: literal("the password", password)? })
}

fn host_and_port(written: &str) -> Result<(String, Option<u16>), String> {
    if written.contains(',') {
        return Err("it names several hosts; write one, which may be the name of a load balancer"
            .to_owned());
    }
    if let Some(literal) = written.strip_prefix('[') {
        let (address, port) = literal.split_once(']').unwrap_or_default();
        if Ipv6Addr::from_str(address).is_err() {
            return Err(
                "the host in brackets is no IPv6 address; write it as [2001:db8::1]".to_owned()
            );
        }
        return match (port, port.strip_prefix(':')) {
            ("", _) => Ok((address.to_owned(), None)),
            (_, Some(digits)) => Ok((address.to_owned(), Some(port_of(digits)?))),
            (_, None) => Err("only `:` and a port may follow the host's `]`".to_owned()),
        };
    }
    let (host, port) = match written.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            return Err("there are two `:` in host and port; an IPv6 address stands in brackets, \
                        as [2001:db8::1]"
                .to_owned());
        }
        Some((host, port)) => (host, Some(port_of(port)?)),
        None => (written, None),
    };
    let host = literal("the host", host)?;
    if host.is_empty() {
        return Err("it names no host".to_owned());
    }
    match host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
        true => Ok((host, port)),
        false => Err("a host has only letters, digits, `-`, `_` and `.`; write one of another \
                      script in its form xn--…"
            .to_owned()),
    }
}

fn port_of(digits: &str) -> Result<u16, String> {
    let port = number::<u16>(digits).filter(|port| *port > 0);
    port.ok_or_else(|| {
        "what follows the host's `:` is no port from 1 to 65535; if it belongs to a password, write \
         `@` behind the password and a `/` in it as %2F"
            .to_owned()
    })
}

/// The name of the virtual host; `/` where no path is given.
fn virtual_host(path: Option<&str>) -> Result<String, String> {
    let Some(path) = path else { return Ok("/".to_owned()) };
    if path.is_empty() {
        return Err(
            "the virtual host behind the last `/` is empty; write %2f for the default one, \
                    whose name is `/`"
                .to_owned(),
        );
    }
    if path.contains('/') {
        return Err("a `/` in the virtual host's name must be written as %2f".to_owned());
    }
    let name = literal("the virtual host", path)?;
    match name.len() > AMQP_NAME_BYTES_MAX {
        true => Err(format!("the virtual host is longer than {AMQP_NAME_BYTES_MAX} bytes")),
        false => Ok(name),
    }
}

/// The parameters by name. One that has no effect here is refused: it would be taken for a setting.
fn parameters(query: &str) -> Result<BTreeMap<String, String>, String> {
    let mut parameters = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = PARAMETERS.iter().find(|known| **known == name);
        let Some(known) = known else {
            let all = PARAMETERS.join(", ");
            return Err(format!("a parameter behind the `?` is none of those that count: {all}"));
        };
        let value = literal(known, value)?;
        if parameters.insert((*known).to_owned(), value).is_some() {
            return Err(format!("{known} is given twice"));
        }
    }
    Ok(parameters)
}

fn query_string(parameters: &BTreeMap<String, String>) -> Result<AMQPQueryString, String> {
    let mechanism = parameters.get(MECHANISM).map(|name| SASLMechanism::from_str(name));
    let mechanism = mechanism
        .transpose()
        .map_err(|_| format!("{MECHANISM} must be plain, amqplain or external"))?;
    Ok(AMQPQueryString {
        frame_max: given(parameters, FRAME_MAX)?,
        channel_max: given(parameters, CHANNEL_MAX)?,
        heartbeat: given(parameters, HEARTBEAT)?.or(Some(HEARTBEAT_S)),
        connection_timeout: None,
        auth_mechanism: mechanism,
    })
}

fn given<T: FromStr>(
    parameters: &BTreeMap<String, String>,
    name: &str,
) -> Result<Option<T>, String> {
    let wrong = || format!("{name} is no number, or too large");
    parameters.get(name).map(|digits| number(digits).ok_or_else(wrong)).transpose()
}

/// A number of digits only: the standard library takes a `+`, too.
fn number<T: FromStr>(digits: &str) -> Option<T> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A part without its percent-encoding. The protocol separates user and password by a control
/// character.
fn literal(part: &str, written: &str) -> Result<String, String> {
    let text = percent_decoded(written).map_err(|problem| format!("{part}: {problem}"))?;
    match text.contains(char::is_control) {
        true => Err(format!("{part} has a control character in it")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use ledger::uri::segment;

    /// Host, port, user, password and virtual host.
    type Parts<'a> = (&'a str, u16, &'a str, &'a str, &'a str);

    fn parts(uri: &AMQPUri) -> Parts<'_> {
        let AMQPAuthority { userinfo: AMQPUserInfo { username, password }, host, port } =
            &uri.authority;
        (host, *port, username, password, &uri.vhost)
    }

    #[test]
    fn what_is_connected_to_is_what_was_written() {
        let long = format!("amqp://u:p@h/{}", "v".repeat(AMQP_NAME_BYTES_MAX));
        for (url, expected) in [
            ("amqp://h", ("h", 5672, "guest", "guest", "/")),
            ("amqps://h", ("h", 5671, "guest", "guest", "/")),
            ("AMQPS://Host.example", ("Host.example", 5671, "guest", "guest", "/")),
            ("amqp://u:p@h:1/%2f", ("h", 1, "u", "p", "/")),
            ("amqp://u:p@[2001:db8::1]:5673/%2f", ("2001:db8::1", 5673, "u", "p", "/")),
            ("amqp://[::1]", ("::1", 5672, "guest", "guest", "/")),
            ("amqps://[::ffff:10.0.0.1]/v", ("::ffff:10.0.0.1", 5671, "guest", "guest", "v")),
            ("amqp://10.0.0.1:5672/v", ("10.0.0.1", 5672, "guest", "guest", "v")),
            ("amqp://h%6Fst:65535/a%2Fb%20c", ("host", 65_535, "guest", "guest", "a/b c")),
            ("amqp://h/%2e%2e", ("h", 5672, "guest", "guest", "..")),
            ("amqp://h/.", ("h", 5672, "guest", "guest", ".")),
            ("amqp://h/a+b", ("h", 5672, "guest", "guest", "a+b")),
            ("amqp://u%40x:p%3A%2F%23%25@h/v", ("h", 5672, "u@x", "p:/#%", "v")),
            ("amqp://u:p:q@r@h/v", ("h", 5672, "u", "p:q@r", "v")),
            ("amqp://u:@h/v", ("h", 5672, "u", "", "v")),
            ("amqp://ü:%C3%A4@h/ß", ("h", 5672, "ü", "ä", "ß")),
            ("amqps://u@h/v?auth_mechanism=external", ("h", 5671, "u", "", "v")),
            (&long, ("h", 5672, "u", "p", &"v".repeat(AMQP_NAME_BYTES_MAX))),
        ] {
            let address = Address::parse(url).expect(url);
            assert_eq!(parts(&address.uri), expected, "{url}");
        }
    }

    #[test]
    fn a_form_that_has_no_single_meaning_is_refused_and_no_secret_is_told() {
        let long = format!("amqp://h/{}", "v".repeat(AMQP_NAME_BYTES_MAX + 1));
        for (url, expected) in [
            ("", "begin with amqp://"),
            ("hidden", "begin with amqp://"),
            ("amqp:h", "begin with amqp://"),
            ("amqp:/h/v", "begin with amqp://"),
            ("http://h", "begin with amqp://"),
            ("amqp://", "no host"),
            ("amqp:///v", "no host"),
            ("amqp://u:hidden@/v", "no host"),
            ("amqp://u:hidden@:5672/v", "no host"),
            ("amqp://::1/v", "brackets"),
            ("amqp://2001:db8::1:5672/v", "brackets"),
            ("amqp://[::1", "no IPv6 address"),
            ("amqp://[h]/v", "no IPv6 address"),
            ("amqp://[fe80::1%25eth0]/v", "no IPv6 address"),
            ("amqp://[::1]5672/v", "follow the host's `]`"),
            ("amqp://h:/v", "no port"),
            ("amqp://h:0/v", "no port"),
            ("amqp://h:+1/v", "no port"),
            ("amqp://h:65536/v", "no port"),
            ("amqp://u:hidden/v", "no port"),
            ("amqp://h1,h2/v", "several hosts"),
            ("amqp://h1:5672,h2:5672/v", "several hosts"),
            ("amqp://bücher/v", "xn--"),
            ("amqp://h%2fi/v", "letters, digits"),
            ("amqp://h\\i/v", "letters, digits"),
            ("amqp://h/", "virtual host behind"),
            ("amqp://u:hidden@h/?heartbeat=5", "virtual host behind"),
            ("amqp://h//", "%2f"),
            ("amqp://h/a/b", "%2f"),
            (&long, "longer than"),
            ("amqp://hidden@h/v", "without a password"),
            ("amqp://:hidden@h/v", "empty"),
            ("amqp://@h/v", "password"),
            ("amqp://u:hid%xden@h/v", "%25"),
            ("amqp://u:hidden%@h/v", "%25"),
            ("amqp://u:hidden%ff@h/v", "UTF-8"),
            ("amqp://u%00x:hidden@h/v", "control character"),
            ("amqp://h/v%0a", "control character"),
            ("amqp://u:hid#den@h/v", "%23"),
            ("amqp://u:hid den@h/v", "percent-encoded"),
            ("amqp://u:hid\tden@h/v", "percent-encoded"),
            ("amqp://h/v\n", "percent-encoded"),
            ("amqp://u:12/hidden@h/v", "%2F"),
            ("amqp://u:12?hidden@h/v", "%3F"),
            ("amqp://h/v?hidden=1", "none of those"),
            ("amqp://h/v?connection_timeout=1", "none of those"),
            ("amqp://h/v?heartbeat=hidden", "heartbeat is no number"),
            ("amqp://h/v?heartbeat=65536", "too large"),
            ("amqp://h/v?heartbeat", "heartbeat is no number"),
            ("amqp://h/v?frame_max=-1", "frame_max is no number"),
            ("amqp://h/v?heartbeat=1&heartbeat=2", "given twice"),
            ("amqp://h/v?auth_mechanism=hidden", "auth_mechanism must be"),
        ] {
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(error.starts_with("TANDEM_AMQP_URL: "), "{url}: {error}");
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("hid") && !error.contains("den"), "{url}: {error}");
        }
    }

    #[test]
    fn parameters_count_as_they_are_written() {
        let url = "amqps://h/v?heartbeat=3&channel_max=7&frame_max=131072&cacertfile=/a+b%20c.pem";
        let address = Address::parse(url).expect("good");
        let AMQPQueryString { heartbeat, channel_max, frame_max, .. } = address.uri.query.clone();
        assert_eq!((heartbeat, channel_max, frame_max), (Some(3), Some(7), Some(131_072)));
        assert_eq!(address.parameter("cacertfile"), Some("/a+b c.pem"));
        let unset = Address::parse("amqp://h/v").expect("good").uri.query;
        assert_eq!((unset.heartbeat, unset.frame_max), (Some(HEARTBEAT_S), None));
    }

    #[test]
    fn encoded_parts_come_back_whatever_is_in_them() {
        const ODD: [char; 16] =
            ['a', '0', '/', '?', '#', '@', ':', '[', ']', '%', ' ', '+', '&', '=', 'ä', '😀'];
        let mut random = StdRng::seed_from_u64(34);
        let mut text = || {
            let length = random.random_range(1..12);
            (0..length).map(|_| *ODD.choose(&mut random).expect("some")).collect::<String>()
        };
        for _ in 0..2_000 {
            let [user, password, vhost] = [text(), text(), text()];
            for (host, literal) in [("h", "h"), ("[fd00::2]", "fd00::2")] {
                let [u, p, v] = [&user, &password, &vhost].map(|part| segment(part));
                let url = format!("amqp://{u}:{p}@{host}:5673/{v}");
                let address = Address::parse(&url).expect(&url);
                assert_eq!(parts(&address.uri), (literal, 5673, &*user, &*password, &*vhost));
            }
        }
    }
}
