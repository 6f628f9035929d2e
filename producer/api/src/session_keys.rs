//! The keys that sessions of the console are sealed with, and whose the jobs are.
//!
//! The file has a key in each line: the first one seals, and all of them open. So a new key is added
//! behind the others, comes to the front when all servers have it, and the old one is taken out when
//! the sessions that it has sealed are over. All servers of a ledger have the same file, so that
//! whoever has signed in at one of them has at all of them. Without a file a server makes a key, which
//! ends with it.
//!
//! A key is as secret as the token of an operator: who has it and a digest of the file of tokens can
//! make a session. So a file that everybody on the machine can read is refused. Fails with a
//! sentence that names file and line.

use std::path::Path;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::IntoResponse;
use axum_extra::extract::cookie::{Cookie, Key, PrivateCookieJar};
use observe::secret_file;
use sha2::{Digest, Sha512};

use super::tokens::entries;

/// The fewest characters of a key: 32 random bytes in Base64.
const KEY_CHARACTERS_MIN: usize = 43;

/// The keys, the newest first. There is one at least.
pub struct SessionKeys(Vec<[u8; 64]>);

impl SessionKeys {
    /// A key that nobody else has.
    pub fn random() -> SessionKeys {
        let mut hash = Sha512::new();
        // 488 bits from the system's source.
        (0..4).for_each(|_| hash.update(uuid::Uuid::new_v4()));
        SessionKeys(vec![hash.finalize().into()])
    }

    /// Reads the file.
    pub fn load(path: &Path) -> Result<SessionKeys, String> {
        let text = secret_file::read(path, "the keys")?;
        let text =
            String::from_utf8(text).map_err(|error| format!("{}: {error}", path.display()))?;
        SessionKeys::parse(&text).map_err(|problem| format!("{}:{problem}", path.display()))
    }

    /// The keys of a file with this text.
    ///
    /// # Errors
    /// Names the line.
    pub fn parse(text: &str) -> Result<SessionKeys, String> {
        let mut keys = Vec::new();
        for (number, line) in entries(text) {
            if line.len() < KEY_CHARACTERS_MIN {
                return Err(format!(
                    "{number}: the key has {} characters, and needs {KEY_CHARACTERS_MIN}; \
                     `openssl rand -base64 48` makes one",
                    line.len()
                ));
            }
            keys.push(Sha512::digest(line).into());
        }
        match keys.is_empty() {
            true => Err(" no key in it; `openssl rand -base64 48` makes one".to_owned()),
            false => Ok(SessionKeys(keys)),
        }
    }

    /// The header that sets a cookie, with its value sealed by the newest key.
    ///
    /// # Panics
    /// If the cookie's name is none.
    pub fn set_cookie(&self, cookie: Cookie<'static>) -> HeaderValue {
        let jar = PrivateCookieJar::new(Key::from(&self.0[0])).add(cookie).into_response();
        jar.headers()[header::SET_COOKIE].clone()
    }

    /// The value of the cookie of this name, if one of the keys opens it.
    pub fn cookie(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let open = |key: &[u8; 64]| {
            let jar = PrivateCookieJar::from_headers(headers, Key::from(key));
            Some(jar.get(name)?.value().to_owned())
        };
        self.0.iter().find_map(open)
    }

    /// Seals a text for servers with this key: nobody else reads it, and under another name they
    /// don't either. It is sealed as a cookie of that name is.
    pub fn seal(&self, name: &str, text: &str) -> String {
        let set = self.set_cookie(Cookie::new(name.to_owned(), text.to_owned()));
        let pair = set.to_str().expect("a cookie that is sealed is plain text");
        pair.split_once('=').expect("a name and a value").1.to_owned()
    }

    /// The text that was sealed under this name, if one of the keys opens it.
    pub fn open(&self, name: &str, sealed: &str) -> Option<String> {
        let pair = HeaderValue::try_from(format!("{name}={sealed}")).ok()?;
        self.cookie(&HeaderMap::from_iter([(header::COOKIE, pair)]), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_by_the_same_key_under_the_same_name_only() {
        let (new, old) = ("n".repeat(64), "o".repeat(64));
        let keys = |text: &str| SessionKeys::parse(text).expect("long enough");
        let sealed = keys(&old).seal("tandem_job.1", "whose it is");
        assert!(!sealed.contains("whose"), "{sealed}");
        let opened = Some("whose it is".to_owned());
        assert_eq!(keys(&old).open("tandem_job.1", &sealed), opened);
        assert_eq!(keys(&format!("{new}\n{old}")).open("tandem_job.1", &sealed), opened);
        assert_eq!(keys(&old).open("tandem_job.2", &sealed), None, "it is of another job");
        assert_eq!(keys(&old).open("tandem_session", &sealed), None, "it opens no session");
        assert_eq!(keys(&new).open("tandem_job.1", &sealed), None, "the key is gone");
        assert_eq!(keys(&old).open("tandem_job.1", "x; tandem_job.1=y"), None);
    }

    #[test]
    fn a_short_key_is_named_by_its_line_and_the_first_key_seals() {
        let (new, old) = ("n".repeat(64), "o".repeat(KEY_CHARACTERS_MIN));
        let keys = SessionKeys::parse(&format!("# newest first\n{new}\n\n {old} \n")).expect("two");
        assert_eq!(keys.0.len(), 2);
        assert_eq!(keys.0[0], SessionKeys::parse(&new).expect("one").0[0]);
        assert_eq!(keys.0[1], SessionKeys::parse(&old).expect("one").0[0]);
        let short = SessionKeys::parse(&format!("{new}\nshort")).err().expect("it is short");
        assert!(short.starts_with("2: the key has 5 characters"), "{short}");
        assert!(SessionKeys::parse("# nothing\n").is_err());
        assert_ne!(SessionKeys::random().0[0], SessionKeys::random().0[0]);
    }
}
