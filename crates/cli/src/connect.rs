//! `mcplane connect`: a gateway for clients that can only start a program.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use bytes::BytesMut;
use clap::Args;
use mcplane::proto::frame::lines::Lines;
use mcplane::proto::limits::MESSAGE_BYTES_MAX;
use mcplane::proto::message::{Kind, Message};
use mcplane::transport::Transport;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::endpoint::EndpointArgs;

/// How long answers may still come when the client has closed its side.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 * 1024;

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
    endpoint: EndpointArgs,
}

/// Passes lines on until the client closes its side.
///
/// # Errors
/// The URL is none, or standard input and output cannot be taken over.
pub async fn run(args: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let found = args.endpoint.find(args.given.as_deref());
    let (answers, mut gateway) = found.http()?.open()?;
    let (client, out) = mcplane::stdio().open().context("cannot use standard input")?;
    eprintln!("mcplane: connecting to {} (from {})", found.url, found.by);
    // What was asked and is not answered yet.
    let open = RefCell::new(HashSet::new());
    let asked = pass_on(client, &mut gateway, |message| {
        if let (Kind::Request, Some(id)) = (message.kind(), message.id()) {
            open.borrow_mut().insert(id);
        }
        false
    });
    let leaving = Cell::new(false);
    let answered = pass_on(answers, out, |message| {
        if let (Kind::Response | Kind::ErrorResponse, Some(id)) = (message.kind(), message.id()) {
            open.borrow_mut().remove(&id);
        }
        leaving.get() && open.borrow().is_empty()
    });
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        asked = asked => asked.context("passing on what the client says failed")?,
        answered = &mut answered => return answered.map(|()| ExitCode::SUCCESS).with_context(|| found.hint()),
    }
    leaving.set(true);
    if !open.borrow().is_empty() {
        // A gateway that is silent now is silent for ever to this client.
        let _ = timeout(LAST_ANSWERS, answered).await;
    }
    // The session ends with us.
    let _ = timeout(LAST_ANSWERS, gateway.shutdown()).await;
    Ok(ExitCode::SUCCESS)
}

/// Passes lines on, each as it came, until the stream ends or `is_last` says so of one.
async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    is_last: impl Fn(&Message) -> bool,
) -> std::io::Result<()> {
    let (mut lines, mut input) = (Lines::new(MESSAGE_BYTES_MAX), BytesMut::new());
    let mut ended = false;
    while !ended {
        input.reserve(READ_BYTES);
        ended = from.read_buf(&mut input).await? == 0;
        let mut last = false;
        loop {
            let line = match lines.next(&mut input) {
                Some(Ok(line)) => line,
                Some(Err(error)) => {
                    eprintln!("mcplane: dropped {error}");
                    continue;
                }
                None => match ended.then(|| lines.finish(&mut input)).flatten() {
                    Some(line) => line,
                    None => break,
                },
            };
            to.write_all(&line).await?;
            to.write_all(b"\n").await?;
            last |= Message::scan(line).is_ok_and(|message| is_last(&message));
        }
        to.flush().await?;
        if last {
            return Ok(());
        }
    }
    Ok(())
}
