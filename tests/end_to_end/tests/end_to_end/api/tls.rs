//! The API by TLS: a certificate of one's own authority, and another one while the server runs.

use std::fs::{Permissions, set_permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use harness::certificates::{Authority, Identity, Validity};
use harness::process::Signal;
use harness::wait::{s, wait_until};
use harness::world::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A certificate for this machine, whose key only its owner can read.
pub(crate) fn issue(authority: &Authority, name: &str) -> Identity {
    let identity = authority.issue(name, &["localhost"], Validity::Now);
    set_permissions(&identity.key, Permissions::from_mode(0o600)).expect("the file is ours");
    identity
}

pub(crate) fn flags(identity: &Identity) -> [&str; 4] {
    let (certificate, key) = (identity.certificate.to_str(), identity.key.to_str());
    ["--tls-cert", certificate.expect("UTF-8"), "--tls-key", key.expect("UTF-8")]
}

/// A connection by TLS of a client that trusts this authority.
pub(crate) async fn connect(
    address: SocketAddr,
    authority: &Authority,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(&authority.file).expect("a certificate");
    roots.add(root).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Asks on a connection that is kept; the status.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>) -> String {
    let ask = "HEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.expect("it reads");
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(stream.read_u8().await.expect("it answers"));
    }
    String::from_utf8_lossy(&said[9..12]).into_owned()
}

/// The certificate that the server has shown.
pub(crate) fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    let chain = stream.get_ref().1.peer_certificates().expect("the server has one");
    chain[0].to_vec()
}

#[tokio::test]
async fn a_certificate_is_replaced_while_connections_go_on_and_a_bad_one_changes_nothing() {
    let world = World::new().await;
    let authority = Authority::new(&world.directory(), "authority");
    let identity = issue(&authority, "server");
    let api = world.api_by_tls(&flags(&identity)).await;
    let mut old = connect(api.address, &authority).await.expect("it is trusted");
    assert_eq!(ask(&mut old).await, "200");
    let stranger = Authority::new(&world.directory(), "stranger");
    connect(api.address, &stranger).await.expect_err("it is of another authority");
    let plain = harness::http::send(api.address, "GET", "/healthz", &[], "", s(30)).await;
    assert!(plain.is_none(), "nothing is told without TLS: {plain:?}");

    // The files are replaced, and nobody says so.
    let first = shown(&old);
    let _ = issue(&authority, "server");
    wait_until("new connections get the new certificate", s(60), async || {
        let new = connect(api.address, &authority).await.expect("it is trusted");
        shown(&new) != first
    })
    .await;
    assert_eq!(ask(&mut old).await, "200", "the old connection goes on");

    let second = shown(&connect(api.address, &authority).await.expect("it is trusted"));
    std::fs::write(&identity.certificate, "nonsense").expect("the file is ours");
    api.signal(Signal::Hup);
    let told = "there is no certificate in it";
    wait_until("it says so", s(30), async || api.log().contains(told)).await;
    let mut still = connect(api.address, &authority).await.expect("it is trusted");
    assert_eq!((ask(&mut still).await, shown(&still)), ("200".to_owned(), second));
    world.finish().await;
}

#[tokio::test]
async fn who_does_not_come_to_terms_keeps_nobody_out_and_is_cut_off() {
    let world = World::new().await;
    let authority = Authority::new(&world.directory(), "authority");
    let identity = issue(&authority, "server");
    let more = ["--head-limit", "20", "--connections", "10"];
    let api = world.api_by_tls(&[&flags(&identity)[..], &more].concat()).await;
    let mut halfway = Vec::new();
    for begin in ["", "\u{16}\u{3}\u{1}"] {
        for _ in 0..4 {
            let mut stream = TcpStream::connect(api.address).await.expect("it listens");
            stream.write_all(begin.as_bytes()).await.expect("it reads");
            halfway.push(stream);
        }
    }
    let asked = timeout(s(15), async {
        let mut stream = connect(api.address, &authority).await.expect("it is trusted");
        ask(&mut stream).await
    });
    assert_eq!(asked.await.expect("nobody waits for the others"), "200");
    // More than there is room for: they wait until the others are cut off.
    for _ in 0..10 {
        halfway.push(TcpStream::connect(api.address).await.expect("it listens"));
    }
    let mut late = connect(api.address, &authority).await.expect("there is room again");
    assert_eq!(ask(&mut late).await, "200");
    for mut stream in halfway {
        let end = timeout(s(60), stream.read_to_end(&mut Vec::new())).await;
        assert!(end.is_ok(), "it is cut off");
    }
    world.finish().await;
}

#[tokio::test]
async fn files_of_tls_that_make_no_sense_are_named_before_anything_is_served() {
    let world = World::new().await;
    let authority = Authority::new(&world.directory(), "authority");
    let (one, other) = (issue(&authority, "one"), issue(&authority, "other"));
    let mixed = Identity { certificate: one.certificate.clone(), key: other.key.clone() };
    let no_key = Identity { certificate: one.certificate.clone(), key: one.certificate.clone() };
    set_permissions(&one.certificate, Permissions::from_mode(0o600)).expect("the file is ours");
    let open = issue(&authority, "open");
    set_permissions(&open.key, Permissions::from_mode(0o644)).expect("the file is ours");
    for (identity, problem) in [
        (&mixed, "does not fit the key"),
        (&no_key, "no key"),
        (&open, "everybody on this machine"),
    ] {
        let refused = world.producer(&[&["serve"][..], &flags(identity)].concat()).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(problem), "{refused:?}");
    }
    let alone = world.producer(&["serve", "--tls-cert", "server.pem"]).await;
    assert_eq!(alone.code, Some(2), "{alone:?}");
    assert!(alone.stderr.contains("--tls-key"), "{alone:?}");
    world.finish().await;
}
