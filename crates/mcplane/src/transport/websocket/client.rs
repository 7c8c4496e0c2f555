//! The client side.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use url::{Position, Url};

use super::frame::Role;
use super::handshake::{accept, has, key};
use super::{Config, Protocol, WebSocket};
use crate::error::{Error, Failure, Kind, Lost, Result};
use crate::transport::end::End;
use crate::transport::http::{absolute, authority, retry_after};
use crate::transport::process::mask_urls;
use crate::transport::tcp;
#[cfg(feature = "tls")]
use crate::transport::tls::ClientTls;

/// How long a server may take to answer the opening handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a refusal's body that its error quotes.
const REFUSAL_BYTES_MAX: usize = 512;

/// Connects to `ws://…` or `wss://…`, with these headers in the handshake (`Authorization`, say).
/// `wss://` needs the feature `tls`; [`Config::tls`] says whom to trust. Cancel safe.
///
/// # Errors
/// * The URL or a header is invalid ([`Error::is_misuse`]).
/// * The connection fails ([`Error::is_io`]), or takes too long ([`Error::is_timeout`]).
/// * The server answers with another status than 101, or not as RFC 6455 requires
///   ([`Error::is_malformed`]).
pub async fn connect(url: &str, headers: &HeaderMap) -> Result<WebSocket> {
    connect_with(url, headers, &Config::default()).await
}

/// As [`connect`], with other bounds, or subprotocols.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(url: &str, headers: &HeaderMap, config: &Config) -> Result<WebSocket> {
    let target = Target::parse(url)?;
    if !target.is_tls {
        let stream = tcp::stream(&target.host, target.port).await?;
        return target.shake(stream, headers, config).await;
    }
    #[cfg(feature = "tls")]
    return target.secure(headers, config).await;
    #[cfg(not(feature = "tls"))]
    return Err(Error::misuse(format!("`{}` needs the feature `tls` of mcplane", target.place())));
}

/// Where to connect to, and what to ask for there.
struct Target {
    url: Url,
    host: String,
    port: u16,
    is_tls: bool,
}

impl Target {
    fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::misuse(format!("`{}` is not a WebSocket URL: {why}", mask_urls(text)))
        };
        let url = absolute(text).map_err(|why| wrong(&why))?;
        let is_tls = match url.scheme() {
            "ws" => false,
            "wss" => true,
            _ => return Err(wrong("it begins with `ws://` or `wss://`")),
        };
        let (host, port) = authority(&url).ok_or_else(|| wrong("the port is missing"))?;
        Ok(Self { host, port, is_tls, url })
    }

    #[cfg(feature = "tls")]
    async fn secure(&self, headers: &HeaderMap, config: &Config) -> Result<WebSocket> {
        let tls = match &config.tls {
            Some(tls) => tls.clone(),
            None => ClientTls::new()?,
        };
        let stream = tcp::stream(&self.host, self.port).await?;
        let stream = tls
            .connect(&self.host, stream)
            .await
            .map_err(|error| Error::io(format!("cannot connect to {}", self.place()), error))?;
        self.shake(stream, headers, config).await
    }

    /// The opening handshake.
    async fn shake<S>(&self, stream: S, headers: &HeaderMap, config: &Config) -> Result<WebSocket>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let key = key()?;
        let request = self.request(&key, headers, config)?;
        let broken = |error: hyper::Error| {
            let error = std::io::Error::new(std::io::ErrorKind::ConnectionAborted, error);
            Error::io(format!("the WebSocket handshake with {}", self.place()), error)
        };
        let shake = async {
            let io = TokioIo::new(stream);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(io).await.map_err(broken)?;
            // Ends with this function: by itself once it is upgraded, aborted otherwise.
            let mut task = JoinSet::new();
            task.spawn(connection.with_upgrades());
            let response = sender.send_request(request).await.map_err(broken)?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(self.refused(response).await);
            }
            let protocol = self.check(&response, &key, config)?;
            let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
            let (io, never) = (TokioIo::new(upgraded), End::new(std::future::pending()));
            Ok(WebSocket::new(io, Role::Client, protocol, config, never))
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shake).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::new(Kind::TimedOut(format!(
                "the WebSocket handshake with {}, after {} s",
                self.place(),
                HANDSHAKE_TIMEOUT.as_secs()
            )))),
        }
    }

    fn request(
        &self,
        key: &str,
        extra: &HeaderMap,
        config: &Config,
    ) -> Result<Request<Empty<Bytes>>> {
        let ours = [HOST, CONNECTION, UPGRADE, CONTENT_LENGTH, TRANSFER_ENCODING];
        let taken = |name: &http::HeaderName| {
            ours.contains(name) || name.as_str().starts_with("sec-websocket-")
        };
        if let Some(name) = extra.keys().find(|name| taken(name)) {
            return Err(Error::misuse(format!("`{name}` is the handshake's own header")));
        }
        let names: Vec<_> = config.protocols.iter().map(|protocol| protocol.name()).collect();
        let mut request = Request::get(&self.url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &self.url[Position::BeforeHost..Position::AfterPort])
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, key);
        if !names.is_empty() {
            request = request.header(SEC_WEBSOCKET_PROTOCOL, names.join(", "));
        }
        let mut request = request
            .body(Empty::new())
            .map_err(|error| Error::misuse(format!("`{}`: {error}", self.url)))?;
        request.headers_mut().extend(extra.clone());
        Ok(request)
    }

    /// What RFC 6455 §4.1 wants of a server that answers 101.
    fn check<B>(&self, response: &Response<B>, key: &str, config: &Config) -> Result<Protocol> {
        let headers = response.headers();
        let wrong = |why: &str| Error::malformed(format!("{}: {why}", self.place()));
        if !has(headers, UPGRADE, "websocket") || !has(headers, CONNECTION, "upgrade") {
            return Err(wrong("it switches to something other than WebSocket"));
        }
        let answer = headers.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
        if answer != Some(accept(key).as_bytes()) {
            return Err(wrong("`Sec-WebSocket-Accept` does not answer our key"));
        }
        if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
            return Err(wrong("it uses an extension that was not offered"));
        }
        match headers.get(SEC_WEBSOCKET_PROTOCOL) {
            // As the first SDKs' servers: they speak JSON.
            None => Ok(Protocol::Json),
            Some(name) => name
                .to_str()
                .ok()
                .and_then(Protocol::named)
                .filter(|protocol| config.protocols.contains(protocol))
                .ok_or_else(|| wrong("it chose a subprotocol that was not offered")),
        }
    }

    /// The error for an answer that is not 101.
    async fn refused(&self, response: Response<Incoming>) -> Error {
        let status = response.status();
        let kind = match status.as_u16() {
            401 | 403 => Lost::Unauthorized,
            429 | 503 => Lost::Unavailable,
            _ => Lost::Status,
        };
        let wait_ms = retry_after::wait_ms(response.headers());
        let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let said = String::from_utf8_lossy(&body);
        let said = said.lines().next().unwrap_or_default().trim();
        let mut message = format!("{} answers {status} instead of a WebSocket", self.place());
        if !said.is_empty() {
            message = format!("{message}: {said}");
        }
        if let Some(wait_ms) = wait_ms {
            message = format!("{message}; try again after {} s", wait_ms / 1000);
        }
        let mut failure = Failure::new(kind, message);
        failure.status = Some(status.as_u16());
        failure.retry_after_ms = wait_ms;
        Error::new(Kind::Transport(failure))
    }

    /// The URL without what may be secret in it.
    fn place(&self) -> &str {
        &self.url[..Position::AfterPath]
    }
}
