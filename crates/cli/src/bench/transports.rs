//! `mcplane bench --transports`: the built-in fixture over every transport, all in one run.

use std::path::{Path, PathBuf};

use mcplane_lab::report::{Missing, Run};
use mcplane_lab::{Entry, Error, Floor, Plan, Served, Speak, Target, Transport, socket_path};
use mcplane_process::Command;

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

/// What is measured in turns, and the socket that lies in a folder meanwhile.
pub(super) struct Matrix {
    pub(super) entries: Vec<Entry>,
    socket: PathBuf,
}

impl Matrix {
    /// The fixture over every transport; `me` is this program, `floor` what starts a floor.
    pub(super) fn new(me: &Path, memory: &Target, floor: &Floor) -> Self {
        let socket = socket_path("fixture");
        let fixture = |transport: Transport, listen: String| {
            let listen =
                ["--listen".to_owned(), listen, "--accept-rate".to_owned(), "0".to_owned()];
            let words = ["fixture", "--transport", transport.as_str()];
            let command = Command::new(me).args(words).args(listen).inherit_env(["*"]);
            Target::Served(Served { command, transport })
        };
        let anywhere = || "127.0.0.1:0".to_owned();
        let entry = |(way, revision): (&str, &str)| {
            let target = match way {
                "memory" => memory.clone(),
                "stdio" => Target::Stdio(Command::new(me).arg("fixture").inherit_env(["*"])),
                "unix" => fixture(Transport::Unix, format!("unix:{}", socket.display())),
                "tcp" => fixture(Transport::Tcp, anywhere()),
                "ws" => fixture(Transport::WebSocket, anywhere()),
                "sse" => fixture(Transport::Sse, anywhere()),
                _ => fixture(Transport::Http, anywhere()),
            };
            let in_process = matches!(target, Target::Memory(_));
            let floor = match floor {
                Floor::Process(_) if in_process => Floor::Memory,
                other => other.clone(),
            };
            // The names above are those of revisions.
            Entry { target, floor, speak: revision.parse().unwrap_or(Speak::Auto) }
        };
        Self { entries: WAYS.map(entry).into(), socket }
    }

    /// Sorts the outcomes of one load into runs and what is missing.
    pub(super) fn sort(
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
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // The fixture removes it itself, unless it was killed.
        let _ = std::fs::remove_file(&self.socket);
    }
}
