//! The documents of acts: how they are written and read.
//!
//! Promises that no foreign text in them is long, so that none of them is. Pure.

use ledger::limits::echo;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::ACT;

/// The most ids that an act names. Of more, it names the first and says how many there are.
pub const ACT_IDS_MAX: usize = 100;

/// By which way somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActVia {
    /// The HTTP API.
    Api,
    /// The console.
    Console,
    /// The command line.
    CommandLine,
}

impl ActVia {
    /// All of them.
    pub const ALL: [ActVia; 3] = [ActVia::Api, ActVia::Console, ActVia::CommandLine];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ActVia::Api => "api",
            ActVia::Console => "console",
            ActVia::CommandLine => "command-line",
        }
    }
}

/// The kind of what an act is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// Accounts.
    Account,
    /// Transactions.
    Transaction,
    /// Dead letters.
    Letter,
    /// Workers, by their names.
    Worker,
    /// The ledger as a whole.
    Ledger,
}

impl SubjectKind {
    /// All of them.
    pub const ALL: [SubjectKind; 5] = [
        SubjectKind::Account,
        SubjectKind::Transaction,
        SubjectKind::Letter,
        SubjectKind::Worker,
        SubjectKind::Ledger,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SubjectKind::Account => "account",
            SubjectKind::Transaction => "transaction",
            SubjectKind::Letter => "letter",
            SubjectKind::Worker => "worker",
            SubjectKind::Ledger => "ledger",
        }
    }
}

/// What an act is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActSubject {
    /// What these are.
    pub kind: SubjectKind,
    /// Their ids, at most [`ACT_IDS_MAX`]; none of the ledger, and where nobody has named them.
    pub ids: Vec<String>,
    /// How many there are, where that is known and not all are named.
    pub count: Option<u64>,
}

impl ActSubject {
    /// The ledger as a whole.
    #[must_use]
    pub fn ledger() -> ActSubject {
        ActSubject::of(SubjectKind::Ledger, [])
    }

    /// These, each by its id.
    pub fn of<'a>(kind: SubjectKind, ids: impl IntoIterator<Item = &'a str>) -> ActSubject {
        let mut ids: Vec<String> = ids.into_iter().map(|id| echo(id).into_owned()).collect();
        let all = ids.len();
        ids.truncate(ACT_IDS_MAX);
        let count = (all > ACT_IDS_MAX).then(|| u64::try_from(all).unwrap_or(u64::MAX));
        ActSubject { kind, ids, count }
    }

    /// So many that nobody names; none where nobody knows how many.
    #[must_use]
    pub fn unnamed(kind: SubjectKind, count: Option<u64>) -> ActSubject {
        ActSubject { kind, ids: Vec::new(), count }
    }

    fn to_document(&self) -> Document {
        let mut on = doc! { "kind": self.kind.as_str(), "ids": &self.ids };
        let count = self.count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        on.extend(count.map(|count| ("count".to_owned(), Bson::from(count))));
        on
    }

    fn parse(on: &Document) -> Option<ActSubject> {
        let kind = on.get_str("kind").ok()?;
        let kind = SubjectKind::ALL.into_iter().find(|one| one.as_str() == kind)?;
        let ids = on.get_array("ids").ok()?.iter().map(|id| id.as_str().map(str::to_owned));
        let count = on.get_i64("count").ok().and_then(|count| count.try_into().ok());
        Some(ActSubject { kind, ids: ids.collect::<Option<_>>()?, count })
    }
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActWho {
    /// The name of the token, or of the user of the operating system.
    pub name: String,
    /// The person beside the token, where a proxy that signs people in has said who that is.
    pub person: Option<String>,
    /// By which way.
    pub via: ActVia,
    /// From where: the address of the peer, or the name of the host.
    pub from: Option<String>,
    /// Whether nobody has checked the name: the command line says it of itself.
    pub claimed: bool,
    /// The id of the request, as the log has it.
    pub request: Option<String>,
}

impl ActWho {
    fn to_document(&self) -> Document {
        let mut who = doc! { "name": &*echo(&self.name), "via": self.via.as_str() };
        let texts = [("person", &self.person), ("from", &self.from), ("request", &self.request)];
        for (name, text) in texts {
            who.extend(text.as_deref().map(|text| (name.to_owned(), Bson::from(&*echo(text)))));
        }
        if self.claimed {
            who.insert("claimed", true);
        }
        who
    }

    fn parse(who: &Document) -> Option<ActWho> {
        let via = who.get_str("via").ok()?;
        let text = |name| who.get_str(name).ok().map(str::to_owned);
        Some(ActWho {
            name: text("name")?,
            person: text("person"),
            via: ActVia::ALL.into_iter().find(|one| one.as_str() == via)?,
            from: text("from"),
            claimed: who.get_bool("claimed").unwrap_or_default(),
            request: text("request"),
        })
    }
}

/// What somebody is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAct {
    /// A name that never changes, like `transaction.cancel`.
    pub what: &'static str,
    /// What it is done to.
    pub on: ActSubject,
    /// Who does it.
    pub who: ActWho,
    /// Why, as it was said.
    pub reason: Option<String>,
}

impl NewAct {
    /// The document that says that it is begun.
    pub(super) fn to_document(&self, id: &str, at: DateTime) -> Document {
        let mut document = doc! {
            "_id": id,
            "kind": ACT.kind,
            "at": at,
            "what": self.what,
            "on": self.on.to_document(),
            "who": self.who.to_document(),
        };
        let reason = self.reason.as_deref();
        document.extend(reason.map(|reason| ("reason".to_owned(), Bson::from(reason))));
        document
    }
}

/// What became of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActResult {
    /// It was done.
    Ok,
    /// It was refused, and has had no effect.
    Refused,
    /// It could not be done, and has had no effect.
    Failed,
    /// It may have had its effect, wholly or in part, or may have it yet.
    Unknown,
}

impl ActResult {
    /// All of them.
    pub const ALL: [ActResult; 4] =
        [ActResult::Ok, ActResult::Refused, ActResult::Failed, ActResult::Unknown];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ActResult::Ok => "ok",
            ActResult::Refused => "refused",
            ActResult::Failed => "failed",
            ActResult::Unknown => "unknown",
        }
    }
}

/// How an act has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActEnd {
    /// What became of it.
    pub result: ActResult,
    /// Why it was refused, as a word.
    pub code: Option<&'static str>,
    /// What became of it, in a sentence.
    pub message: String,
}

impl ActEnd {
    /// It was done.
    pub fn ok(message: impl Into<String>) -> ActEnd {
        ActEnd { result: ActResult::Ok, code: None, message: message.into() }
    }

    /// All of it was refused, each thing for a reason of its own.
    pub fn refused(message: impl Into<String>) -> ActEnd {
        let (result, code) = (ActResult::Refused, Some("refused"));
        ActEnd { result, code, message: message.into() }
    }

    pub(super) fn to_document(&self, id: &str, at: DateTime) -> Document {
        let mut document = doc! {
            "_id": end_of(id),
            "kind": ACT.kind,
            "act": id,
            "endedAt": at,
            "result": self.result.as_str(),
        };
        document.extend(self.code.map(|code| ("code".to_owned(), Bson::from(code))));
        document.insert("message", &*echo(&self.message));
        document
    }
}

/// The end of an act, as it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEnd {
    /// When.
    pub at: DateTime,
    /// What became of it.
    pub result: ActResult,
    /// Why it was refused, as a word.
    pub code: Option<String>,
    /// What became of it, in a sentence.
    pub message: String,
}

impl SeenEnd {
    pub(super) fn parse(document: &Document) -> Option<(String, SeenEnd)> {
        document.get_str("kind").ok().filter(|kind| *kind == ACT.kind)?;
        let text = |name| document.get_str(name).ok().map(str::to_owned);
        let result = document.get_str("result").ok()?;
        let end = SeenEnd {
            at: *document.get_datetime("endedAt").ok()?,
            result: ActResult::ALL.into_iter().find(|one| one.as_str() == result)?,
            code: text("code"),
            message: text("message")?,
        };
        Some((text("act")?, end))
    }
}

/// An act as it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenAct {
    /// Its id.
    pub id: String,
    /// When it was begun.
    pub at: DateTime,
    /// What it was.
    pub what: String,
    /// What it was done to.
    pub on: ActSubject,
    /// Who did it.
    pub who: ActWho,
    /// Why, as it was said.
    pub reason: Option<String>,
    /// How it has ended; none where nobody knows that.
    pub ended: Option<SeenEnd>,
}

impl SeenAct {
    pub(super) fn parse(document: &Document) -> Option<SeenAct> {
        let text = |name| document.get_str(name).ok().map(str::to_owned);
        Some(SeenAct {
            id: text("_id")?,
            at: *document.get_datetime("at").ok()?,
            what: text("what")?,
            on: ActSubject::parse(document.get_document("on").ok()?)?,
            who: ActWho::parse(document.get_document("who").ok()?)?,
            reason: text("reason"),
            ended: None,
        })
    }
}

/// The `_id` of the document that says how an act has ended.
pub(super) fn end_of(id: &str) -> String {
    format!("{id}.end")
}

#[cfg(test)]
mod tests {
    use super::super::raw;
    use super::*;

    fn act() -> NewAct {
        NewAct {
            what: "transaction.cancel",
            on: ActSubject::of(SubjectKind::Transaction, ["t"]),
            who: ActWho {
                name: "ada".to_owned(),
                person: Some("ada@example".to_owned()),
                via: ActVia::CommandLine,
                from: Some("host".to_owned()),
                claimed: true,
                request: None,
            },
            reason: Some("a slip".to_owned()),
        }
    }

    #[test]
    fn an_act_is_read_as_it_was_noted_and_so_is_its_end() {
        let at = DateTime::from_millis(7);
        let NewAct { what, on, who, reason } = act();
        let seen = SeenAct::parse(&act().to_document("1", at)).expect("it is one");
        let expected =
            SeenAct { id: "1".to_owned(), at, what: what.to_owned(), on, who, reason, ended: None };
        assert_eq!(seen, expected);
        let message = "it is done".to_owned();
        let end = ActEnd { result: ActResult::Refused, code: Some("wrong-state"), message };
        let document = end.to_document("1", at);
        assert_eq!(document.get_str("_id").ok(), Some("1.end"));
        let (of, seen) = SeenEnd::parse(&document).expect("it is one");
        assert_eq!((of.as_str(), seen.result, seen.at), ("1", ActResult::Refused, at));
        assert_eq!(seen.code.as_deref(), Some("wrong-state"));
        assert!(SeenAct::parse(&document).is_none(), "an end is no act");
    }

    #[test]
    fn what_is_noted_is_short_whatever_it_is_done_to() {
        let ids: Vec<String> =
            (0..ACT_IDS_MAX + 1).map(|n| format!("{n}{}", "x".repeat(9_000))).collect();
        let on = ActSubject::of(SubjectKind::Account, ids.iter().map(String::as_str));
        assert_eq!((on.ids.len(), on.count), (ACT_IDS_MAX, Some(ACT_IDS_MAX as u64 + 1)));
        let long = NewAct { on, ..act() }.to_document("1", DateTime::from_millis(7));
        let bytes = raw(&long).as_bytes().len();
        assert!(bytes < 64 << 10, "{bytes}");
        assert_eq!(ActSubject::of(SubjectKind::Account, ["a"]).count, None);
    }
}
