//! What a worker can do at the moment.

/// What a worker can do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Its process is being started, or a connection opened.
    Starting = 0,
    Healthy = 1,
    /// It has let a call time out; others are preferred.
    Degraded = 2,
    /// It let several time out in a row: it gets nothing before it has answered a probe.
    Quarantined = 3,
    /// It takes no more calls and ends when it is idle.
    Leaving = 4,
    Down = 5,
    /// It is connected, and waits with the handshake for its client.
    Spare = 6,
    /// It is connected, and the handshake is not done.
    Handshaking = 7,
}

impl State {
    /// Whether it is on the way to being ready.
    pub(crate) const fn is_starting(self) -> bool {
        matches!(self, Self::Starting | Self::Handshaking)
    }
}
