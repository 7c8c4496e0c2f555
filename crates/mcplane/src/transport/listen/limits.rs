//! Every bound of a listener, with its unit and its reason.

use std::time::Duration;

/// The bounds of a [`Listener`](super::Listener) and of what serves its connections.
///
/// ```
/// use mcplane::transport::listen::Limits;
///
/// let limits = Limits::default().connections_max(100).accepts_per_s(0);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Limits {
    pub(crate) connections_max: usize,
    pub(crate) accepts_per_s: u32,
    pub(crate) accepts_burst: u32,
    pub(crate) public: bool,
    pub(crate) any_user: bool,
    pub(crate) handshake: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Option<Duration>,
    pub(crate) stall: Duration,
    pub(crate) half_closed: Duration,
    pub(crate) drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            accepts_per_s: 100,
            accepts_burst: 200,
            public: false,
            any_user: false,
            handshake: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            idle: None,
            stall: Duration::from_secs(30),
            half_closed: Duration::from_secs(1),
            drain: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Connections at the same time; 16,384 unless set. Each costs a descriptor, a task and its
    /// buffers: make sure that the process may open as many files. When all are taken, a new
    /// connection replaces the one that has been silent, or not admitted, for longest; if there is
    /// none, it is refused itself.
    pub const fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections;
        self
    }

    /// New connections per second from one client address (for IPv6, from its /64 network), in the
    /// long run; 100 unless set, 0 for no limit. All clients together may have eight times as many.
    /// A connection counts from its first byte. A client that connects for each call is slowed down
    /// before it takes the server from the others.
    pub const fn accepts_per_s(mut self, connections: u32) -> Self {
        self.accepts_per_s = connections;
        self
    }

    /// New connections from one address at once, after a pause; 200 unless set. A fleet that
    /// restarts together should get in.
    pub const fn accepts_burst(mut self, connections: u32) -> Self {
        self.accepts_burst = connections;
        self
    }

    /// Whether an address that other machines can reach may be bound; `false` unless set.
    pub const fn public(mut self, yes: bool) -> Self {
        self.public = yes;
        self
    }

    /// Whether other users of this machine may use a Unix socket, if its file lets them; `false`
    /// unless set. Then only this process's user and root are served, whatever the mode of the
    /// file, and others are disconnected.
    pub const fn any_user(mut self, yes: bool) -> Self {
        self.any_user = yes;
        self
    }

    /// How long the handshakes of TLS and WebSocket may take, each; 10 s unless set.
    pub const fn handshake(mut self, limit: Duration) -> Self {
        self.handshake = limit;
        self
    }

    /// How long a new connection may stay silent; 30 s unless set. Without it, connections that
    /// were opened and forgotten, or never meant to speak, pile up.
    pub const fn first_byte(mut self, limit: Duration) -> Self {
        self.first_byte = limit;
        self
    }

    /// How long a connection may carry no byte in either direction before it is closed; `None`, no
    /// limit, unless set: a client that speaks lines has no other connection to come back on, and a
    /// call or a subscription may rightly be silent for long. Set it above the longest call.
    pub const fn idle(mut self, limit: Option<Duration>) -> Self {
        self.idle = limit;
        self
    }

    /// How long a client may take not a single byte of what waits for it; 30 s unless set. Answers
    /// that a client does not read take memory from the others.
    pub const fn stall(mut self, limit: Duration) -> Self {
        self.stall = limit;
        self
    }

    /// How long requests in flight may go on after the client has closed its side; 1 s unless set.
    /// TCP cannot tell a client that has gone from one that has nothing more to send
    /// (`… | nc -N host port`), so the last answers get a moment, and then everything is cancelled.
    pub const fn half_closed(mut self, limit: Duration) -> Self {
        self.half_closed = limit;
        self
    }

    /// How long connections may finish requests in flight at shutdown; 5 s unless set.
    pub const fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }
}
