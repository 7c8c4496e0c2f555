//! TLS: certificates that are read again when they change.
//!
//! rustls with aws-lc-rs, TLS 1.2 and 1.3. There is no way to leave out the check of a server's
//! certificate: give [`ClientTls::ca_pem_file`] the authority that signed it.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

#[cfg(feature = "client")]
pub use client::{ClientTls, HANDSHAKE_TIMEOUT};
#[cfg(feature = "server")]
pub use server::{RELOAD_EVERY, ServerTls};

use crate::error::{Error, Result};

/// Named, not installed for the process: that is the program's to choose.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn names(protocols: &[&str]) -> Vec<Vec<u8>> {
    protocols.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&bytes(path)?)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| useless(path, error))?;
    if chain.is_empty() {
        return Err(useless(path, "there is no certificate in it"));
    }
    Ok(chain)
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io(format!("cannot read {}", path.display()), error))
}

fn useless(path: &Path, why: impl fmt::Display) -> Error {
    Error::misuse(format!("{} is of no use for TLS: {why}", path.display()))
}
