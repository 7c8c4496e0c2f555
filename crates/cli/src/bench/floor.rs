//! `mcplane __floor`: the null responder that `bench` measures a server against, and the null relay
//! that a gateway is measured against.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use mcplane_lab::{RelayThreads, Transport, Writes, serve_listening, serve_relay, serve_stdio};
use mcplane_process::Command;

/// Arguments of `mcplane __floor`.
#[derive(Clone, Debug, Args)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct FloorArgs {
    /// One write for each answer; not over HTTP and WebSocket, whose libraries decide
    #[arg(long)]
    pub plain: bool,
    /// How it is reached
    #[arg(long, value_enum, default_value_t = Way::Stdio)]
    pub transport: Way,
    /// Where it listens: HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Relay HTTP to a server over stdio, replacing nothing but ids
    #[arg(long, requires = "command", conflicts_with_all = ["plain", "transport"])]
    pub relay: bool,
    /// Relay on one thread, without a thread pool
    #[arg(long, requires = "relay")]
    pub one_thread: bool,
    /// Command that starts the server behind the relay
    #[arg(last = true, value_name = "COMMAND", requires = "relay")]
    pub command: Vec<OsString>,
}

/// How a floor is reached.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "what clap fills in")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Way {
    Stdio,
    Http,
    Sse,
    Ws,
    Tcp,
    Unix,
}

impl Way {
    const fn transport(self) -> Option<Transport> {
        match self {
            Self::Stdio => None,
            Self::Http => Some(Transport::Http),
            Self::Sse => Some(Transport::Sse),
            Self::Ws => Some(Transport::WebSocket),
            Self::Tcp => Some(Transport::Tcp),
            Self::Unix => Some(Transport::Unix),
        }
    }
}

/// Serves the floor; it ends when its input ends, the relay with the process.
///
/// # Errors
/// When its input is not a template, or its address cannot be listened at.
pub fn run(args: &FloorArgs) -> anyhow::Result<ExitCode> {
    if let (true, Some((program, rest))) = (args.relay, args.command.split_first()) {
        let command = Command::new(program).args(rest).inherit_env(["*"]);
        let threads = if args.one_thread { RelayThreads::One } else { RelayThreads::AsGateway };
        serve_relay(&command, args.listen.as_deref(), threads).context("the relay cannot serve")?;
        return Ok(ExitCode::SUCCESS);
    }
    let writes = if args.plain { Writes::PerAnswer } else { Writes::PerRead };
    match args.transport.transport() {
        None => serve_stdio(writes),
        Some(transport) => serve_listening(transport, args.listen.as_deref(), writes),
    }
    .context("the floor cannot serve")?;
    Ok(ExitCode::SUCCESS)
}
