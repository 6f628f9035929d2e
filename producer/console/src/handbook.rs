//! The handbook for operators, as a page.
//!
//! Owns where the console leads whoever is told of a section of it. Promises that it is the text of
//! the version that runs.

use std::sync::LazyLock;

use maud::{Markup, PreEscaped, html};

use super::html::{link_to_section, page as framed};
use super::markdown;
use super::visit::Visit;

const TEXT: &str = include_str!("../../../deploy/operating.md");

static CONTENT: LazyLock<String> = LazyLock::new(|| markdown::page(TEXT).into_string());

/// `GET /console/handbook`
pub fn page(visit: &Visit) -> Markup {
    framed(Some(visit), "Operating Tandem", PreEscaped(CONTENT.clone()))
}

/// A link to the section that a problem names after the file's name and a `#`.
pub fn reference(named: &str) -> Markup {
    match named.split_once('#') {
        Some((_, section)) => {
            let words = section.replace('-', " ");
            link_to_section(section, &html! { "Handbook: " (words) })
        }
        None => html! { code { (named) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All values of an attribute.
    fn all<'a>(page: &'a str, before: &str) -> Vec<&'a str> {
        let parts = page.split(before).skip(1);
        parts.map(|part| part.split('"').next().unwrap_or_default()).collect()
    }

    #[test]
    fn each_section_that_is_linked_is_on_the_page_once() {
        let page = CONTENT.as_str();
        let sections = all(page, " id=\"");
        for section in all(page, "href=\"/console/handbook#") {
            let found = sections.iter().filter(|id| **id == section).count();
            assert_eq!(found, 1, "{section}");
        }
        let named = reference("operating.md#dead-letters").into_string();
        assert_eq!(named, "<a href=\"/console/handbook#dead-letters\">Handbook: dead letters</a>");
        assert!(sections.contains(&"dead-letters") && sections.contains(&"runbook"));
    }

    #[test]
    fn no_mark_of_the_text_is_left_and_every_region_has_a_name_of_its_own() {
        let page = CONTENT.as_str();
        for mark in ["](", "**", "<p>|", "<p>#", "<p>*", "```", "--:"] {
            assert!(!page.contains(mark), "{mark} is left");
        }
        let mut names = all(page, "aria-label=\"");
        let all_names = names.len();
        assert!(all_names > 5, "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all_names);
    }
}
