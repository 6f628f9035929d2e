//! A page in the making.
//!
//! Owns when a page is full: it has so many items, or so many bytes of documents. A document may have
//! megabytes, and many callers may list at once. So documents are read a few at a time, each is made
//! into what is told of it as soon as it is read, and the page ends before the first one for which
//! there is no room. Promises that a page has one item at least, however large that is, and that a
//! page that ends early goes on exactly behind its last item.

use mongodb::bson::Document;

use super::cursor::{InOrder, Way};

/// A page ends after so many bytes of documents, or of what is told of them if that is more.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// How many whole documents are read at once. One that Tandem takes in has less than a megabyte.
pub(super) const AT_ONCE: usize = 16;

/// What a list tells of a document.
pub struct Told<T> {
    /// That.
    pub item: T,
    /// How many bytes it takes, about.
    pub bytes: usize,
}

impl Told<Document> {
    /// The document itself.
    #[must_use]
    pub fn whole(document: Document) -> Told<Document> {
        Told { item: document, bytes: 0 }
    }
}

/// What makes the items of a list.
pub type Tell<T> = fn(Document) -> Told<T>;

/// A page for which documents are read.
pub(super) struct Room<P, T> {
    limit: usize,
    bytes: usize,
    items: Vec<T>,
    /// The place of the last item.
    last: Option<P>,
    /// Whether there was one for which there was no room.
    is_over: bool,
}

impl<P, T> Room<P, T> {
    /// Room for so many items.
    pub(super) fn new(limit: usize) -> Room<P, T> {
        Room { limit, bytes: 0, items: Vec::new(), last: None, is_over: false }
    }

    /// Room for what a page may have beside this, which goes on behind its last item.
    pub(super) fn rest(&self) -> Room<P, T>
    where
        P: Clone,
    {
        let (limit, bytes, last) = (self.left(), self.bytes, self.last.clone());
        Room { limit, bytes, items: Vec::new(), last, is_over: false }
    }

    /// How many items more it can take.
    pub(super) fn left(&self) -> usize {
        self.limit - self.items.len()
    }

    /// Whether the page ends here, and the list goes on.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes what comes next in the order, of so many bytes as it is stored. Returns whether the page
    /// goes on.
    pub(super) fn take(&mut self, place: P, stored: usize, told: Told<T>) -> bool {
        let bytes = self.bytes + stored.max(told.bytes);
        let is_first = self.last.is_none();
        self.is_over |= self.left() == 0 || (bytes > PAGE_BYTES_MAX && !is_first);
        if !self.is_over {
            self.bytes = bytes;
            self.items.push(told.item);
            self.last = Some(place);
        }
        !self.is_over
    }

    /// The items, and the gap at which the list goes on: behind the last one of them, if there was
    /// no room for more, or else where the reading was stopped, if it was.
    pub(super) fn parted(self, way: Way, stopped: Option<P>) -> (Vec<T>, Option<P>)
    where
        P: InOrder,
    {
        let on = if self.is_over { self.last.map(|last| way.past(last)) } else { stopped };
        (self.items, on)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cursor::Place;
    use super::*;

    /// A page of items of these sizes, of five at most: how many it has, and where it goes on.
    fn page(sizes: &[(usize, usize)]) -> (usize, Option<i64>) {
        let mut room = Room::new(5);
        for (at, (stored, told)) in (1..).zip(sizes) {
            let place = Place { at, id: String::new() };
            if !room.take(place, *stored, Told { item: at, bytes: *told }) {
                break;
            }
        }
        let (items, on) = room.parted(Way::Down, None);
        (items.len(), on.map(|place| place.at))
    }

    #[test]
    fn a_page_ends_before_what_it_has_no_room_for_and_has_one_item_at_least() {
        let half = PAGE_BYTES_MAX / 2;
        assert_eq!(page(&[]), (0, None));
        assert_eq!(page(&[(1, 0); 5]), (5, None));
        assert_eq!(page(&[(1, 0); 6]), (5, Some(5)));
        assert_eq!(page(&[(half, 0); 2]), (2, None));
        assert_eq!(page(&[(half, 0); 3]), (2, Some(2)));
        assert_eq!(page(&[(1, half); 3]), (2, Some(2)), "what is told may be more");
        assert_eq!(page(&[(3 * half, 0), (1, 0)]), (1, Some(1)));
    }
}
