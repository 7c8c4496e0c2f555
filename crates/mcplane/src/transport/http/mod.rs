//! Streamable HTTP in both eras, and the HTTP+SSE of 2024-11-05.
//!
//! * [`server`] — one endpoint that serves both eras at once.
//! * [`client`] — a transport that speaks whichever era the server does.

pub mod client;
pub(crate) mod retry_after;
pub mod server;

pub use ::bytes::Bytes;
pub use ::http::{HeaderMap, HeaderName, HeaderValue, Request};
pub use ::url::Url;
