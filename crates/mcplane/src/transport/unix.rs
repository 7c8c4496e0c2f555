//! Unix sockets: one message per line, as on stdio. The file's mode decides who may connect.

use std::path::Path;

use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::Transport;
use super::tcp::within;
use crate::error::Result;

/// A connection to a server.
#[derive(Debug)]
pub struct Unix(UnixStream);

/// Connects to the server that listens at `path`. Cancel safe.
///
/// # Errors
/// There is no such socket, no server listens on it, or this user may not connect
/// ([`Error::is_io`](crate::Error::is_io)); or the server does not accept within
/// [`CONNECT_TIMEOUT`](super::tcp::CONNECT_TIMEOUT)
/// ([`Error::is_timeout`](crate::Error::is_timeout)).
pub async fn connect(path: impl AsRef<Path>) -> Result<Unix> {
    let path = path.as_ref();
    within(&format!("unix:{}", path.display()), UnixStream::connect(path)).await.map(Unix)
}

impl Transport for Unix {
    type Reader = OwnedReadHalf;
    type Writer = OwnedWriteHalf;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        Ok(self.0.into_split())
    }
}
