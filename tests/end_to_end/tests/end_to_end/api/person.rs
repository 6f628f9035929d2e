//! People behind a proxy that signs them in: acts of the console have their names.

use harness::api::Api;
use harness::wait::s;
use harness::world::World;
use serde_json::Value;

use super::console::{form, sign_in};

/// The header of the proxy, which is this machine or another one.
const HEADER: &str = "X-User";

async fn serve(world: &World, tokens: &str, proxy: &str, token: &str) -> (Api, String) {
    let flags = ["--tokens", tokens, "--user-header", HEADER, "--user-proxy", proxy];
    let mut api = world.api(&flags).await;
    let session = sign_in(&api, token).await;
    api.use_token(token);
    (api, session)
}

/// Who has done the newest act.
async fn who(api: &Api) -> Value {
    api.get("/v1/acts?limit=1").await.expect(200).json()["items"][0]["who"].clone()
}

#[tokio::test]
async fn only_the_proxy_that_is_named_says_who_acts_and_only_by_one_good_name() {
    let world = World::new().await;
    let file = world.directory().join("tokens");
    let tokens = file.to_str().expect("UTF-8");
    let token = world.token(&file, "office", "read,accounts,operate").await;
    world.accounts(&[("a", 10)]).await;
    let (behind, session) = serve(&world, tokens, "127.0.0.1", &token).await;
    let act = |verb: &str| format!("act={verb}&id=a&reason=a+drill");
    let cookie = ("Cookie", session.as_str());

    let named = [cookie, (HEADER, "ada@example")];
    form(&behind, "/console/act", &named, &act("freeze")).await.expect(200);
    let noted = who(&behind).await;
    assert_eq!((&noted["name"], &noted["person"]), (&"office".into(), &"ada@example".into()));
    let told = world.producer(&["acts", "--who", "ada@example"]).await.expect_success().stdout;
    assert!(told.contains("by ada@example by the token office, console"), "{told}");
    let page = behind.send("GET", "/console/acts", &named, "").await.expect(200).body;
    assert!(page.contains("ada@example") && page.contains("by the token"), "{page}");

    // The account is frozen: what is refused has not opened it.
    let long = "x".repeat(201);
    for names in [&["ada", "bob"][..], &["ada, bob"], &[long.as_str()]] {
        let headers: Vec<_> = names.iter().map(|name| (HEADER, *name)).chain([cookie]).collect();
        form(&behind, "/console/act", &headers, &act("unfreeze")).await.expect(400);
    }
    assert_eq!(behind.get("/v1/accounts/a").await.json()["status"], "frozen");
    // Without a token the name is nobody's.
    let stranger = [("Authorization", "Bearer tandem_0"), (HEADER, "ada@example")];
    let refused = harness::http::send(behind.address, "POST", "/console/act", &stranger, "", s(60));
    refused.await.expect("it answers").expect(401);
    // A program has a token of its own.
    behind
        .send("POST", "/v1/accounts/a/unfreeze", &[(HEADER, "ada@example")], "")
        .await
        .expect(200);
    assert!(who(&behind).await["person"].is_null());

    let (direct, session) = serve(&world, tokens, "192.0.2.1", &token).await;
    let spoofed = [("Cookie", session.as_str()), (HEADER, "ada@example"), (HEADER, "bob")];
    form(&direct, "/console/act", &spoofed, &act("freeze")).await.expect(200);
    let noted = who(&direct).await;
    assert_eq!((&noted["name"], &noted["person"]), (&"office".into(), &Value::Null));
    let alone = world.producer(&["serve", "--user-header", HEADER]).await;
    assert!(alone.code == Some(2) && alone.stderr.contains("--user-proxy"), "{alone:?}");
    world.finish().await;
}
