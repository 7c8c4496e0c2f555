//! An accepted connection as bytes, whatever it came through.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

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
