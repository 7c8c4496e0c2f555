//! A client before it has a connection.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use mcplane_proto::error::ErrorObject;
use mcplane_proto::limits::REQUEST_TIMEOUT;
use mcplane_proto::method::Method;
use mcplane_proto::session::{ClientConfig, EraChoice, HandshakeError, Ids};
use mcplane_proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitForm, ElicitParams, ElicitResult, ElicitUrl,
    Implementation, LogMessageParams, Root,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::drive::{Drive, EXIT_WAIT, Signal};
use super::handler::{Handlers, Notification, boxed};
use super::process::ServerProcess;
use super::state::State;
use super::{Client, Peer};
use crate::error::{Error, Kind, Result};
use crate::transport::Transport;
use crate::transport::process::{Process, Running};
use crate::transport::wire::Wire;

/// The most notifications that wait for the program's closures; further ones are dropped.
pub const NOTIFICATIONS_MAX: usize = 1024;

/// A client's name, handlers and options; [`ClientBuilder::connect`] or [`ClientBuilder::spawn`]
/// starts it.
///
/// The capabilities that it declares follow from what is set here.
#[must_use = "nothing happens before connect or spawn"]
pub struct ClientBuilder {
    info: Implementation,
    choice: EraChoice,
    timeout: Duration,
    cache: bool,
    handlers: Handlers,
    on_notification: Option<Box<dyn FnMut(Notification) + Send>>,
    on_log: Option<Box<dyn FnMut(LogMessageParams) + Send>>,
}

impl ClientBuilder {
    pub(super) fn new(info: Implementation) -> Self {
        Self {
            info,
            choice: EraChoice::Auto,
            timeout: REQUEST_TIMEOUT,
            cache: true,
            handlers: Handlers::default(),
            on_notification: None,
            on_log: None,
        }
    }

    /// The revision to speak; by default both eras are tried, the modern one first.
    pub const fn revision(mut self, choice: EraChoice) -> Self {
        self.choice = choice;
        self
    }

    /// How long to wait for each answer, including those of the handshake; by default
    /// [`REQUEST_TIMEOUT`].
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether results are kept for as long as the server says (2026-07-28); by default they are.
    pub const fn cache(mut self, cache: bool) -> Self {
        self.cache = cache;
        self
    }

    /// The roots, the folders that servers may work in. Declares `roots`.
    pub fn roots(self, roots: Vec<Root>) -> Self {
        self.handlers.set_roots(roots);
        self
    }

    /// Asks the user, through forms and at URLs. Declares both modes of `elicitation`.
    pub fn on_elicit<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitParams) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let form = Arc::clone(&handler);
        self.handlers.form = Some(boxed(move |params: ElicitForm| form(params.into())));
        self.handlers.url = Some(boxed(move |params: ElicitUrl| handler(params.into())));
        self
    }

    /// Asks the user through forms. Declares `elicitation.form`.
    pub fn on_elicit_form<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitForm) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        self.handlers.form = Some(boxed(handler));
        self
    }

    /// Sends the user to URLs, after asking for consent. Declares `elicitation.url`.
    pub fn on_elicit_url<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitUrl) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        self.handlers.url = Some(boxed(handler));
        self
    }

    /// Asks a model. Declares `sampling`. A refusal is an error; servers of the legacy eras are
    /// told ([`Code::USER_REJECTED`](mcplane_proto::error::Code::USER_REJECTED) if the user said
    /// no); in 2026-07-28 it ends the call.
    pub fn on_sample<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.handlers.sample = Some(boxed(handler));
        self
    }

    /// The handler of [`ClientBuilder::on_sample`] also lets the model use tools. Declares
    /// `sampling.tools`.
    pub const fn sampling_tools(mut self) -> Self {
        self.handlers.sampling_tools = true;
        self
    }

    /// Calls `watch` with each notification, in order and outside the connection's task. It should
    /// not block: beyond [`NOTIFICATIONS_MAX`] waiting notifications, further ones are dropped.
    pub fn on_notification(mut self, watch: impl FnMut(Notification) + Send + 'static) -> Self {
        self.on_notification = Some(Box::new(watch));
        self
    }

    /// Calls `watch` with each log message, as [`ClientBuilder::on_notification`] does.
    pub fn on_log(mut self, watch: impl FnMut(LogMessageParams) + Send + 'static) -> Self {
        self.on_log = Some(Box::new(watch));
        self
    }

    /// Opens `transport`, agrees on a revision with the server, and starts the connection's task.
    ///
    /// Cancel safe: given up, the transport is closed.
    ///
    /// # Errors
    /// The transport cannot be opened, the two sides do not agree
    /// ([`Error::is_handshake`]), or the server does not answer in time.
    pub async fn connect(self, transport: impl Transport) -> Result<Client> {
        let mut start = self.start(Wire::open(transport)?);
        match start.drive.handshake().await {
            Signal::Ready => start.ready(None),
            Signal::Respawn => Err(HandshakeError::Closed { method: Method::Discover }.into()),
            Signal::Failed(error) => Err(error.into()),
            Signal::Lost(error) => Err(error),
            Signal::End(end) => Err(Error::closed(end.to_string())),
        }
    }

    /// Starts the server's process and agrees on a revision with it. A server that exits on the
    /// probe of 2026-07-28 is started once more, and addressed in its era.
    ///
    /// Cancel safe: given up, the process group is killed.
    ///
    /// # Errors
    /// The process cannot be started ([`Error::is_spawn`]), ends or is silent
    /// ([`Error::is_closed`], [`Error::is_timeout`]: the message names the command, says how it
    /// ended and quotes its last stderr lines), or does not agree ([`Error::is_handshake`]).
    pub async fn spawn(self, process: impl Into<Process>) -> Result<Client> {
        let process = process.into();
        let (mut running, reader, writer) = process.start()?;
        let mut start = self.start(wire(reader, writer));
        loop {
            match start.drive.handshake().await {
                Signal::Ready => return start.ready(Some(running)),
                Signal::Respawn => {
                    let (again, reader, writer) = process.start()?;
                    running = again;
                    start.drive.respawned(wire(reader, writer));
                }
                Signal::Failed(error) => return Err(start.fail(error, running).await),
                Signal::Lost(error) => return Err(error),
                Signal::End(end) => return Err(Error::closed(end.to_string())),
            }
        }
    }

    fn start(self, wire: Wire) -> Start {
        let config = ClientConfig {
            info: self.info,
            capabilities: self.handlers.capabilities(),
            choice: self.choice,
            timeout: self.timeout,
            ids: Ids::default(),
        };
        let state = Arc::new(State::new(self.handlers));
        let (commands, taken) = mpsc::channel(super::COMMANDS_MAX);
        let notify = watch(self.on_notification, self.on_log);
        let drive = Drive::new(wire, config, Arc::clone(&state), taken, notify);
        Start { drive, commands, state, timeout: self.timeout, cache: self.cache }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("info", &self.info)
            .field("choice", &self.choice)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

fn wire(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Wire {
    Wire::new(Box::new(reader), Box::new(writer))
}

/// A client whose handshake is not done.
struct Start {
    drive: Drive,
    commands: mpsc::Sender<super::drive::Command>,
    state: Arc<State>,
    timeout: Duration,
    cache: bool,
}

impl Start {
    fn ready(self, running: Option<Running>) -> Result<Client> {
        let Self { drive, commands, state, timeout, cache } = self;
        let peer: Peer = drive.peer().ok_or_else(|| Error::closed("the server did not answer"))?;
        let process = running.as_ref().map(|running| ServerProcess::new(running, &state));
        tokio::spawn(drive.run(running));
        Ok(Client::new(commands, state, peer, timeout, cache, process))
    }

    /// The error that tells all there is to know about a server that cannot be spoken to.
    async fn fail(self, error: HandshakeError, mut running: Running) -> Error {
        // Also after a time limit: a process that the server left behind may hold its output open.
        if matches!(error, HandshakeError::Closed { .. } | HandshakeError::TimedOut { .. }) {
            running.ended_within(EXIT_WAIT).await;
        }
        let strays = self.state.strays();
        let said = match &strays.first {
            None => String::new(),
            Some(first) => format!(
                "; {} line(s) on its stdout are not messages, the first: {first:?}",
                strays.count
            ),
        };
        let report = running.report();
        // Its stdin closes with the drive.
        drop(self.drive);
        running.stop().await;
        match error {
            HandshakeError::Closed { method } => {
                Error::closed(format!("no answer to `{method}`{said}; {report}"))
            }
            HandshakeError::TimedOut { method, after } => Error::new(Kind::TimedOut(format!(
                "`{method}` after {} s{said}; {report}",
                after.as_secs_f64()
            ))),
            other => other.into(),
        }
    }
}

/// A task that calls the program's closures, so that they hold up nobody but each other.
fn watch(
    mut on_notification: Option<Box<dyn FnMut(Notification) + Send>>,
    mut on_log: Option<Box<dyn FnMut(LogMessageParams) + Send>>,
) -> Option<mpsc::Sender<Notification>> {
    if on_notification.is_none() && on_log.is_none() {
        return None;
    }
    let (notify, mut notified) = mpsc::channel::<Notification>(NOTIFICATIONS_MAX);
    tokio::spawn(async move {
        while let Some(notification) = notified.recv().await {
            // A panic of the program's closure must not end the ones after it.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                if let (Some(watch), Ok(Some(log))) = (&mut on_log, notification.parse()) {
                    watch(log);
                }
                if let Some(watch) = &mut on_notification {
                    watch(notification);
                }
            }));
        }
    });
    Some(notify)
}
