//! Where somebody goes after signing in.
//!
//! Owns which addresses that may be. Promises that it is a page of this console, whatever the form
//! of the sign-in says: a path that is spelled out, without anything encoded in it, so that no
//! browser reads another host or another path in it. What is no such page leads to the overview.

use std::collections::HashMap;

use axum::http::Uri;
use maud::{Markup, html};

use super::html::link;

/// The longest address to go back to: an id is 1,000 bytes at most, and three times as long
/// encoded.
const ADDRESS_BYTES_MAX: usize = 8 << 10;

/// The fields of the form that asks for a token.
const TO: &str = "to";
const UNSENT: &str = "unsent";

/// What is under the console's folder and is no page to come back to.
const NO_PAGES: [&str; 4] = ["sign-in", "sign-out", "act", "stream"];

/// A page, and whether a form of it came without a session, and was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    pub address: String,
    pub is_unsent: bool,
}

impl Back {
    /// To the page of this address, if it is one.
    pub fn to(address: &str) -> Back {
        let address = page(address).unwrap_or("/").to_owned();
        Back { address, is_unsent: false }
    }

    /// To what was asked for.
    pub fn to_asked(uri: &Uri) -> Back {
        Back::to(uri.path_and_query().map_or("/", |asked| asked.as_str()))
    }

    /// To the page of the form that was sent to this path.
    pub fn to_form(path: &str, fields: &HashMap<String, String>) -> Back {
        let named = |names: &[&'static str]| -> Vec<(&str, &str)> {
            names.iter().filter_map(|name| Some((*name, fields.get(*name)?.as_str()))).collect()
        };
        let address = match path {
            "/console/act" => link("/console/confirm", &named(&["act", "id"])),
            "/console/bulk" => link(path, &named(&["act", "code", "account"])),
            "/console/job" => path.to_owned(),
            _ => return Back::to("/"),
        };
        Back { is_unsent: true, ..Back::to(&address) }
    }

    /// As the form of a sign-in says it.
    pub fn read(fields: &HashMap<String, String>) -> Back {
        let to = Back::to(fields.get(TO).map_or("/", String::as_str));
        Back { is_unsent: fields.contains_key(UNSENT), ..to }
    }

    /// The hidden fields by which it stands in that form.
    pub fn inputs(&self) -> Markup {
        html! {
            @if self.address != "/" { input type="hidden" name=(TO) value=(self.address); }
            @if self.is_unsent { input type="hidden" name=(UNSENT) value="yes"; }
        }
    }
}

/// The address, if it is that of a page of this console.
fn page(address: &str) -> Option<&str> {
    let (page, section) = address.split_once('#').unwrap_or((address, ""));
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let name = path.strip_prefix("/console/");
    let is_page =
        path == "/" || name.is_some_and(|name| is_name(name) && !NO_PAGES.contains(&name));
    // No control character, which could end the header, and nothing that some browser takes for a
    // slash.
    let is_plain = query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_section = section.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_short = address.len() <= ADDRESS_BYTES_MAX;
    (is_page && is_plain && is_section && is_short).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_this_console_is_gone_back_to() {
        for good in [
            "/",
            "/?x=1",
            "/console/transactions?state=held&account=a%2Fb",
            "/console/transaction?id=%22%3E%3Cscript%3E",
            "/console/dead-letters",
            "/console/handbook#dead-letters",
            "/console/transaction?id=https://evil.example//",
        ] {
            assert_eq!(Back::to(good).address, good);
        }
        let long = format!("/console/transaction?id={}", "x".repeat(ADDRESS_BYTES_MAX));
        for bad in [
            "",
            "//evil.example",
            "//evil.example/console/job",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/console/\\evil.example",
            "/console//evil.example",
            "/console/../../evil",
            "/console/%2e%2e/evil",
            "/console/%2F%2Fevil.example",
            "/%2Fevil.example",
            "/console/@evil.example",
            "https://evil.example",
            "https:evil.example",
            "javascript:alert(1)",
            "evil.example",
            " /console/job",
            "/console/job ",
            "\t//evil.example",
            "/console/job\r\nSet-Cookie: a=b",
            "/console/job?id=a\r\nb",
            "/console/job?id=a\nb",
            "/console/job?id=a\0",
            "/console/job?id=\u{e9}",
            "/console/job?id=\\",
            "/console/job?id=a#//evil.example",
            "/console/job#/x",
            "/console/",
            "/console/sign-in",
            "/console/sign-out",
            "/console/act",
            "/console/stream",
            "/console/console.js",
            "/v1/transactions",
            &long,
        ] {
            assert_eq!(Back::to(bad).address, "/", "{bad:?}");
        }
    }

    #[test]
    fn a_form_leads_back_to_its_page_and_its_reason_is_not_kept_in_an_address() {
        let fields = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let act = fields(&[("act", "freeze"), ("id", "a b\r\n//"), ("reason", "a secret")]);
        let back = Back::to_form("/console/act", &act);
        assert_eq!(back.address, "/console/confirm?act=freeze&id=a+b%0D%0A%2F%2F");
        assert!(back.is_unsent);
        let bulk = fields(&[("act", "unpark"), ("code", "x"), ("until", "7"), ("count", "1")]);
        let back = Back::to_form("/console/bulk", &bulk);
        assert_eq!(back.address, "/console/bulk?act=unpark&code=x");
        assert_eq!(Back::to_form("/console/job", &bulk).address, "/console/job");
        for path in ["/console/sign-out", "/console/nothing", "//evil.example"] {
            assert_eq!(Back::to_form(path, &act), Back::to("/"), "{path}");
        }
        let form = html! { form { (back.inputs()) } }.into_string();
        assert!(
            form.contains("name=\"to\" value=\"/console/bulk?act=unpark&amp;code=x\""),
            "{form}"
        );
        let read = fields(&[("to", back.address.as_str()), ("unsent", "yes"), ("token", "t")]);
        assert_eq!(Back::read(&read), back);
        assert_eq!(Back::read(&fields(&[("to", "//evil.example")])), Back::to("/"));
    }
}
