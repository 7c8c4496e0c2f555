//! The client of Streamable HTTP in both eras, and of the HTTP+SSE of 2024-11-05.
//!
//! ```no_run
//! use mcplane::client::Client;
//! use mcplane::transport::http::client::Http;
//!
//! # async fn example() -> mcplane::Result<()> {
//! let server = Http::new("https://mcp.example.com/mcp")?.header("x-team", "blue");
//! let client = Client::builder("example", "1.0.0").connect(server).await?;
//! let sum = client.call_tool("add", &serde_json::json!({"a": 1, "b": 2})).await?;
//! println!("{:?}", sum.content);
//! # Ok(())
//! # }
//! ```
//!
//! A probe finds the server's era, and the [`Pool`] remembers it. A server that is down, slow or
//! wants credentials is not mistaken for one of another era. A failure ends only its own request,
//! with an [`Error`] that tells what happened.
//!
//! # Layout, in reading order
//!
//! * [`Http`] — the transport (this file); [`credentials`] — who the client is.
//! * `link` — the halves that the connection's task holds: one exchange for each line.
//! * `modern`, `legacy`, `legacy_sse` — the exchanges of each era, over what they share: `shared`.
//! * `tools` — arguments that are mirrored in headers.
//! * `endpoint`, `answer` — one request past redirects and refusals; what its answer is.
//! * [`Pool`], `connect`, `body`, `verdict` — connections, and what is remembered of servers.
//! * `tasks`, `inbox` — the futures of the exchanges; the messages that wait for the reader.

mod answer;
mod body;
mod connect;
pub mod credentials;
mod endpoint;
mod inbox;
mod legacy;
mod legacy_sse;
mod link;
mod modern;
mod pool;
mod shared;
mod tasks;
mod tools;
mod verdict;

use std::sync::Arc;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Uri};
use tokio::sync::Mutex;
use url::Url;

pub use credentials::{Bearer, Credentials, Refusal};
pub use link::{Reader, Writer};
pub use pool::{CONNECT_TIME_MAX, CONNECTIONS_MAX, IDLE_MAX, IDLE_TIME_MAX, Pool, PoolLimits};
pub use tools::{DROPPED_TOOLS_MAX, DroppedTool, MIRRORED_TOOLS_MAX};
pub use verdict::{LEGACY_VERDICT_TIME, VERDICTS_MAX};

use endpoint::Endpoint;
use inbox::Inbox;
use shared::Shared;
use tools::Tools;

use crate::error::{Error, Result};
use crate::transport::http::absolute;
use crate::transport::process::mask_urls;
use crate::transport::{Losses, Transport};

/// A server behind an `http` or `https` URL.
#[derive(Debug)]
#[must_use = "nothing happens before a client connects"]
pub struct Http {
    url: Url,
    uri: Uri,
    headers: HeaderMap,
    credentials: Option<Arc<dyn Credentials>>,
    pool: Pool,
    tools: Arc<Tools>,
    is_attributed: bool,
    problem: Option<Error>,
}

impl Http {
    /// # Errors
    /// [`Error::is_misuse`] for anything other than an absolute `http` or `https` URL without a
    /// user name.
    pub fn new(url: &str) -> Result<Self> {
        let misuse =
            |why: &str| Error::misuse(format!("`{}` is not an HTTP URL: {why}", mask_urls(url)));
        let mut parsed = absolute(url).map_err(|why| misuse(&why))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(misuse("it begins with `http://` or `https://`"));
        }
        parsed.set_fragment(None);
        let uri = Uri::try_from(parsed.as_str()).map_err(|error| misuse(&error.to_string()))?;
        Ok(Self {
            url: parsed,
            uri,
            headers: HeaderMap::new(),
            credentials: None,
            pool: Pool::new(),
            tools: Arc::default(),
            is_attributed: false,
            problem: None,
        })
    }

    /// Sends this header with every request. One that cannot be sent is reported when the client
    /// connects.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => {
                self.headers.append(name, value);
            }
            _ => self.problem = Some(Error::misuse(format!("{name:?} cannot be sent as a header"))),
        }
        self
    }

    pub(crate) fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sends these credentials; [`Bearer`] is a fixed token.
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Shares the connections of `pool`, and what it remembers of servers.
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = pool;
        self
    }

    /// Uses this TLS configuration, with connections of its own: for an authority that the system
    /// does not know.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::transport::tls::ClientTls) -> Self {
        self.pool = self.pool.tls(tls);
        self
    }

    /// Marks each line that the reader returns with the stream that it came on: the line begins
    /// with the integer id of that request, or `-` for none, and a space. This is for relaying
    /// the messages of several clients over one connection: a question in a call does not name the
    /// call, but comes on the stream of its request (2025-11-25, basic/transports).
    /// [`Client`](crate::Client) does not understand such lines.
    pub const fn attributed(mut self) -> Self {
        self.is_attributed = true;
        self
    }

    /// The tools that a client does not show, once it has connected.
    #[must_use]
    pub fn dropped_tools(&self) -> DroppedTools {
        DroppedTools(Arc::clone(&self.tools))
    }
}

impl Transport for Http {
    type Reader = Reader;
    type Writer = Writer;

    fn open(self) -> Result<(Reader, Writer)> {
        Ok(link::open(self.shared()?))
    }

    fn open_telling(self) -> Result<(Reader, Writer, Losses)> {
        let (reader, writer) = link::open(self.shared()?);
        let losses = reader.losses();
        Ok((reader, writer, losses))
    }
}

impl Http {
    fn shared(self) -> Result<Shared> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let endpoint = Endpoint {
            url: self.url,
            uri: self.uri,
            headers: self.headers,
            credentials: self.credentials,
            pool: self.pool,
            refused: Mutex::new(()),
        };
        let inbox = Inbox::new(self.is_attributed);
        Ok(Shared::new(endpoint, self.tools, inbox))
    }
}

/// The tools that a server of 2026-07-28 lists with an `x-mcp-header` that is not valid: they are
/// left out of what [`Client::list_tools`](crate::Client::list_tools) gives.
#[derive(Clone, Debug)]
pub struct DroppedTools(Arc<Tools>);

impl DroppedTools {
    /// At most [`DROPPED_TOOLS_MAX`] so far.
    #[must_use]
    pub fn list(&self) -> Vec<DroppedTool> {
        self.0.dropped()
    }
}
