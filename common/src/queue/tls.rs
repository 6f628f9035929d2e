//! TLS to the broker, as its connection string says: whom to trust, and who we are.
//!
//! Owns the parameters `cacertfile`, `certfile` and `keyfile` of an `amqps` URL, as RabbitMQ's own clients
//! know them ([URI query parameters](https://www.rabbitmq.com/docs/uri-query-parameters)). All files are
//! PEM. An authority of `cacertfile` is trusted beside the public ones. Promises that the broker's
//! certificate and its host name are always verified, and that the files are read for each connection: a
//! new certificate counts from the next connection on. Fails with the parameter and the file.

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use url::Url;

use super::QueueError;

const AUTHORITY: &str = "cacertfile";
const CERTIFICATE: &str = "certfile";
const KEY: &str = "keyfile";

/// The TLS settings of a connection string, with the files read.
///
/// # Errors
/// When the parameters don't fit together, or a file can't be read or holds no PEM.
pub(super) fn configuration(url: &str) -> Result<OwnedTLSConfig, QueueError> {
    let url = Url::parse(url).map_err(|error| QueueError::Url(error.to_string()))?;
    let parameter = |name: &str| {
        url.query_pairs().find_map(|(key, value)| (key == name).then(|| value.into_owned()))
    };
    if parameter("verify").is_some_and(|value| value != "verify_peer") {
        return Err(problem("verify: the broker's certificate is always verified; leave this out"));
    }
    let files = [AUTHORITY, CERTIFICATE, KEY].map(|name| Some((name, parameter(name)?)));
    if let (Some((name, _)), "amqp") = (files.iter().flatten().next(), url.scheme()) {
        return Err(problem(&format!("{name} needs TLS: write amqps://, and the port of TLS")));
    }
    let [authority, certificate, key] = files;
    let read = |file: Option<(&str, String)>| file.map(|file| pem(&file)).transpose();
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

fn pem((name, path): &(&str, String)) -> Result<String, QueueError> {
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

    fn problem_of(url: &str) -> String {
        configuration(url).expect_err(url).to_string()
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
        let none = configuration("amqps://host/%2f?heartbeat=3").expect("nothing is asked for");
        assert_eq!(none, OwnedTLSConfig::default());
    }
}
