//! Our own documents as pages.
//!
//! Owns as much of Markdown as `deploy/operating.md` uses: headings, paragraphs, lists, tables,
//! blocks of commands, and in them code, links, strong and emphasized words. Promises that all text
//! is escaped, and that a heading has the anchor by which other documents name it. What it does not
//! know stays text. A link to another file is its name, because only this page is served. Pure.

use maud::{Markup, PreEscaped, html};

use super::html::{link_to_section, wide};

/// A part of a document.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    Heading { level: usize, text: String },
    Paragraph(String),
    List { is_ordered: bool, items: Vec<String> },
    Table { heads: Vec<String>, rows: Vec<Vec<String>> },
    Commands(String),
}

/// The anchor of a heading, as links name it.
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}

/// A document without its title, which the frame of a page has.
pub fn page(text: &str) -> Markup {
    let (mut about, mut tables, mut shown) = (String::new(), 0, String::new());
    for block in blocks(text) {
        let part = match block {
            Block::Heading { level: 1, text: _ } => html! {},
            Block::Heading { level, text } => {
                let heading = heading(level, &text);
                about = text;
                heading
            }
            Block::Paragraph(text) => html! { p { (inline(&text)) } },
            Block::List { is_ordered: true, items } => html! { ol { (listed(&items)) } },
            Block::List { is_ordered: false, items } => html! { ul { (listed(&items)) } },
            Block::Table { heads, rows } => {
                tables += 1;
                wide(&format!("{about}, table {tables}"), &table(&heads, &rows))
            }
            Block::Commands(text) => html! { pre { code { (text) } } },
        };
        shown += &part.into_string();
    }
    PreEscaped(shown)
}

fn heading(level: usize, text: &str) -> Markup {
    let id = anchor(text);
    html! {
        @if level == 2 { h2 id=(id) { (inline(text)) } } @else { h3 id=(id) { (inline(text)) } }
    }
}

fn listed(items: &[String]) -> Markup {
    html! { @for item in items { li { (inline(item)) } } }
}

fn table(heads: &[String], rows: &[Vec<String>]) -> Markup {
    html! {
        table {
            thead { tr {
                @for head in heads {
                    @if head.is_empty() { td {} } @else { th scope="col" { (inline(head)) } }
                }
            } }
            tbody { @for row in rows { tr { @for cell in row { td { (inline(cell)) } } } } }
        }
    }
}

/// The parts of a text, in their order.
fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut lines) = (Vec::new(), text.lines().peekable());
    while let Some(line) = lines.next() {
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        if line.starts_with("```") {
            let commands = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(Block::Commands(commands.collect::<Vec<_>>().join("\n")));
        } else if marks > 0 {
            let text = line[marks..].trim().to_owned();
            blocks.push(Block::Heading { level: marks, text });
        } else if line.starts_with('|') {
            let mut rows = Vec::new();
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            // The line below the heads only rules them off.
            rows.drain(..rows.len().min(1));
            blocks.push(Block::Table { heads: cells(line), rows });
        } else if let Some((is_ordered, item)) = item_of(line) {
            add_item(&mut blocks, is_ordered, item);
        } else if !line.trim().is_empty() {
            add_line(&mut blocks, line);
        } else if lines.peek().is_some_and(|next| item_of(next).is_none()) {
            // It ends the paragraph or list before it.
            blocks.push(Block::Paragraph(String::new()));
        }
    }
    blocks.retain(|block| *block != Block::Paragraph(String::new()));
    blocks
}

/// The text of an item of a list, and whether its list is numbered.
fn item_of(line: &str) -> Option<(bool, &str)> {
    if let Some(item) = line.strip_prefix("* ") {
        return Some((false, item));
    }
    let (number, item) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((true, item))
}

fn add_item(blocks: &mut Vec<Block>, is_ordered: bool, item: &str) {
    if let Some(Block::List { is_ordered: same, items }) = blocks.last_mut()
        && *same == is_ordered
    {
        items.push(item.to_owned());
    } else {
        blocks.push(Block::List { is_ordered, items: vec![item.to_owned()] });
    }
}

/// Adds a line to what it goes on with.
fn add_line(blocks: &mut Vec<Block>, line: &str) {
    let line = line.trim();
    let before = match blocks.last_mut() {
        Some(Block::Paragraph(text)) => Some(text),
        Some(Block::List { items, .. }) => items.last_mut(),
        Some(Block::Heading { .. } | Block::Table { .. } | Block::Commands(_)) | None => None,
    };
    match before {
        Some(text) if text.is_empty() => line.clone_into(text),
        Some(text) => *text = format!("{text} {line}"),
        None => blocks.push(Block::Paragraph(line.to_owned())),
    }
}

fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The words of a line, with what is marked in them.
fn inline(text: &str) -> Markup {
    let Some(at) = text.find(['`', '[', '*']) else { return html! { (text) } };
    let (before, marked) = text.split_at(at);
    let found = code(marked).or_else(|| link(marked)).or_else(|| strong(marked));
    let (shown, rest) = found.unwrap_or_else(|| {
        let (sign, rest) = marked.split_at(1);
        (html! { (sign) }, rest)
    });
    PreEscaped(html! { (before) (shown) }.into_string() + &inline(rest).into_string())
}

/// What is marked at the beginning, and the rest.
type Marked<'a> = Option<(Markup, &'a str)>;

fn code(text: &str) -> Marked<'_> {
    let (code, rest) = text.strip_prefix('`')?.split_once('`')?;
    Some((html! { code { (code) } }, rest))
}

fn link(text: &str) -> Marked<'_> {
    let (name, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, rest) = rest.split_once(')')?;
    let shown = match target.strip_prefix('#') {
        Some(section) => link_to_section(section, &inline(name)),
        None if target.starts_with("https://") => html! { a href=(target) { (inline(name)) } },
        None => html! { (inline(name)) " (" code { (target) } ")" },
    };
    Some((shown, rest))
}

fn strong(text: &str) -> Marked<'_> {
    if let Some((marked, rest)) = text.strip_prefix("**").and_then(|rest| until(rest, "**")) {
        return Some((html! { strong { (inline(marked)) } }, rest));
    }
    let (marked, rest) = text.strip_prefix('*').and_then(|rest| until(rest, "*"))?;
    Some((html! { em { (inline(marked)) } }, rest))
}

/// What stands before the next such mark that is not in code, and what after it.
fn until<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let mut is_code = false;
    for (at, c) in text.char_indices() {
        is_code ^= c == '`';
        if !is_code && text[at..].starts_with(mark) {
            return Some((&text[..at], &text[at + mark.len()..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_shown_as_such_and_all_else_stays_text() {
        let shown = |text: &str| inline(text).into_string();
        assert_eq!(shown("a <b> & `c*<d>*`"), "a &lt;b&gt; &amp; <code>c*&lt;d&gt;*</code>");
        assert_eq!(
            shown("**Who `a*b`** is *it*"),
            "<strong>Who <code>a*b</code></strong> is <em>it</em>"
        );
        assert_eq!(shown("3 * 4 [x] `y"), "3 * 4 [x] `y");
        let here = shown("see [who did what](#who-did-what).");
        assert_eq!(here, "see <a href=\"/console/handbook#who-did-what\">who did what</a>.");
        assert_eq!(shown("[usage](usage.md#x)"), "usage (<code>usage.md#x</code>)");
        assert_eq!(shown("[x](javascript:alert)"), "x (<code>javascript:alert</code>)");
    }

    #[test]
    fn blocks_end_where_a_reader_sees_them_end() {
        let text = "# T\n\n## A b\n\none\ntwo\n\nthree\n\n* i\n  j\n* k\n\nafter\n\n1. x\n2. y\n\n\
                    ```sh\n# no heading\n\n* none\n```\n\n| a | |\n| --- | --: |\n| 1 | `2` |\n\nend\n";
        let list = |is_ordered, items: &[&str]| Block::List {
            is_ordered,
            items: items.iter().map(|item| (*item).to_owned()).collect(),
        };
        let paragraph = |text: &str| Block::Paragraph(text.to_owned());
        let heading = |level, text: &str| Block::Heading { level, text: text.to_owned() };
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            blocks(text),
            [
                heading(1, "T"),
                heading(2, "A b"),
                paragraph("one two"),
                paragraph("three"),
                list(false, &["i j", "k"]),
                paragraph("after"),
                list(true, &["x", "y"]),
                Block::Commands("# no heading\n\n* none".to_owned()),
                Block::Table { heads: row(["a", ""]), rows: vec![row(["1", "`2`"])] },
                paragraph("end"),
            ]
        );
        assert_eq!(
            anchor("A committed transaction can't be finished"),
            "a-committed-transaction-cant-be-finished"
        );
    }
}
