use api::{Scope, routes};

use super::act::Act;
use super::html;

#[test]
fn hostile_text_stays_text_in_links_and_states() {
    let hostile = "\"><script>alert(1)</script>&";
    let shown = html::transaction(hostile).into_string() + &html::state(hostile).into_string();
    assert!(!shown.contains("<script"), "{shown}");
    assert!(shown.contains("&lt;script&gt;"), "{shown}");
    assert!(shown.contains("id=%22%3E%3Cscript"), "{shown}");
}

#[test]
fn numbers_are_grouped_and_a_capped_one_says_so() {
    let count = |text: &str| html::count(&serde_json::from_str(text).expect("JSON"));
    assert_eq!(count(r#"{"count":100000,"capped":true}"#), "100,000+");
    assert_eq!(count(r#"{"count":999,"capped":false}"#), "999");
    assert_eq!(count("null"), "not known");
}

#[test]
fn the_thousands_of_an_amount_stand_apart_and_are_copied_as_its_digits() {
    let apart = |amount| html::spaced(amount).into_string().replace("<span class=\"apart\">", "_");
    for (amount, shown) in [
        ("9999", "9999"),
        ("12345", "12_345</span>"),
        ("-123456.78 EUR", "-123_456</span>.78 EUR"),
        ("1000020721", "1_000</span>_020</span>_721</span>"),
        ("0.123456789", "0.123456789"),
        ("", ""),
        ("<b>", "&lt;b&gt;"),
    ] {
        assert_eq!(apart(amount), shown);
    }
}

#[test]
fn each_moment_is_shown_with_milliseconds() {
    for (at, shown) in [
        ("2026-11-01T08:00:00Z", "2026-11-01 08:00:00.000 UTC"),
        ("2026-11-01T08:00:00.7Z", "2026-11-01 08:00:00.700 UTC"),
        ("2026-11-01T08:00:00.123Z", "2026-11-01 08:00:00.123 UTC"),
    ] {
        let written = format!("<time datetime=\"{at}\">{shown}</time>");
        assert_eq!(html::moment(at).into_string(), written);
    }
    assert_eq!(html::moment("").into_string(), "not kept");
}

#[test]
fn each_act_is_an_operation_that_needs_a_scope_with_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = Act::ALL.iter().map(|act| act.name()).collect();
    assert_eq!(names.len(), Act::ALL.len());
    for act in Act::ALL {
        let operation = routes::all().find(|operation| operation.name == act.operation());
        let operation = operation.expect("an act is an operation of the API");
        let scope = operation.scope.expect("nobody acts without a token");
        assert!(!matches!(scope, Scope::Read | Scope::Submit), "{}", act.name());
    }
}
