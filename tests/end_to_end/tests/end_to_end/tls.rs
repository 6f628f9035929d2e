//! TLS to both servers, with an authority of one's own and certificates for clients.

use harness::certificates::{Authority, Identity, Validity};
use harness::servers::{GuardedMongo, OwnBroker, Servers, directory};
use harness::wait::{s, wait_until};
use harness::world::{World, transfer};
use ledger::transaction::State;
use mongodb::bson::doc;
use queue::connect;

/// The files of a test, which go with the value.
struct Files(std::path::PathBuf);

impl Files {
    fn new() -> Files {
        Files(directory(&format!("tls-{}", uuid::Uuid::new_v4().simple())))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn amqps(host: &str, port: u16, authority: &Authority, ours: Option<&Identity>) -> String {
    let identity = ours.map_or_else(String::new, |ours| {
        format!("&certfile={}&keyfile={}", ours.certificate.display(), ours.key.display())
    });
    let authority = authority.file.display();
    format!("amqps://guest:guest@{host}:{port}/%2f?cacertfile={authority}{identity}")
}

/// Certificate and key in one file, as MongoDB wants them.
fn in_one(identity: &Identity) -> String {
    let read = |path| std::fs::read_to_string(path).expect("it was written");
    let file = identity.key.with_extension("both.pem");
    std::fs::write(&file, read(&identity.certificate) + &read(&identity.key)).expect("it is ours");
    file.display().to_string()
}

async fn refused(url: &str) -> String {
    let error = connect(url, "refused").await.expect_err(url);
    assert!(error.lasts(), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_broker_is_trusted_only_with_a_certificate_of_our_authority_for_its_host() {
    let files = Files::new();
    let authority = Authority::new(&files.0, "authority");
    let stranger = Authority::new(&files.0, "stranger");
    let client = authority.issue("client", &[], Validity::Now);
    let broker = OwnBroker::start(&format!("tls-{}", uuid::Uuid::new_v4().simple())).await;
    let good = authority.issue("server", &["localhost"], Validity::Now);
    let port = broker.listen_with_tls(&good, &authority).await;
    let url = amqps("localhost", port, &authority, Some(&client));
    connect(&url, "trusted").await.expect("both trust each other");

    let unknown = refused(&amqps("localhost", port, &stranger, Some(&client))).await;
    assert!(unknown.contains("localhost") && unknown.contains("UnknownIssuer"), "{unknown}");
    let other_host = refused(&amqps("127.0.0.1", port, &authority, Some(&client))).await;
    assert!(other_host.contains("127.0.0.1") && other_host.contains("not valid"), "{other_host}");
    connect(&amqps("localhost", port, &authority, None), "nobody").await.expect_err("no client's");
    let theirs = stranger.issue("theirs", &[], Validity::Now);
    let theirs = amqps("localhost", port, &authority, Some(&theirs));
    connect(&theirs, "stranger").await.expect_err("a client of another authority");

    // The certificate in the file is replaced; the authority of the new one is nobody's.
    let renewed = authority.issue("renewed", &[], Validity::Now);
    let url = amqps("localhost", port, &authority, Some(&renewed));
    connect(&url, "renewed").await.expect("a certificate of our authority");
    let _ = stranger.issue("renewed", &[], Validity::Now);
    connect(&url, "renewed").await.expect_err("the file is read anew");

    let expired = authority.issue("expired", &["localhost"], Validity::Expired);
    let port = broker.listen_with_tls(&expired, &authority).await;
    let expired = refused(&amqps("localhost", port, &authority, Some(&client))).await;
    assert!(
        expired.contains("localhost") && expired.to_lowercase().contains("expired"),
        "{expired}"
    );
}

#[tokio::test]
async fn transfers_are_settled_over_tls_to_both_servers() {
    let files = Files::new();
    let authority = Authority::new(&files.0, "authority");
    let stranger = Authority::new(&files.0, "stranger");
    let server = authority.issue("server", &["localhost", "127.0.0.1"], Validity::Now);
    let client = authority.issue("client", &[], Validity::Now);
    let name = format!("tls-{}", uuid::Uuid::new_v4().simple());
    let broker = OwnBroker::start(&name).await;
    let port = broker.listen_with_tls(&server, &authority).await;
    let root = doc! { "createUser": "root", "pwd": "secret", "roles": ["root"] };
    let (file, ours) = (authority.file.display().to_string(), in_one(&server));
    let flags = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", &ours, "--tlsCAFile", &file];
    let mongo = GuardedMongo::start_with(&name, &[root], &flags).await;
    let secured = |authority: &Authority| {
        let (plain, authority) = (mongo.uri("root", "admin"), authority.file.display());
        format!("{plain}&tls=true&tlsCAFile={authority}&tlsCertificateKeyFile={}", in_one(&client))
    };
    let servers = Servers {
        mongodb_uri: secured(&authority),
        amqp_url: amqps("localhost", port, &authority, Some(&client)),
    };
    let world = World::on(servers).await;
    world.accounts(&[("a", 100), ("b", 0)]).await;
    world.submit(&[transfer("one", "a", "b", 5)], 1).await;
    let worker = world.worker("one").start().await;
    world.wait_state("one", State::Done, s(60)).await;

    // With a worker's own limits: the short ones of the tests end before the driver says why.
    let own = [("--op-limit-ms", 3_000), ("--lease-ms", 10_000), ("--grace-ms", 4_000)];
    let doubting = world.worker("doubting").mongodb(&secured(&stranger));
    let doubting = own.into_iter().fold(doubting, |plan, (flag, ms)| plan.flag(flag, ms)).launch();
    wait_until("it says why it can't work", s(60), async || {
        doubting.log().contains("UnknownIssuer")
    })
    .await;
    drop(doubting);

    drop(worker);
    world.assert_at_rest().await;
    world.finish().await;
}
