//! The calls that differ between systems, behind one small set of functions.

#[cfg(target_os = "linux")]
mod environ;
#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
pub(crate) use environ::kill_marked;
#[cfg(not(unix))]
pub(crate) use portable::*;
#[cfg(unix)]
pub(crate) use unix::*;

/// Room asked for in a child's stdin and stdout pipes, in bytes, where the system lets us choose.
///
/// Four times Linux's default, so that a burst or one large message does not cost a switch per
/// 64 KiB. Not more, because an unprivileged user may hold 64 MiB of pipes in all
/// (`pipe-user-pages-soft`): this is spent by 128 children, after which the kernel gives every new
/// pipe of that user a single page.
pub const PIPE_BYTES: usize = 256 * 1024;

/// What the system says about a child that nobody here has reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It runs.
    Running,
    /// It has ended and waits to be reaped; until then its pid cannot be given to another process.
    Ended,
    /// It is not our child any more: another part of this program has reaped it.
    Lost,
}

/// The other systems do not tell what a process was started with.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kill_marked(_: &str, _: &std::collections::BTreeSet<&[u8]>) -> crate::mark::Found {
    crate::mark::Found::Nothing
}

/// A signal to a whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Terminate,
    Kill,
}
