//! The server's process, as the client's handles see it.

use std::sync::Arc;

use mcplane_process::{ExitReport, StderrTail};

use super::state::State;
use crate::transport::process::{Running, STDERR_LINES};

/// The process of a server that [`ClientBuilder::spawn`](super::ClientBuilder::spawn) started.
#[derive(Clone, Debug)]
pub struct ServerProcess {
    pid: u32,
    command: String,
    stderr: Option<StderrTail>,
    state: Arc<State>,
}

impl ServerProcess {
    pub(super) fn new(running: &Running, state: &Arc<State>) -> Self {
        Self {
            pid: running.pid(),
            command: running.report().command,
            stderr: running.stderr(),
            state: Arc::clone(state),
        }
    }

    /// Its id, which is also the id of its process group.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The command line, for messages.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Its last stderr lines, oldest first; empty unless stderr is captured.
    #[must_use]
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.as_ref().map(|tail| tail.tail(STDERR_LINES)).unwrap_or_default()
    }

    /// How it ended; `None` while it runs or is being stopped.
    #[must_use]
    pub fn exit(&self) -> Option<ExitReport> {
        self.state.exit()
    }
}
