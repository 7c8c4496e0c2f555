//! Opening a connection to an upstream, whatever it is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::{HeaderMap, HeaderName, HeaderValue};
use mcplane::error::Result;
use mcplane::transport::http::client::{Http, Pool};
use mcplane::transport::process::{Command, Process, Running};
use mcplane::transport::wire::Wire;
use mcplane::transport::{Transport, tcp, unix, websocket};

use crate::config::Server;

/// Opens connections to upstreams. [`Programs`] does what the settings say; a program that has its
/// servers elsewhere, in itself for example, brings another one.
pub trait Connect: Send + Sync + 'static {
    /// Opens a connection for a worker of the server `name`. Called again for each worker and each
    /// restart.
    fn connect<'a>(&'a self, name: &'a str, server: &'a Server) -> Connecting<'a>;
}

/// A connection that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected>> + Send + 'a>>;

/// A connection on which nothing has been said, and the process behind it.
pub struct Connected {
    pub(crate) wire: Wire,
    pub(crate) running: Option<Running>,
    /// Each line begins with the request on whose stream it came: see [`Http::attributed`].
    pub(crate) is_attributed: bool,
}

impl Connected {
    /// A connection without a process of ours behind it.
    ///
    /// # Errors
    /// The transport cannot be opened.
    pub fn to(transport: impl Transport) -> Result<Self> {
        Ok(Self { wire: Wire::open(transport)?, running: None, is_attributed: false })
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("running", &self.running).finish_non_exhaustive()
    }
}

/// Starts programs and dials addresses, as the settings say.
#[derive(Debug, Default)]
pub struct Programs {
    /// HTTP connections, and what is remembered of HTTP servers.
    connections: Pool,
}

impl Connect for Programs {
    fn connect<'a>(&'a self, _: &'a str, server: &'a Server) -> Connecting<'a> {
        Box::pin(async move {
            match &server.command {
                Some(program) => spawn(program, server),
                None => self.dial(server).await,
            }
        })
    }
}

fn spawn(program: &str, server: &Server) -> Result<Connected> {
    let mut command = Command::new(program).args(&server.args).inherit_env(&server.inherit_env);
    if let Some(written) = &server.written_args {
        command = command.shown_args(written);
    }
    for (name, value) in &server.env {
        command = command.env(name, value.expose());
    }
    if let Some(folder) = &server.cwd {
        command = command.cwd(folder);
    }
    let (running, reader, writer) = Process::new(command).start()?;
    let wire = Wire::new(Box::new(reader) as _, Box::new(writer) as _);
    Ok(Connected { wire, running: Some(running), is_attributed: false })
}

impl Programs {
    async fn dial(&self, server: &Server) -> Result<Connected> {
        let url = server.url.as_deref().unwrap_or_default();
        let headers = server.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
        if let Some(address) = url.strip_prefix("tcp://") {
            return Connected::to(tcp::connect(address).await?);
        }
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Connected::to(unix::connect(path).await?);
        }
        if url.starts_with("ws://") || url.starts_with("wss://") {
            let headers = headers.map(|(name, value)| {
                // The settings were checked: what is no header does not come here.
                Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
            });
            let headers: HeaderMap = headers.flatten().collect();
            return Connected::to(websocket::connect(url, &headers, None).await?);
        }
        let http = Http::new(url)?.pool(self.connections.clone()).attributed();
        let connected =
            Connected::to(headers.fold(http, |http, (name, value)| http.header(name, value)))?;
        Ok(Connected { is_attributed: true, ..connected })
    }
}
