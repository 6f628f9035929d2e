//! The console, as browsers get it: who sees what, who may act, and that foreign text stays text.

use std::future::IntoFuture;

use harness::api::Api;
use harness::http::Answer;
use harness::wait::{promised, s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::{ParkCode, Parked, State};
use mongo::raw_id;
use mongodb::bson::{Document, doc};
use queue::DEAD;
use serde_json::json;

const HOSTILE: &str = "<script>alert(1)</script>\"'&";
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const ACTS: [&str; 16] = [
    "cancel",
    "reschedule",
    "confirm",
    "release",
    "reverse",
    "unpark",
    "give-up",
    "freeze",
    "unfreeze",
    "close",
    "set-floor",
    "replay",
    "discard",
    "pause",
    "resume",
    "audit",
];
const PAGES: [&str; 12] = [
    "/",
    "/console/transactions",
    "/console/transaction?id=t",
    "/console/accounts",
    "/console/account?id=a",
    "/console/letters",
    "/console/letter?id=x",
    "/console/audit",
    "/console/acts",
    "/console/handbook",
    "/console/search?q=t",
    "/console/confirm?act=freeze&id=a",
];

pub(crate) async fn form(api: &Api, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    api.send("POST", path, &[&[FORM], headers].concat(), body).await
}

/// Signs in; the cookie as a browser sends it back.
pub(super) async fn sign_in(api: &Api, token: &str) -> String {
    let answer = form(api, "/console/sign-in", &[], &format!("token={token}")).await.expect(303);
    let cookie = answer.header("Set-Cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    assert!(!cookie.contains(token), "the cookie holds no token");
    cookie.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn whoever_is_not_signed_in_sees_nothing_and_a_session_ends_with_its_token() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let reader = world.token(&file, "reader", "read").await;
    world.accounts(&[("a", 10)]).await;
    let api = world.api(&["--tokens", &path]).await;
    for page in PAGES.iter().chain(&["/console/stream"]) {
        let refused = api.get(page).await.expect(401);
        assert!(refused.body.contains("name=\"token\""), "{page}: {}", refused.body);
    }
    form(&api, "/console/sign-in", &[], "token=tandem_0").await.expect(401);
    let elsewhere = [("Origin", "https://evil.example")];
    form(&api, "/console/sign-in", &elsewhere, &format!("token={reader}")).await.expect(403);

    // Behind a proxy that speaks TLS, the cookie never goes over anything else.
    let (by_tls, token_only) = (format!("https://{}", api.address), format!("token={reader}"));
    let answer = form(&api, "/console/sign-in", &[("Origin", &by_tls)], &token_only).await;
    let cookie = answer.expect(303).header("Set-Cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("; Secure"), "{cookie}");

    let cookie = sign_in(&api, &reader).await;
    let with = [("Cookie", cookie.as_str())];
    let page = api.send("GET", "/console/account?id=a", &with, "").await.expect(200);
    for (name, expected) in [
        ("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self';"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ] {
        let header = page.header(name).unwrap_or_default();
        assert!(header.starts_with(expected) && !header.contains("unsafe"), "{name}: {header}");
    }
    api.send("GET", "/", &[("Cookie", "tandem_session=0")], "").await.expect(401);
    let left = form(&api, "/console/sign-out", &with, "").await.expect(303);
    let left = left.header("Set-Cookie").expect("a cookie").to_owned();
    assert!(left.contains("Max-Age=0"), "the browser forgets it: {left}");
    let forgotten = left.split(';').next().expect("a pair");
    api.send("GET", "/", &[("Cookie", forgotten)], "").await.expect(401);

    std::fs::write(&file, "").expect("the file can be written");
    world.token(&file, "another", "read").await;
    api.signal(harness::process::Signal::Hup);
    wait_until("the token is gone", s(30), async || {
        api.send("GET", "/", &with, "").await.status == 401
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn whoever_signs_in_lands_where_the_link_led_and_a_form_that_came_too_late_is_not_done() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let operator = world.token(&file, "olivia", "read,accounts,operate").await;
    world.accounts(&[("a", 10)]).await;
    let api = world.api(&["--tokens", &path]).await;
    let link = "/console/account?id=a&from=2026-11-01T00%3A00%3A00Z";
    let asked = api.get(link).await.expect(401).body;
    let hidden = format!("name=\"to\" value=\"{}\"", link.replace('&', "&amp;"));
    assert!(asked.contains(&hidden), "{asked}");
    let sign_in = async |to: &str, more: &str| {
        let body = format!("token={operator}&to={to}{more}");
        form(&api, "/console/sign-in", &[], &body).await.expect(303)
    };
    let to = |answer: &Answer| answer.header("Location").expect("an address").to_owned();
    let encoded = "%2Fconsole%2Faccount%3Fid%3Da%26from%3D2026-11-01T00%253A00%253A00Z";
    assert_eq!(to(&sign_in(encoded, "").await), link);
    for elsewhere in [
        "%2F%2Fevil.example",
        "https%3A%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "%2Fv1",
        "%0D%0A",
    ] {
        assert_eq!(to(&sign_in(elsewhere, "").await), "/", "{elsewhere}");
    }
    let wrong = format!("token=tandem_0&to={encoded}");
    let again = form(&api, "/console/sign-in", &[], &wrong).await.expect(401).body;
    assert!(again.contains(&hidden), "a wrong token loses no page: {again}");

    let act = form(&api, "/console/act", &[], "act=freeze&id=a&reason=fraud").await.expect(401);
    assert!(act.body.contains("Nothing was done"), "{}", act.body);
    let page = "/console/confirm?act=freeze&amp;id=a";
    assert!(act.body.contains(&format!("value=\"{page}\"")), "{}", act.body);
    let landed = sign_in("%2Fconsole%2Fconfirm%3Fact%3Dfreeze%26id%3Da", "&unsent=yes").await;
    let cookies = landed.headers("Set-Cookie");
    let sent: Vec<&str> = cookies.filter_map(|cookie| cookie.split(';').next()).collect();
    let with = [("Cookie", &*sent.join("; "))];
    let told = api.send("GET", &to(&landed), &with, "").await.expect(200);
    assert!(told.body.contains("Nothing was done."), "{}", told.body);
    let ends = told.header("Set-Cookie").expect("it is told once");
    assert!(ends.starts_with("tandem_unsent=") && ends.contains("Max-Age=0"), "{ends}");
    let other = api.send("GET", "/console/account?id=a", &with, "").await.expect(200).body;
    assert!(!other.contains("Nothing was done.") && other.contains(">open<"), "{other}");
    world.finish().await;
}

#[tokio::test]
async fn a_person_who_mistypes_an_address_gets_a_page_with_what_there_is_and_a_program_json() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    let person = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for (method, path, status) in [
        ("GET", "/consol", 404),
        ("GET", "/v1/acounts", 404),
        ("GET", "/console/nothing", 404),
        ("GET", "/console/transaction?id=nothing", 404),
        ("GET", "/console/account?id=nothing", 404),
        ("DELETE", "/v1/accounts", 405),
    ] {
        let page = api.send(method, path, &person, "").await.expect(status);
        assert!(page.body.starts_with("<!DOCTYPE html>"), "{path}: {}", page.body);
        assert!(page.body.contains("href=\"/console/transactions\""), "{path}: {}", page.body);
        let policy = page.header("Content-Security-Policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert_eq!(page.header("Allow").is_some(), status == 405, "{path}");
    }
    for accept in ["application/json, text/html", "*/*"] {
        let told = api.send("GET", "/v1/acounts", &[("Accept", accept)], "").await.expect(404);
        assert_eq!(told.json()["type"], "urn:tandem:problem:not-found", "{accept}");
    }
    let told = api.send("DELETE", "/v1/accounts", &[], "").await.expect(405).json();
    assert_eq!(told["type"], "urn:tandem:problem:method-not-allowed");
    let handbook = api.get("/console/handbook").await.expect(200).body;
    assert!(handbook.contains("<h3 id=\"dead-letters\">Dead letters</h3>"), "{handbook}");
    world.finish().await;
}

#[tokio::test]
async fn whoever_signs_in_at_one_server_has_at_all_and_a_key_is_replaced_without_a_sign_in() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let reader = world.token(&file, "reader", "read").await;
    let tokens = file.to_str().expect("UTF-8");
    let (first, second) = ("1".repeat(64), "2".repeat(64));
    let keys = world.write_secret("session-keys", &first);
    let flags = ["--tokens", tokens, "--session-keys", &keys];
    let (one, other) = tokio::join!(world.api(&flags), world.api(&flags));
    let alone = world.api(&["--tokens", tokens]).await;
    let cookie = sign_in(&one, &reader).await;
    let with = [("Cookie", cookie.as_str())];
    one.send("GET", "/", &with, "").await.expect(200);
    other.send("GET", "/", &with, "").await.expect(200);
    alone.send("GET", "/", &with, "").await.expect(401);

    // As an operator replaces a key: the new one before the old one, then the new one alone.
    let write = |text: &str| std::fs::write(&keys, text).expect("the file can be written");
    write(&format!("{second}\n{first}\n"));
    [&one, &other].into_iter().for_each(|api| api.signal(harness::process::Signal::Hup));
    let with_new_key = world.write_secret("new-session-key", &second);
    let new = world.api(&["--tokens", tokens, "--session-keys", &with_new_key]).await;
    for api in [&one, &other] {
        wait_until("it seals with the new key", s(30), async || {
            let sealed = sign_in(api, &reader).await;
            new.send("GET", "/", &[("Cookie", &sealed)], "").await.status == 200
        })
        .await;
        api.send("GET", "/", &with, "").await.expect(200);
    }
    write(&second);
    other.signal(harness::process::Signal::Hup);
    wait_until("the old key opens nothing", s(30), async || {
        other.send("GET", "/", &with, "").await.status == 401
    })
    .await;
    for (file, expected) in [
        (world.write_secret("short-key", "short"), "short-key:1: the key has 5 characters"),
        (world.write("public-key", &first), "everybody on this machine can read the keys"),
    ] {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--session-keys", &file];
        let refused = world.producer(&serve).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
    world.finish().await;
}

#[tokio::test]
async fn without_its_scope_there_is_no_button_and_every_act_is_refused() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let reader = world.token(&file, "reader", "read").await;
    let operator = world.token(&file, "olivia", "read,accounts,operate").await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    world.submit(&[transfer("t", "a", "b", 5)], 1).await;
    let api = world.api(&["--tokens", &path]).await;
    let reading = sign_in(&api, &reader).await;
    let reading = [("Cookie", reading.as_str())];
    for (page, scope) in [
        ("/console/account?id=a", "scope accounts"),
        ("/console/transaction?id=t", "scope operate"),
        ("/console/audit", "scope operate"),
    ] {
        let page = api.send("GET", page, &reading, "").await.expect(200);
        assert!(!page.body.contains("/console/confirm"), "{}", page.body);
        assert!(page.body.contains(scope), "{}", page.body);
    }
    for act in ACTS {
        let confirm = format!("/console/confirm?act={act}&id=a");
        api.send("GET", &confirm, &reading, "").await.expect(403);
        let body = format!("act={act}&id=a&reason=because");
        form(&api, "/console/act", &reading, &body).await.expect(403);
    }
    assert_eq!(world.state("t").await, State::Initial);

    let operating = sign_in(&api, &operator).await;
    let operating = [("Cookie", operating.as_str())];
    let freeze = "act=freeze&id=a&reason=";
    let elsewhere = [operating[0], ("Sec-Fetch-Site", "cross-site")];
    form(&api, "/console/act", &elsewhere, &format!("{freeze}x")).await.expect(403);
    form(&api, "/console/act", &operating, freeze).await.expect(422);
    api.send("GET", "/console/act?act=freeze&id=a&reason=x", &operating, "").await.expect(404);
    let confirm = api.send("GET", "/console/confirm?act=freeze&id=a", &operating, "").await;
    assert!(confirm.expect(200).body.contains("Freeze the account"));
    let page = api.send("GET", "/console/account?id=a", &operating, "").await.expect(200);
    assert!(page.body.contains("act=freeze") && page.body.contains(">open<"), "{}", page.body);
    let done = form(&api, "/console/act", &operating, &format!("{freeze}fraud+case+7")).await;
    assert!(done.expect(200).body.contains("frozen"));
    let is_line = |line: &&str| line.contains("fraud case 7");
    wait_until("it is logged", s(30), async || api.log().lines().any(|line| is_line(&line))).await;
    let log = api.log();
    let line = log.lines().find(is_line).expect("a line");
    assert!(line.contains("olivia") && line.contains("freeze"), "{line}");
    form(&api, "/console/act", &operating, "act=cancel&id=t&reason=x").await.expect(200);
    let worker = world.worker("one").start().await;
    world.wait_state("t", State::Canceled, s(60)).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn hostile_text_in_ids_metadata_and_reasons_stays_text() {
    let world = World::new().await;
    let api = world.api(&[]).await;
    for (id, balance) in [(HOSTILE, 10), ("b", 0)] {
        let account = json!({ "account": id, "balance": balance });
        api.post("/v1/accounts", &account).await.expect(201);
    }
    let submitted = json!({
        "id": HOSTILE, "source": HOSTILE, "destination": "b", "value": 5,
        "metadata": { HOSTILE: HOSTILE },
    });
    api.post("/v1/transactions", &submitted).await.expect(202);
    let why = Parked::new(ParkCode::KillsWorker, HOSTILE);
    world.store.park_by_id(&[raw_id(HOSTILE)], &why).await.expect("MongoDB is there");
    let letter = json!({ "ids": [HOSTILE] }).to_string();
    world.queues.publish_raw(DEAD, letter.as_bytes()).await;
    wait_until("the letter is there", s(30), async || {
        api.get("/v1/dead-letters").await.json()["count"] == 1
    })
    .await;
    let letters = api.get("/v1/dead-letters").await.json();
    let letter = letters["items"][0]["id"].as_str().expect("an id").to_owned();
    let id = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27%26";
    let pages = [
        "/".to_owned(),
        "/console/transactions".to_owned(),
        format!("/console/transactions?account={id}"),
        format!("/console/transaction?id={id}"),
        "/console/accounts".to_owned(),
        format!("/console/account?id={id}"),
        "/console/letters".to_owned(),
        format!("/console/letter?id={letter}"),
        format!("/console/search?q={id}x"),
        format!("/console/confirm?act=freeze&id={id}"),
    ];
    let mut seen = 0;
    for page in &pages {
        let answer = api.get(page).await;
        assert!(!answer.body.contains("<script>alert"), "{page}: {}", answer.body);
        seen += usize::from(answer.body.contains("&lt;script&gt;alert(1)"));
    }
    assert!(seen >= 8, "the text is shown on {seen} pages");
    let found = api.get(&format!("/console/search?q={id}")).await.expect(303);
    assert!(found.header("Location").is_some_and(|to| to.starts_with("/console/transaction?id=")));
    world.finish().await;
}

#[tokio::test]
async fn ten_thousand_rows_make_no_page_long_or_slow() {
    let world = World::new().await;
    let names: Vec<String> = (0..10_000).map(|n| format!("account-{n:05}")).collect();
    let accounts: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    world.accounts(&accounts).await;
    world.accounts(&[("a", 1_000_000)]).await;
    let transfers: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| transfer(&format!("t{n}"), "a", name, 1))
        .collect();
    world.submit(&transfers, 100).await;
    let worker = world.worker("one").start().await;
    world.wait_final(s(120)).await;
    let api = world.api(&[]).await;
    for page in [
        "/console/transactions",
        "/console/transactions?state=done",
        "/console/transactions?account=a",
        "/console/account?id=a",
        "/console/accounts",
    ] {
        // A statement ends some seconds ago.
        wait_until("the page has many rows", s(30), async || {
            let begun = std::time::Instant::now();
            let answer = api.get(page).await.expect(200);
            assert!(begun.elapsed() < promised(s(5)), "{page} took {:?}", begun.elapsed());
            let rows = answer.body.matches("<tr>").count();
            assert!(rows <= 110, "{page} has {rows} rows");
            rows > 20 && answer.body.contains("rel=\"next\"")
        })
        .await;
    }
    drop(worker);
    world.finish().await;
}

/// What the sampler of the overview asks, and which indexes there are, which is asked now and then;
/// and which jobs nobody has.
const SAMPLED: [&str; 7] = [
    "tandem workers",
    "tandem unfinished",
    "tandem resting",
    "tandem first due",
    "tandem noted",
    "tandem settings",
    "tandem alive jobs",
];

#[tokio::test]
async fn a_visitor_with_a_bound_token_finds_its_own_accounts_and_nothing_about_all() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let path = file.to_str().expect("UTF-8").to_owned();
    let scopes = "read,submit,hold,reverse,accounts,operate";
    let token = world.token_with(&file, "till", scopes, &["--accounts", "shop/"]).await;
    let reader = world.token(&file, "reader", "read").await;
    world.accounts(&[("shop/1", 9), ("shop/2", 0), ("bob", 9)]).await;
    let both = [transfer("ours", "shop/1", "bob", 1), transfer("theirs", "bob", "bob2", 1)];
    world.submit(&both, 1).await;
    let worker = world.worker("one").start().await;
    world.wait_final(s(60)).await;
    let api = world.api(&["--tokens", &path]).await;
    let cookie = sign_in(&api, &token).await;
    let page = async |path: &str| api.send("GET", path, &[("Cookie", cookie.as_str())], "").await;
    let menu = |body: &str| {
        let nav = body.split("<nav aria-label=\"Pages\">").nth(1).expect("a menu");
        let nav = nav.split("</nav>").next().expect("it ends");
        nav.split("href=\"")
            .skip(1)
            .map(|it| it.split('"').next().expect("an address").to_owned())
            .collect::<Vec<_>>()
    };
    let first = page("/").await.expect(200).body;
    assert!(first.contains("bound to those that begin with: <b>shop/</b>"), "{first}");
    let own = ["/console/transactions", "/console/accounts"];
    assert_eq!(menu(&first), own, "no page that is about all accounts: {first}");
    for whole in ["audit", "letters", "acts", "job", "bulk?act=unpark&code=x", "stream"] {
        let refused = page(&format!("/console/{whole}")).await.expect(403).body;
        assert!(refused.contains("is bound to accounts"), "{whole}: {refused}");
    }
    let asked = page("/console/transactions").await.expect(200).body;
    assert!(asked.contains("Name the account") && asked.contains("id=\"account\""), "{asked}");
    for (account, is_there) in [("shop%2F1", true), ("bob", false)] {
        let listed = page(&format!("/console/transactions?account={account}")).await.expect(200);
        assert_eq!(listed.body.contains("transaction?id=ours"), is_there, "{}", listed.body);
    }
    let accounts = page("/console/accounts").await.expect(200).body;
    assert!(accounts.contains("shop/1") && !accounts.contains("bob"), "{accounts}");
    // Nor is a page in the menu of somebody whose token lacks the scope.
    let cookie = sign_in(&api, &reader).await;
    let overview = api.send("GET", "/", &[("Cookie", cookie.as_str())], "").await.expect(200).body;
    let seen = ["/", "/console/transactions", "/console/accounts", "/console/audit"];
    assert_eq!(menu(&overview), seen);
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_page_asks_the_database_a_few_questions() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    world.submit(&[transfer("t", "a", "b", 5)], 1).await;
    let api = world.api(&[]).await;
    let database = world.store.database();
    database.run_command(doc! { "profile": 2 }).await.expect("the server profiles");
    // The overview is made of what one sampler knows, whoever looks.
    for (page, most) in [
        ("/console/transactions", 7),
        ("/console/transactions?account=a", 4),
        ("/console/transaction?id=t", 6),
        ("/console/accounts", 2),
        // One of them sums what the newest entry of the statement stands on.
        ("/console/account?id=a", 9),
        // Two of them are the turn to look at the letters: taken and given back.
        ("/console/letters", 10),
        ("/console/search?q=t", 2),
        ("/console/confirm?act=cancel&id=t", 2),
        ("/console/audit", 1),
        ("/console/job", 2),
    ] {
        let profile = database.collection::<Document>("system.profile");
        let ours = || {
            let of_pages = doc! {
                "command.comment": { "$regex": "^tandem", "$nin": &SAMPLED[..] },
            };
            profile.count_documents(of_pages).into_future()
        };
        let before = ours().await.expect("a count");
        api.get(page).await;
        let asked = ours().await.expect("a count") - before;
        eprintln!("{page}: {asked} commands");
        assert!(asked <= most, "{page}: {asked} commands");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_parked_transaction_is_brought_back_and_an_audit_is_watched() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    world.submit(&[transfer("t", "a", "b", 5)], 1).await;
    let why = Parked::new(ParkCode::KillsWorker, "a test has parked it");
    world.store.park_by_id(&[raw_id("t")], &why).await.expect("MongoDB is there");
    let api = world.api(&[]).await;
    let page = api.get("/console/transaction?id=t").await.expect(200);
    assert!(page.body.contains("a test has parked it"), "{}", page.body);
    assert!(page.body.contains("none names it"), "{}", page.body);
    assert!(page.body.contains("Its event comes with its end"), "{}", page.body);
    world.queues.publish_raw(DEAD, br#"{"ids":["t"]}"#).await;
    wait_until("its letter is named", s(30), async || {
        let page = api.get("/console/transaction?id=t").await.expect(200);
        page.body.contains("Its message is a <a href=\"/console/letter?id=")
    })
    .await;
    assert!(page.body.contains("act=unpark&amp;id=t"), "{}", page.body);
    form(&api, "/console/act", &[], "act=unpark&id=t&reason=mended").await.expect(200);
    let worker = world.worker("one").start().await;
    world.wait_state("t", State::Done, s(60)).await;
    wait_until("its event is sent", s(30), async || {
        let page = api.get("/console/transaction?id=t").await.expect(200);
        page.body.contains("Its event is not due")
    })
    .await;
    let page = api.get("/console/transaction?id=t").await.expect(200);
    for state in ["created", "pending", "applied", "done"] {
        assert!(
            page.body.contains(&format!("<th scope=\"row\">{state}</th><td><time")),
            "{state}: {}",
            page.body
        );
    }
    assert!(page.body.contains("claimed by one"), "{}", page.body);
    wait_until("the statement has it", s(30), async || {
        let page = api.get("/console/account?id=b").await.expect(200);
        page.body.contains("Balance before: <b>0</b>, after: <b>5</b>")
    })
    .await;
    form(&api, "/console/act", &[], "act=audit&id=ledger&reason=daily").await.expect(200);
    wait_until("the audit has ended", s(60), async || {
        let page = api.get("/console/audit").await.expect(200);
        page.body.contains("Every rule holds.")
    })
    .await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_scheduled_transaction_is_rescheduled_from_its_page_to_a_moment_that_is_to_come() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let api = world.api(&[]).await;
    let scheduled = json!({
        "id": "t", "source": "a", "destination": "b", "value": 5,
        "notBefore": "2999-01-01T00:00:00Z", "expiresAt": "2999-06-01T00:00:00Z",
    });
    api.post("/v1/transactions", &scheduled).await.expect(202);
    let page = api.get("/console/transaction?id=t").await.expect(200).body;
    assert!(page.contains("act=reschedule&amp;id=t") && page.contains("act=cancel"), "{page}");
    assert!(page.contains("Not before: <b><time datetime=\"2999-01-01T00:00:00Z\">"), "{page}");
    let asked = api.get("/console/confirm?act=reschedule&id=t").await.expect(200).body;
    assert!(asked.contains("name=\"notBefore\" required"), "{asked}");
    assert!(asked.contains("value=\"2999-01-01T00:00:00Z\""), "{asked}");

    let before = world.transaction("t").await;
    let post = async |moment: &str, reason: &str| {
        let body = format!("act=reschedule&id=t&notBefore={moment}&reason={reason}");
        form(&api, "/console/act", &[], &body).await
    };
    for (moment, status, expected) in [
        ("2020-01-01T00%3A00%3A00Z", 422, "notBefore: 2020-01-01T00:00:00Z has passed"),
        ("tomorrow", 422, "is not a moment; write one like"),
        ("", 422, "is not a moment; write one like"),
        ("2999-07-01T00%3A00%3A00Z", 409, "its expiresAt is 2999-06-01T00:00:00Z"),
    ] {
        let refused = post(moment, "wrong").await.expect(status).body;
        assert!(refused.contains(expected), "{moment}: {refused}");
    }
    post("2999-02-01T00%3A00%3A00Z", "").await.expect(422);
    assert_eq!(world.transaction("t").await, before, "nothing was changed");

    let done = post("2999-02-01T01%3A00%3A00%2B01%3A00", "rent+is+late").await.expect(200).body;
    assert!(done.contains("t scheduled 2999-02-01T00:00:00Z"), "{done}");
    let after = world.transaction("t").await;
    assert_eq!(after.get_datetime("notBefore").ok(), after.get_datetime("dueAt").ok());
    assert_ne!(after.get("notBefore"), before.get("notBefore"));
    let is_line = |line: &&str| line.contains("rent is late") && line.contains("2999-02-01");
    wait_until("it is logged", s(30), async || api.log().lines().any(|line| is_line(&line))).await;
    world.producer(&["cancel", "t"]).await.expect_success();
    let late = post("2999-03-01T00%3A00%3A00Z", "too+late").await.expect(409).body;
    assert!(late.contains("is not scheduled, so it can't be rescheduled"), "{late}");
    world.finish().await;
}
