//! The list of what people have done, newest first.
//!
//! Owns what is asked for by a name: there is no index of names, so of those that are asked for by
//! who or what, a page looks at so many acts at most. Then it may have fewer acts than its limit,
//! or none, and says all the same where the next page begins.

use std::time::SystemTime;

use ledger::json::timestamp;
use mongo::{ActsAsked, SeenAct, SubjectKind};
use mongodb::bson::DateTime;
use serde_json::{Value, json};

use super::cursor::{Begin, Place, Way};
use super::{Page, check_limit};
use crate::client::Client;
use crate::error::Error;

/// How many acts are read at a time where they are asked for by a name.
const PIECE: usize = 1_000;
/// How many acts a page looks at, at most.
const LOOKED_AT_MAX: usize = 10_000;

/// Which acts are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActFilter {
    /// Only those that name this account, transaction or letter.
    pub subject: Option<(SubjectKind, String)>,
    /// Only those of whoever has this name: of a token, or of a person beside it.
    pub who: Option<String>,
    /// Only those of this name, like `transaction.cancel`.
    pub what: Option<String>,
    /// Only those that were begun then or later.
    pub since: Option<SystemTime>,
    /// Only those that were begun before.
    pub until: Option<SystemTime>,
}

impl ActFilter {
    fn takes(&self, act: &SeenAct) -> bool {
        let is_of = |who: &String| *who == act.who.name || Some(who) == act.who.person.as_ref();
        self.who.as_ref().is_none_or(is_of)
            && self.what.as_ref().is_none_or(|what| *what == act.what)
    }

    fn asked(&self, begin: &Begin<Place>, limit: usize) -> ActsAsked {
        let ms = |moment| DateTime::from_system_time(moment).timestamp_millis();
        ActsAsked {
            subject: self.subject.clone(),
            since: self.since.map(ms),
            until: self.until.map(ms),
            gap: begin.gap.as_ref().map(|gap| (gap.at, gap.id.clone())),
            above: begin.way == Way::Up,
            limit,
        }
    }

    /// What a cursor is bound to.
    fn named(&self) -> Value {
        let anywhere = Begin { gap: None, way: Way::Down };
        let ActsAsked { subject, since, until, .. } = self.asked(&anywhere, 0);
        let subject = subject.map(|(kind, id)| json!([kind.as_str(), id]));
        json!(["acts", subject, self.who, self.what, since, until])
    }

    /// How many acts are read at a time for a page of so many.
    fn piece(&self, limit: usize) -> usize {
        if self.who.is_some() || self.what.is_some() { PIECE } else { limit + 1 }
    }
}

/// A page that is being filled.
struct Filling {
    limit: usize,
    items: Vec<SeenAct>,
    /// The last act that was looked at.
    last: Option<Place>,
}

impl Filling {
    /// Takes what a piece has of the page; returns whether the piece has one more than the page
    /// takes.
    fn fill(&mut self, filter: &ActFilter, piece: Vec<SeenAct>) -> bool {
        for act in piece {
            let is_one = filter.takes(&act);
            if is_one && self.items.len() == self.limit {
                return true;
            }
            self.last = Some(Place { at: act.at.timestamp_millis(), id: act.id.clone() });
            if is_one {
                self.items.push(act);
            }
        }
        false
    }
}

impl Client {
    /// What people have done, newest first, with what became of it. A page has 1 to 1,000 acts;
    /// `cursor` is the `next` of the page before, or the `prev` of the one behind.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or cursor, and when the server stays away.
    pub async fn acts(
        &self,
        filter: &ActFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<SeenAct>, Error> {
        let limit = check_limit(limit)?;
        let of = filter.named();
        let begin = Begin::of(&of, cursor)?;
        let (way, mut from) = (begin.way, begin.clone());
        let mut page = Filling { limit, items: Vec::new(), last: None };
        let mut looked_at = 0;
        let goes_on = loop {
            let before = page.last.clone();
            let asked = filter.asked(&from, filter.piece(limit));
            let piece = self.insist(|| self.store().acts(&asked)).await?;
            let was_last = piece.len() < asked.limit;
            looked_at += piece.len();
            if page.fill(filter, piece.into_iter().flatten().collect()) {
                break true;
            }
            // Where nothing of a piece can be read, there is no place from which to go on.
            if was_last || page.last == before {
                break false;
            }
            if looked_at >= LOOKED_AT_MAX {
                break true;
            }
            from.gap = page.last.clone().map(|last| way.past(last));
        };
        let on = page.last.filter(|_| goes_on).map(|last| way.past(last));
        let items = self.with_ends(page.items).await?;
        Ok(begin.page(&of, (items, on)))
    }

    async fn with_ends(&self, mut acts: Vec<SeenAct>) -> Result<Vec<SeenAct>, Error> {
        if acts.is_empty() {
            return Ok(acts);
        }
        let ids: Vec<&str> = acts.iter().map(|act| act.id.as_str()).collect();
        let mut ends = self.insist(|| self.store().ends_of_acts(&ids)).await?;
        for act in &mut acts {
            act.ended = ends.remove(&act.id);
        }
        Ok(acts)
    }
}

/// An act as a line of JSON; `ended` is null where it is not known what became of it.
#[must_use]
pub fn act_json(act: &SeenAct) -> Value {
    let SeenAct { id, at, what, on, who, reason, ended } = act;
    let ended = ended.as_ref().map(|end| {
        json!({
            "at": timestamp(end.at), "result": end.result.as_str(), "code": end.code,
            "message": end.message,
        })
    });
    json!({
        "id": id,
        "at": timestamp(*at),
        "what": what,
        "on": { "kind": on.kind.as_str(), "ids": on.ids, "count": on.count },
        "who": {
            "name": who.name, "person": who.person, "via": who.via.as_str(), "from": who.from,
            "claimed": who.claimed, "request": who.request,
        },
        "reason": reason,
        "ended": ended,
    })
}

#[cfg(test)]
mod tests {
    use mongo::{ActSubject, ActVia, ActWho};

    use super::*;

    fn act(id: &str, name: &str) -> SeenAct {
        let who = ActWho {
            name: name.to_owned(),
            person: None,
            via: ActVia::Api,
            from: None,
            claimed: false,
            request: None,
        };
        SeenAct {
            id: id.to_owned(),
            at: DateTime::from_millis(7),
            what: "account.freeze".to_owned(),
            on: ActSubject::of(SubjectKind::Account, ["a"]),
            who,
            reason: None,
            ended: None,
        }
    }

    #[test]
    fn a_page_ends_where_the_next_one_begins_and_leaves_nothing_out() {
        let filter = ActFilter { who: Some("ada".to_owned()), ..ActFilter::default() };
        let mut page = Filling { limit: 2, items: Vec::new(), last: None };
        let piece =
            || [act("9", "ada"), act("8", "bob"), act("7", "ada"), act("6", "ada")].to_vec();
        assert!(page.fill(&filter, piece()));
        let ids = |page: &Filling| page.items.iter().map(|act| act.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&page), ["9", "7"]);
        assert_eq!(page.last, Some(Place { at: 7, id: "7".to_owned() }));
        let mut next = Filling { limit: 2, items: Vec::new(), last: page.last };
        assert!(!next.fill(&filter, piece().split_off(3)));
        assert_eq!(ids(&next), ["6"]);
    }

    #[test]
    fn a_name_is_that_of_a_token_or_of_a_person_beside_it() {
        let mut by_person = act("1", "office");
        by_person.who.person = Some("ada".to_owned());
        let takes = |who: &str| {
            let filter = ActFilter { who: Some(who.to_owned()), ..ActFilter::default() };
            filter.takes(&by_person)
        };
        assert!(takes("ada") && takes("office") && !takes("bob"));
    }

    #[test]
    fn an_act_without_an_end_is_told_as_not_known() {
        let told = act_json(&act("1", "ada"));
        assert!(told["ended"].is_null() && told["who"]["name"] == "ada", "{told}");
    }
}
