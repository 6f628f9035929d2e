//! Lists, page by page, as the API and the client have them.

/// What is looked at of a page.
#[derive(Clone)]
pub struct Seen {
    pub ids: Vec<String>,
    pub next: Option<String>,
    pub prev: Option<String>,
}

/// Goes to the end of a list of several pages and back again, and sees the same pages; the ids, in
/// the list's order.
pub async fn there_and_back(page: impl AsyncFn(Option<&str>) -> Seen) -> Vec<String> {
    let mut pages = vec![page(None).await];
    assert_eq!(pages[0].prev, None, "nothing comes before the first");
    while let Some(next) = pages[pages.len() - 1].next.clone() {
        pages.push(page(Some(&next)).await);
    }
    let mut again = pages[pages.len() - 1].clone();
    for before in pages.iter().rev().skip(1) {
        again = page(Some(&again.prev.expect("there is one before"))).await;
        assert_eq!(again.ids, before.ids);
    }
    assert_eq!(again.prev, None, "it is the first again");
    let second = page(Some(&again.next.expect("there are several pages"))).await;
    assert_eq!(second.ids, pages[1].ids);
    pages.into_iter().flat_map(|page| page.ids).collect()
}
