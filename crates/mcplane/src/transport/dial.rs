//! Connecting to an address, whatever it is.

use std::fmt;
#[cfg(feature = "http")]
use std::sync::Arc;

#[cfg(feature = "http")]
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "http")]
use super::http::client::{Credentials, DroppedTools, Http, Pool};
use super::process::{Process, ProcessReader, Running};
use super::{Address, Losses, Transport, stdio, tcp, unix};
use crate::error::{Error, Result};
#[cfg(feature = "tls")]
use crate::transport::tls::ClientTls;

/// How servers are dialled, apart from where they are.
///
/// ```no_run
/// use mcplane::Client;
/// use mcplane::transport::Dialer;
///
/// # async fn run() -> mcplane::Result<()> {
/// let server = Dialer::new().dial(&"tcp://127.0.0.1:8765".parse()?).await?;
/// let client = Client::builder("me", "1.0.0").connect(server).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
#[non_exhaustive]
pub struct Dialer {
    #[cfg(feature = "http")]
    headers: HeaderMap,
    #[cfg(feature = "http")]
    credentials: Option<Arc<dyn Credentials>>,
    #[cfg(feature = "http")]
    pool: Pool,
    #[cfg(feature = "http")]
    is_attributed: bool,
    #[cfg(feature = "tls")]
    tls: Option<ClientTls>,
}

/// What a server says.
pub type BoxedReader = Box<dyn AsyncRead + Send + Unpin>;
/// What it is told.
pub type BoxedWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection on which nothing has been said. As a [`Transport`] it is one like any other.
#[non_exhaustive]
pub struct Dialed {
    /// What the server says.
    pub reader: BoxedReader,
    /// What it is told.
    pub writer: BoxedWriter,
    /// Its process, if it was started. Dropping it kills the process group.
    pub running: Option<Running>,
    /// Whether each line begins with the request on whose stream it came
    #[cfg_attr(feature = "http", doc = "([`Dialer::attributed`]).")]
    pub is_attributed: bool,
    /// Where to look for the tools that it offers wrongly; only over HTTP.
    #[cfg(feature = "http")]
    pub dropped_tools: Option<DroppedTools>,
    losses: Losses,
}

impl Dialer {
    /// Without headers, and with the system's authorities.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends this header with every request, and with WebSocket's handshake. It is shown in no
    /// message.
    ///
    /// # Errors
    /// [`Error::is_misuse`]: the name or the value cannot be sent.
    #[cfg(feature = "http")]
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                self.headers.append(name, value);
                Ok(self)
            }
            _ => Err(Error::misuse(format!("{name:?} cannot be sent as a header"))),
        }
    }

    /// Shows HTTP servers these.
    #[cfg(feature = "http")]
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Shares the HTTP connections of `pool`, and what it remembers of servers.
    #[cfg(feature = "http")]
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = pool;
        self
    }

    /// Trusts these authorities. Over HTTP that takes connections of its own, apart from those of the
    /// [`pool`](Self::pool) that was given before.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        #[cfg(feature = "http")]
        {
            self.pool = self.pool.tls(tls.clone());
        }
        self.tls = Some(tls);
        self
    }

    /// Over HTTP, has each line say on whose stream it came: see [`Http::attributed`].
    #[cfg(feature = "http")]
    pub const fn attributed(mut self) -> Self {
        self.is_attributed = true;
        self
    }

    /// Connects to a server, or starts it. HTTP connects with the first request. Cancel safe: given
    /// up, nothing stays open.
    ///
    /// # Errors
    /// * The address cannot be dialled, or not like this ([`Error::is_misuse`]).
    /// * Nobody answers there ([`Error::is_io`]), or not in time ([`Error::is_timeout`]).
    /// * The program does not start ([`Error::is_spawn`]).
    /// * A WebSocket server wants something else: see
    #[cfg_attr(feature = "websocket", doc = "[`websocket::connect`](super::websocket::connect).")]
    #[cfg_attr(not(feature = "websocket"), doc = "the feature `websocket`.")]
    pub async fn dial(&self, address: &Address) -> Result<Dialed> {
        #[cfg(feature = "http")]
        self.check(address)?;
        match address {
            #[cfg(feature = "http")]
            Address::Http(url) => self.http(url),
            #[cfg(feature = "websocket")]
            Address::WebSocket(url) => {
                let config = super::websocket::Config::default();
                #[cfg(feature = "tls")]
                let config = match &self.tls {
                    Some(tls) => config.tls(tls.clone()),
                    None => config,
                };
                Dialed::open(super::websocket::connect_with(url, &self.headers, &config).await?)
            }
            Address::Tcp { host, port } => Dialed::open(tcp::dial(host, *port).await?),
            Address::Unix(path) => Dialed::open(unix::connect(path).await?),
            Address::Stdio => Dialed::open(stdio::stdio()),
            Address::Process(command) => {
                let (running, reader, writer) = Process::new((**command).clone()).start()?;
                let dialed = Dialed::new(Box::new(reader), Box::new(writer));
                Ok(Dialed { running: Some(running), ..dialed })
            }
            #[cfg(not(feature = "websocket"))]
            other => Err(Error::misuse(format!("`{other}` needs another feature of mcplane"))),
        }
    }

    #[cfg(feature = "http")]
    fn http(&self, url: &str) -> Result<Dialed> {
        let mut http = Http::new(url)?.pool(self.pool.clone()).headers(self.headers.clone());
        if let Some(credentials) = &self.credentials {
            http = http.credentials(Arc::clone(credentials));
        }
        if self.is_attributed {
            http = http.attributed();
        }
        let dropped_tools = Some(http.dropped_tools());
        let is_attributed = self.is_attributed;
        Ok(Dialed { is_attributed, dropped_tools, ..Dialed::open(http)? })
    }

    #[cfg(feature = "http")]
    fn check(&self, address: &Address) -> Result<()> {
        let is_http = matches!(address, Address::Http(_));
        let has_headers = is_http || matches!(address, Address::WebSocket(_));
        if !self.headers.is_empty() && !has_headers {
            return Err(Error::misuse("only HTTP and WebSocket have headers"));
        }
        if self.credentials.is_some() && !is_http {
            return Err(Error::misuse("only HTTP servers are shown credentials"));
        }
        Ok(())
    }
}

impl Dialed {
    fn open(transport: impl Transport) -> Result<Self> {
        let (reader, writer, losses) = transport.open_telling()?;
        Ok(Self { losses, ..Self::new(Box::new(reader), Box::new(writer)) })
    }

    fn new(reader: BoxedReader, writer: BoxedWriter) -> Self {
        Self {
            reader,
            writer,
            running: None,
            is_attributed: false,
            #[cfg(feature = "http")]
            dropped_tools: None,
            losses: Losses::default(),
        }
    }
}

impl Transport for Dialed {
    type Reader = BoxedReader;
    type Writer = BoxedWriter;

    fn open(self) -> Result<(BoxedReader, BoxedWriter)> {
        let (reader, writer, _) = self.open_telling()?;
        Ok((reader, writer))
    }

    fn open_telling(self) -> Result<(BoxedReader, BoxedWriter, Losses)> {
        let reader: BoxedReader = match self.running {
            Some(running) => Box::new(ProcessReader(self.reader, Some(running))),
            None => self.reader,
        };
        Ok((reader, self.writer, self.losses))
    }
}

impl fmt::Debug for Dialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("running", &self.running).finish_non_exhaustive()
    }
}
