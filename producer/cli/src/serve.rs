//! `serve`: the HTTP API; and `token`: what a caller of it needs.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::tokens::{Grant, Scope, moment, prefix};
use api::{Api, Patience, Settings, TlsFiles, UserHeader};
use bson::DateTime;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use flags::TlsFlags;
use observe::pages;
use tokio::net::TcpListener;

use crate::context::Context;
use crate::exit::{Error, Exit};

pub(crate) const HELP: &str = "\
Without --tokens it listens only on this machine's own address, and whoever reaches that may do
everything. At / is the console for people, /v1 explains every operation, and /v1/openapi.json says it
to programs. It ends on SIGTERM when what it has accepted is answered, 70 seconds later at most, and
reads its files again on SIGHUP.

Examples:
  producer serve
  producer token shop --scope submit >>tokens    prints the token itself on standard error
  producer token ops --scope read,operate --token-file ops.token >>tokens
  producer serve --listen 0.0.0.0:8080 --tokens tokens";

/// How to serve.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The address and port to listen on
    #[arg(long, env = "TANDEM_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address of /metrics, /healthz and /readyz, which need no token there; `off` for none
    #[arg(long, env = "TANDEM_HTTP", default_value = "127.0.0.1:9470")]
    http: String,
    #[command(flatten)]
    tls: TlsFlags,
    /// The file of the tokens, a line for each: NAME SCOPES SHA256, and then `expires=MOMENT`,
    /// `rate=NUMBER` and `accounts=PREFIX` as needed
    #[arg(long, env = "TANDEM_TOKENS", value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The file of the keys that sign-ins of the console are sealed with, the newest first, the same
    /// for all servers; without it a sign-in counts at this server only, and ends with it
    #[arg(long, env = "TANDEM_SESSION_KEYS", value_name = "FILE")]
    session_keys: Option<PathBuf>,
    /// The most requests a second of one token that has no rate of its own; an array counts as many
    /// as it has items; 0 is unlimited
    #[arg(long, env = "TANDEM_RATE", default_value_t = 0)]
    rate: u32,
    /// The most requests a second without a good token from one address (of IPv6: /64); 0 is
    /// unlimited
    #[arg(long, env = "TANDEM_RATE_ADDRESS", value_name = "RATE", default_value_t = 50)]
    rate_address: u32,
    /// The addresses of proxies whose last entry in X-Forwarded-For is believed for that rate
    #[arg(long, env = "TANDEM_TRUSTED_PROXY", value_name = "ADDRESS", value_delimiter = ',')]
    trusted_proxy: Vec<IpAddr>,
    /// The header in which a proxy that signs people in says who somebody in the console is; acts
    /// are noted with that name beside the token. The proxy has to take away what others have put
    /// there
    #[arg(long, env = "TANDEM_USER_HEADER", value_name = "NAME", requires = "user_proxy")]
    user_header: Option<String>,
    /// The address of that proxy; from any other one the header says nothing
    #[arg(long, env = "TANDEM_USER_PROXY", value_name = "ADDRESS", requires = "user_header")]
    user_proxy: Option<IpAddr>,
    /// The most connections; further ones wait
    #[arg(long, env = "TANDEM_CONNECTIONS", default_value_t = 1_024)]
    connections: u16,
    /// The most listeners to events
    #[arg(long, env = "TANDEM_LISTENERS", default_value_t = 100)]
    listeners: u16,
    /// The most streams of one token: of events, of the overview, exports, and lists that wait for
    /// events
    #[arg(long, env = "TANDEM_TOKEN_STREAMS", value_name = "STREAMS", default_value_t = 25)]
    token_streams: u16,
    /// The largest body, in bytes
    #[arg(long, env = "TANDEM_BODY_BYTES", default_value_t = 8 << 20)]
    body_bytes: u32,
    /// The most transactions of one array
    #[arg(long, env = "TANDEM_ARRAY_ITEMS", default_value_t = 10_000)]
    array_items: u32,
    /// Refuse submissions while so many messages wait for workers, or while the broker is away and so
    /// many submissions were inserted
    #[arg(long, env = "TANDEM_BACKLOG", default_value_t = 100_000)]
    backlog: u32,
    /// How long the head of a request may take to come, in seconds
    #[arg(long, env = "TANDEM_HEAD_LIMIT", value_name = "SECONDS", default_value_t = 10)]
    head_limit: u16,
    /// How long all of a body may take to come, in seconds
    #[arg(long, env = "TANDEM_BODY_LIMIT", value_name = "SECONDS", default_value_t = 60)]
    body_limit: u16,
    /// How long nothing of a body may come, or nothing of an answer be read, in seconds
    #[arg(long, env = "TANDEM_STALL_LIMIT", value_name = "SECONDS", default_value_t = 30)]
    stall_limit: u16,
    /// How long a connection may be idle between an answer and the next request, in seconds; longer
    /// than a load balancer in front keeps it, for which 60 is usual
    #[arg(long, env = "TANDEM_IDLE_LIMIT", value_name = "SECONDS", default_value_t = 75)]
    idle_limit: u16,
}

pub(crate) const TOKEN_HELP: &str = "\
No scope has another one in it: list all that the token may be used for. A token that is bound to
accounts by --accounts debits and creates no other ones, and reads these and what touches them.

Examples:
  producer token shop --scope submit >>tokens
  producer token till --scope submit,hold,read --accounts till/ --rate 20 >>tokens
  producer token auditor --scope read --expires 2027-01-01T00:00:00Z >>tokens";

/// Which token to make.
#[derive(Args, Clone, Debug)]
pub struct TokenArgs {
    /// Its name, for the log
    name: String,
    /// What it may be used for
    #[arg(long, value_parser = scopes(), ignore_case = true, value_delimiter = ',', required = true)]
    scope: Vec<Scope>,
    /// Refuse it from this moment on, which is in UTC, like 2027-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    expires: Option<String>,
    /// The most requests a second, in place of the server's --rate; 0 is unlimited
    #[arg(long)]
    rate: Option<u32>,
    /// Only for accounts whose names begin with this; may be given several times
    #[arg(long, value_name = "PREFIX")]
    accounts: Vec<String>,
    /// Write the token itself to this new file, which only its owner can read, and not to standard
    /// error, which may be a log
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The scopes by their names, with what each is for.
fn scopes() -> impl TypedValueParser<Value = Scope> {
    let told = |scope: Scope| PossibleValue::new(scope.as_str()).help(scope.about());
    PossibleValuesParser::new(Scope::ALL.map(told))
        .try_map(|name| Scope::parse(&name.to_ascii_lowercase()))
}

impl ServeArgs {
    fn tls_files(&self) -> Option<TlsFiles> {
        self.tls.clone().files().map(|(certificate, key)| TlsFiles { certificate, key })
    }

    fn user_header(&self) -> Result<Option<UserHeader>, Error> {
        let both = self.user_header.as_deref().zip(self.user_proxy);
        let header = both.map(|(name, proxy)| UserHeader::new(name, proxy)).transpose();
        header.map_err(|problem| Error::BadInput(format!("--user-header: {problem}")))
    }

    fn settings(&self, give_up_after: Duration) -> Result<Settings, Error> {
        let seconds = |limit: u16| Duration::from_secs(limit.max(1).into());
        Ok(Settings {
            tokens: self.tokens.clone(),
            session_keys: self.session_keys.clone(),
            tls: self.tls_files(),
            rate: NonZeroU32::new(self.rate),
            rate_of_address: NonZeroU32::new(self.rate_address),
            proxies: self.trusted_proxy.clone(),
            user_header: self.user_header()?,
            connections_max: self.connections.max(1).into(),
            listeners_max: self.listeners.into(),
            streams_of_token_max: self.token_streams.into(),
            body_bytes_max: self.body_bytes as usize,
            items_max: self.array_items as usize,
            backlog_max: self.backlog,
            patience: Patience {
                head: seconds(self.head_limit),
                idle: seconds(self.idle_limit),
                stall: seconds(self.stall_limit),
            },
            body_limit: seconds(self.body_limit),
            give_up_after,
        })
    }
}

/// Serves the API until a signal.
///
/// # Errors
/// When an argument is wrong, the database does not fit, or the address is taken.
pub async fn serve(
    context: &Context,
    args: &ServeArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if args.tokens.is_none() && !args.listen.ip().is_loopback() {
        let problem = format!(
            "{} is reached from other machines: give the file of the tokens with --tokens, or \
             listen on 127.0.0.1",
            args.listen
        );
        return Err(Error::BadInput(problem));
    }
    let stop = context.advice.ends_by_itself();
    let settings = args.settings(context.client.config().give_up_after)?;
    let api = Api::new(context.client.clone(), settings, stop).map_err(Error::BadInput)?;
    let probes = pages::listen(&args.http).await;
    let probes = probes.map_err(|error| {
        let http = &args.http;
        Error::Failed(format!("--http {http}: {error}; choose another address, or `off`"))
    })?;
    context.client.ensure_schema().await?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| Error::Failed(format!("{}: {error}", args.listen)))?;
    let address = listener.local_addr().map_err(|error| Error::Failed(error.to_string()))?;
    let scheme = if args.tls_files().is_some() { "https" } else { "http" };
    writeln!(out, "listening on {scheme}://{address}").map_err(Error::output)?;
    out.flush().map_err(Error::output)?;
    Arc::new(api).serve(producer_console::site(), listener, probes).await;
    Ok(Exit::Ok)
}

impl TokenArgs {
    /// What the token may do.
    fn grant(&self, now: DateTime) -> Result<Grant, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            return Err(format!("{:?} is no name: use letters, digits and -_.@", self.name));
        }
        let expires = self.expires.as_deref().map(moment).transpose()?;
        if let Some(past) = expires.filter(|expires| *expires <= now) {
            let past = ledger::json::timestamp(past);
            return Err(format!("expires: {past} has passed; choose a moment that is to come"));
        }
        let accounts = self.accounts.iter().map(|text| prefix(text)).collect::<Result<_, _>>()?;
        Ok(Grant { expires, rate: self.rate, accounts, ..Grant::new(&self.name, &self.scope) })
    }
}

/// Prints a line for the file of tokens; the token itself goes to standard error.
///
/// # Errors
/// When something of it can't stand in the file, or the token would have expired already.
pub fn token(
    context: &Context,
    args: &TokenArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let grant = args.grant(DateTime::now()).map_err(Error::BadInput)?;
    let (one, other) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let mut random = [0; 32];
    random[..16].copy_from_slice(one.as_bytes());
    random[16..].copy_from_slice(other.as_bytes());
    let (token, line) = grant.make(random);
    // First: a line whose token nobody has is of no use.
    if let Some(path) = &args.token_file {
        keep(path, &token)
            .map_err(|error| Error::BadInput(format!("{}: {error}", path.display())))?;
    }
    writeln!(out, "{line}").map_err(Error::output)?;
    match &args.token_file {
        Some(path) => context.console.note(format!("the token is in {}", path.display())),
        None => context.console.note(format!("the token, which is shown only now:\n  {token}")),
    }
    Ok(Exit::Ok)
}

/// Writes a secret to a new file that nobody else can read.
fn keep(path: &Path, secret: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{secret}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_has_expired_already_is_not_made() {
        let args = |expires: &str| TokenArgs {
            name: "shop".to_owned(),
            scope: vec![Scope::Submit],
            expires: Some(expires.to_owned()),
            rate: None,
            accounts: Vec::new(),
            token_file: None,
        };
        let now = DateTime::parse_rfc3339_str("2027-01-01T00:00:00Z").expect("a moment");
        let refused = |expires: &str| args(expires).grant(now).expect_err("no token");
        assert!(refused("2027-01-01T00:00:00Z").contains("has passed"));
        assert!(refused("tomorrow").starts_with("expires: \"tomorrow\" is not a moment"));
        assert!(args("2027-01-01T00:00:01Z").grant(now).is_ok());
    }
}
