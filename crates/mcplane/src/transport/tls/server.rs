//! A certificate and its key, from files that are read again when they change.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server};

use super::{bytes, certificates, names, provider, useless};
use crate::error::{Error, Result};

/// How often, at most, the files of a certificate are checked when a connection arrives.
pub const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// The server side: a certificate and its key, from files. Clones share both.
///
/// Files that change are read again without interrupting connections: the next handshake uses the
/// new certificate. Invalid files change nothing; [`ServerTls::problem`] then says why.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
}

impl ServerTls {
    /// Reads a certificate with its chain, and its key.
    ///
    /// # Errors
    /// A file cannot be read or lacks a certificate or key, or the two do not match. The error
    /// names the file.
    pub fn from_pem_files(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let files = [certificate.as_ref().to_owned(), key.as_ref().to_owned()];
        let certificate = Arc::new(Certificate::read(files)?);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::misuse(format!("TLS: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>);
        Ok(Self { config: Arc::new(config), certificate })
    }

    /// Offers these protocols (`h2`, `http/1.1`), the preferred one first. None unless called.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = names(protocols);
        self
    }

    /// Performs the server side of the handshake. It has no time limit of its own.
    ///
    /// # Errors
    /// The client does not speak TLS, shares no version or cipher suite, or goes away.
    pub async fn accept<S>(&self, stream: S) -> io::Result<server::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.certificate.refresh(Instant::now());
        TlsAcceptor::from(Arc::clone(&self.config)).accept(stream).await
    }

    /// Why the newest files are not in use; `None` if they are.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.certificate.files.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The certificate in use, and the files that it came from.
struct Certificate {
    current: RwLock<Arc<CertifiedKey>>,
    files: Mutex<Files>,
}

struct Files {
    paths: [PathBuf; 2],
    stamps: [Stamp; 2],
    looked: Instant,
    problem: Option<String>,
}

/// What tells that a file has changed.
type Stamp = Option<(SystemTime, u64)>;

impl Certificate {
    fn read(paths: [PathBuf; 2]) -> Result<Self> {
        let stamps = paths.each_ref().map(|path| stamp(path));
        let current = RwLock::new(Arc::new(read(&paths)?));
        let files = Files { paths, stamps, looked: Instant::now(), problem: None };
        Ok(Self { current, files: Mutex::new(files) })
    }

    /// Reads the files again if they have changed. Two looks at two files when it is time, and
    /// otherwise nothing; small files, read where a handshake's arithmetic would run.
    fn refresh(&self, now: Instant) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(files.looked) < RELOAD_EVERY {
            return;
        }
        files.looked = now;
        let stamps = files.paths.each_ref().map(|path| stamp(path));
        // With a problem they are read each time: they may have been half written.
        if stamps == files.stamps && files.problem.is_none() {
            return;
        }
        files.stamps = stamps;
        match read(&files.paths) {
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                files.problem = None;
            }
            Err(error) => files.problem = Some(error.to_string()),
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Certificate").field(&files.paths).finish()
    }
}

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

fn read([certificate, key]: &[PathBuf; 2]) -> Result<CertifiedKey> {
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| match error {
        pem::Error::NoItemsFound => useless(key, "there is no private key in it"),
        error => useless(key, error),
    })?;
    CertifiedKey::from_der(chain, secret, &provider()).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        Error::misuse(format!("the certificate {certificate} with the key {key}: {error}"))
    })
}
