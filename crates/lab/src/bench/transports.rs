//! The built-in server over every transport, all in one run.

use mcplane_process::Command;

use super::{Bench, Outcome};
use crate::client::{Served, Speak, Target, Transport};
use crate::error::Error;
use crate::floor::{Floor, socket_path};
use crate::plan::Plan;
use crate::results::{Environment, Missing, Report, Run};
use crate::rig::Subject;
use crate::run::run_together;

/// Each transport and the revision it is spoken in. Where a revision decides nothing but the
/// envelope, the newest.
const WAYS: [(&str, &str); 8] = [
    ("memory", "2026-07-28"),
    ("stdio", "2026-07-28"),
    ("unix", "2026-07-28"),
    ("tcp", "2026-07-28"),
    ("ws", "2026-07-28"),
    ("http", "2026-07-28"),
    ("http", "2025-11-25"),
    ("sse", "2024-11-05"),
];

impl Bench<'_> {
    /// The built-in server over every transport, for each plan in turns. What cannot be measured does
    /// not keep the others from it.
    pub(super) fn transports(&self, plans: &[Plan]) -> Outcome {
        let (mut runs, mut missing, mut failed) = (Vec::new(), Vec::new(), None);
        let socket = socket_path("fixture");
        let listen = format!("unix:{}", socket.display());
        let subjects = WAYS.map(|way| self.subject(way, &listen));
        for plan in plans {
            self.control.show(format!("every transport × {}", plan.concurrency));
            match run_together(plan, &subjects, self.control) {
                Ok(outcomes) => sort(plan, outcomes, &mut runs, &mut missing),
                Err(error) => failed = Some(error),
            }
            // The server removes it itself, unless it was killed.
            let _ = std::fs::remove_file(&socket);
            if self.control.is_stopped() || failed.is_some() {
                break;
            }
        }
        let failed = failed.or_else(|| match missing.first() {
            Some(first) => Some(Error::Unreachable { what: first.why.clone() }),
            None if runs.is_empty() => Some(Error::Interrupted),
            None => None,
        });
        Outcome { report: Report::together(Environment::look(), runs, missing), failed }
    }

    /// The server over one transport; `socket` is where it listens if that is a socket's path.
    fn subject(&self, (way, revision): (&str, &str), socket: &str) -> Subject {
        let listening = |transport: Transport, at: &str| {
            let command: Command = (self.built_in.listening)(transport, at);
            Target::Served(Served { command, transport })
        };
        let anywhere = "127.0.0.1:0";
        let target = match way {
            "memory" => self.built_in.memory.clone(),
            "stdio" => Target::Stdio(self.built_in.stdio.clone()),
            "unix" => listening(Transport::Unix, socket),
            "tcp" => listening(Transport::Tcp, anywhere),
            "ws" => listening(Transport::WebSocket, anywhere),
            "sse" => listening(Transport::Sse, anywhere),
            _ => listening(Transport::Http, anywhere),
        };
        let floor: Floor = self.floor(&target);
        // The names above are those of revisions.
        Subject { target, floor, speak: revision.parse().unwrap_or(Speak::Auto) }
    }
}

/// Sorts the outcomes of one load into runs and what is missing.
fn sort(
    plan: &Plan,
    outcomes: Vec<Result<Run, Error>>,
    runs: &mut Vec<Run>,
    missing: &mut Vec<Missing>,
) {
    for (outcome, (way, revision)) in outcomes.into_iter().zip(WAYS) {
        match outcome {
            Ok(run) => runs.push(run),
            Err(Error::Interrupted) => {}
            Err(error) => missing.push(Missing {
                target: format!("{way} {revision}"),
                concurrency: plan.concurrency * plan.sessions,
                why: error.to_string(),
            }),
        }
    }
}
