//! Accepting connections, within limits.
//!
//! * [`Address`] — where to listen or to connect.
//! * [`Limits`] — every bound of a listener, with its reason.
//! * [`Listener`] — a bound socket; [`Incoming`] — what it accepts.
//! * [`serve`] — one message per line, on every connection.
//!
//! A connection beyond a bound is not left waiting in the kernel: it is accepted and marked
//! [`Admission::Refused`], so that whoever serves it can say so (503 on HTTP) or hang up at once.

mod address;
mod connections;
mod gate;
mod limits;
mod lines;
mod patient;
mod stream;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

pub use address::Address;
pub use limits::Limits;
pub use lines::serve;
pub use stream::{PeerAddress, Stream};

#[cfg(feature = "http")]
pub(crate) use {
    connections::{Connections, End},
    patient::Patient,
};

use gate::Gate;

use crate::error::{Error, Result};
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;
use crate::transport::unix::SocketFile;

/// Connections that the kernel completes while nobody accepts them.
const BACKLOG: u32 = 1024;

/// Refused connections that are being told so at the same time. Beyond it they are closed.
const REFUSALS_MAX: usize = 256;

/// What a connection beyond [`Limits::connections_max`] is told to wait: nobody knows when one of
/// the others ends.
const FULL_RETRY: Duration = Duration::from_secs(1);

/// The first and the longest pause after a failed accept, as when descriptors run out (`EMFILE`).
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A bound socket that hands out connections within its limits.
///
/// The file of a Unix socket is removed when its listener is dropped.
pub struct Listener {
    socket: Socket,
    address: Address,
    limits: Limits,
    gate: Mutex<Gate>,
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(tokio::net::UnixListener, #[allow(dead_code, reason = "removes the file")] SocketFile),
}

impl Listener {
    /// Binds `address`. A Unix socket is for its owner only (mode 0600); the file of one that
    /// nobody listens on any more is replaced.
    ///
    /// # Errors
    /// The address cannot be bound, somebody else listens there, or it is open to other machines
    /// and [`Limits::public`] does not say that it may be ([`Error::is_misuse`]).
    pub async fn bind(address: &Address, limits: Limits) -> Result<Self> {
        let (socket, address) = match address {
            Address::Tcp { host, port } => {
                let (socket, address) = bind_tcp(host, *port, &limits).await?;
                (Socket::Tcp(socket), address)
            }
            Address::Unix(path) => {
                let (socket, file) = SocketFile::bind(path, BACKLOG).await?;
                (Socket::Unix(socket, file), address.clone())
            }
        };
        Ok(Self {
            socket,
            address,
            gate: Mutex::new(Gate::new(limits.accepts_per_s, limits.accepts_burst)),
            places: Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS))),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            limits,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// The same, but connections speak TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The address that is bound: the real port where port 0 was asked for.
    #[must_use]
    pub const fn local_address(&self) -> &Address {
        &self.address
    }

    /// The limits that it was bound with.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Admitted connections whose [`Permit`] is held.
    #[must_use]
    pub fn connections(&self) -> usize {
        let max = self.limits.connections_max.min(Semaphore::MAX_PERMITS);
        max.saturating_sub(self.places.available_permits())
    }

    /// The next connection. Never fails: a failed accept, as when descriptors run out, is tried
    /// again after a pause. Cancel safe.
    pub async fn accept(&self) -> Incoming {
        let mut pause = PAUSE_MIN;
        loop {
            match self.accept_one().await {
                Ok((stream, peer)) => {
                    if let Some(incoming) = self.admit(stream, peer, Instant::now()) {
                        return incoming;
                    }
                }
                // The client went away before we got to it.
                Err(error) if gone(&error) => {}
                Err(_) => {
                    sleep(pause).await;
                    pause = PAUSE_MAX.min(pause * 2);
                }
            }
        }
    }

    async fn accept_one(&self) -> io::Result<(Stream, PeerAddress)> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Without it small answers wait for the acknowledgement of the one before.
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), PeerAddress::Tcp(peer)))
            }
            Socket::Unix(socket, _) => {
                let stream = socket.accept().await?.0;
                if !self.limits.any_user && !is_ours(stream.peer_cred()?.uid()) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok((Stream::Unix(stream), PeerAddress::Unix))
            }
        }
    }

    /// `None` if so many are being refused already that this one is closed without a word.
    fn admit(&self, stream: Stream, peer: PeerAddress, now: Instant) -> Option<Incoming> {
        // The place first: a full server must not spend the rate of the time after.
        let place = Arc::clone(&self.places).try_acquire_owned();
        let admitted = match place {
            Ok(place) => {
                let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
                gate.admit(now).map(|()| place)
            }
            Err(_) => Err(FULL_RETRY),
        };
        let (admission, permit) = match admitted {
            Ok(place) => (Admission::Admitted, place),
            Err(retry_after) => {
                let refusal = Arc::clone(&self.refusals).try_acquire_owned().ok()?;
                (Admission::Refused { retry_after }, refusal)
            }
        };
        Some(Incoming {
            stream,
            peer,
            admission,
            permit: Permit(permit),
            #[cfg(feature = "tls")]
            tls: self.tls.clone().map(|tls| (tls, self.limits.handshake)),
        })
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// An accepted connection, before a byte of it was read.
#[derive(Debug)]
pub struct Incoming {
    stream: Stream,
    peer: PeerAddress,
    admission: Admission,
    permit: Permit,
    #[cfg(feature = "tls")]
    tls: Option<(ServerTls, Duration)>,
}

impl Incoming {
    /// Who connected.
    #[must_use]
    pub const fn peer(&self) -> PeerAddress {
        self.peer
    }

    /// Whether it may be served.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        self.admission
    }

    /// The stream, after the TLS handshake if there is one to make: call it in the connection's
    /// own task, so that a slow handshake holds up nobody. Keep the [`Permit`] for as long as the
    /// connection lives.
    ///
    /// # Errors
    /// The handshake fails or takes longer than [`Limits::handshake`].
    pub async fn handshake(self) -> io::Result<(Stream, Permit)> {
        #[cfg(feature = "tls")]
        if let Some((tls, limit)) = self.tls {
            let shaken = tokio::time::timeout(limit, tls.accept(self.stream)).await;
            let stream = shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            return Ok((Stream::Tls(Box::new(stream)), self.permit));
        }
        Ok((self.stream, self.permit))
    }
}

/// Whether a connection may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Serve it.
    Admitted,
    /// It is one too many: say so and close it.
    Refused {
        /// When another attempt has a chance.
        retry_after: Duration,
    },
}

/// A connection's place among those that are served at the same time; free again on drop.
#[derive(Debug)]
pub struct Permit(#[allow(dead_code, reason = "held")] OwnedSemaphorePermit);

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

fn gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Interrupted
    )
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
