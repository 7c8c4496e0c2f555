//! `mcplane connect`: a gateway for clients that can only start a program.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use clap::Args;
use mcplane::proto::frame::lines::Lines;
use mcplane::proto::id::Id;
use mcplane::proto::limits::MESSAGE_BYTES_MAX;
use mcplane::proto::message::{Kind, Message};
use mcplane::proto::method::Method;
use mcplane::transport::Transport;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
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
    /// The endpoint, such as http://127.0.0.1:8765/mcp, http://127.0.0.1:8765/NAME/mcp or unix:PATH
    #[arg(value_name = "URL", conflicts_with = "url")]
    given: Option<String>,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Passes lines on until the client closes its side.
///
/// # Errors
/// The URL is invalid, or standard input and output cannot be taken over.
pub async fn run(args: &ConnectArgs) -> anyhow::Result<ExitCode> {
    let found = args.endpoint.find(args.given.as_deref());
    let (answers, gateway) = found.dial().await?.open()?;
    let (client, out) = mcplane::stdio().open().context("cannot use standard input")?;
    eprintln!("mcplane: connecting to {} (from {})", found.url, found.by);
    let (mut asking, mut answering) = (Passing::new(client, gateway), Passing::new(answers, out));
    let open = Open::default();
    let leaving = Cell::new(false);
    let asked = ask(&mut asking, &open);
    let answered = answering.until(|message| {
        if let (Kind::Response | Kind::ErrorResponse, Some(id)) = (message.kind(), message.id()) {
            open.answered(&id);
        }
        leaving.get() && open.is_empty()
    });
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        asked = asked => asked.context("passing on what the client says failed")?,
        answered = &mut answered => {
            return answered.map(|_| ExitCode::SUCCESS).with_context(|| found.hint());
        }
    }
    leaving.set(true);
    if !open.is_empty() {
        // A gateway that is silent now is silent for ever to this client.
        let _ = timeout(LAST_ANSWERS, answered).await;
    }
    // The session ends with us.
    let _ = timeout(LAST_ANSWERS, asking.to.shutdown()).await;
    Ok(ExitCode::SUCCESS)
}

/// What was asked and is not answered yet.
#[derive(Default)]
struct Open {
    ids: RefCell<HashSet<Id>>,
    answered: Notify,
}

impl Open {
    fn answered(&self, id: &Id) {
        self.ids.borrow_mut().remove(id);
        self.answered.notify_one();
    }

    /// Waits until this is answered.
    async fn wait(&self, id: &Id) {
        while self.ids.borrow().contains(id) {
            self.answered.notified().await;
        }
    }

    fn is_empty(&self) -> bool {
        self.ids.borrow().is_empty()
    }
}

/// Passes on what the client says. What it says behind an `initialize` waits for the answer, since
/// it belongs to a session that does not exist before.
async fn ask<R, W>(client: &mut Passing<R, W>, open: &Open) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let begins = Cell::new(None);
    loop {
        let is_begun = client.until(|message| {
            let (Kind::Request, Some(id)) = (message.kind(), message.id()) else { return false };
            open.ids.borrow_mut().insert(id.clone());
            let is_initialize = message.method() == Some(Method::Initialize);
            begins.set(is_initialize.then_some(id));
            is_initialize
        });
        if !is_begun.await? {
            return Ok(());
        }
        let Some(id) = begins.take() else { continue };
        let mut answered = std::pin::pin!(open.wait(&id));
        loop {
            if client.is_ended {
                // As with all that is still to come when the client has said its last.
                let _ = timeout(LAST_ANSWERS, answered).await;
                break;
            }
            tokio::select! {
                () = &mut answered => break,
                read = client.read(), if client.input.len() < MESSAGE_BYTES_MAX => read?,
            }
        }
    }
}

/// Lines on their way from one side to the other, each as it came.
struct Passing<R, W> {
    from: R,
    to: W,
    lines: Lines,
    /// What was read and is not passed on yet.
    input: BytesMut,
    is_ended: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Passing<R, W> {
    fn new(from: R, to: W) -> Self {
        let lines = Lines::new(MESSAGE_BYTES_MAX);
        Self { from, to, lines, input: BytesMut::new(), is_ended: false }
    }

    /// Reads what there is. Cancel safe.
    async fn read(&mut self) -> std::io::Result<()> {
        self.input.reserve(READ_BYTES);
        self.is_ended = self.from.read_buf(&mut self.input).await? == 0;
        Ok(())
    }

    /// Passes lines on up to the one that `is_last` accepts; `false` if the stream ends before.
    async fn until(&mut self, is_last: impl Fn(&Message) -> bool) -> std::io::Result<bool> {
        loop {
            while let Some(line) = self.line() {
                self.to.write_all(&line).await?;
                self.to.write_all(b"\n").await?;
                if Message::scan(line).is_ok_and(|message| is_last(&message)) {
                    self.to.flush().await?;
                    return Ok(true);
                }
            }
            self.to.flush().await?;
            if self.is_ended {
                return Ok(false);
            }
            self.read().await?;
        }
    }

    /// The next line that is there. One that is too long is left out.
    fn line(&mut self) -> Option<Bytes> {
        loop {
            match self.lines.next(&mut self.input) {
                Some(Ok(line)) => return Some(line),
                Some(Err(error)) => eprintln!("mcplane: dropped {error}"),
                None if self.is_ended => return self.lines.finish(&mut self.input),
                None => return None,
            }
        }
    }
}
