//! Why nothing was measured.

use thiserror::Error as ThisError;

use crate::spec::SpecError;

/// Why a run gave no result.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Something impossible is asked for.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The server cannot be started, reached or understood.
    #[error("{what}")]
    Unreachable {
        /// Which command or address, what went wrong, and the server's last stderr lines.
        what: String,
    },
    /// The server works, but the tool cannot be measured: its call was rejected, or none fits.
    #[error("{what}\n{hint}")]
    Refused {
        /// What the server said.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// Stopped by the user before there was anything to report.
    #[error("stopped before the measurement began")]
    Interrupted,
    /// This machine refused something that the run needs.
    #[error("{what}: {source}")]
    Machine {
        /// What was asked for.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the server could not be reached or spoken to.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether what was asked for is at fault.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Spec(_))
    }

    pub(crate) fn unreachable(target: &str, what: &str) -> Self {
        Self::Unreachable { what: format!("cannot measure `{target}`: {what}") }
    }

    pub(crate) fn refused(what: impl Into<String>) -> Self {
        let hint = "choose a call that works: --tool NAME --args '{…}'".to_owned();
        Self::Refused { what: what.into(), hint }
    }
}
