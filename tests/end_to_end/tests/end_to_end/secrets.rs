//! Nothing secret is written anywhere, whatever goes wrong.

use harness::wait::{s, wait_until};
use harness::world::World;

/// The marked password: nothing may hold it but the connection strings.
const MARK: &str = "hidden-7f3a";

/// With user and marked password in it.
fn marked(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").expect("a connection string");
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    format!("{scheme}://somebody:{MARK}@{address}")
}

fn is_kept(what: &str, written: &str) {
    assert!(!written.is_empty(), "{what} has written nothing");
    assert!(!written.contains(MARK), "{what} has written the secret:\n{written}");
}

#[tokio::test]
async fn no_password_is_in_logs_errors_or_help() {
    let world = World::new().await;
    let (mongodb, amqp) = (marked(&world.servers.mongodb_uri), marked(&world.servers.amqp_url));
    let away = format!("mongodb://somebody:{MARK}@127.0.0.1:1/t?serverSelectionTimeoutMS=500");
    let odd = format!("amqp://somebody:{MARK}/@@127.0.0.1:x/%2f");
    let plans = [
        ("refused-by-mongodb", world.worker("refused-by-mongodb").mongodb(&mongodb)),
        ("refused-by-rabbitmq", world.worker("refused-by-rabbitmq").amqp(&amqp)),
        ("odd-url", world.worker("odd-url").amqp(&odd)),
        ("help", world.worker("help").mongodb(&mongodb).amqp(&amqp).flag("--help", "")),
    ];
    for (name, plan) in plans {
        let mut worker = plan.env("RUST_BACKTRACE", "full").flag("--log", "trace").launch();
        wait_until(name, s(60), async || worker.exited().is_some()).await;
        is_kept(name, &worker.log());
    }
    let waiting = world.worker("server-away").mongodb(&away).flag("--log", "trace").launch();
    wait_until("it says that it waits", s(60), async || waiting.log().contains("127.0.0.1:1"))
        .await;
    is_kept("a worker whose server is away", &waiting.log());
    for page in ["/readyz", "/healthz", "/metrics"] {
        let answer = waiting.get(page).await.expect("it answers");
        is_kept(&format!("a worker's {page}"), &(answer.head + &answer.body));
    }
    drop(waiting);
    for arguments in
        [&["stats"][..], &["--help"], &["stats", "--nonsense"], &["transfer", "a", "b", "1"]]
    {
        for variable in ["TANDEM_MONGODB_URI", "TANDEM_AMQP_URL"] {
            let value = if variable.contains("AMQP") { &amqp } else { &mongodb };
            let mut producer = world.spawn_producer(arguments, &[(variable, value)]);
            producer.exit(s(120)).await;
            is_kept(&format!("producer {arguments:?}"), &(producer.log() + "."));
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn no_password_or_token_is_in_what_the_api_answers_and_logs() {
    let world = World::new().await;
    let mongodb = marked(&world.servers.mongodb_uri);
    let mut refused = world.spawn_producer(&["serve"], &[("TANDEM_MONGODB_URI", &mongodb)]);
    assert!(!refused.exit(s(120)).await.success());
    is_kept("an API whose login is refused", &refused.log());

    let tokens = world.directory().join("tokens");
    let token = world.token(&tokens, "one", "read,submit").await;
    let arguments = ["--tokens", tokens.to_str().expect("UTF-8")];
    let away = format!("amqp://somebody:{MARK}@127.0.0.1:1/%2f");
    let mut api = world.api_with(&arguments, &[("TANDEM_AMQP_URL", &away)]).await;
    let body = serde_json::json!({ "id": "t", "source": "a", "destination": "b", "value": 1 });
    // A password in the place of a token is a secret as well.
    for used in [&*token, MARK] {
        api.use_token(used);
        let mut answers = vec![api.post("/v1/transactions", &body).await];
        for path in ["/healthz", "/readyz", "/metrics", "/", "/v1/overview", "/v1/accounts/one"] {
            answers.push(api.get(path).await);
        }
        for answer in answers {
            let told = format!("{} {}", answer.head, answer.body);
            assert!(!told.contains(&token), "it has the token: {told}");
            is_kept("an answer", &told);
        }
    }
    assert!(!api.log().contains(&token), "the API's log has the token");
    is_kept("the API's log", &api.log());
    drop(api);
    world.finish().await;
}

#[tokio::test]
async fn a_worker_works_with_connection_strings_out_of_files() {
    let world = World::new().await;
    let file = |name: &str, text: &str| {
        let path = world.directory().join(name);
        std::fs::write(&path, format!("{text}\n")).expect("the directory is ours");
        path.display().to_string()
    };
    let (mongodb, amqp) =
        (file("mongodb", &world.servers.mongodb_uri), file("amqp", &world.servers.amqp_url));
    let plan = world.worker("one").env("TANDEM_MONGODB_URI", "").env("TANDEM_AMQP_URL", "");
    let plan = plan.env("TANDEM_MONGODB_URI_FILE", &mongodb).env("TANDEM_AMQP_URL_FILE", &amqp);
    let worker = plan.start().await;
    assert!(worker.is_ready().await);
    let mut twice = world.worker("two").env("TANDEM_AMQP_URL_FILE", &amqp).launch();
    assert_eq!(twice.exit(s(30)).await.code(), Some(2), "both are given");
    let said = twice.log();
    assert!(said.contains("TANDEM_AMQP_URL and TANDEM_AMQP_URL_FILE are both set"), "{said}");
    drop(worker);
    world.finish().await;
}
