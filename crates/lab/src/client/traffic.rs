//! What really goes through the sockets of a site: how many are open, and their bytes, below TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::results::Sockets;

/// Counters of all sockets to one address.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    opened: AtomicU64,
    open: AtomicU64,
    most: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// The counters now; from here on, the most sockets that are open at once are counted anew.
    pub(crate) fn begin(&self) -> Sockets {
        self.most.store(self.open.load(Ordering::Relaxed), Ordering::Relaxed);
        self.now()
    }

    /// What came since they were `before`; `None` if there is no socket.
    pub(crate) fn since(&self, before: &Sockets) -> Option<Sockets> {
        let now = self.now();
        (now.opened > 0).then(|| Sockets {
            open_max: now.open_max,
            opened: now.opened - before.opened,
            bytes_sent: now.bytes_sent - before.bytes_sent,
            bytes_received: now.bytes_received - before.bytes_received,
        })
    }

    fn now(&self) -> Sockets {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Sockets {
            open_max: of(&self.most),
            opened: of(&self.opened),
            bytes_sent: of(&self.sent),
            bytes_received: of(&self.received),
        }
    }
}

/// A socket whose bytes are counted.
pub(super) struct Counted<S> {
    socket: S,
    traffic: Arc<Traffic>,
}

impl<S> Counted<S> {
    pub(super) fn new(socket: S, traffic: &Arc<Traffic>) -> Self {
        traffic.opened.fetch_add(1, Ordering::Relaxed);
        let open = traffic.open.fetch_add(1, Ordering::Relaxed) + 1;
        traffic.most.fetch_max(open, Ordering::Relaxed);
        Self { socket, traffic: Arc::clone(traffic) }
    }

    fn sent(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.traffic.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.traffic.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        self.traffic.received.fetch_add(bytes as u64, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn sockets_and_their_bytes_are_counted() {
        let traffic = Arc::new(Traffic::default());
        assert_eq!(traffic.since(&traffic.begin()), None, "there is none");
        let (near, mut far) = duplex(64);
        let first = Counted::new(near, &traffic);
        drop(Counted::new(duplex(1).0, &traffic));
        let before = traffic.begin();
        let mut near = Counted::new(duplex(1).0, &traffic);
        drop(std::mem::replace(&mut near, first));
        near.write_all(b"hello").await.unwrap();
        far.write_all(b"hi").await.unwrap();
        near.read_exact(&mut [0; 2]).await.unwrap();
        let seen = traffic.since(&before).unwrap();
        let Sockets { open_max, opened, bytes_sent, bytes_received } = seen;
        assert_eq!((open_max, opened, bytes_sent, bytes_received), (2, 1, 5, 2));
    }
}
