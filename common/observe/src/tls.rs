//! TLS of a server: its certificate, and another one while it runs.
//!
//! Owns the two files and what was read of them last. Promises that a connection that was accepted
//! keeps what it began with, and that files that make no sense leave the certificate as it is: that
//! is told once for each change of the files. The key is as secret as all tokens together, so a file
//! that everybody can read is refused. Fails with a sentence that names the file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

use super::secret_file;

/// How often to look whether the files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where the certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that it rests on, as PEM, that of the server first.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// When files were changed last, in seconds and nanoseconds, and how long they are.
type Stamps = [Option<(i64, i64, u64)>; 2];

/// What new connections begin with.
pub struct Tls {
    files: TlsFiles,
    /// The files just before they were read first.
    seen: Stamps,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that can't be read, is none of the kind, or does not fit the other one.
    pub fn load(files: TlsFiles) -> Result<Tls, String> {
        let seen = files.stamps();
        let config = RwLock::new(files.read()?);
        Ok(Tls { files, seen, config })
    }

    /// What a new connection begins with.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }

    /// Reads the files again; what makes no sense is told in the log, and changes nothing.
    pub fn reload(&self) {
        match self.files.read() {
            Ok(config) => {
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
                tracing::info!(file = %self.files.certificate.display(), "a certificate was read");
            }
            Err(problem) => tracing::error!(problem, "the certificate stays as it was"),
        }
    }
}

/// Reads the files again within seconds after they have changed, until `stop`.
pub async fn watch(tls: Arc<Tls>, stop: CancellationToken) {
    let mut seen = tls.seen;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let stamps = tls.files.stamps();
        if stamps != seen {
            // Who replaces one file after the other has changed them twice by the next looks.
            seen = stamps;
            tls.reload();
        }
    }
}

impl TlsFiles {
    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let said = std::fs::read(&self.certificate);
        let said = said.map_err(|error| wrong(&self.certificate, error))?;
        let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&said).collect();
        let chain = chain.map_err(|error| wrong(&self.certificate, error))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, "there is no certificate in it"));
        }
        let said = secret_file::read(&self.key, "the key of TLS")?;
        let key = PrivateKeyDer::from_pem_slice(&said);
        let key = key.map_err(|error| wrong(&self.key, format!("it holds no key: {error}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| {
            let problem = format!("does not fit the key in {}: {error}", self.key.display());
            wrong(&self.certificate, problem)
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn stamps(&self) -> Stamps {
        [&self.certificate, &self.key].map(|path| {
            let found = std::fs::metadata(path).ok()?;
            // Of the inode: a change of its rights counts, too.
            Some((found.ctime(), found.ctime_nsec(), found.len()))
        })
    }
}

fn wrong(path: &Path, problem: impl std::fmt::Display) -> String {
    format!("{}: {problem}", path.display())
}
