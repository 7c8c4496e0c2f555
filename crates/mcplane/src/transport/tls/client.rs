//! Whom a client trusts.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client};

use super::{certificates, names, provider, useless};
use crate::error::{Error, Result};

/// How long a client waits for the handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The client's side: whom to trust. Clones share it.
#[derive(Clone)]
pub struct ClientTls {
    roots: RootCertStore,
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Trusts the authorities that this system trusts.
    ///
    /// # Errors
    /// If the TLS library cannot be set up, which does not depend on this system.
    pub fn new() -> Result<Self> {
        let mut roots = RootCertStore::empty();
        // A system without authorities is not an error: the server's may come with `ca_pem_file`.
        let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = trusting(&roots)?;
        Ok(Self { roots, config })
    }

    /// Trusts the authorities in this file too.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate in it.
    pub fn ca_pem_file(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        for certificate in certificates(path)? {
            self.roots.add(certificate).map_err(|error| useless(path, error))?;
        }
        let protocols = self.config.alpn_protocols.clone();
        self.config = trusting(&self.roots)?;
        Arc::make_mut(&mut self.config).alpn_protocols = protocols;
        Ok(self)
    }

    /// Offers these protocols (`h2`, `http/1.1`). None unless called. Which one was chosen is in
    /// the stream's `get_ref().1.alpn_protocol()`.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = names(protocols);
        self
    }

    /// Makes the client's side of the handshake, within [`HANDSHAKE_TIMEOUT`]. `host` is the name
    /// or the address that the certificate must be for.
    ///
    /// # Errors
    /// The server speaks no TLS, or its certificate is not trusted or is for another host.
    pub async fn connect<S>(&self, host: &str, stream: S) -> io::Result<client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let wrong = |kind, error: &dyn fmt::Display| {
            io::Error::new(kind, format!("TLS with {host}: {error}"))
        };
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name)
            .map_err(|error| wrong(io::ErrorKind::InvalidInput, &error))?;
        let shake = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream);
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shake).await {
            Ok(shaken) => shaken.map_err(|error| wrong(error.kind(), &error)),
            Err(_) => Err(wrong(io::ErrorKind::TimedOut, &"the handshake takes too long")),
        }
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("roots", &self.roots.len()).finish_non_exhaustive()
    }
}

fn trusting(roots: &RootCertStore) -> Result<Arc<ClientConfig>> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::misuse(format!("TLS: {error}")))?
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    Ok(Arc::new(config))
}
