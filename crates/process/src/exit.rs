//! How a child ended, and the text that tells the user.

use std::fmt;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it. With neither code nor signal the status is unknown: another part
    /// of this program reaped the child, or it did not die within the bound after SIGKILL.
    pub signal: Option<i32>,
    /// The step at which it ended.
    pub rung: Rung,
}

/// The steps of the stop ladder, gentlest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rung {
    /// It ended by itself.
    Itself,
    /// It ended when its stdin was closed.
    StdinClosed,
    /// It needed SIGTERM.
    Terminated,
    /// It needed SIGKILL.
    Killed,
}

impl Exit {
    /// Whether the child ended with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}")?,
            (None, Some(signal)) => match signal_name(signal) {
                Some(name) => write!(f, "was ended by signal {signal} ({name})")?,
                None => write!(f, "was ended by signal {signal}")?,
            },
            (None, None) => f.write_str("ended with an unknown status")?,
        }
        match self.rung {
            Rung::Itself => Ok(()),
            Rung::StdinClosed => f.write_str(" after its stdin was closed"),
            Rung::Terminated => f.write_str(" after our SIGTERM"),
            Rung::Killed => f.write_str(" after our SIGKILL"),
        }
    }
}

/// A command, how it ended, and its last words: the one text that callers show to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitReport {
    /// The command line.
    pub command: String,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// Its last stderr lines, oldest first; `None` when stderr is not captured.
    pub stderr: Option<Vec<String>>,
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ", self.command)?;
        match &self.exit {
            Some(exit) => exit.fmt(f)?,
            None => f.write_str("is still running")?,
        }
        match self.stderr.as_deref() {
            None => Ok(()),
            Some([]) => f.write_str("; it wrote nothing to stderr"),
            Some(lines) => {
                f.write_str("; its last stderr lines:")?;
                lines.iter().try_for_each(|line| write!(f, "\n  | {line}"))
            }
        }
    }
}

/// The signals whose numbers agree on every Unix.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_reads_as_a_sentence() {
        let exit = Exit { code: Some(3), signal: None, rung: Rung::Itself };
        let mut report = ExitReport {
            command: "server --x".to_owned(),
            exit: Some(exit),
            stderr: Some(vec!["boom".to_owned(), "at line 1".to_owned()]),
        };
        assert_eq!(
            report.to_string(),
            "`server --x` exited with code 3; its last stderr lines:\n  | boom\n  | at line 1"
        );
        report.exit = Some(Exit { code: None, signal: Some(9), rung: Rung::Killed });
        report.stderr = Some(Vec::new());
        assert_eq!(
            report.to_string(),
            "`server --x` was ended by signal 9 (SIGKILL) after our SIGKILL; it wrote nothing to stderr"
        );
        report.exit = None;
        report.stderr = None;
        assert_eq!(report.to_string(), "`server --x` is still running");
    }
}
