//! Who may do what: tokens with scopes, from a file.
//!
//! The file has a line for each token ([`Grant`]). Two tokens may have the same name, while one takes
//! the place of the other: what is kept of a caller is kept by its name. Promises that the
//! comparison takes as long for a token that is almost right as for any other, and that only who has
//! a token is told that it has expired. A token is random, so its plain digest tells nothing about
//! it. Fails with a sentence that names file and line.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bson::DateTime;
use ledger::json;
use ledger::remedy::Remedy;
use subtle::ConstantTimeEq;

use super::access::Access;
use super::grant::digest;
pub use super::grant::{Grant, moment, prefix};
use super::problem::{Code, Problem};
use super::rates::Rate;
pub use super::scope::Scope;

/// The most tokens of one name: the one that goes, and the one that comes.
const OF_ONE_NAME_MAX: usize = 2;

/// Somebody who sends requests.
pub struct Caller {
    /// The token's name, for the log.
    pub name: String,
    /// The name under which it submits; none for whoever needs no token.
    submitter: Option<Arc<str>>,
    scopes: Arc<[Scope]>,
    digest: [u8; 32],
    expires: Option<DateTime>,
    /// How the names of the accounts begin that it is bound to; all accounts, if there is none.
    accounts: Arc<[String]>,
    /// Shared by the tokens of one name with the same rate.
    rate: Option<Arc<Rate>>,
}

impl Caller {
    fn new(grant: Grant, digest: [u8; 32], rate: Option<NonZeroU32>) -> Caller {
        let rate = grant.rate.map_or(rate, NonZeroU32::new);
        Caller {
            submitter: Some(grant.name.as_str().into()),
            name: grant.name,
            scopes: grant.scopes.into(),
            digest,
            expires: grant.expires,
            accounts: grant.accounts.into(),
            rate: rate.map(|per_second| Arc::new(Rate::new(per_second))),
        }
    }

    /// The name that is stored with what it submits, and to which its idempotency keys belong.
    pub fn submitter(&self) -> Option<Arc<str>> {
        self.submitter.clone()
    }

    /// Whether its scopes have this one.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether it is bound to some accounts.
    pub fn is_bound(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// What it may see and touch; with `only_own` only what was submitted under its name.
    pub fn access(&self, only_own: bool) -> Access {
        Access::new(self.submitter(), only_own, self.scopes.clone(), self.accounts.clone())
    }

    fn has_expired(&self, now: DateTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The digest of its token, by which a session names it.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Whether both have the same token.
    pub fn is(&self, other: &Caller) -> bool {
        self.digest == other.digest
    }

    /// Refuses what its scopes do not have.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.may(scope) { Ok(()) } else { Err(self.lacks(scope)) }
    }

    /// That its scopes do not have this one.
    pub fn lacks(&self, scope: Scope) -> Problem {
        let problem = format!("the token {:?} lacks the scope {scope}", self.name);
        Problem::new(Code::Forbidden, problem)
    }

    /// Its rate, if there is a limit.
    pub fn rate(&self) -> Option<Arc<Rate>> {
        self.rate.clone()
    }

    /// How many requests it may send a second, if there is a limit.
    fn per_second(&self) -> Option<NonZeroU32> {
        self.rate.as_ref().map(|rate| rate.per_second)
    }

    /// Counts a request.
    ///
    /// # Errors
    /// Beyond the rate.
    pub fn count(&self, now: Instant) -> Result<(), Problem> {
        self.rate.as_ref().map_or(Ok(()), |rate| rate.count(now))
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
        let anybody = Caller::new(Grant::new("anybody", &Scope::ALL), [0; 32], rate);
        Tokens::Everybody(Arc::new(Caller { submitter: None, ..anybody }))
    }

    /// Reads the file.
    pub fn load(path: &Path, rate: Option<NonZeroU32>) -> Result<Tokens, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Tokens::parse(&text, rate).map_err(|problem| format!("{}:{problem}", path.display()))
    }

    /// The tokens of a file with this text.
    ///
    /// # Errors
    /// Names the line.
    pub fn parse(text: &str, rate: Option<NonZeroU32>) -> Result<Tokens, String> {
        let mut callers: Vec<Arc<Caller>> = Vec::new();
        for (number, line) in entries(text) {
            let read = Grant::read(line).map_err(|problem| format!("{number}: {problem}"))?;
            let mut caller = Caller::new(read.0, read.1, rate);
            if callers.iter().any(|earlier| earlier.is(&caller)) {
                return Err(format!("{number}: this token stands in an earlier line, too"));
            }
            let same: Vec<_> = callers.iter().filter(|it| it.name == caller.name).collect();
            if same.len() == OF_ONE_NAME_MAX {
                let name = &caller.name;
                return Err(format!(
                    "{number}: a third token of the name {name:?}; take out the one that is not used \
                     any more"
                ));
            }
            if let Some(earlier) =
                same.first().filter(|earlier| earlier.per_second() == caller.per_second())
            {
                caller.rate.clone_from(&earlier.rate);
            }
            callers.push(Arc::new(caller));
        }
        match callers.is_empty() {
            true => Err(format!(" no token in it; {} makes one", Remedy::Token)),
            false => Ok(Tokens::Known(callers)),
        }
    }

    /// Who sends this, by the header `Authorization`.
    ///
    /// # Errors
    /// When the token is missing, not known, or has expired.
    pub fn caller(
        &self,
        authorization: Option<&[u8]>,
        now: DateTime,
    ) -> Result<&Arc<Caller>, Problem> {
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
        let digest = digest(token.trim_ascii());
        // Looks at all of them, so that the time does not tell which one is near.
        let mut found = None;
        for caller in callers {
            if bool::from(caller.digest.ct_eq(&digest)) {
                found = Some(caller);
            }
        }
        let caller = found.ok_or_else(|| refuse("the token is not known"))?;
        match caller.expires.filter(|_| caller.has_expired(now)) {
            Some(at) => Err(refuse(&format!("the token expired at {}", json::timestamp(at)))),
            None => Ok(caller),
        }
    }

    /// Who had this token earlier, if it is good now; with the scopes of now.
    pub fn again(&self, digest: &[u8; 32], now: DateTime) -> Option<&Arc<Caller>> {
        match self {
            Tokens::Everybody(anybody) => Some(anybody),
            Tokens::Known(callers) => {
                callers.iter().find(|it| it.digest == *digest && !it.has_expired(now))
            }
        }
    }
}

/// The lines of a file of secrets with their numbers, without those that are blank or begin with `#`.
pub(super) fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, Problem>) -> Option<Code> {
        result.err().map(|problem| problem.code)
    }

    const NOW: DateTime = DateTime::from_millis(1_000);

    fn made(grant: &Grant, byte: u8) -> (String, String) {
        let (token, line) = grant.make([byte; 32]);
        (format!("Bearer {token}"), line)
    }

    #[test]
    fn a_token_opens_what_its_scopes_name_and_nothing_else() {
        for scope in Scope::ALL {
            let (sent, line) = made(&Grant::new("ci", &[scope]), 7);
            let tokens = Tokens::parse(&line, None).expect("a good file");
            let caller = tokens.caller(Some(sent.as_bytes()), NOW).expect("it is known");
            for other in Scope::ALL {
                assert_eq!(caller.require(other).is_ok(), other == scope, "{scope} {other}");
            }
        }
        let (token, line) = Grant::new("ci", &[Scope::Read, Scope::Submit]).make([7; 32]);
        let tokens = Tokens::parse(&format!("# ours\n\n{line}\n"), None).expect("a good file");
        let sent = |text: &str| tokens.caller(Some(text.as_bytes()), NOW);
        let caller = sent(&format!("bearer {token}")).expect("it is known");
        assert_eq!(caller.name, "ci");
        assert_eq!(caller.require(Scope::Submit), Ok(()));
        assert_eq!(code(caller.require(Scope::Operate)), Some(Code::Forbidden));
        let almost = format!("Bearer {}0", &token[..token.len() - 1]);
        for wrong in [almost.as_str(), "Bearer ", "Basic abc", "", &token] {
            assert_eq!(code(sent(wrong)), Some(Code::Unauthorized), "{wrong:?}");
        }
        assert_eq!(code(tokens.caller(None, NOW)), Some(Code::Unauthorized));
    }

    #[test]
    fn a_bad_line_is_named() {
        let (_, line) = made(&Grant::new("ci", &[Scope::Read]), 7);
        let twice = format!("{line}\n{line}");
        let third = [7, 8, 9].map(|byte| made(&Grant::new("ci", &[Scope::Read]), byte).1);
        for (text, expected) in [
            ("", "no token"),
            ("# ours\nci write 00", "2: the scopes: \"write\" is not"),
            (&twice, "2: this token stands in an earlier line, too"),
            (&third.join("\n"), "3: a third token of the name \"ci\""),
        ] {
            let problem = Tokens::parse(text, None).err().expect(text);
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn an_expired_token_is_refused_and_only_who_has_it_is_told() {
        let grant = Grant { expires: Some(NOW), ..Grant::new("ci", &[Scope::Read]) };
        let (sent, line) = made(&grant, 7);
        let tokens = Tokens::parse(&line, None).expect("a good file");
        let before = DateTime::from_millis(999);
        let caller = tokens.caller(Some(sent.as_bytes()), before).expect("it is good until then");
        assert!(tokens.again(&caller.digest(), before).is_some());
        assert!(tokens.again(&caller.digest(), NOW).is_none(), "its sessions end with it");
        let told = |sent: &str| tokens.caller(Some(sent.as_bytes()), NOW).err().expect("refused");
        let (own, other) = (told(&sent), told(&format!("{sent}0")));
        assert_eq!((own.code, other.code), (Code::Unauthorized, Code::Unauthorized));
        assert_eq!(own.detail, "the token expired at 1970-01-01T00:00:01Z");
        assert_eq!(other.detail, "the token is not known");
    }

    #[test]
    fn two_tokens_of_one_name_are_the_same_caller_with_one_rate() {
        let made = [7, 8].map(|byte| made(&Grant::new("ci", &[Scope::Submit]), byte));
        let file = made.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
        let tokens = Tokens::parse(&file, NonZeroU32::new(2)).expect("two are allowed");
        for (sent, _) in &made {
            let caller = tokens.caller(Some(sent.as_bytes()), NOW).expect("known");
            assert_eq!(caller.submitter().as_deref(), Some("ci"));
            assert!(caller.count(Instant::now()).is_ok());
        }
        let caller = tokens.caller(Some(made[0].0.as_bytes()), NOW).expect("known");
        let third = caller.count(Instant::now());
        assert_eq!(code(third), Some(Code::RateLimited), "the third within a second");
        assert_eq!(Tokens::everybody(None).caller(None, NOW).expect("anybody").submitter(), None);
    }

    #[test]
    fn a_token_with_a_rate_of_its_own_has_that_in_place_of_the_servers() {
        for (own, expected) in [(None, Some(2)), (Some(50), Some(50)), (Some(0), None)] {
            let (sent, line) = made(&Grant { rate: own, ..Grant::new("ci", &[Scope::Read]) }, 7);
            let tokens = Tokens::parse(&line, NonZeroU32::new(2)).expect("a good file");
            let caller = tokens.caller(Some(sent.as_bytes()), NOW).expect("known");
            assert_eq!(caller.per_second().map(NonZeroU32::get), expected);
        }
    }
}
