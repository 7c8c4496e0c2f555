//! Accepting connections, within limits.
//!
//! * [`Limits`] — every bound of a listener, with its reason.
//! * [`Listener`] — a bound socket; [`Incoming`] — what it accepts.
//! * [`serve`] — one message per line, on every connection.
//!
//! A connection beyond a bound is not left waiting in the kernel: it is accepted and marked
//! [`Admission::Refused`], so that the server can say so (503 on HTTP) or hang up at once.
//!
//! Connections that say nothing keep no client out: new ones are counted from their first byte, per
//! client address, and when no place is free, the connection that has been useless for longest is
//! replaced.

mod connections;
mod gate;
mod limits;
mod lines;
mod patient;
mod places;
mod socket;
mod unix;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

pub use limits::Limits;
pub use lines::serve;
pub use socket::{PeerAddress, Stream};

#[cfg(feature = "http")]
pub(crate) use {connections::Connections, patient::Patient};

pub(crate) use places::{Lost, Place};

use gate::Gates;
use places::Places;
use socket::Socket;

use crate::error::Result;
use crate::transport::Address;
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;

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
    places: Arc<Places>,
    door: Arc<Door>,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

/// What new connections pass.
struct Door {
    limits: Limits,
    gates: Mutex<Gates>,
    refusals: Arc<Places>,
}

impl Listener {
    /// Binds `address`: a socket, or that of an HTTP or WebSocket URL. A Unix socket is for its owner
    /// only (mode 0600); a file that is left over from a dead listener is replaced.
    ///
    /// # Errors
    /// The address cannot be bound or listened on, another process listens there, or other machines
    /// can reach it and [`Limits::public`] does not allow that
    /// ([`Error::is_misuse`](crate::Error::is_misuse)).
    pub async fn bind(address: &Address, limits: Limits) -> Result<Self> {
        let (socket, address) = Socket::bind(address, &limits).await?;
        Ok(Self {
            socket,
            address,
            places: Places::new(limits.connections_max),
            door: Arc::new(Door {
                gates: Mutex::new(Gates::new(limits.accepts_per_s, limits.accepts_burst)),
                refusals: Places::new(REFUSALS_MAX),
                limits,
            }),
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

    /// The bound address, with the real port if port 0 was requested.
    #[must_use]
    pub const fn local_address(&self) -> &Address {
        &self.address
    }

    /// The limits that it was bound with.
    pub fn limits(&self) -> &Limits {
        &self.door.limits
    }

    /// Admitted connections whose [`Permit`] is held.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.places.taken()
    }

    /// The next connection. Never fails: a failed accept, as when descriptors run out, is tried
    /// again after a pause. Cancel safe.
    pub async fn accept(&self) -> Incoming {
        let mut pause = PAUSE_MIN;
        loop {
            match self.socket.accept(self.door.limits.any_user).await {
                Ok((stream, peer)) => {
                    if let Some(incoming) = self.admit(stream, peer) {
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

    /// `None` if nobody can be told, either, that there is no place.
    fn admit(&self, stream: Stream, peer: PeerAddress) -> Option<Incoming> {
        let (admission, (place, lost)) = match self.places.take() {
            Some(place) => (Admission::Admitted, place),
            None => (Admission::Refused { retry_after: FULL_RETRY }, self.door.refusals.take()?),
        };
        Some(Incoming {
            stream,
            peer,
            admission,
            place,
            lost,
            door: Arc::clone(&self.door),
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        })
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// An accepted connection, before a byte of it was read.
pub struct Incoming {
    stream: Stream,
    peer: PeerAddress,
    admission: Admission,
    place: Place,
    lost: Lost,
    door: Arc<Door>,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

/// A connection whose client has begun to speak.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) stream: Stream,
    pub(crate) admission: Admission,
    pub(crate) place: Place,
    pub(crate) lost: Lost,
}

impl Incoming {
    /// Who connected.
    #[must_use]
    pub const fn peer(&self) -> PeerAddress {
        self.peer
    }

    /// Whether there is a place for it. [`handshake`](Self::handshake) checks the rate of new
    /// connections, because a silent connection does not count.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        self.admission
    }

    /// The stream, once its client has sent something, and after the TLS handshake if there is one.
    /// Call it in the connection's own task, so that a slow client delays no other. Keep the
    /// [`Permit`] for as long as the connection lives. Until this returns, the place may be lost to
    /// a newer connection.
    ///
    /// # Errors
    /// The client sends nothing within [`Limits::first_byte`], there are too many like it, or the
    /// handshake fails or takes longer than [`Limits::handshake`].
    pub async fn handshake(self) -> io::Result<(Stream, Permit)> {
        let silence = self.door.limits.first_byte;
        let arrived = self.arrive(silence).await?;
        if arrived.admission != Admission::Admitted {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        arrived.place.settle();
        Ok((arrived.stream, Permit(arrived.place)))
    }

    /// The same for a protocol that can say why a connection is refused, and keeps watch on its place.
    pub(crate) async fn arrive(mut self, silence: Duration) -> io::Result<Arrived> {
        // A handshake begins with the client.
        #[cfg(feature = "tls")]
        let silence = match self.tls {
            Some(_) => silence.min(self.door.limits.handshake),
            None => silence,
        };
        tokio::select! {
            biased;
            () = &mut self.lost => return Err(io::ErrorKind::ConnectionAborted.into()),
            heard = timeout(silence, self.stream.hears()) => match heard {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            },
        }
        if self.admission == Admission::Admitted {
            let mut gates = self.door.gates.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(retry_after) = gates.admit(self.peer, Instant::now()) {
                let refusal = self.door.refusals.take();
                let refusal = refusal.ok_or(io::ErrorKind::ConnectionRefused)?;
                (self.place, self.lost) = refusal;
                self.admission = Admission::Refused { retry_after };
            }
        }
        let Self { stream, admission, place, lost, .. } = self;
        #[cfg(feature = "tls")]
        let (stream, lost) = match self.tls {
            Some(tls) => shake(stream, tls, self.door.limits.handshake, lost).await?,
            None => (stream, lost),
        };
        Ok(Arrived { stream, admission, place, lost })
    }
}

#[cfg(feature = "tls")]
async fn shake(
    stream: Stream,
    tls: ServerTls,
    limit: Duration,
    mut lost: Lost,
) -> io::Result<(Stream, Lost)> {
    tokio::select! {
        biased;
        () = &mut lost => Err(io::ErrorKind::ConnectionAborted.into()),
        shaken = timeout(limit, tls.accept(stream)) => {
            let stream = shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            Ok((Stream::Tls(Box::new(stream)), lost))
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Whether a connection may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Serve it.
    Admitted,
    /// There are too many: say so and close it.
    Refused {
        /// When another attempt has a chance.
        retry_after: Duration,
    },
}

/// A connection's place among those that are served at the same time; free again on drop.
#[derive(Debug)]
pub struct Permit(#[allow(dead_code, reason = "held")] Place);

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
