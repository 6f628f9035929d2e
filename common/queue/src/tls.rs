//! TLS to the broker, as its connection string says: whom to trust, and who we are.
//!
//! Owns what follows from the parameters `cacertfile`, `certfile` and `keyfile` of an `amqps` URL,
//! as RabbitMQ's own clients know them ([URI query
//! parameters](https://www.rabbitmq.com/docs/uri-query-parameters)). All files are PEM. An
//! authority of `cacertfile` is trusted beside the public ones. Promises that the broker's
//! certificate and its host name are always verified, and that the files are read for each
//! connection: a new certificate counts from the next connection on. Fails with the parameter and
//! the file.

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::AMQPScheme;

use super::QueueError;
use super::address::{AUTHORITY, Address, CERTIFICATE, KEY, VERIFY};

/// The TLS settings of an address, with the files read.
///
/// # Errors
/// When the parameters don't fit together, or a file can't be read or holds no PEM.
pub(super) fn configuration(address: &Address) -> Result<OwnedTLSConfig, QueueError> {
    if address.parameter(VERIFY).is_some_and(|value| value != "verify_peer") {
        return Err(problem("verify: the broker's certificate is always verified; leave this out"));
    }
    let files = [AUTHORITY, CERTIFICATE, KEY].map(|name| Some((name, address.parameter(name)?)));
    if let (Some((name, _)), AMQPScheme::AMQP) =
        (files.iter().flatten().next(), &address.uri.scheme)
    {
        return Err(problem(&format!("{name} needs TLS: write amqps://, and the port of TLS")));
    }
    let [authority, certificate, key] = files;
    let read = |file: Option<(&str, &str)>| file.map(pem).transpose();
    let identity = match (read(certificate)?, read(key)?) {
        (None, None) => None,
        (Some(pem), Some(key)) => {
            Some(OwnedIdentity::PKCS8 { pem: pem.into_bytes(), key: key.into_bytes() })
        }
        (Some(_), None) => return Err(problem(&format!("{CERTIFICATE} needs {KEY} beside it"))),
        (None, Some(_)) => return Err(problem(&format!("{KEY} needs {CERTIFICATE} beside it"))),
    };
    Ok(OwnedTLSConfig { identity, cert_chain: read(authority)? })
}

fn pem((name, path): (&str, &str)) -> Result<String, QueueError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| problem(&format!("{name} {path}: {error}")))?;
    match text.contains("-----BEGIN ") {
        true => Ok(text),
        false => Err(problem(&format!("{name} {path} is no PEM file"))),
    }
}

fn problem(text: &str) -> QueueError {
    QueueError::Tls(format!("TANDEM_AMQP_URL: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<OwnedTLSConfig, QueueError> {
        configuration(&Address::parse(url).expect(url))
    }

    fn problem_of(url: &str) -> String {
        of(url).expect_err(url).to_string()
    }

    #[test]
    fn parameters_that_do_not_fit_together_are_named() {
        for (query, said) in [
            ("verify=verify_none", "verify"),
            ("cacertfile=/nowhere", "cacertfile /nowhere"),
            ("certfile=/etc/hostname", "certfile /etc/hostname is no PEM file"),
        ] {
            let problem = problem_of(&format!("amqps://u:hidden@host/%2f?{query}"));
            assert!(problem.contains(said) && !problem.contains("hidden"), "{problem}");
        }
        let plain = problem_of("amqp://host/%2f?keyfile=/k");
        assert!(plain.contains("keyfile needs TLS"), "{plain}");
        let none = of("amqps://host/%2f?heartbeat=3").expect("nothing is asked for");
        assert_eq!(none, OwnedTLSConfig::default());
    }
}
