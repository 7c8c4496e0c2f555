//! The credentials that a client sends to a server.

use std::fmt;

use http::{HeaderValue, StatusCode};
use url::Url;

use crate::error::Result;
use crate::transport::http::Work;

/// Gives requests their `Authorization` header, and obtains another when it is refused.
///
/// [`auth::OAuth`](crate::auth) is the one that follows the authorization chapter of the
/// specification; a fixed token is [`Bearer`].
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// The header for the next request to the server; `None` sends none. Must not block.
    fn header(&self) -> Option<HeaderValue>;

    /// The server answered 401 or 403. `true` if there are new credentials and the request should
    /// be sent again; `false` hands the refusal to the caller as
    /// [`Error::is_unauthorized`](crate::Error::is_unauthorized).
    ///
    /// Calls for one server are made one after the other: requests that were refused meanwhile
    /// look at [`Credentials::header`] again first.
    ///
    /// # Errors
    /// If authorization fails; the request ends with this error.
    fn refused<'a>(&'a self, refusal: &'a Refusal) -> Work<'a, Result<bool>>;
}

/// How a server refused a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The server's endpoint.
    pub url: Url,
    /// 401 or 403.
    pub status: StatusCode,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// The `Authorization` header of the refused request.
    pub sent: Option<HeaderValue>,
    /// The MCP method of the refused request, if it was one.
    pub method: Option<String>,
}

/// A fixed bearer token.
pub struct Bearer(HeaderValue);

impl Bearer {
    /// # Errors
    /// If the token has characters that a header must not have.
    pub fn new(token: &str) -> Result<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            crate::Error::misuse("the token has characters that a header must not have")
        })?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

impl Credentials for Bearer {
    fn header(&self) -> Option<HeaderValue> {
        Some(self.0.clone())
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> Work<'a, Result<bool>> {
        Box::pin(async { Ok(false) })
    }
}
