//! Systems without process groups: the child alone is watched and stopped.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use super::{Signal, State};

/// How often we look whether a child has ended, in milliseconds.
const POLL_MS: u64 = 20;

pub(crate) fn isolate(_: &mut Command) {}

pub(crate) fn enlarge_pipe<T>(_: &T) {}

pub(crate) fn never_block<T>(_: &T) -> io::Result<()> {
    Ok(())
}

/// The standard library keeps the status, so that looking is harmless.
pub(crate) fn state(child: &mut Child) -> State {
    match child.try_wait() {
        Ok(None) => State::Running,
        Ok(Some(_)) => State::Ended,
        Err(_) => State::Lost,
    }
}

pub(crate) fn await_end(child: &mut Child) -> State {
    child.wait().map_or(State::Lost, |_| State::Ended)
}

/// There is no gentle signal; only the last rung does anything.
pub(crate) fn signal_group(child: &mut Child, signal: Signal) {
    if signal == Signal::Kill {
        let _ = child.kill();
    }
}

pub(crate) fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), None)
}

/// `ERROR_BAD_EXE_FORMAT` on Windows.
pub(crate) fn is_not_a_program(error: &io::Error) -> bool {
    error.raw_os_error() == Some(193)
}

/// `ERROR_TOO_MANY_OPEN_FILES` on Windows.
pub(crate) fn is_too_many_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(4)
}

#[derive(Debug)]
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn new(_: &Child) -> Self {
        Self
    }

    pub(crate) async fn changed(&self) {
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}
