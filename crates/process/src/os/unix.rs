//! Unix: process groups, `waitid`, and on Linux pidfds and pipe sizes.

use std::io;
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{self, Pid, WaitId, WaitIdOptions};
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;

use super::{Signal, State};

/// Where the system cannot tell us that a child ended, how often we look, in milliseconds.
const POLL_MS: u64 = 20;

/// Makes the child the leader of its own group.
pub(crate) fn isolate(command: &mut Command) {
    command.process_group(0);
}

/// Asks for [`super::PIPE_BYTES`] of room in a pipe. A refusal only costs speed.
pub(crate) fn enlarge_pipe(pipe: &impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, super::PIPE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

/// Makes writes to a pipe fail instead of wait when it is full.
pub(crate) fn never_block(pipe: &impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(pipe)?;
    Ok(rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// Looks at a child without reaping it.
pub(crate) fn state(child: &mut Child) -> State {
    look(child, WaitIdOptions::NOHANG)
}

/// Blocks until a child has ended, without reaping it.
pub(crate) fn await_end(child: &mut Child) -> State {
    look(child, WaitIdOptions::empty())
}

fn look(child: &Child, options: WaitIdOptions) -> State {
    let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match process::waitid(WaitId::Pid(pid_of(child)), options) {
            Ok(None) => return State::Running,
            Ok(Some(_)) => return State::Ended,
            Err(Errno::INTR) => {}
            Err(_) => return State::Lost,
        }
    }
}

/// Signals the group that `child` leads, and the child itself should it have left its group. The
/// caller has made sure that the child is not reaped.
pub(crate) fn signal_group(child: &mut Child, signal: Signal) {
    let number = match signal {
        Signal::Terminate => process::Signal::TERM,
        Signal::Kill => process::Signal::KILL,
    };
    let pid = pid_of(child);
    if process::kill_process_group(pid, number).is_err() || signal == Signal::Kill {
        let _ = process::kill_process(pid, number);
    }
}

/// The exit code and the signal of a reaped child.
pub(crate) fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

/// Whether the system refused a file that is no program of its own.
pub(crate) fn is_not_a_program(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOEXEC)
}

/// Whether the process or the system is out of file descriptors.
pub(crate) fn is_too_many_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// A started child has a pid above zero, so the fallback, ourselves, is never taken.
fn pid_of(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap_or_else(process::getpid)
}

/// Wakes when a child may have ended.
#[derive(Debug)]
pub(crate) struct Watch {
    #[cfg(target_os = "linux")]
    pidfd: Option<AsyncFd<OwnedFd>>,
}

impl Watch {
    /// Starts watching a child that is not reaped.
    #[cfg(target_os = "linux")]
    #[expect(
        deprecated,
        reason = "the replacement is an unsafe fn; its condition, that nobody else closes the descriptor, holds for an OwnedFd that never leaves"
    )]
    pub(crate) fn new(child: &Child) -> Self {
        let pidfd = process::pidfd_open(pid_of(child), process::PidfdFlags::NONBLOCK).ok();
        Self { pidfd: pidfd.and_then(|fd| AsyncFd::new(fd).ok()) }
    }

    /// Starts watching a child that is not reaped.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(_: &Child) -> Self {
        Self {}
    }

    /// Returns when it is worth looking again. Cancel safe: look before each call.
    pub(crate) async fn changed(&self) {
        #[cfg(target_os = "linux")]
        if let Some(pidfd) = &self.pidfd
            && let Ok(mut ready) = pidfd.readable().await
        {
            ready.clear_ready();
            return;
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}
