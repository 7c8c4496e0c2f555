//! `mcplane connect`: a gateway for clients that can only start a program.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use mcplane::transport::Transport;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::reach::ReachArgs;

/// How long answers may still come when the client has closed its side.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Which gateway to speak to.
#[derive(Args, Debug)]
#[command(after_help = "In a client's settings:
  {\"mcpServers\": {\"mcplane\": {\"command\": \"mcplane\", \"args\": [\"connect\"]}}}
A gateway that asks for a token takes it from MCPLANE_TOKEN.")]
pub struct ConnectArgs {
    /// The endpoint, such as http://127.0.0.1:8765/mcp or http://127.0.0.1:8765/NAME/mcp
    #[arg(value_name = "URL", conflicts_with = "url")]
    given: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Passes lines on until the client closes its side.
///
/// # Errors
/// The URL is none, or standard input and output cannot be taken over.
pub async fn run(args: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let found = args.reach.find(args.given.as_deref());
    let (mut answers, mut gateway) = found.http()?.open()?;
    let (mut client, mut out) = mcplane::stdio().open().context("cannot use standard input")?;
    eprintln!("mcplane: connecting to {} (from {})", found.url, found.by);
    let up = async {
        let copied = tokio::io::copy(&mut client, &mut gateway).await;
        // The answers to what was asked still come.
        let _ = gateway.shutdown().await;
        copied
    };
    let mut up = std::pin::pin!(up);
    let mut down = std::pin::pin!(tokio::io::copy(&mut answers, &mut out));
    tokio::select! {
        asked = &mut up => {
            asked.context("reading standard input failed")?;
            let _ = timeout(LAST_ANSWERS, down).await;
        }
        answered = &mut down => {
            answered.with_context(|| found.hint())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
