//! A running child: its pipes, waiting for it, and stopping it in steps.

use std::io;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::command::Stderr;
use crate::exit::{Exit, ExitReport, Rung};
use crate::group::Group;
use crate::os::{self, Signal};
use crate::stderr::StderrTail;

/// How long a killed child may take to die, in milliseconds. Only one that is stuck inside the
/// kernel (a dead network file system) needs more; it is left to a thread that reaps it.
const KILL_MS_MAX: u64 = 5_000;

/// How long we wait for the rest of stderr after the child has ended, in milliseconds. Only a
/// process that has left the group can hold the pipe open for longer.
const STDERR_MS_MAX: u64 = 250;

/// How long we wait until what has left the group is killed, in milliseconds: enough where ten
/// thousand processes run. The sweep goes on all the same.
const SWEEP_MS_MAX: u64 = 1_000;

/// A child process and the group that it leads.
///
/// Dropping it kills the whole group with SIGKILL and reaps the child, even outside a runtime. On
/// Linux, what has left the group is killed with it.
#[derive(Debug)]
pub struct Child {
    command: String,
    group: Group,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<StderrTail>,
    drain: Option<JoinHandle<()>>,
    exit: Option<Exit>,
}

impl Child {
    /// Takes over a group that was just started. On an error the group is killed.
    pub(crate) fn adopt(command: String, mut group: Group, policy: Stderr) -> io::Result<Self> {
        let (stdin, stdout, stderr) = group.take_pipes();
        stdin.iter().for_each(os::enlarge_pipe);
        stdout.iter().for_each(os::enlarge_pipe);
        let stdin = stdin.map(ChildStdin::from_std).transpose()?;
        let stdout = stdout.map(ChildStdout::from_std).transpose()?;
        let mut child =
            Self { command, group, stdin, stdout, stderr: None, drain: None, exit: None };
        if let (Stderr::Capture { bytes_max }, Some(pipe)) = (policy, stderr) {
            let tail = StderrTail::new(bytes_max);
            child.drain = Some(tokio::spawn(tail.clone().drain(ChildStderr::from_std(pipe)?)));
            child.stderr = Some(tail);
        }
        Ok(child)
    }

    /// The child's process id, which is also the id of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.group.pid()
    }

    /// The command line, for messages.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Takes the writing end of the child's stdin; `None` the second time. The caller must close
    /// it, by dropping it, before [`Child::stop`]; otherwise the first step does nothing.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the reading end of the child's stdout; `None` the second time.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// What the child writes to stderr; `None` unless it is captured.
    #[must_use]
    pub fn stderr(&self) -> Option<StderrTail> {
        self.stderr.clone()
    }

    /// Waits for the child to end, however long that takes, then kills what it left in its group.
    /// Does not close its stdin. Cancel safe.
    pub async fn wait(&mut self) -> Exit {
        self.wait_as(Rung::Itself).await
    }

    /// How the child ended, or `None` while it runs. Kills what it left in its group. The end of
    /// its stderr may not have arrived yet; [`Child::wait`] waits for it.
    pub fn try_wait(&mut self) -> Option<Exit> {
        self.settle(Rung::Itself)
    }

    /// Stops the child: closes its stdin (if still held here), sends SIGTERM to the group, then
    /// SIGKILL; after each of the first two it waits up to `grace`. Returns how the child ended and
    /// which step that took. What it left in its group is killed. On a system without signals, only
    /// the first and the last step exist.
    ///
    /// If cancelled, it stays at the step reached; call again to start over, or drop the child.
    pub async fn stop(&mut self, grace: Duration) -> Exit {
        if self.try_wait().is_some() {
            return self.wait().await;
        }
        self.stdin = None;
        if let Ok(exit) = timeout(grace, self.wait_as(Rung::StdinClosed)).await {
            return exit;
        }
        self.group.signal(Signal::Terminate);
        if let Ok(exit) = timeout(grace, self.wait_as(Rung::Terminated)).await {
            return exit;
        }
        self.kill().await
    }

    /// Kills the group with SIGKILL at once and reaps the child.
    pub async fn kill(&mut self) -> Exit {
        if self.try_wait().is_none() {
            self.group.signal(Signal::Kill);
        }
        let bound = Duration::from_millis(KILL_MS_MAX);
        let unknown = Exit { code: None, signal: None, rung: Rung::Killed };
        timeout(bound, self.wait_as(Rung::Killed)).await.unwrap_or(unknown)
    }

    /// The command, how it ended, and its last `lines_max` stderr lines, ready to print.
    #[must_use]
    pub fn report(&self, lines_max: usize) -> ExitReport {
        ExitReport {
            command: self.command.clone(),
            exit: self.exit,
            stderr: self.stderr.as_ref().map(|tail| tail.tail(lines_max)),
        }
    }

    async fn wait_as(&mut self, rung: Rung) -> Exit {
        loop {
            self.group.ended().await;
            if let Some(exit) = self.settle(rung) {
                self.finish_stderr().await;
                let _ = timeout(Duration::from_millis(SWEEP_MS_MAX), self.group.swept()).await;
                return exit;
            }
        }
    }

    fn settle(&mut self, rung: Rung) -> Option<Exit> {
        self.exit = self.exit.or_else(|| self.group.settle(rung));
        self.exit
    }

    /// Lets the last words arrive, then closes the pipe whoever else may still hold it.
    async fn finish_stderr(&mut self) {
        if let Some(drain) = &mut self.drain {
            let _ = timeout(Duration::from_millis(STDERR_MS_MAX), &mut *drain).await;
            drain.abort();
            self.drain = None;
        }
    }
}

impl Drop for Child {
    /// The group dies with its own drop; the task that drains stderr ends here.
    fn drop(&mut self) {
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}
