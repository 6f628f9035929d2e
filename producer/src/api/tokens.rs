//! Who may do what: tokens with scopes, from a file.
//!
//! The file has a line for each token: its name, its scopes, and the SHA-256 of the token. Promises
//! that the comparison takes as long for a token that is almost right as for any other. A token is
//! random, so its plain digest tells nothing about it. Fails with a sentence that names file and line.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use common::hex::hex;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::{Code, Problem};

/// How many random bytes a token has.
const BYTES: usize = 32;
/// What a token begins with, so that a scanner of sources can find one.
const PREFIX: &str = "tandem_";

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    /// Reading.
    Read,
    /// Submitting transactions.
    Submit,
    /// Everything that an operator does: accounts, canceling, reversing, dead letters, audits.
    Operate,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Submit, Scope::Operate];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Submit => "submit",
            Scope::Operate => "operate",
        }
    }

    fn parse(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>;

/// Somebody who sends requests.
pub struct Caller {
    /// The token's name, for the log.
    pub name: String,
    scopes: Vec<Scope>,
    digest: [u8; 32],
    rate: Option<(NonZeroU32, Limiter)>,
}

impl Caller {
    fn new(name: &str, scopes: Vec<Scope>, digest: [u8; 32], rate: Option<NonZeroU32>) -> Caller {
        let limiter = |rate| {
            let quota = Quota::per_second(rate);
            (rate, RateLimiter::direct(quota).with_middleware::<StateInformationMiddleware>())
        };
        Caller { name: name.to_owned(), scopes, digest, rate: rate.map(limiter) }
    }

    /// Whether its scopes have this one.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether both have the same token.
    pub fn is(&self, other: &Caller) -> bool {
        self.digest == other.digest
    }

    /// Refuses what its scopes do not have.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.may(scope) {
            return Ok(());
        }
        let problem = format!("the token {:?} lacks the scope {scope}", self.name);
        Err(Problem::new(Code::Forbidden, problem))
    }

    /// Counts a request; refuses one beyond the rate. Returns the limit a second and how many are
    /// left, if there is a limit.
    pub fn count(&self) -> Result<Option<(NonZeroU32, u32)>, Problem> {
        let Some((rate, limiter)) = &self.rate else { return Ok(None) };
        match limiter.check() {
            Ok(state) => Ok(Some((*rate, state.remaining_burst_capacity()))),
            Err(not_until) => {
                let wait = not_until.wait_time_from(DefaultClock::default().now());
                let detail = format!("more than {rate} requests a second");
                let problem = Problem::new(Code::RateLimited, detail);
                Err(Problem { retry_after: Some(wait), ..problem })
            }
        }
    }
}

/// Who may send requests.
pub enum Tokens {
    /// Everybody who reaches this machine's own address.
    Everybody(Arc<Caller>),
    /// Whoever has one of these.
    Known(Vec<Arc<Caller>>),
}

impl Tokens {
    /// Without tokens: whoever can connect may do everything.
    pub fn everybody(rate: Option<NonZeroU32>) -> Tokens {
        let anybody = Caller::new("anybody", Scope::ALL.to_vec(), [0; 32], rate);
        Tokens::Everybody(Arc::new(anybody))
    }

    /// Reads the file.
    pub fn load(path: &Path, rate: Option<NonZeroU32>) -> Result<Tokens, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Tokens::parse(&text, rate).map_err(|problem| format!("{}:{problem}", path.display()))
    }

    pub(super) fn parse(text: &str, rate: Option<NonZeroU32>) -> Result<Tokens, String> {
        let mut callers: Vec<Arc<Caller>> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let caller = read(line, rate).map_err(|problem| format!("{}: {problem}", at + 1))?;
            if callers.iter().any(|earlier| earlier.name == caller.name) {
                return Err(format!("{}: the name {:?} stands twice", at + 1, caller.name));
            }
            callers.push(Arc::new(caller));
        }
        match callers.is_empty() {
            true => {
                Err(" no token in it; `producer token NAME --scope read,submit` makes one"
                    .to_owned())
            }
            false => Ok(Tokens::Known(callers)),
        }
    }

    /// Who sends this, by the header `Authorization`.
    pub fn caller(&self, authorization: Option<&[u8]>) -> Result<&Arc<Caller>, Problem> {
        let callers = match self {
            Tokens::Everybody(anybody) => return Ok(anybody),
            Tokens::Known(callers) => callers,
        };
        let refuse = |detail: &str| Problem::new(Code::Unauthorized, detail);
        let given = authorization.ok_or_else(|| refuse("there is no header Authorization"))?;
        let token = match given.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token,
            _ => return Err(refuse("the header Authorization is not: Bearer TOKEN")),
        };
        let digest: [u8; 32] = Sha256::digest(token.trim_ascii()).into();
        // Looks at all of them, so that the time does not tell which one is near.
        let mut found = None;
        for caller in callers {
            if bool::from(caller.digest.ct_eq(&digest)) {
                found = Some(caller);
            }
        }
        found.ok_or_else(|| refuse("the token is not known"))
    }
}

impl Tokens {
    /// Who had this token earlier, if it is good today; with the scopes of today.
    pub fn again(&self, earlier: &Caller) -> Option<&Arc<Caller>> {
        match self {
            Tokens::Everybody(anybody) => Some(anybody),
            Tokens::Known(callers) => callers.iter().find(|caller| caller.is(earlier)),
        }
    }
}

fn read(line: &str, rate: Option<NonZeroU32>) -> Result<Caller, String> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, scopes, digest] = parts[..] else {
        return Err("is not: NAME SCOPES SHA256".to_owned());
    };
    let scope = |name: &str| {
        Scope::parse(name).ok_or_else(|| format!("{name:?} is not read, submit or operate"))
    };
    let scopes = scopes.split(',').map(scope).collect::<Result<_, _>>()?;
    let byte = |at: usize| u8::from_str_radix(digest.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digest.len()).step_by(2).map(byte).collect();
    let digest = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let digest = digest.ok_or("the third word is not a SHA-256 of 64 hexadecimal digits")?;
    Ok(Caller::new(name, scopes, digest, rate))
}

/// A new token, and the line of the file for it.
pub fn make(name: &str, scopes: &[Scope], random: [u8; BYTES]) -> (String, String) {
    let token = format!("{PREFIX}{}", hex(&random));
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let line = format!("{name} {} {}", names.join(","), hex(&Sha256::digest(&token)));
    (token, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, Problem>) -> Option<Code> {
        result.err().map(|problem| problem.code)
    }

    #[test]
    fn a_token_opens_what_its_scopes_name_and_nothing_else() {
        let (token, line) = make("ci", &[Scope::Read, Scope::Submit], [7; 32]);
        let tokens = Tokens::parse(&format!("# ours\n\n{line}\n"), None).expect("a good file");
        let sent = |text: &str| tokens.caller(Some(text.as_bytes()));
        let caller = sent(&format!("bearer {token}")).expect("it is known");
        assert_eq!(caller.name, "ci");
        assert_eq!(caller.require(Scope::Submit), Ok(()));
        assert_eq!(code(caller.require(Scope::Operate)), Some(Code::Forbidden));
        let almost = format!("Bearer {}0", &token[..token.len() - 1]);
        for wrong in [almost.as_str(), "Bearer ", "Basic abc", "", &token] {
            assert_eq!(code(sent(wrong)), Some(Code::Unauthorized), "{wrong:?}");
        }
        assert_eq!(code(tokens.caller(None)), Some(Code::Unauthorized));
    }

    #[test]
    fn a_bad_line_is_named() {
        let (_, line) = make("ci", &[Scope::Read], [7; 32]);
        let twice = format!("{line}\n{line}");
        for (text, expected) in [
            ("", "no token"),
            ("ci read", "1: is not"),
            ("ci write 00", "1: \"write\" is not"),
            ("ci read 00", "1: the third word"),
            (&twice, "2: the name \"ci\" stands twice"),
        ] {
            let problem = Tokens::parse(text, None).err().expect(text);
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_request_beyond_the_rate_is_told_when_to_come_again() {
        let tokens = Tokens::everybody(NonZeroU32::new(2));
        let caller = tokens.caller(None).expect("anybody");
        assert!(matches!(caller.count(), Ok(Some((rate, 1))) if rate.get() == 2));
        assert!(caller.count().is_ok());
        let problem = caller.count().expect_err("the third within a second");
        assert_eq!(problem.code, Code::RateLimited);
        assert!(problem.retry_after.is_some_and(|wait| wait.as_secs_f64() <= 1.0));
    }
}
