//! Authorization: the client side of OAuth 2.1 as MCP profiles it, from the OAuth of 2025-03-26 to
//! 2026-07-28.
//!
//! ```no_run
//! use mcplane::auth::{LoopbackBrowser, OAuth};
//! use mcplane::transport::http::client::Pool;
//!
//! # fn run() -> mcplane::Result<()> {
//! let url = "https://mcp.example.com/mcp".parse().expect("a URL");
//! let browser = LoopbackBrowser::new(|url| eprintln!("Log in at {url}"));
//! let credentials = OAuth::new(url, Pool::new(), browser)?.client_name("My program");
//! # let _ = credentials;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing happens until the server refuses a request. Then the server's metadata leads to its
//! authorization server, the client is registered there if necessary, the user is asked, and the
//! request is sent again with the token. A token that the server no longer accepts is refreshed;
//! one whose scopes do not suffice is replaced by one whose scopes do.
//!
//! # Layout, in reading order
//!
//! * `flow` — how a refusal is handled.
//! * `challenge` — `WWW-Authenticate`.
//! * `discover` — the metadata of both servers.
//! * `register` — who this client is.
//! * `scope` — what to ask for.
//! * `authorize` — the question to the user and its answer.
//! * `interaction` — how the question reaches the user.
//! * `token` — the tokens, and where they are kept.
//! * `fetch` — requests, and where they may be sent.

mod authorize;
mod challenge;
mod discover;
mod fetch;
mod flow;
mod interaction;
mod register;
mod scope;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;
use url::Url;

pub use self::interaction::{FollowRedirect, Interaction, LoopbackBrowser};
pub use self::token::{Grant, Key, TokenStore};

use self::fetch::{Fetch, Reach, is_loopback};
use self::flow::Turn;
use self::register::{Identity, Registered};
use self::scope::Scopes;
use self::token::Memory;
use crate::error::{Error, Result};
use crate::transport::http::Work;
use crate::transport::http::client::Pool;
use crate::transport::http::client::credentials::{Credentials, Refusal};

/// Where answers come back unless told otherwise.
const REDIRECT_URI: &str = "http://localhost:33717/callback";

/// Credentials that are got by asking the user.
///
/// They are for one MCP server, and its authorization server learns nothing of any other. What is
/// fetched on the way goes over `https`, or stays on this machine if the MCP server does; it does
/// not reach into private networks unless the MCP server is in one.
pub struct OAuth {
    url: Url,
    fetch: Fetch,
    interaction: Box<dyn Interaction>,
    store: Box<dyn TokenStore>,
    extra: Scopes,
    held: Mutex<Option<Held>>,
    /// Authorizations happen one after the other.
    turn: tokio::sync::Mutex<Turn>,
}

/// The token in use.
struct Held {
    key: Key,
    grant: Grant,
    header: HeaderValue,
}

impl OAuth {
    /// Credentials for the MCP server at `url`. Metadata and tokens are fetched through `pool`;
    /// `interaction` asks the user.
    ///
    /// # Errors
    /// If a token would travel in the clear: `url` is neither `https` nor on this machine.
    pub fn new(url: Url, pool: Pool, interaction: impl Interaction) -> Result<Self> {
        Reach::of(&url).check(&url).map_err(|error| Error::misuse(error.to_string()))?;
        let redirect_uri =
            Url::parse(REDIRECT_URI).map_err(|error| Error::misuse(error.to_string()))?;
        let name = "mcplane".to_owned();
        let identity = Identity { name, redirect_uri, metadata_url: None, registered: None };
        Ok(Self {
            fetch: Fetch::new(pool, &url),
            url,
            interaction: Box::new(interaction),
            store: Box::new(Memory::default()),
            extra: Scopes::default(),
            held: Mutex::default(),
            turn: tokio::sync::Mutex::new(Turn::new(identity)),
        })
    }

    /// What users are told that asks for access; `mcplane` unless set.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.identity().name = name.into();
        self
    }

    /// A client that was registered by hand. It is used before any other way to register.
    #[must_use]
    pub fn client(mut self, id: impl Into<String>, secret: Option<String>) -> Self {
        let issuer = self.identity().registered.take().and_then(|known| known.issuer);
        let client_id = id.into();
        self.identity().registered = Some(Registered { client_id, client_secret: secret, issuer });
        self
    }

    /// The authorization server that knows the client of [`OAuth::client`]: it is shown to no
    /// other. Without this, to no other than the first one.
    #[must_use]
    pub fn client_issuer(mut self, issuer: impl Into<String>) -> Self {
        if let Some(registered) = &mut self.identity().registered {
            registered.issuer = Some(issuer.into());
        }
        self
    }

    /// Where this client's metadata document is published; used as its identifier by authorization
    /// servers that support it. The document must name the redirect URI.
    ///
    /// # Errors
    /// If it is not an `https` URL with a path.
    pub fn client_metadata_url(mut self, url: Url) -> Result<Self> {
        if url.scheme() != "https" || url.path() == "/" || url.fragment().is_some() {
            return Err(Error::misuse(format!(
                "{url} cannot identify a client: it must be https, with a path, without fragment"
            )));
        }
        self.identity().metadata_url = Some(url);
        Ok(self)
    }

    /// Where the user's browser is sent with the answer; `http://localhost:33717/callback` unless
    /// set.
    ///
    /// # Errors
    /// If it is neither on this machine nor `https`.
    pub fn redirect_uri(mut self, url: Url) -> Result<Self> {
        let safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
        if !safe || url.fragment().is_some() {
            return Err(Error::misuse(format!(
                "{url} cannot receive a code: it must be https, or http on this machine, without \
                 fragment"
            )));
        }
        self.identity().redirect_uri = url;
        Ok(self)
    }

    /// Scopes to ask for beside those that the server names.
    #[must_use]
    pub fn scopes<'a>(mut self, scopes: impl IntoIterator<Item = &'a str>) -> Self {
        self.extra = scopes.into_iter().collect();
        self
    }

    /// Where tokens are kept; in memory unless set.
    #[must_use]
    pub fn store(mut self, store: impl TokenStore) -> Self {
        self.store = Box::new(store);
        self
    }

    fn identity(&mut self) -> &mut Identity {
        &mut self.turn.get_mut().identity
    }

    fn current(&self) -> Option<(Key, Grant)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|held| (held.key.clone(), held.grant.clone()))
    }

    fn hold(&self, key: Key, grant: Grant) -> Result<()> {
        let header = grant.header()?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(Held { key, grant, header });
        Ok(())
    }
}

impl Credentials for OAuth {
    fn header(&self) -> Option<HeaderValue> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|held| held.header.clone())
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> Work<'a, Result<bool>> {
        Box::pin(self.answer(refusal))
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}
