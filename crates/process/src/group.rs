//! Who may signal a group and who may reap its leader.
//!
//! # The race, and the answer
//!
//! A process group is named by the pid of its leader. Once the leader is reaped and the group is
//! empty, the system may give that number to a stranger, and a late signal would hit it. So one
//! [`Group`] owns both rights and keeps them in order:
//!
//! * We learn that the leader has ended by *looking* (`waitid` with `WNOWAIT`, a pidfd), never by
//!   reaping. A leader that has ended but is not reaped holds its pid, so the name stays ours.
//! * [`Group::settle`] is the only place that reaps. It first kills what is left of the group,
//!   then takes the group off the guard's list, then reaps, and from then on nothing signals.
//! * Every signal is preceded by a look. Should another part of the program have reaped the leader
//!   (a `wait` for any child, SIGCHLD set to be ignored), the look says [`State::Lost`] and the
//!   group is left alone. Between that look and the signal the race remains, for such programs
//!   only: no other code can reap a child that it does not wait for.
//!
//! What has left the group is no part of this: it is found by its mark (see `mark`), once the leader
//! is reaped, and signalled in a way of its own that cannot hit a stranger.

use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::thread;

use tokio::sync::oneshot;

use crate::exit::{Exit, Rung};
use crate::guard;
use crate::mark::Mark;
use crate::os::{self, Signal, State, Watch};

/// A process group whose leader is our child, from its start until the leader is reaped.
#[derive(Debug)]
pub(crate) struct Group {
    pid: u32,
    watch: Watch,
    /// `None` once the leader is reaped; nothing is signalled after that.
    leader: Option<Child>,
    mark: Option<Mark>,
    sweep: Option<oneshot::Receiver<()>>,
}

impl Group {
    /// Takes over a leader that was just started, with this mark.
    pub(crate) fn new(leader: Child, mark: Option<Mark>) -> Self {
        let pid = leader.id();
        guard::register(pid);
        Self { pid, watch: Watch::new(&leader), leader: Some(leader), mark, sweep: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn take_pipes(
        &mut self,
    ) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        self.leader.as_mut().map_or((None, None, None), |leader| {
            (leader.stdin.take(), leader.stdout.take(), leader.stderr.take())
        })
    }

    /// Signals every member. Does nothing once the leader is reaped.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if let Some(leader) = &mut self.leader
            && os::state(leader) != State::Lost
        {
            os::signal_group(leader, signal);
        }
    }

    /// Waits until the leader has ended. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        while let Some(leader) = &mut self.leader
            && os::state(leader) == State::Running
        {
            self.watch.changed().await;
        }
    }

    /// Waits until what had left the group is killed, if the story has ended. Cancel safe.
    pub(crate) async fn swept(&mut self) {
        if let Some(sweep) = &mut self.sweep {
            let _ = sweep.await;
            self.sweep = None;
        }
    }

    /// Ends the story if the leader has ended: kills the rest of the group, reaps the leader, and
    /// has killed what had left the group.
    pub(crate) fn settle(&mut self, rung: Rung) -> Option<Exit> {
        let state = os::state(self.leader.as_mut()?);
        if state == State::Running {
            return None;
        }
        let exit = close(self.leader.take()?, state, rung);
        self.sweep = self.mark.take().map(Mark::sweep);
        Some(exit)
    }
}

impl Drop for Group {
    /// Kills the group and has the leader reaped, with or without a runtime.
    fn drop(&mut self) {
        self.signal(Signal::Kill);
        if self.settle(Rung::Killed).is_some() {
            return;
        }
        let Some(mut leader) = self.leader.take() else { return };
        let mark = self.mark.take();
        // Dying takes the leader a moment (longer with much memory), which a runtime's thread must
        // not spend. If even a thread cannot be had, the leader stays a zombie until we exit.
        let reap = move || {
            let state = os::await_end(&mut leader);
            close(leader, state, Rung::Killed);
            mark.map(Mark::sweep);
        };
        let _ = thread::Builder::new().name("mcplane-reap".to_owned()).spawn(reap);
    }
}

/// The only place that reaps; see the module's text for the order.
fn close(mut leader: Child, state: State, rung: Rung) -> Exit {
    if state == State::Ended {
        os::signal_group(&mut leader, Signal::Kill);
    }
    guard::release(leader.id());
    let status = leader.try_wait().ok().flatten();
    let (code, signal) = status.map_or((None, None), os::code_and_signal);
    Exit { code, signal, rung }
}
