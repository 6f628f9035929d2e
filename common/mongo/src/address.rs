//! Whether `TANDEM_MONGODB_URI` has a single meaning, before the driver reads it.
//!
//! The driver is strict, with exceptions: it forgets a password without a user, panics at some
//! characters behind a `%`, and repeats in its errors a part of a password in which a `/` or `?` is
//! not encoded. Promises that what passes here is read by the driver as it was written. Fails with
//! the part that is wrong and how to write it; no error holds anything of the string itself.

use ledger::uri::percent_decoded;

/// Checks a connection string.
///
/// # Errors
/// When a part is missing or can be read in more than one way. The sentence does not name the
/// variable.
pub(super) fn check(uri: &str) -> Result<(), String> {
    if let Some(odd) = uri.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '#') {
        return Err(format!("it has {odd:?} in it, which must be percent-encoded, as %23 for `#`"));
    }
    let (scheme, rest) = uri.split_once("://").unwrap_or_default();
    if !["mongodb", "mongodb+srv"].contains(&scheme) {
        return Err("it does not begin with mongodb:// or mongodb+srv://".to_owned());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if query.contains('@') {
        return Err("an `@` follows the first `?`; in a user or password write `?` as %3F, and \
                    elsewhere `@` as %40"
            .to_owned());
    }
    let hosts = match place.rsplit_once('@') {
        Some((userinfo, hosts)) => {
            user(userinfo)?;
            hosts
        }
        None => place,
    };
    let hosts = hosts.split_once('/').map_or(hosts, |(hosts, _)| hosts);
    hosts.split(',').try_for_each(host)
}

fn user(userinfo: &str) -> Result<(), String> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    if user.is_empty() {
        return Err("the user in front of `@` is empty".to_owned());
    }
    for (part, text) in [("the user", user), ("the password", password)] {
        if let Some(odd) = text.chars().find(|c| ":/?#[]@".contains(*c)) {
            let code = u32::from(odd);
            return Err(format!("{part} has `{odd}` in it, which must be written as %{code:02X}"));
        }
        percent_decoded(text).map_err(|problem| format!("{part}: {problem}"))?;
    }
    Ok(())
}

fn host(written: &str) -> Result<(), String> {
    let (host, port) = match written.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address, port.strip_prefix(':')),
        None => match written.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("there are two `:` in a host and its port; an IPv6 address stands in \
                            brackets, as [2001:db8::1]"
                    .to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (written, None),
        },
    };
    if host.is_empty() {
        return Err("it names no host, or one of several is empty".to_owned());
    }
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match port.is_none_or(is_port) {
        true => Ok(()),
        false => {
            Err("what follows a host's `:` is no port; if it belongs to a password, write `@` \
                      behind the password and a `/` in it as %2F"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::options::ClientOptions;

    use super::*;

    #[tokio::test]
    async fn what_is_connected_to_is_what_was_written() {
        for (uri, hosts, database, user) in [
            ("mongodb://h", "h:27017", None, None),
            ("mongodb://[::1]", "::1:27017", None, None),
            ("mongodb://[2001:db8::1]:1/db", "2001:db8::1:1", Some("db"), None),
            ("mongodb://a:1,b,[::1]:3/db?replicaSet=r", "a:1 b:27017 ::1:3", Some("db"), None),
            ("mongodb://u:p@h/", "h:27017", None, Some(("u", "p"))),
            (
                "mongodb://u%40x:%3A%2F%3F%23%25%5B@h/a%2Db",
                "h:27017",
                Some("a-b"),
                Some(("u@x", ":/?#%[")),
            ),
            ("mongodb://ü:%C3%A4@10.0.0.1:5/db", "10.0.0.1:5", Some("db"), Some(("ü", "ä"))),
        ] {
            assert_eq!(check(uri), Ok(()), "{uri}");
            let read = ClientOptions::parse(uri).await.expect(uri);
            let address = |host: &mongodb::options::ServerAddress| match host {
                mongodb::options::ServerAddress::Tcp { host, port } => {
                    format!("{host}:{}", port.unwrap_or(27_017))
                }
                other => panic!("{other}"),
            };
            let read_hosts: Vec<String> = read.hosts.iter().map(address).collect();
            assert_eq!(read_hosts.join(" "), hosts);
            assert_eq!(read.default_database.as_deref(), database);
            let login = read.credential.map(|login| (login.username, login.password));
            let expected = user.map(|(user, word)| (Some(user.to_owned()), Some(word.to_owned())));
            assert_eq!(login, expected);
        }
    }

    #[test]
    fn a_form_that_has_no_single_meaning_is_refused_and_no_secret_is_told() {
        for (uri, expected) in [
            ("", "begin with mongodb://"),
            ("MONGODB://h", "begin with mongodb://"),
            ("mongodb:h", "begin with mongodb://"),
            ("mongodb://", "no host"),
            ("mongodb:///db", "no host"),
            ("mongodb://u:hidden@/db", "no host"),
            ("mongodb://u:hidden@:27017/db", "no host"),
            ("mongodb://a,,b/db", "no host"),
            ("mongodb://::1/db", "brackets"),
            ("mongodb://:hidden@h/db", "empty"),
            ("mongodb://u:hid/den@h/db", "%2F"),
            ("mongodb://u:hid@den@h/db", "%40"),
            ("mongodb://u:hid:den@h/db", "%3A"),
            ("mongodb://u:hid?den@h/db", "%3F"),
            ("mongodb://u:hid#den@h/db", "%23"),
            ("mongodb://u:hid den@h/db", "percent-encoded"),
            ("mongodb://u:hid%aéden@h/db", "%25"),
            ("mongodb://u:hidden%@h/db", "%25"),
            ("mongodb://u:hidden/db", "no port"),
            ("mongodb://h:27017x/db", "no port"),
        ] {
            let error = check(uri).expect_err(uri);
            assert!(error.contains(expected), "{uri}: {error}");
            assert!(!error.contains("hid") && !error.contains("den"), "{uri}: {error}");
        }
    }
}
