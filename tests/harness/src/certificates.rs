//! A certificate authority of a test's own, with certificates for servers and clients as files.
//!
//! Promises keys that nobody else has, and that everything lies in the test's directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

const DAY: Duration = Duration::from_secs(86_400);

/// An authority.
pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate's file.
    pub file: PathBuf,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

/// Whether a certificate counts today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It does.
    Now,
    /// It did until yesterday.
    Expired,
}

impl Authority {
    /// A new one, which writes into this directory.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn new(directory: &Path, name: &str) -> Authority {
        std::fs::create_dir_all(directory).expect("the directory is ours");
        let mut params = params(&[], name, Validity::Now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let file = directory.join(format!("{name}.pem"));
        std::fs::write(&file, certificate.pem()).expect("the directory is ours");
        Authority { directory: directory.to_owned(), issuer: Issuer::new(params, key), file }
    }

    /// A certificate for these host names, for servers and clients.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn issue(&self, name: &str, hosts: &[&str], validity: Validity) -> Identity {
        let mut params = params(hosts, name, validity);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let identity = Identity {
            certificate: self.directory.join(format!("{name}.pem")),
            key: self.directory.join(format!("{name}.key")),
        };
        std::fs::write(&identity.certificate, certificate.pem()).expect("the directory is ours");
        std::fs::write(&identity.key, key.serialize_pem()).expect("the directory is ours");
        identity
    }
}

fn params(hosts: &[&str], name: &str, validity: Validity) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("host names");
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    params.not_before = (now - 3 * DAY).into();
    params.not_after = match validity {
        Validity::Now => (now + DAY).into(),
        Validity::Expired => (now - DAY).into(),
    };
    params
}
