//! Our own documents as pages.
//!
//! Owns what a page adds to the Markdown that `pulldown-cmark` reads: the anchors of headings, where
//! links lead, and the regions of tables. Promises that all text is escaped, also what looks like
//! HTML; that no element has a style, which the console's policy forbids; and that a heading has the
//! anchor by which other documents name it. A link to another file is its name, because only this
//! page is served. Pure.

use maud::{Markup, PreEscaped, Render, html};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::html::{link_to_section, wide};

/// The anchor of a heading, as links name it.
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}

/// A document without its title, which the frame of a page has.
pub fn page(text: &str) -> Markup {
    let mut page = Page::default();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        page.take(event);
    }
    PreEscaped(page.shown)
}

/// What is shown so far.
#[derive(Default)]
struct Page {
    shown: String,
    /// The words of the last heading, without what marks them.
    about: String,
    is_heading: bool,
    tables: usize,
    is_head: bool,
    /// Where the links, headings, tables and cells that are open begin, and where the links lead.
    begun: Vec<(usize, String)>,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(&tag),
            Event::End(tag) => self.close(tag),
            Event::Code(code) => {
                self.name(&code);
                self.add(&html! { code { (*code) } });
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.name(&text);
                self.add(&*text);
            }
            Event::SoftBreak | Event::HardBreak => self.shown.push('\n'),
            Event::Rule => self.shown.push_str("<hr>"),
            // No other option of the parser is on.
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }

    fn add(&mut self, part: &(impl Render + ?Sized)) {
        part.render_to(&mut self.shown);
    }

    /// Takes in words of a heading.
    fn name(&mut self, words: &str) {
        if self.is_heading {
            self.about.push_str(words);
        }
    }

    fn begin(&mut self, to: &str) {
        self.begun.push((self.shown.len(), to.to_owned()));
    }

    /// What was added since it has begun, and where it leads.
    fn end(&mut self) -> (Markup, String) {
        let (at, to) = self.begun.pop().expect("the parser ends what it has begun");
        (PreEscaped(self.shown.split_off(at)), to)
    }

    fn open(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.about.clear();
                self.is_heading = true;
                self.begin("");
            }
            Tag::Table(_) | Tag::TableCell => self.begin(""),
            Tag::Link { dest_url, .. } => self.begin(dest_url),
            Tag::TableHead => {
                self.is_head = true;
                self.shown.push_str("<thead><tr>");
            }
            tag => {
                for element in elements(&tag.to_end()) {
                    self.shown.push_str(&format!("<{element}>"));
                }
            }
        }
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                self.is_heading = false;
                let heading = self.end().0;
                self.add(&shown_heading(level, &anchor(&self.about), &heading));
            }
            TagEnd::Table => {
                self.tables += 1;
                let rows = self.end().0;
                let table = html! { table { (rows) } };
                let about = format!("{}, table {}", self.about, self.tables);
                self.add(&wide(&about, &table));
            }
            TagEnd::TableHead => {
                self.is_head = false;
                self.shown.push_str("</tr></thead>");
            }
            TagEnd::TableCell => {
                let cell = self.end().0;
                let is_named = self.is_head && !cell.0.is_empty();
                self.add(
                    &html! { @if is_named { th scope="col" { (cell) } } @else { td { (cell) } } },
                );
            }
            TagEnd::Link => {
                let (words, to) = self.end();
                self.add(&shown_link(&words, &to));
            }
            tag => {
                for element in elements(&tag).iter().rev() {
                    self.shown.push_str(&format!("</{element}>"));
                }
            }
        }
    }
}

/// The elements in which something stands, the outer one first.
fn elements(tag: &TagEnd) -> &'static [&'static str] {
    match tag {
        TagEnd::Paragraph => &["p"],
        TagEnd::List(true) => &["ol"],
        TagEnd::List(false) => &["ul"],
        TagEnd::Item => &["li"],
        TagEnd::CodeBlock => &["pre", "code"],
        TagEnd::TableRow => &["tr"],
        TagEnd::Strong => &["strong"],
        TagEnd::Emphasis => &["em"],
        TagEnd::BlockQuote(_) => &["blockquote"],
        // Only its words.
        _ => &[],
    }
}

fn shown_heading(level: HeadingLevel, id: &str, words: &Markup) -> Markup {
    html! {
        @match level {
            HeadingLevel::H1 => {}
            HeadingLevel::H2 => h2 id=(id) { (words) }
            _ => h3 id=(id) { (words) }
        }
    }
}

fn shown_link(words: &Markup, to: &str) -> Markup {
    match to.strip_prefix('#') {
        Some(section) => link_to_section(section, words),
        None if to.starts_with("https://") => html! { a href=(to) { (words) } },
        None => html! { (words) " (" code { (to) } ")" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        page(text).into_string()
    }

    #[test]
    fn what_is_marked_is_shown_as_such_and_all_else_stays_text() {
        assert_eq!(shown("a & `c*<d>*`"), "<p>a &amp; <code>c*&lt;d&gt;*</code></p>");
        assert_eq!(shown("a <b>b</b>"), "<p>a &lt;b&gt;b&lt;/b&gt;</p>");
        assert_eq!(shown("<script>x</script>"), "&lt;script&gt;x&lt;/script&gt;");
        assert_eq!(
            shown("**Who `a*b`** is *it*"),
            "<p><strong>Who <code>a*b</code></strong> is <em>it</em></p>"
        );
        let here = shown("[who did what](#who-did-what)");
        assert_eq!(here, "<p><a href=\"/console/handbook#who-did-what\">who did what</a></p>");
        assert_eq!(shown("[usage](usage.md#x)"), "<p>usage (<code>usage.md#x</code>)</p>");
        assert_eq!(shown("[x](javascript:a)"), "<p>x (<code>javascript:a</code>)</p>");
    }

    #[test]
    fn headings_have_anchors_and_tables_are_regions_with_names_of_their_own() {
        assert_eq!(
            shown("# T\n\n## A `b` can't\n\n### c"),
            "<h2 id=\"a-b-cant\">A <code>b</code> can't</h2><h3 id=\"c\">c</h3>"
        );
        let table = shown("## A\n\n| a | |\n| --- | --: |\n| 1 | `2` |\n");
        let rows = "<thead><tr><th scope=\"col\">a</th><td></td></tr></thead>\
                    <tr><td>1</td><td><code>2</code></td></tr>";
        assert!(
            table.contains(&format!("aria-label=\"A, table 1\"><table>{rows}</table>")),
            "{table}"
        );
        let list = shown("* i\n  j\n* k\n\n```sh\n# none\n```\n");
        assert_eq!(list, "<ul><li>i\nj</li><li>k</li></ul><pre><code># none\n</code></pre>");
    }
}
