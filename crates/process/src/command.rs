//! What to start, and starting it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::process::{Command as StdCommand, Stdio};

use tokio::runtime::Handle;

use crate::child::Child;
use crate::environment;
use crate::error::SpawnError;
use crate::group::Group;
use crate::guard;
use crate::mark::{self, Mark};
use crate::mask::mask_words;
use crate::os;
use crate::stderr::STDERR_BYTES_DEFAULT;

/// A command to run: program, arguments, environment, folder, and what happens to its stderr.
///
/// `Display` gives the command line as one would type it, for messages, with `…` in place of
/// what is, or looks, secret in its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    /// What messages show instead.
    shown: Option<Vec<OsString>>,
    /// Names of variables, or how they begin, beside those that every child gets.
    inherit: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    cwd: Option<PathBuf>,
    stderr: Stderr,
}

/// What happens to a child's stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stderr {
    /// Drained by a task; the last `bytes_max` bytes are kept.
    Capture {
        /// The size of the ring, in bytes.
        bytes_max: usize,
    },
    /// The child writes to our own stderr.
    Inherit,
    /// Thrown away.
    Null,
}

impl Default for Stderr {
    fn default() -> Self {
        Self::Capture { bytes_max: STDERR_BYTES_DEFAULT }
    }
}

impl Command {
    /// A command that runs `program`, looked up on `PATH` unless it contains a `/`. Of our own
    /// environment it gets [`INHERITED`](crate::INHERITED), and nothing else before
    /// [`inherit_env`](Self::inherit_env).
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            shown: None,
            inherit: Vec::new(),
            env: Vec::new(),
            cwd: None,
            stderr: Stderr::default(),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Makes messages show these words in place of all arguments: the arguments as they were
    /// written, with references instead of secrets.
    #[must_use]
    pub fn shown_args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.shown = Some(args.into_iter().map(Into::into).collect());
        self
    }

    /// Passes further variables of our own environment on, as far as they are set: by name, or by a
    /// prefix and `*`. `["*"]` is all of them, with every secret in them.
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.inherit.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets one variable on top of the inherited environment.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), Some(value.into())));
        self
    }

    /// Hides one variable of the inherited environment.
    #[must_use]
    pub fn env_remove(mut self, key: impl Into<OsString>) -> Self {
        self.env.push((key.into(), None));
        self
    }

    /// Runs the command in `folder` instead of our own current folder.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Chooses what happens to the child's stderr; the default captures its last 64 KiB.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// The program and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&self.program).chain(&self.args).map(OsString::as_os_str)
    }

    /// Starts the command as the leader of a new process group.
    ///
    /// Its environment has `MCPLANE_GROUP`, which its descendants inherit. On Linux, a process that
    /// has it is killed when the group ends, even if it has left the group.
    ///
    /// The first call also starts the guard (`/bin/sh`), which ends every group of ours when this
    /// process dies; without `/bin/sh`, children are started all the same, without a guard.
    ///
    /// # Errors
    ///
    /// [`SpawnError`] says why the command did not start and what to do about it.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        let line = self.to_string();
        if Handle::try_current().is_err() {
            return Err(SpawnError::NoRuntime { command: line });
        }
        guard::prepare();
        let mark = Mark::new();
        let mut command = self.to_std();
        os::isolate(&mut command);
        if let Some(mark) = &mark {
            command.env(mark::VARIABLE, mark.as_str());
        }
        let child = command.spawn().map_err(|source| {
            SpawnError::explain(line.clone(), &self.program, self.cwd.as_deref(), source)
        })?;
        Child::adopt(line.clone(), Group::new(child, mark), self.stderr)
            .map_err(|source| SpawnError::Io { command: line, source })
    }

    fn to_std(&self) -> StdCommand {
        let mut command = StdCommand::new(&self.program);
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(match self.stderr {
            Stderr::Capture { .. } => Stdio::piped(),
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Null => Stdio::null(),
        });
        if !self.inherit.iter().any(|name| name == "*") {
            command.env_clear().envs(environment::inherited(&self.inherit));
        }
        for (key, value) in &self.env {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        if let Some(folder) = &self.cwd {
            command.current_dir(folder);
        }
        command
    }
}

/// Longest command line shown in a message, in characters; an inline script can be far longer.
const SHOWN_CHARS_MAX: usize = 200;

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = self.shown.as_ref().unwrap_or(&self.args);
        let words = std::iter::once(&self.program).chain(args);
        let words = mask_words(words.map(|word| word.to_string_lossy()));
        let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((end, _)) => write!(f, "{}…", line.get(..end).unwrap_or(&line)),
            None => f.write_str(&line),
        }
    }
}

/// One word of a command line: as it is when a shell would leave it alone, else in quotes, with
/// control characters escaped so that a message stays on one line.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,…".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let escape = |c: char| match c {
        c if c.is_control() => c.escape_default().to_string(),
        '\'' => "'\\''".to_owned(),
        c => c.to_string(),
    };
    format!("'{}'", word.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_reads_as_typed() {
        let command = Command::new("npx").args(["-y", "@scope/server", "a b", "it's", ""]);
        assert_eq!(command.to_string(), r"npx -y @scope/server 'a b' 'it'\''s' ''");
        assert_eq!(Command::new("sh").arg("a\nb").to_string(), r"sh 'a\nb'");
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let command = Command::new("npx").args(["pkg", "--token", "hunter2"]);
        assert_eq!(command.to_string(), "npx pkg --token …");
        let command = command.args(["hunter3"]).shown_args(["pkg", "${KEY}"]);
        assert_eq!(command.to_string(), "npx pkg '${KEY}'");
        let words: Vec<_> = command.words().collect();
        assert_eq!(words, ["npx", "pkg", "--token", "hunter2", "hunter3"]);
    }

    #[test]
    fn a_long_line_is_cut() {
        let shown = Command::new("é".repeat(500)).to_string();
        assert_eq!(shown.chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
