//! A sequence in the ledger's own terms: ids, postings and moments, the same for both sides.

use ledger::amount::Amount;
use ledger::event::End;
use ledger::journal::{Entry, Heading, Line};
use ledger::transaction::{
    Body, Leg, ParkCode, Parked, Reason, ReasonCode, State, Terms as Conditions, TransactionId,
};
use ledger::{Cancelation, Content, LeaseMs, Look, Parking, Posting, Removal, ServerMs};
use mongodb::bson::{DateTime, Document, doc};

use crate::operation::{BROKEN, Claimant, Entitled, Grouping, HOUR, LINES, Lease, When};
use crate::schemas::Names;
use crate::sequence::Sequence;

/// A field of the user's own on an account; postings must keep it.
pub const FOREIGN: (&str, &str) = ("note", "$balance");

/// The reason that a client gives when it cancels.
const MESSAGE: &str = "account \"$balance\" says $$ROOT";

/// A sequence in the ledger's own terms.
pub struct Terms<'a> {
    pub sequence: &'a Sequence,
    /// The server's clock when the sequence began.
    pub begun: ServerMs,
}

impl<'a> Terms<'a> {
    pub fn new(sequence: &'a Sequence, begun: ServerMs) -> Terms<'a> {
        Terms { sequence, begun }
    }

    /// What an account is called.
    pub fn account(&self, at: usize) -> &'static str {
        self.sequence.names.accounts[at]
    }

    /// What a transaction is called.
    pub fn transaction(&self, at: usize) -> &'static str {
        self.sequence.names.transactions[at]
    }

    pub fn at(&self, when: When) -> ServerMs {
        match when {
            When::Past => self.begun - HOUR,
            When::Future => self.begun + HOUR,
        }
    }

    pub fn delay(when: When) -> i64 {
        match when {
            When::Past => -2 * HOUR,
            When::Future => 2 * HOUR,
        }
    }

    pub fn lease(lease: Lease) -> LeaseMs {
        match lease {
            Lease::Holds => LeaseMs { lease: 3 * HOUR, grace: HOUR },
            Lease::InGrace => LeaseMs { lease: -HOUR, grace: 4 * HOUR },
            Lease::Over => LeaseMs { lease: -3 * HOUR, grace: HOUR },
        }
    }

    pub fn ids(&self, ids: &[usize]) -> Vec<TransactionId> {
        ids.iter().map(|at| self.transaction(*at).into()).collect()
    }

    /// Looks at accounts. Each asks about other marks: about all but every n-th, where n accounts
    /// are looked at.
    pub fn looks(&self, at: &[usize], marks: &[usize]) -> Vec<Look> {
        let asked = |nth: usize| {
            let marks = marks.iter().enumerate();
            let asked = marks.filter(|(mark, _)| at.len() == 1 || mark % at.len() != nth);
            asked.map(|(_, mark)| self.transaction(*mark).into()).collect()
        };
        let look = |(nth, at): (usize, &usize)| (self.account(*at).into(), asked(nth));
        at.iter().enumerate().map(look).collect()
    }

    /// Decisions to cancel; what makes no sense was never posted.
    pub fn cancelations(&self, refused: &[(usize, ReasonCode)]) -> Vec<Cancelation> {
        let cancelation = |(at, code): &(usize, _)| Cancelation {
            id: self.transaction(*at).into(),
            reason: Reason::new(*code, MESSAGE),
            never_posted: *code == ReasonCode::Invalid,
            unconfirmed: *code == ReasonCode::Expired,
        };
        refused.iter().map(cancelation).collect()
    }

    /// Under what a line is written.
    pub fn heading(&self, by: Claimant, under: Entitled) -> Heading {
        Heading {
            id: LINES[under.line].to_owned(),
            application: by.claim().application,
            events_due_at: under.due.map(|due| self.at(due)),
        }
    }

    /// A line of ends, with the contents that were read. One that is not there has no content.
    pub fn line(&self, heading: Heading, ends: &[(usize, End)], contents: &[Content]) -> Line {
        let entry = |(at, end): &(usize, End)| {
            let id: TransactionId = self.transaction(*at).into();
            let content = contents.iter().find(|(other, _)| *other == id);
            Entry::of(&id, *end, content.and_then(|(_, body)| body.as_ref().ok()))
        };
        Line { heading, entries: ends.iter().map(entry).collect() }
    }

    /// Transactions to be parked, as they are given.
    pub fn parkings(
        &self,
        each: &[(usize, State)],
        by: Option<Claimant>,
        code: ParkCode,
    ) -> Vec<Parking> {
        let claim = by.map(|by| by.claim().token);
        let parking = |(at, state): &(usize, State)| Parking {
            id: self.transaction(*at).into(),
            state: *state,
            claim: claim.clone(),
            why: Parked::new(code, MESSAGE),
        };
        each.iter().map(parking).collect()
    }

    /// The reason why a worker parks a transaction that kills workers.
    pub fn kills_workers() -> Parked {
        Parked::new(ParkCode::KillsWorker, MESSAGE)
    }

    pub fn postings(&self, ids: &[usize], grouping: Grouping) -> Vec<Posting> {
        self.marks(ids, grouping).into_iter().map(|(posting, _)| posting).collect()
    }

    pub fn removals(&self, ids: &[usize], grouping: Grouping) -> Vec<Removal> {
        let marks = self.marks(ids, grouping).into_iter();
        marks.map(|(posting, released)| Removal { released, ..posting.into_removal() }).collect()
    }

    /// Postings of legs, of holds as if they were confirmed, and what of each goes home when it is
    /// settled.
    fn marks(&self, ids: &[usize], grouping: Grouping) -> Vec<(Posting, Amount)> {
        let mut postings: Vec<(Posting, Amount)> = Vec::new();
        for at in ids {
            let body = confirmed(&self.sequence.bodies[*at]);
            let legs_max = if grouping == Grouping::FirstLeg { 1 } else { body.legs().len() };
            for marked in body.marked().take(legs_max) {
                let single = (single(self.transaction(*at), &body, marked.leg), marked.released);
                let joined = grouping == Grouping::PerAccount
                    && postings.iter_mut().any(|posting| join(posting, &single));
                if !joined {
                    postings.push(single);
                }
            }
        }
        postings
    }

    /// What a client captures of a transaction: of a transfer half, and of others all.
    pub fn captured(&self, at: usize) -> Vec<Leg> {
        captured(&self.sequence.bodies[at])
    }

    /// The settlements of other transactions, each on the first posting to its account.
    pub fn riding(&self, mut postings: Vec<Posting>, settled: &[usize]) -> Vec<Posting> {
        for settlement in self.removals(settled, Grouping::PerAccount) {
            let free = |p: &&mut Posting| p.account == settlement.account && p.ride.is_none();
            if let Some(posting) = postings.iter_mut().find(free) {
                posting.ride = Some(settlement);
            }
        }
        postings
    }
}

/// What a native transaction is told, in the order of the ids and without holds: as the engine does
/// it.
pub fn contents(mut contents: Vec<Content>) -> Vec<Content> {
    contents.retain(|(_, body)| !body.as_ref().is_ok_and(|body| body.terms().hold));
    contents.sort_by(|a, b| a.0.cmp(&b.0));
    contents
}

fn single(id: &str, body: &Body, leg: &Leg) -> Posting {
    let zero = Amount::ZERO;
    let (debits, credits) = match leg.amount.is_negative() {
        true => (leg.amount.negated(), zero),
        false => (zero, leg.amount),
    };
    Posting {
        account: leg.account.clone(),
        currency: body.currency.clone(),
        debits,
        credits,
        transactions: vec![id.into()],
        holds: u32::from(body.terms().hold && leg.amount.is_negative()),
        ride: None,
    }
}

fn captured(body: &Body) -> Vec<Leg> {
    let half = |leg: &Leg| match leg.amount {
        Amount::Int(units) => Leg { account: leg.account.clone(), amount: Amount::Int(units / 2) },
        Amount::Decimal(_) => leg.clone(),
    };
    let halves: Vec<Leg> = body.legs().iter().map(half).collect();
    match halves.iter().any(|leg| leg.amount.is_zero()) || halves.len() > 2 {
        true => body.legs().to_vec(),
        false => halves,
    }
}

/// A hold as it is when a client has confirmed it; any other transaction as it is.
fn confirmed(body: &Body) -> Body {
    let captured = body.terms().hold.then(|| captured(body));
    let terms = Conditions { captured, ..body.terms().clone() };
    body.clone().with_terms(terms).expect("what is captured fits the legs")
}

/// Adds a posting to one of the same account, currency and kind, while the sums stay amounts.
fn join(one: &mut (Posting, Amount), other: &(Posting, Amount)) -> bool {
    let ((posting, released), (other, more)) = (one, other);
    let alike = posting.account == other.account
        && posting.currency == other.currency
        && (posting.holds > 0) == (other.holds > 0)
        && posting.is_int() == other.is_int();
    let sums =
        (posting.debits.checked_add(other.debits), posting.credits.checked_add(other.credits));
    let (true, (Some(debits), Some(credits))) = (alike, sums) else { return false };
    let Some(sum) = released.checked_add(*more) else { return false };
    (posting.debits, posting.credits, *released) = (debits, credits, sum);
    posting.holds += other.holds;
    posting.transactions.extend(other.transactions.iter().cloned());
    true
}

/// The transaction that exists from the start.
pub fn broken(names: &Names) -> Document {
    let (now, account) = (DateTime::from_millis(0), names.accounts[0]);
    doc! { "_id": names.transactions[BROKEN], "source": account, "destination": account,
    "value": 5_i64, "state": State::Initial, "createdAt": now, "lastModified": now }
}
