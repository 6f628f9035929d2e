//! What the programs connect to is what was written, and a connection string without a single
//! meaning is refused before anything is connected to.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::process::program;
use harness::producer;
use harness::servers::address_of;
use harness::wait::s;
use harness::world::World;
use mongo::Store;
use settings::MongoSettings;
use tokio::net::{TcpListener, TcpStream};

/// Forwards from a port of `::1` to a server of this machine, and counts the connections. `None` on
/// a machine without IPv6.
async fn forward(upstream: SocketAddr) -> Option<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.ok()?;
    let address = listener.local_addr().expect("a bound port has an address");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(upstream).await.expect("the server is there");
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    Some((address, count))
}

#[tokio::test]
async fn an_ipv6_address_is_the_one_that_is_connected_to() {
    let world = World::new().await;
    world.accounts(&[("a", 10), ("b", 0)]).await;
    let broker = address_of(&world.servers.amqp_url);
    let Some((address, connections)) = forward(broker).await else {
        eprintln!("this machine has no IPv6: nothing is tested");
        return world.finish().await;
    };
    let url = format!("amqp://guest:guest@{address}/%2f");
    let mut env = world.env();
    env.insert("TANDEM_AMQP_URL".to_owned(), url.clone());
    let sent = producer::run(&env, &["transfer", "a", "b", "1", "--id", "t"]).await;
    sent.expect_success();
    assert!(connections.load(Ordering::Relaxed) > 0, "it was connected to");
    let worker = world.worker("one").amqp(&url).start().await;
    world.wait_final(s(60)).await;
    drop(worker);
    world.finish().await;
}

#[tokio::test]
async fn a_broker_of_another_address_is_not_looked_for_on_this_machine() {
    let world = World::new().await;
    let port = address_of(&world.servers.amqp_url).port();
    let mut env = world.env();
    env.insert("TANDEM_GIVE_UP_AFTER".to_owned(), "0".to_owned());
    // An address of the block for documentation: nobody has it.
    let url = format!("amqp://guest:guest@[2001:db8::1]:{port}/%2f");
    env.insert("TANDEM_AMQP_URL".to_owned(), url);
    let failed = producer::run(&env, &["init"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("RabbitMQ"), "{}", failed.stderr);
    world.finish().await;
}

#[tokio::test]
async fn a_database_is_found_by_its_ipv6_address() {
    let world = World::new().await;
    let (proxy, _) = world.mongodb_proxy().await;
    let Some((address, connections)) = forward(proxy.address()).await else {
        eprintln!("this machine has no IPv6: nothing is tested");
        return world.finish().await;
    };
    let mongodb_uri = format!("mongodb://{address}/?directConnection=true");
    let args = MongoSettings {
        mongodb_uri,
        database: None,
        one_document_statements: false,
        accept_index: Vec::new(),
    };
    let store = Store::connect(&args, "test", s(3)).await.expect("a good address");
    store.server_now().await.expect("it answers");
    assert!(connections.load(Ordering::Relaxed) > 0, "it was connected to");
    world.finish().await;
}

#[tokio::test]
async fn a_connection_string_without_a_single_meaning_is_bad_usage_of_both_programs() {
    let world = World::new().await;
    for (variable, value) in [
        ("TANDEM_AMQP_URL", "amqp:///%2f"),
        ("TANDEM_AMQP_URL", "amqp://guest:hidden@127.0.0.1:5672/"),
        ("TANDEM_AMQP_URL", "amqp://guest:hid/den@127.0.0.1:5672/%2f"),
        ("TANDEM_AMQP_URL", "amqp://guest:hidden@one:5672,two:5672/%2f"),
        ("TANDEM_MONGODB_URI", "mongodb://u:hid/den@127.0.0.1/db"),
        ("TANDEM_MONGODB_URI", "mongodb://u:hidden/db"),
    ] {
        let mut env = world.env();
        env.insert(variable.to_owned(), value.to_owned());
        let of_producer = producer::run(&env, &["stats"]).await;
        let mut command = std::process::Command::new(program("worker"));
        let of_worker = command.envs(&env).env("TANDEM_HTTP", "off").output().expect("it runs");
        let said = String::from_utf8_lossy(&of_worker.stderr).into_owned();
        for (code, said) in
            [(of_producer.code, of_producer.stderr), (of_worker.status.code(), said)]
        {
            assert_eq!(code, Some(2), "{value}: {said}");
            assert!(said.contains(variable), "{value}: {said}");
            assert!(!said.contains("hid"), "{value}: {said}");
        }
    }
    world.finish().await;
}
