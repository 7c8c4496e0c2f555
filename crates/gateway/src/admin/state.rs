//! The states of servers and workers, and their causes, as `/admin/status` has them.

use std::fmt;
use std::time::Duration;

use mcplane::proto::error::shorten;
use mcplane::transport::process::{ExitReport, mask_urls};
use serde::Serialize;

use crate::clock;
use crate::upstream::cause::Cause;
use crate::upstream::model::Worker;
use crate::upstream::state::State;
use crate::upstream::status::{Phase, Status};

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerState {
    /// It is being started for the first time.
    Starting,
    /// It does not answer the handshake: most likely it waits for a person's approval.
    AwaitingApproval,
    /// It takes calls.
    Healthy,
    /// It takes calls, and has let some time out.
    Degraded,
    /// It has let several calls time out in a row, and gets none before it has answered a probe.
    Quarantined,
    /// It cannot be called.
    Down,
}

impl ServerState {
    pub(super) fn of(status: &Status, approval_after: Duration) -> Self {
        let awaited_at = status.approval_awaited_at(approval_after);
        match status.phase() {
            Phase::Ready => Self::Healthy,
            Phase::Degraded => Self::Degraded,
            Phase::Quarantined => Self::Quarantined,
            _ if awaited_at.is_some_and(|at| at <= clock::now()) => Self::AwaitingApproval,
            Phase::Starting { .. } | Phase::Handshaking { .. } if status.cause().is_none() => {
                Self::Starting
            }
            _ => Self::Down,
        }
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::AwaitingApproval => "awaiting approval",
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Quarantined => "quarantined",
            Self::Down => "down",
        })
    }
}

/// What a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(missing_docs, reason = "the others are those of `ServerState`")]
pub enum WorkerState {
    Starting,
    AwaitingApproval,
    Healthy,
    Degraded,
    Quarantined,
    /// It takes no more calls, and ends.
    Leaving,
    /// It is connected, and waits with the handshake for a client.
    Spare,
    Down,
}

impl WorkerState {
    pub(super) fn of(worker: &Worker, approval_after: Duration) -> Self {
        match worker.state() {
            State::Handshaking if worker.handshakes_for() >= approval_after => {
                Self::AwaitingApproval
            }
            State::Starting | State::Handshaking => Self::Starting,
            State::Healthy => Self::Healthy,
            State::Degraded => Self::Degraded,
            State::Quarantined => Self::Quarantined,
            State::Leaving => Self::Leaving,
            State::Spare => Self::Spare,
            State::Down => Self::Down,
        }
    }
}

/// Why a server is not what it should be.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CauseStatus {
    /// Its process could not be started.
    NotStarted {
        /// What the operating system says.
        error: String,
    },
    /// Its address could not be reached.
    NotReached {
        /// What the operating system or its host says.
        error: String,
    },
    /// Its connection ended.
    Ended {
        /// How.
        error: String,
        /// How its process ended; `None` if it has none.
        process: Option<ProcessEnd>,
    },
    /// The handshake failed.
    Handshake {
        /// How.
        error: String,
        /// How its process ended; `None` if it has none.
        process: Option<ProcessEnd>,
    },
    /// A worker used too much memory.
    Memory {
        /// Bytes that it used.
        used_bytes: u64,
        /// Bytes that it may use.
        max_bytes: u64,
    },
    /// Not even one of its lists could be read.
    ListsFailed {
        /// The methods that ask for those that failed.
        lists: Vec<&'static str>,
    },
}

/// How a process ended.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// Its exit code, unless a signal ended it or it still ran.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its last lines on standard error, oldest first.
    pub last_lines: Vec<String>,
}

impl CauseStatus {
    pub(super) fn of(cause: &Cause) -> Self {
        let masked = |error: &dyn fmt::Display| mask_urls(&error.to_string());
        match cause {
            Cause::NotStarted(error) => Self::NotStarted { error: masked(error) },
            Cause::NotReached(error) => Self::NotReached { error: masked(error) },
            Cause::Ended(how, report) => {
                Self::Ended { error: masked(how), process: report.as_ref().map(ProcessEnd::of) }
            }
            Cause::Handshake(error, report) => Self::Handshake {
                error: masked(error),
                process: report.as_ref().map(ProcessEnd::of),
            },
            Cause::Lost(..) => Self::Handshake { error: cause.for_operators(), process: None },
            Cause::Memory { used_bytes, max } => {
                Self::Memory { used_bytes: *used_bytes, max_bytes: max.bytes() }
            }
            Cause::ListsFailed(lists) => Self::ListsFailed {
                lists: lists.iter().map(|(kind, _)| kind.method().as_str()).collect(),
            },
        }
    }
}

impl ProcessEnd {
    fn of(report: &ExitReport) -> Self {
        let lines = report.stderr.iter().flatten();
        Self {
            code: report.exit.as_ref().and_then(|exit| exit.code),
            signal: report.exit.as_ref().and_then(|exit| exit.signal),
            last_lines: lines.map(|line| mask_urls(&shorten(line))).collect(),
        }
    }
}
