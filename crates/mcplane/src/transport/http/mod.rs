//! Streamable HTTP in both eras, and the HTTP+SSE of 2024-11-05.
//!
//! * [`server`] — one endpoint that serves both eras at once.
//! * [`client`] — a transport that speaks whichever era the server does.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub(crate) mod retry_after;
#[cfg(feature = "server")]
pub mod server;

use std::future::Future;
use std::pin::Pin;

pub use ::bytes::Bytes;
pub use ::http::{HeaderMap, HeaderName, HeaderValue, Request};
pub use ::url::Url;

/// A boxed future: what [`client::Credentials`] and [`server::Authenticate`] work on.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A URL that a client can connect to: it has a host, and no user name.
pub(crate) fn absolute(text: &str) -> Result<Url, String> {
    if !text.contains("://") {
        return Err("`//` is missing behind the scheme".to_owned());
    }
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("credentials belong in a header".to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("the host is missing".to_owned());
    }
    Ok(url)
}

#[cfg_attr(
    not(all(feature = "server", feature = "websocket")),
    allow(dead_code, reason = "listeners and the clients of WebSocket ask for it")
)]
/// Where the server of a URL is: the host, without brackets, and the port.
pub(crate) fn authority(url: &Url) -> Option<(String, u16)> {
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), url.port_or_known_default()?))
}
