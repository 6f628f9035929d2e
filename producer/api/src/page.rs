//! A page about the API for people: one file without scripts, made of the list of operations.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};

use super::answer::Answer;
use super::operation::Operation;
use super::problem::Code;
use super::routes;

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}
code,pre{font:14px/1.4 ui-monospace,monospace}
pre{overflow:auto;padding:.7rem;border:1px solid;border-radius:.3rem}
h2{border-bottom:1px solid;margin-top:2.5rem}
table{border-collapse:collapse}td,th{text-align:left;padding:.15rem .8rem .15rem 0;vertical-align:top}
";

static TEXT: LazyLock<Bytes> = LazyLock::new(|| text().into());

/// The answer with the page.
pub fn answer() -> Answer {
    const NOTHING_ELSE: HeaderValue = HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    );
    Answer::text("text/html; charset=utf-8", TEXT.clone())
        .with(header::CONTENT_SECURITY_POLICY, NOTHING_ELSE)
}

fn text() -> String {
    let mut page = String::new();
    let title = "Tandem: the HTTP API";
    page.push_str("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">");
    put(&mut page, format_args!("<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"));
    page.push_str(
        "<p>For programs: <a href=\"/v1/openapi.json\">the OpenAPI document</a>. Where there are \
         tokens, send one as <code>Authorization: Bearer TOKEN</code>. Amounts have the form of \
         the ledger: whole numbers of minor units (<code>1250</code> or <code>\"1250\"</code>), or \
         decimal numbers, best as texts (<code>\"12.50\"</code>; there <code>1250</code> is \
         1250.00). Answers have texts only.</p>",
    );
    page.push_str("<nav><table>");
    for operation in routes::all() {
        let Operation { method, path, name, summary, .. } = operation;
        put(
            &mut page,
            format_args!(
                "<tr><td><code>{method}</code><td><a href=\"#{name}\"><code>{path}</code></a>\
                 <td>{summary}"
            ),
        );
    }
    page.push_str("</table></nav>");
    routes::all().for_each(|operation| section(&mut page, operation));
    page.push_str(
        "<h2>Problems</h2><p>The field <code>type</code> ends with one of these words.</p>",
    );
    page.push_str("<table>");
    for code in Code::ALL {
        let (status, word, title) = (code.status().as_u16(), code.word(), code.title());
        put(&mut page, format_args!("<tr><td>{status}<td><code>{word}</code><td>{title}"));
    }
    page.push_str("</table></html>\n");
    page
}

fn section(page: &mut String, operation: &Operation) {
    let Operation { method, path, name, summary, about, .. } = operation;
    put(page, format_args!("<h2 id=\"{name}\">{summary}</h2><pre>{method} {path}</pre>"));
    put(page, format_args!("<p>{about}</p>"));
    page.push_str("<p>");
    // Every second part is between grave accents, and so a word of the API.
    for (at, part) in operation.needed().split('`').enumerate() {
        page.push_str(if at % 2 == 1 { "<code>" } else { "" });
        page.push_str(part);
        page.push_str(if at % 2 == 1 { "</code>" } else { "" });
    }
    page.push_str("<table>");
    for param in &operation.params {
        let kind = if param.is_header { "header" } else { "parameter" };
        let (name, about) = (param.shown(), param.about);
        put(page, format_args!("<tr><td>{kind}<td><code>{name}</code><td>{about}"));
    }
    for gives in &operation.gives {
        let (status, about) = (gives.status.as_u16(), gives.about);
        put(page, format_args!("<tr><td>answer<td>{status}<td>{about}"));
    }
    let problems: Vec<&str> = operation.problems.iter().map(|code| code.word()).collect();
    put(page, format_args!("<tr><td>problems<td colspan=\"2\">{}</table>", problems.join(", ")));
    for (_, example) in operation.takes.iter().flat_map(|takes| &takes.examples) {
        let example = serde_json::to_string_pretty(example).unwrap_or_default();
        put(page, format_args!("<pre>{example}</pre>"));
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_outside_and_shows_every_operation() {
        let page = text();
        assert!(
            !page.contains("http://") && !page.contains("https://") && !page.contains("<script")
        );
        for operation in routes::all() {
            assert!(page.contains(&format!("id=\"{}\"", operation.name)), "{}", operation.name);
        }
    }
}
