//! A bound socket and the connections that it accepts, as bytes, whatever they come through.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::Limits;
use super::unix::SocketFile;
use crate::error::{Error, Result};
use crate::transport::Address;

/// Connections that the kernel completes while nobody accepts them.
const BACKLOG: u32 = 1024;

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, #[allow(dead_code, reason = "removes the file")] SocketFile),
}

impl Socket {
    /// The socket, and its address with the real port.
    pub(super) async fn bind(address: &Address, limits: &Limits) -> Result<(Self, Address)> {
        if let Some((host, port)) = address.authority() {
            let (socket, address) = bind_tcp(&host, port, limits).await?;
            return Ok((Self::Tcp(socket), address));
        }
        match address {
            Address::Unix(path) => {
                let (socket, file) = SocketFile::bind(path, BACKLOG).await?;
                Ok((Self::Unix(socket, file), address.clone()))
            }
            _ => Err(Error::misuse(format!(
                "`{address}` cannot be listened on; write 127.0.0.1:8765 or unix:/path/to.sock"
            ))),
        }
    }

    /// Waits for a connection. Of a Unix socket those of other users fail, unless `any_user` may
    /// connect. Cancel safe.
    pub(super) async fn accept(&self, any_user: bool) -> io::Result<(Stream, PeerAddress)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Without it small answers wait for the acknowledgement of the one before.
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), PeerAddress::Tcp(peer)))
            }
            Self::Unix(socket, _) => {
                let stream = socket.accept().await?.0;
                if !any_user && !is_ours(stream.peer_cred()?.uid()) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok((Stream::Unix(stream), PeerAddress::Unix))
            }
        }
    }
}

async fn bind_tcp(host: &str, port: u16, limits: &Limits) -> Result<(TcpListener, Address)> {
    let cannot = |error| Error::io(format!("cannot listen on {host}:{port}"), error);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((host, port)).await.map_err(cannot)? {
        if !limits.public && !address.ip().to_canonical().is_loopback() {
            return Err(Error::misuse(format!(
                "{address} is open to other machines: listen on 127.0.0.1 or [::1], or set \
                 `public` in the listener's limits if that is what you want"
            )));
        }
        match TcpListener::bind(address).await {
            Ok(socket) => {
                let bound = socket.local_addr().map_err(cannot)?;
                return Ok((socket, bound.into()));
            }
            Err(error) => failure = error,
        }
    }
    Err(cannot(failure))
}

/// Whether a user may use a Unix socket of this process: its own, and root, whom nothing keeps out.
fn is_ours(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerAddress {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over a Unix socket: a process of this machine, whose file mode let it in.
    Unix,
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over one of the others.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::server::TlsStream<Self>>),
}

impl Stream {
    /// The protocol that TLS agreed on (`h2`, `http/1.1`), if both sides named one.
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }
}

impl Stream {
    /// Waits for the first byte and leaves it where it is. `false` if the peer has gone without
    /// one.
    pub(super) async fn hears(&self) -> io::Result<bool> {
        match self {
            Self::Tcp(stream) => Ok(stream.peek(&mut [0]).await? > 0),
            Self::Unix(stream) => stream.readable().await.map(|()| true),
            #[cfg(feature = "tls")]
            Self::Tls(_) => Ok(true),
        }
    }
}

/// Calls the same function of whichever stream it is.
macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($stream) => $call,
            Self::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Self::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_for_its_own_user_and_root() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_ours(own) && is_ours(0));
        assert!(!is_ours(own + 1) && !is_ours(u32::MAX));
    }
}
