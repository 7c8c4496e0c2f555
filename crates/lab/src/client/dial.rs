//! Opening connections to an address: TCP with `TCP_NODELAY`, TLS on top of it, Unix sockets.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Stream;
use super::address::{Address, Place};
use super::traffic::{Counted, Traffic};

/// Opens connections to one address.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) address: Arc<Address>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(crate) traffic: Arc<Traffic>,
}

impl Dialer {
    /// A dialer; `ca` is a PEM file of authorities that are trusted in place of the system's.
    pub(crate) fn new(address: Address, ca: Option<&PathBuf>) -> Result<Self, String> {
        let tls = match &address.place {
            Place::Net { host, tls: true, .. } => {
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                Some((TlsConnector::from(Arc::new(config(ca.map(PathBuf::as_path))?)), name))
            }
            _ => None,
        };
        Ok(Self { address: Arc::new(address), tls, traffic: Arc::default() })
    }

    /// The same way to another address of the same server.
    pub(crate) fn with_address(&self, address: Address) -> Self {
        Self { address: Arc::new(address), ..self.clone() }
    }

    /// Opens one connection and closes it; returns what the connection took, and TLS after it.
    pub(crate) async fn knock(self) -> io::Result<(Duration, Option<Duration>)> {
        let began = Instant::now();
        match &self.address.place {
            Place::Net { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let connect = began.elapsed();
                let Some((tls, name)) = self.tls else { return Ok((connect, None)) };
                tls.connect(name, stream).await?;
                Ok((connect, Some(began.elapsed().saturating_sub(connect))))
            }
            Place::Unix(path) => unix(path, &self.traffic).await.map(|_| (began.elapsed(), None)),
        }
    }

    /// Opens one connection.
    pub(crate) async fn dial(self) -> io::Result<Stream> {
        match &self.address.place {
            Place::Net { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let stream = Counted::new(stream, &self.traffic);
                match self.tls {
                    None => Ok(Stream::from_duplex(stream)),
                    Some((tls, name)) => Ok(Stream::from_duplex(tls.connect(name, stream).await?)),
                }
            }
            Place::Unix(path) => unix(path, &self.traffic).await,
        }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dialer({})", self.address)
    }
}

#[cfg(unix)]
async fn unix(path: &Path, traffic: &Arc<Traffic>) -> io::Result<Stream> {
    let stream = tokio::net::UnixStream::connect(path).await?;
    Ok(Stream::from_duplex(Counted::new(stream, traffic)))
}

#[cfg(not(unix))]
async fn unix(_: &Path, _: &Arc<Traffic>) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}

fn config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let wrong = |what: &dyn fmt::Display| format!("--ca {}: {what}", path.display());
            for cert in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
                let cert = cert.map_err(|error| wrong(&error))?;
                roots.add(cert).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it holds no certificate"));
            }
        }
        None => {
            // One unreadable certificate of the system's is no reason to distrust the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    // No ALPN: the generator speaks HTTP/1.1, which is what a server without it takes it for.
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
