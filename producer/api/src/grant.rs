//! A line of the file of tokens: what one token may do, and until when.
//!
//! A line is `NAME SCOPES SHA256`, and then, in any order, `expires=MOMENT`, `rate=NUMBER`, and
//! `accounts=PREFIX`, which may be there several times. Promises that a line that is written reads
//! back as the same. Fails with the field, and what to write there.

use bson::DateTime;
use ledger::hex::{from_hex, hex};
use ledger::json;
use ledger::limits::echo;
use ledger::remedy::Remedy;
use ledger::transaction::check_name;
use sha2::{Digest, Sha256};

use super::scope::Scope;

/// How many random bytes a token has.
const BYTES: usize = 32;
/// What a token begins with, so that a scanner of sources can find one.
const PREFIX: &str = "tandem_";

const EXPIRES: &str = "expires";
const RATE: &str = "rate";
const ACCOUNTS: &str = "accounts";

/// What a token may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose it is. What is kept of a caller is kept by its name.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// From when on it is refused.
    pub expires: Option<DateTime>,
    /// The most requests a second, in place of the server's own limit; 0 is unlimited.
    pub rate: Option<u32>,
    /// How the names of the accounts begin that it is bound to; all accounts, if there is none.
    pub accounts: Vec<String>,
}

impl Grant {
    /// A token for all accounts that does not expire and has the server's rate.
    pub fn new(name: &str, scopes: &[Scope]) -> Grant {
        let (name, scopes) = (name.to_owned(), scopes.to_vec());
        Grant { name, scopes, expires: None, rate: None, accounts: Vec::new() }
    }

    /// A new token of this kind, and the line of the file for it.
    pub fn make(&self, random: [u8; BYTES]) -> (String, String) {
        let token = format!("{PREFIX}{}", hex(&random));
        let line = self.line(&digest(token.as_bytes()));
        (token, line)
    }

    fn line(&self, digest: &[u8; 32]) -> String {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let mut words = vec![self.name.clone(), scopes.join(","), hex(digest)];
        words.extend(self.expires.map(|at| format!("{EXPIRES}={}", json::timestamp(at))));
        words.extend(self.rate.map(|rate| format!("{RATE}={rate}")));
        words.extend(self.accounts.iter().map(|prefix| format!("{ACCOUNTS}={prefix}")));
        words.join(" ")
    }

    /// What a line says: the grant, and the digest of the token.
    ///
    /// # Errors
    /// Names the field.
    pub fn read(line: &str) -> Result<(Grant, [u8; 32]), String> {
        let mut words = line.split_whitespace();
        let (Some(name), Some(scopes), Some(digest)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!(
                "is not: NAME SCOPES SHA256, and then {EXPIRES}=, {RATE}= or {ACCOUNTS}= as needed; \
                 {} makes a line",
                Remedy::Token
            ));
        };
        check_name("the name", name).map_err(|error| error.to_string())?;
        let scopes: Result<Vec<Scope>, String> = scopes.split(',').map(Scope::parse).collect();
        let scopes = scopes.map_err(|problem| format!("the scopes: {problem}"))?;
        let mut grant = Grant::new(name, &scopes);
        let digest = from_hex(digest).ok_or_else(|| {
            let makes = Remedy::Token;
            format!(
                "the third word is not a SHA-256 of 64 hexadecimal digits; {makes} makes a line"
            )
        })?;
        for word in words {
            grant.take(word)?;
        }
        Ok((grant, digest))
    }

    /// Takes a field over that a line has behind its digest.
    fn take(&mut self, word: &str) -> Result<(), String> {
        let Some((field, value)) = word.split_once('=') else {
            return Err(unknown(word));
        };
        match field {
            EXPIRES if self.expires.is_none() => self.expires = Some(moment(value)?),
            RATE if self.rate.is_none() => self.rate = Some(rate(value)?),
            EXPIRES | RATE => return Err(format!("{field}: is given twice; leave one of them")),
            ACCOUNTS => self.accounts.push(prefix(value)?),
            _ => return Err(unknown(field)),
        }
        Ok(())
    }
}

/// The digest by which a token is known.
pub fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn unknown(word: &str) -> String {
    let word = echo(word);
    format!("{word:?} is not known here; write {EXPIRES}=, {RATE}= or {ACCOUNTS}=, without blanks")
}

/// The moment from which on a token is refused.
///
/// # Errors
/// When it is no moment, or one with an offset.
pub fn moment(text: &str) -> Result<DateTime, String> {
    let moment = DateTime::parse_rfc3339_str(text).ok().filter(|_| text.ends_with('Z'));
    moment.ok_or_else(|| {
        let text = echo(text);
        format!("{EXPIRES}: {text:?} is not a moment in UTC like 2027-01-01T00:00:00Z")
    })
}

fn rate(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        let text = echo(text);
        format!("{RATE}: {text:?} is not a whole number of requests a second; 0 is unlimited")
    })
}

/// How the names of accounts begin.
///
/// # Errors
/// When it is empty, has blanks, which the file can't hold, or no name can begin with it.
pub fn prefix(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(format!("{ACCOUNTS}: is empty; leave it out for all accounts"));
    }
    if text.contains(char::is_whitespace) {
        return Err(format!("{ACCOUNTS}: {:?} has blanks; choose a prefix without", echo(text)));
    }
    check_name(ACCOUNTS, text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_what_was_granted() {
        let plain = Grant::new("ci", &[Scope::Read, Scope::Hold]);
        let bound = Grant {
            expires: Some(DateTime::from_millis(1_800_000_000_000)),
            rate: Some(20),
            accounts: vec!["shop/".to_owned(), "a=b".to_owned()],
            ..Grant::new("till", &Scope::ALL)
        };
        for grant in [plain, bound] {
            let (token, line) = grant.make([7; BYTES]);
            assert_eq!(Grant::read(&line), Ok((grant, digest(token.as_bytes()))), "{line}");
        }
        let hex = "0".repeat(64);
        let line = format!("ci read {hex}   rate=0 expires=2027-01-01T00:00:00Z");
        let (grant, _) = Grant::read(&line).expect("in any order");
        assert_eq!((grant.rate, grant.expires.is_some()), (Some(0), true));
    }

    #[test]
    fn a_wrong_field_is_named_with_what_to_write_there() {
        let hex = "0".repeat(64);
        for (line, expected) in [
            ("ci read", "is not: NAME SCOPES SHA256"),
            ("ci write 00", "the scopes: \"write\" is not one of read, submit, hold, reverse,"),
            ("ci read,, 00", "the scopes: \"\" is not one of"),
            ("ci read 00", "the third word is not a SHA-256"),
            (&format!("ci read {hex} forever"), "\"forever\" is not known here; write expires="),
            (&format!("ci read {hex} until=2027"), "\"until\" is not known here"),
            (&format!("ci read {hex} expires=2027-01-01"), "expires: \"2027-01-01\" is not a mom"),
            (
                &format!("ci read {hex} expires=2027-01-01T00:00:00+01:00"),
                "expires: \"2027-01-01T00:00:00+01:00\" is not a moment in UTC like",
            ),
            (&format!("ci read {hex} rate=-1"), "rate: \"-1\" is not a whole number"),
            (&format!("ci read {hex} rate=1 rate=2"), "rate: is given twice"),
            (&format!("ci read {hex} accounts="), "accounts: is empty; leave it out"),
            (&format!("{} read {hex}", "x".repeat(201)), "the name: is longer than 200 bytes"),
        ] {
            let problem = Grant::read(line).expect_err(line);
            assert!(problem.starts_with(expected), "{line}: {problem}");
        }
        assert!(prefix("my shop").expect_err("blanks").starts_with("accounts: \"my shop\" has bl"));
    }
}
