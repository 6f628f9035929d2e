//! Who may do what: tokens with scopes, from a file.
//!
//! The file has a line for each token: its name, its scopes, and the SHA-256 of the token. Two
//! tokens may have the same name, while one takes the place of the other: what is kept of a caller
//! is kept by its name. Promises that the comparison takes as long for a token that is almost right
//! as for any other. A token is random, so its plain digest tells nothing about it. Fails with a
//! sentence that names file and line.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ledger::hex::hex;
use ledger::remedy::Remedy;
use ledger::transaction::check_name;
use sha2::{Digest, Sha256};
use strum::{EnumCount, VariantArray};
use subtle::ConstantTimeEq;

use super::problem::{Code, Problem};
use super::rates::Rate;

/// How many random bytes a token has.
const BYTES: usize = 32;
/// The most tokens of one name: the one that goes, and the one that comes.
const OF_ONE_NAME_MAX: usize = 2;
/// What a token begins with, so that a scanner of sources can find one.
const PREFIX: &str = "tandem_";

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, VariantArray)]
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
    pub const ALL: [Scope; Scope::COUNT] =
        *Scope::VARIANTS.first_chunk().expect("as many as are counted");

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

/// Somebody who sends requests.
pub struct Caller {
    /// The token's name, for the log.
    pub name: String,
    /// The name under which it submits; none for whoever needs no token.
    submitter: Option<Arc<str>>,
    scopes: Vec<Scope>,
    digest: [u8; 32],
    /// Shared by the tokens of one name.
    rate: Option<Arc<Rate>>,
}

impl Caller {
    fn new(name: &str, scopes: Vec<Scope>, digest: [u8; 32], rate: Option<NonZeroU32>) -> Caller {
        let (name, submitter) = (name.to_owned(), Some(name.into()));
        let rate = rate.map(|per_second| Arc::new(Rate::new(per_second)));
        Caller { name, submitter, scopes, digest, rate }
    }

    /// The name that is stored with what it submits, and to which its idempotency keys belong.
    pub fn submitter(&self) -> Option<Arc<str>> {
        self.submitter.clone()
    }

    /// Whether its scopes have this one.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
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
        if self.may(scope) {
            return Ok(());
        }
        let problem = format!("the token {:?} lacks the scope {scope}", self.name);
        Err(Problem::new(Code::Forbidden, problem))
    }

    /// Its rate, if there is a limit.
    pub fn rate(&self) -> Option<Arc<Rate>> {
        self.rate.clone()
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
        let anybody = Caller::new("anybody", Scope::ALL.to_vec(), [0; 32], rate);
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
            let mut caller = read(line, rate).map_err(|problem| format!("{number}: {problem}"))?;
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
            if let Some(earlier) = same.first() {
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
    pub fn again(&self, digest: &[u8; 32]) -> Option<&Arc<Caller>> {
        match self {
            Tokens::Everybody(anybody) => Some(anybody),
            Tokens::Known(callers) => callers.iter().find(|caller| caller.digest == *digest),
        }
    }
}

/// The lines of a file of secrets with their numbers, without those that are blank or begin with `#`.
pub(super) fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn read(line: &str, rate: Option<NonZeroU32>) -> Result<Caller, String> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, scopes, digest] = parts[..] else {
        return Err("is not: NAME SCOPES SHA256".to_owned());
    };
    check_name("the name", name).map_err(|error| error.to_string())?;
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
        let third = [7, 8, 9].map(|byte| make("ci", &[Scope::Read], [byte; 32]).1).join("\n");
        let long = format!("{} read 00", "x".repeat(201));
        for (text, expected) in [
            ("", "no token"),
            ("ci read", "1: is not"),
            ("ci write 00", "1: \"write\" is not"),
            ("ci read 00", "1: the third word"),
            (&twice, "2: this token stands in an earlier line, too"),
            (&third, "3: a third token of the name \"ci\""),
            (&long, "1: the name: is longer than 200 bytes"),
        ] {
            let problem = Tokens::parse(text, None).err().expect(text);
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn two_tokens_of_one_name_are_the_same_caller_with_one_rate() {
        let made = [7, 8].map(|byte| make("ci", &[Scope::Submit], [byte; 32]));
        let file = made.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
        let tokens = Tokens::parse(&file, NonZeroU32::new(2)).expect("two are allowed");
        for (token, _) in &made {
            let caller = tokens.caller(Some(format!("Bearer {token}").as_bytes())).expect("known");
            assert_eq!(caller.submitter().as_deref(), Some("ci"));
            assert!(caller.count(Instant::now()).is_ok());
        }
        let authorization = format!("Bearer {}", made[0].0);
        let caller = tokens.caller(Some(authorization.as_bytes())).expect("known");
        let third = caller.count(Instant::now());
        assert_eq!(code(third), Some(Code::RateLimited), "the third within a second");
        assert_eq!(Tokens::everybody(None).caller(None).expect("anybody").submitter(), None);
    }
}
