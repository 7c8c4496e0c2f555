//! Why a command did not start.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::os;

/// Why a command did not start. Every message names the command and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No such program.
    #[error(
        "cannot start `{command}`: there is no program `{program}`; check the spelling, install it, or give its full path"
    )]
    NotFound {
        /// The command line.
        command: String,
        /// The program that was looked for.
        program: String,
    },
    /// The program is a script whose first line names an interpreter that does not exist.
    #[error(
        "cannot start `{command}`: `{program}` exists, but the interpreter that it needs does not; install it or correct the file's first line"
    )]
    InterpreterMissing {
        /// The command line.
        command: String,
        /// The script.
        program: String,
    },
    /// The program exists but may not or cannot be executed.
    #[error(
        "cannot start `{command}`: `{program}` is not executable here; make it so (chmod +x), or check that it is built for this system"
    )]
    NotExecutable {
        /// The command line.
        command: String,
        /// The program.
        program: String,
    },
    /// The folder to run in does not exist or is not a folder.
    #[error(
        "cannot start `{command}`: its working folder `{}` is missing; create it or correct the path",
        cwd.display()
    )]
    CwdMissing {
        /// The command line.
        command: String,
        /// The folder.
        cwd: PathBuf,
    },
    /// The system has no room for another process.
    #[error(
        "cannot start `{command}`: too many processes or too little memory ({source}); stop some, or raise the limit (ulimit -u, pids.max)"
    )]
    TooManyProcesses {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// No descriptor is left for the child's pipes.
    #[error(
        "cannot start `{command}`: too many open files ({source}); close some, or raise the limit (ulimit -n)"
    )]
    TooManyFiles {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// Called outside a tokio runtime.
    #[error("cannot start `{command}` outside a tokio runtime; call spawn from inside one")]
    NoRuntime {
        /// The command line.
        command: String,
    },
    /// Anything else the system refused.
    #[error("cannot start `{command}`: {source}; check its arguments and environment")]
    Io {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SpawnError {
    /// Finds the reason behind `source`, which the system gives as a bare number.
    pub(crate) fn explain(
        command: String,
        program: &OsStr,
        cwd: Option<&Path>,
        source: io::Error,
    ) -> Self {
        if let Some(cwd) = cwd.filter(|folder| !folder.is_dir()) {
            return Self::CwdMissing { command, cwd: cwd.to_owned() };
        }
        let path = cwd.unwrap_or_else(|| Path::new("")).join(program);
        let is_file = Path::new(program).components().count() > 1 && path.is_file();
        let program = program.to_string_lossy().into_owned();
        match source.kind() {
            ErrorKind::NotFound if is_file => Self::InterpreterMissing { command, program },
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::NotFound { command, program },
            ErrorKind::PermissionDenied => Self::NotExecutable { command, program },
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory => {
                Self::TooManyProcesses { command, source }
            }
            _ if os::is_not_a_program(&source) => Self::NotExecutable { command, program },
            _ if os::is_too_many_files(&source) => Self::TooManyFiles { command, source },
            _ => Self::Io { command, source },
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    fn explained(errno: Errno) -> SpawnError {
        SpawnError::explain("x -y".to_owned(), OsStr::new("x"), None, errno.into())
    }

    #[test]
    fn the_reason_is_found_behind_the_number() {
        assert!(matches!(explained(Errno::NOENT), SpawnError::NotFound { .. }));
        assert!(matches!(explained(Errno::ACCESS), SpawnError::NotExecutable { .. }));
        assert!(matches!(explained(Errno::NOEXEC), SpawnError::NotExecutable { .. }));
        assert!(matches!(explained(Errno::AGAIN), SpawnError::TooManyProcesses { .. }));
        assert!(matches!(explained(Errno::MFILE), SpawnError::TooManyFiles { .. }));
        assert!(matches!(explained(Errno::TOOBIG), SpawnError::Io { .. }));
    }

    #[test]
    fn every_message_names_the_command() {
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::AGAIN, Errno::MFILE, Errno::TOOBIG] {
            let text = explained(errno).to_string();
            assert!(text.starts_with("cannot start `x -y`: ") && text.contains("; "), "{text}");
        }
    }
}
