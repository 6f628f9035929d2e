//! A batch in one native MongoDB transaction: read the accounts, decide, write, commit.
//!
//! Promises that a batch has its whole effect or none, exactly once. That needs no lease, no fence
//! and no mark, because everything the decision to move money rests on is *written* by the same
//! transaction, so the server compares it: it reads at one snapshot, and a write fails with a
//! conflict when its document was changed after that snapshot or is being changed by another
//! transaction. Nothing in the updates repeats that guard. In particular, when the process
//!
//! - dies before it has sent the commit: the server forgets the transaction, at the latest after
//!   `transactionLifetimeLimitSeconds`; until then its documents can't be written by others
//!   ([`super::abandoned`] ends it sooner);
//! - stalls for an hour and goes on: the server has forgotten the transaction, the commit fails;
//! - loses the reply of the commit: a commit is repeated with the same number of the same session,
//!   and the server knows it. If it stays unknown, the transaction still holds its documents: who
//!   tries again can't commit beside it, and after it finds them no longer `initial`;
//! - runs twice, or beside a two-phase worker, or beside a client that cancels: the first to write
//!   the transaction's document wins, the other has a conflict or finds it no longer `initial`.
//!
//! Accounts that are read and not written may have changed meanwhile, without harm: an account that
//! refuses a transaction, and an account whose debits and credits within the batch are equal, count
//! as of the snapshot, which is a moment within this operation. No balance follows from them.
//!
//! A balance is changed by adding to it. Where the snapshot shows a number that Tandem has not
//! written so (an Int32, a double), or no opening, the computed balance and the opening are set:
//! the account is what the snapshot shows, or the write fails.
//!
//! What is read may not be on a majority yet; the commit, which comes later, waits until it is.
//! Fails with an `Err` where the outcome is unknown or a document breaks its schema; the whole
//! batch has then no effect, or all of it. Until the commit is sent, it surely has none. A commit
//! whose answer leaves the outcome open is sent again: the server knows the transaction by its
//! number.

use std::collections::{BTreeSet, HashSet};

use layout::Command;
use ledger::journal::{Heading, Line};
use ledger::netting::{self, Netting};
use ledger::transaction::{AccountId, Body, TransactionId};
use ledger::{AccountRead, Content, LedgerError, Look, ServerMs, Transacted, Verdict};
use mongodb::ClientSession;
use mongodb::bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use mongodb::error::Error;
use mongodb::options::ReadConcern;

use super::fault::CommitFailed;
use super::names::{ACCOUNTS, TRANSACTIONS};
use super::write::GARBLED;
use super::{Store, fault, journal, read, statements, words};

const OPERATION: &str = "transact";

/// How often a commit is sent whose outcome stays unknown, beyond the driver's own repetition.
const COMMITS_MAX: u32 = 3;

/// A lock that can't be had now, a write conflict, a snapshot that is too old or not available, a
/// transaction that the server has already ended.
const CONFLICT_CODES: [i32; 5] = [24, 112, 239, 246, 251];

/// The most statements of one command: all accounts of most batches, since the commands of a
/// transaction go one after the other, and from far away each costs a round trip. A statement has
/// some hundred bytes.
const STATEMENTS_MAX: usize = 4_096;

/// Why an attempt ends without a commit that is known.
pub(super) enum Halt {
    /// Somebody else is in the way. It has no effect.
    Conflict,
    /// The server refuses one of the documents, and it has no effect.
    Refused {
        /// The server's code.
        code: i32,
        /// What it says.
        problem: String,
    },
    /// It has failed and has no effect.
    Failed(LedgerError),
    /// The driver has failed, and it has no effect.
    Driver(Error),
    /// It may be committed.
    Open(Error),
}

impl Halt {
    /// As an error of the ledger; none for a conflict.
    pub fn told(self, operation: &'static str) -> Option<LedgerError> {
        match self {
            Halt::Conflict => None,
            Halt::Refused { problem, .. } => {
                Some(LedgerError::lasting(operation, problem).without_effect())
            }
            Halt::Failed(error) => Some(error.without_effect()),
            Halt::Driver(error) => Some(fault::classify(operation, &error).without_effect()),
            // Whatever the code says of other commands: nothing was refused. A repetition looks
            // first.
            Halt::Open(error) => {
                let message = fault::classify(operation, &error).message;
                Some(LedgerError::passing(operation, message))
            }
        }
    }
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Halt {
        Halt::Failed(error)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        match fault::code_of(&error) {
            Some(code) if CONFLICT_CODES.contains(&code) => {
                let error = words::of_error(&error);
                tracing::debug!(error, "a native transaction is in conflict");
                Halt::Conflict
            }
            Some(_) | None => Halt::Driver(error),
        }
    }
}

pub(super) async fn transact(
    store: &Store,
    contents: &[Content],
    heading: &Heading,
) -> Result<Transacted, LedgerError> {
    let (contents, heading) = (contents.to_vec(), heading.clone());
    let attempt = NativeAttempt { store: store.clone(), contents, heading };
    match store.limited(OPERATION, async move { Ok(attempt.run().await) }).await? {
        Ok(verdicts) => Ok(Transacted::Committed(verdicts)),
        Err(halt) => halt.told(OPERATION).map_or(Ok(Transacted::Conflict), Err),
    }
}

struct NativeAttempt {
    store: Store,
    contents: Vec<Content>,
    /// Under which the line is written.
    heading: Heading,
}

impl NativeAttempt {
    async fn run(&self) -> Result<Vec<Verdict>, Halt> {
        let mut session = begin(&self.store, ReadConcern::snapshot()).await?;
        let verdicts = self.steps(&mut session).await;
        finish(&self.store, session, verdicts).await
    }

    async fn steps(&self, session: &mut ClientSession) -> Result<Vec<Verdict>, Halt> {
        let expire: HashSet<_> = self.expiring().collect();
        // Before the read: the statement that ends those that expire compares the clock once more.
        let now = match expire.is_empty() {
            true => ServerMs::MIN,
            false => self.store.server_now().await?,
        };
        let accounts = self.read(session).await?;
        let Netting { verdicts, changes } = netting::net(&self.contents, accounts, now);
        let changes = changes.iter().map(|(id, change)| statements::add(id, *change)).collect();
        update(&self.store, session, OPERATION, ACCOUNTS, changes).await?;
        let ends = statements::ends(&verdicts, &expire, &self.heading);
        update(&self.store, session, OPERATION, TRANSACTIONS, ends).await?;
        let line = Line::of_verdicts(self.heading.clone(), &self.contents, &verdicts);
        journal::write(&self.store, session, OPERATION, &line).await?;
        Ok(verdicts)
    }

    /// Those that expire at some moment.
    fn expiring(&self) -> impl Iterator<Item = &TransactionId> {
        let expires = |body: &Body| body.expires_at().is_some();
        self.contents
            .iter()
            .filter(move |(_, body)| body.as_ref().is_ok_and(expires))
            .map(|(id, _)| id)
    }

    async fn read(&self, session: &mut ClientSession) -> Result<Vec<AccountRead>, Halt> {
        let bodies = self.contents.iter().filter_map(|(_, body)| body.as_ref().ok());
        let touched: BTreeSet<AccountId> =
            bodies.flat_map(|body| body.legs()).map(|leg| leg.account.clone()).collect();
        if touched.is_empty() {
            return Ok(Vec::new());
        }
        let mut touched: Vec<AccountId> = touched.into_iter().collect();
        let small = read::small_accounts(&touched);
        let mut accounts = self.find(session, small, touched.len(), read::whole_account).await?;
        if accounts.len() < touched.len() {
            let found: HashSet<&AccountId> = accounts.iter().map(|read| &read.id).collect();
            touched.retain(|account| !found.contains(account));
            let looks: Vec<Look> = touched.into_iter().map(|account| (account, vec![])).collect();
            let rest = read::accounts(&looks);
            accounts.extend(self.find(session, rest, looks.len(), read::account).await?);
        }
        Ok(accounts)
    }

    async fn find(
        &self,
        session: &mut ClientSession,
        pipeline: RawArrayBuf,
        most: usize,
        parse: impl Fn(&RawDocument) -> Option<AccountRead>,
    ) -> Result<Vec<AccountRead>, Halt> {
        let operation = format!("{OPERATION} read");
        let command = self.store.aggregation(&operation, ACCOUNTS, pipeline, most);
        let Command { sent, answer } = self.store.sent(OPERATION, command).await?;
        let database = self.store.database();
        let mut found = database.run_raw_cursor_command(sent).session(&mut *session).await?;
        let mut accounts = Vec::with_capacity(most);
        while found.advance(&mut *session).await? {
            let document = answer.read(found.current()).ok();
            accounts.extend(document.and_then(|document| parse(&document)));
        }
        Ok(accounts)
    }
}

/// Begins a transaction. Its write concern is the client's: majority, with journal.
pub(super) async fn begin(store: &Store, reads: ReadConcern) -> Result<ClientSession, Error> {
    let mut session = store.database().client().start_session().await?;
    let transaction = session.start_transaction().read_concern(reads);
    transaction.max_commit_time(store.op_limit()).await?;
    Ok(session)
}

/// Commits what was done, if it was; otherwise frees the server sooner: without a commit the
/// transaction never takes effect.
pub(super) async fn finish<T>(
    store: &Store,
    mut session: ClientSession,
    done: Result<T, Halt>,
) -> Result<T, Halt> {
    let done = match done {
        Ok(done) => done,
        Err(halt) => {
            abort(&mut session).await;
            return Err(halt);
        }
    };
    commit(&mut session).await?;
    if let Some(moment) = session.operation_time() {
        store.heard_of(moment);
    }
    Ok(done)
}

/// A statement, and how many documents it has to match.
pub(super) type Statement = (RawDocumentBuf, usize);

/// Sends statements within a transaction. Each has to match exactly as many documents as it was
/// made for.
pub(super) async fn update(
    store: &Store,
    session: &mut ClientSession,
    operation: &'static str,
    collection: &str,
    statements: Vec<Statement>,
) -> Result<(), Halt> {
    for chunk in statements.chunks(STATEMENTS_MAX) {
        let updates: RawArrayBuf = chunk.iter().map(|(statement, _)| statement.as_ref()).collect();
        let command = rawdoc! {
            "update": collection,
            "updates": updates,
            "maxTimeMS": store.op_limit_ms(),
            "comment": format!("tandem {operation} {collection}"),
        };
        let command = store.sent(operation, command).await?.sent;
        let database = store.database();
        let reply = match database.run_raw_command(command).session(&mut *session).await {
            Err(error) if fault::is_garbled(&error) => {
                return Err(Halt::Failed(LedgerError::lasting(operation, GARBLED)));
            }
            reply => reply?,
        };
        match fault::refusals(operation, &reply)?.pop() {
            None => {}
            Some((code, refused)) => {
                return Err(Halt::Refused { code, problem: refused.problem });
            }
        }
        let matched = reply.get_i32("n").ok().and_then(|n| usize::try_from(n).ok());
        let expected = chunk.iter().map(|(_, count)| count).sum();
        if matched != Some(expected) {
            tracing::debug!(collection, matched, expected, "documents have changed");
            return Err(Halt::Conflict);
        }
    }
    Ok(())
}

/// Commits, and repeats the commit while its outcome is unknown.
async fn commit(session: &mut ClientSession) -> Result<(), Halt> {
    let (mut tries, mut first) = (1, None::<Error>);
    loop {
        let Err(error) = session.commit_transaction().await else { return Ok(()) };
        match fault::commit_failed(&error) {
            CommitFailed::Surely => {
                // Why it has failed was said by the first answer. This one may only say that the
                // transaction is gone.
                let said = first.filter(|first| fault::code_of(first).is_some());
                return Err(said.unwrap_or(error).into());
            }
            CommitFailed::Perhaps if tries >= COMMITS_MAX => {
                return Err(Halt::Open(first.unwrap_or(error)));
            }
            CommitFailed::Perhaps => {
                tracing::debug!(error = words::of_error(&error), tries, "a commit is repeated");
                first.get_or_insert(error);
                tries += 1;
            }
        }
    }
}

/// Frees the server sooner: without a commit the transaction never takes effect.
pub(super) async fn abort(session: &mut ClientSession) {
    if let Err(error) = session.abort_transaction().await {
        tracing::debug!(error = words::of_error(&error), "a transaction was not aborted");
    }
}
