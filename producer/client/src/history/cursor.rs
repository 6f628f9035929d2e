//! Cursors: where a page begins and which way it goes from there, as text that a caller hands back
//! for the next page, or for the one before.
//!
//! A page begins at a gap between two items of its list: the items whose places are less than the gap
//! are below it, the others above. So the page that follows, and the one that comes before, begin at
//! the two gaps around a page, and nothing is told twice or left out, whatever is added to the list.
//!
//! A cursor is bound to its list: it carries a digest of the list's name and filter and of its own
//! content. So one that is used for another list, or that was changed on its way, is refused with
//! [`Error::Invalid`], and never continues somewhere else. It carries no secret: whoever makes one
//! up only misleads himself.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Page;
use crate::error::Error;

/// How many bytes of the digest a cursor carries.
const DIGEST_BYTES: usize = 12;

/// The last item of a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    /// Its moment, in milliseconds since 1970.
    pub at: i64,
    /// Its `_id`.
    pub id: String,
}

/// Where an entry stands in the journal: the order of what has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LinePlace {
    /// The moment of its line, in milliseconds since 1970.
    pub at: i64,
    /// The `_id` of its line.
    pub line: String,
    /// Its place in the line.
    pub entry: u32,
}

/// Which way a list is read from a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Way {
    /// What is above it, the least of that first.
    Up,
    /// What is below it, the greatest of that first.
    Down,
}

/// The place of an item, in the order of its list.
pub(super) trait InOrder: Clone + PartialOrd {
    /// Which way its list goes from its beginning.
    const WAY: Way;

    /// The least place that is greater.
    fn above(&self) -> Self;
}

impl InOrder for Place {
    const WAY: Way = Way::Down;

    fn above(&self) -> Place {
        Place { at: self.at, id: format!("{}\0", self.id) }
    }
}

impl InOrder for LinePlace {
    const WAY: Way = Way::Down;

    fn above(&self) -> LinePlace {
        LinePlace { entry: self.entry.saturating_add(1), ..self.clone() }
    }
}

impl Way {
    /// The opposite one.
    pub(super) fn other(self) -> Way {
        match self {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }

    /// The gap behind an item, on this way.
    pub(super) fn past<P: InOrder>(self, item: P) -> P {
        match self {
            Way::Up => item.above(),
            Way::Down => item,
        }
    }

    /// Whether an item at this place is on the way from a gap.
    pub(super) fn takes<P: InOrder>(self, gap: &P, place: &P) -> bool {
        match self {
            Way::Up => place >= gap,
            Way::Down => place < gap,
        }
    }
}

/// Where a page begins, and which way it goes from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begin<P> {
    /// None at the beginning of the list.
    pub gap: Option<P>,
    pub way: Way,
}

impl<P: InOrder + Serialize + for<'a> Deserialize<'a>> Begin<P> {
    /// Where a page of the list begins: at a cursor, or at the beginning of the list.
    pub(super) fn of(of: &Value, cursor: Option<&str>) -> Result<Begin<P>, Error> {
        match cursor {
            Some(cursor) => read(of, cursor),
            None => Ok(Begin { gap: None, way: P::WAY }),
        }
    }

    /// Whether an item at this place is on the way.
    pub(super) fn takes(&self, place: &P) -> bool {
        match &self.gap {
            Some(gap) => self.way.takes(gap, place),
            None => self.way == P::WAY,
        }
    }

    /// The page of items that were read from here, with the gap at which the list goes on, if it
    /// does.
    pub(super) fn page<T>(self, of: &Value, (mut items, on): (Vec<T>, Option<P>)) -> Page<T> {
        let way = self.way;
        let cursor = |gap, way| write(of, &Begin { gap: Some(gap), way });
        let on = on.map(|gap| cursor(gap, way));
        let back = self.gap.map(|gap| cursor(gap, way.other()));
        let (next, prev) = if way == P::WAY {
            (on, back)
        } else {
            items.reverse();
            (back, on)
        };
        Page { items, next, prev, looked_until: None }
    }
}

/// The cursor that continues the list `of` after what `content` says.
pub(super) fn write(of: &Value, content: &impl Serialize) -> String {
    let content = serde_json::json!(content).to_string();
    let mut bytes = digest(of, content.as_bytes()).to_vec();
    bytes.extend(content.into_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What a cursor says, if it was written for the list `of`.
pub(super) fn read<T: for<'a> Deserialize<'a>>(of: &Value, cursor: &str) -> Result<T, Error> {
    let content = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| {
        let (carried, content) = bytes.split_at_checked(DIGEST_BYTES)?;
        if digest(of, content) != carried {
            return None;
        }
        serde_json::from_slice(content).ok()
    });
    content.ok_or_else(|| {
        let problem = "does not belong to this list with this filter, or was changed; ask without \
                       a cursor to begin again";
        Error::invalid("cursor", problem)
    })
}

fn digest(of: &Value, content: &[u8]) -> [u8; DIGEST_BYTES] {
    let of = of.to_string();
    let hash = Sha256::new()
        .chain_update((of.len() as u64).to_be_bytes())
        .chain_update(of)
        .chain_update(content)
        .finalize();
    std::array::from_fn(|at| hash[at])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> Place {
        Place { at: 1_700_000_000_123, id: "miete \u{1f600}/1".to_owned() }
    }

    #[test]
    fn a_cursor_says_the_same_again_and_fits_a_url() {
        let of = json!(["transactions", "a"]);
        let cursor = write(&of, &place());
        assert!(cursor.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{cursor}");
        assert_eq!(read(&of, &cursor), Ok(place()));
    }

    #[test]
    fn a_page_lies_between_two_gaps_and_each_leads_to_the_page_on_its_other_side() {
        let of = json!(["acts"]);
        let places: Vec<Place> =
            ["a", "b", "b\0", "c", "d"].map(|id| Place { at: 7, id: id.to_owned() }).into();
        let page = |cursor: Option<&str>| {
            let begin = Begin::<Place>::of(&of, cursor).expect("ours");
            let mut on_way: Vec<&Place> =
                places.iter().filter(|place| begin.takes(place)).collect();
            if begin.way == Way::Down {
                on_way.reverse();
            }
            let read: Vec<Place> = on_way.iter().take(2).map(|place| (*place).clone()).collect();
            let on = read.last().filter(|_| on_way.len() > 2).cloned();
            let on = on.map(|last| begin.way.past(last));
            let page = begin.page(&of, (read, on));
            let ids: Vec<String> = page.items.iter().map(|place| place.id.clone()).collect();
            (ids.join(","), page.next, page.prev)
        };
        let (first, next, none) = page(None);
        assert_eq!((first.as_str(), none), ("d,c", None));
        let (second, next, prev) = page(next.as_deref());
        assert_eq!(second, "b\0,b");
        let (again, forth, none) = page(prev.as_deref());
        assert_eq!((again.as_str(), none), ("d,c", None));
        assert_eq!(page(forth.as_deref()).0, second);
        let (last, none, prev) = page(next.as_deref());
        assert_eq!((last.as_str(), none), ("a", None));
        assert_eq!(page(prev.as_deref()).0, second);
    }

    #[test]
    fn a_cursor_of_another_list_or_a_changed_one_is_refused() {
        let of = json!(["transactions", "a"]);
        let cursor = write(&of, &place());
        let refused = |of: &Value, cursor: &str| {
            let error = read::<Place>(of, cursor).expect_err(cursor);
            assert!(matches!(&error, Error::Invalid { field, .. } if field == "cursor"), "{error}");
        };
        for other in [json!(["transactions", "b"]), json!(["statement", "a"]), json!([])] {
            refused(&other, &cursor);
        }
        for at in 0..cursor.len() {
            let other = if &cursor[at..=at] == "A" { "B" } else { "A" };
            refused(&of, &format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]));
            refused(&of, &cursor[..at]);
        }
        refused(&of, &format!("{cursor}A"));
        refused(&of, "not a cursor");
    }
}
