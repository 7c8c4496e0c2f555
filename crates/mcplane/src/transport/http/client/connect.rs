//! One connection: TCP, perhaps TLS, and which HTTP it speaks.

use std::io;
#[cfg(feature = "tls")]
use std::sync::OnceLock;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use super::pool::{Dial, Origin};
#[cfg(feature = "tls")]
use crate::transport::tls::ClientTls;

/// Largest header block of an answer, in bytes.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// The sending end of a connection; hyper's task at the other end does the reading and writing.
pub(super) enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Whether several requests may be on their way at once.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Another sending end of a shared connection; `None` for HTTP/1.
    pub(super) fn share(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    /// Waits until a request can be sent.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

/// Connects and starts the task that drives the connection.
pub(super) async fn connect(origin: &Origin, dial: &Dial) -> io::Result<Connection> {
    let host = origin.authority.host();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = origin.authority.port_u16().unwrap_or(if origin.tls { 443 } else { 80 });
    let tcp = tcp(host, port, dial).await?;
    if origin.tls {
        return secure(host, tcp, dial).await;
    }
    start(tcp, dial.http2).await
}

/// The first address that takes a connection.
async fn tcp(host: &str, port: u16, dial: &Dial) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host((host, port)).await? {
        if dial.allows.is_some_and(|allows| !allows(address.ip())) {
            let why = format!("{host} is at {}, where this request must not go", address.ip());
            last = io::Error::new(io::ErrorKind::PermissionDenied, why);
            continue;
        }
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_nodelay(true)?;
        // An event stream may be silent for long: only the system can tell that its peer is gone.
        socket.set_keepalive(true)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(feature = "tls")]
async fn secure(host: &str, tcp: TcpStream, dial: &Dial) -> io::Result<Connection> {
    let offered: &[&str] = if dial.http2 { &["h2"] } else { &["h2", "http/1.1"] };
    let tls = dial.tls.clone().map_or_else(system, Ok)?;
    let stream = tls.alpn(offered).connect(host, tcp).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    start(stream, http2).await
}

/// Trusts the authorities that the system trusts; they are looked up once.
#[cfg(feature = "tls")]
fn system() -> io::Result<ClientTls> {
    static SYSTEM: OnceLock<ClientTls> = OnceLock::new();
    match SYSTEM.get() {
        Some(tls) => Ok(tls.clone()),
        None => {
            let tls = ClientTls::new().map_err(io::Error::other)?;
            Ok(SYSTEM.get_or_init(|| tls).clone())
        }
    }
}

#[cfg(not(feature = "tls"))]
async fn secure(_: &str, _: TcpStream, _: &Dial) -> io::Result<Connection> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this build has no TLS (feature `tls`)"))
}

async fn start<I>(io: I, http2: bool) -> io::Result<Connection>
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(io);
    if http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_header_list_size(HEADER_BYTES_MAX as u32);
        let (sender, connection) = builder.handshake(io).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        return Ok(Connection::Http2(sender));
    }
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES_MAX);
    let (sender, connection) = builder.handshake(io).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(Connection::Http1(sender))
}

/// Most bytes that hyper reads ahead on an HTTP/1 connection; it bounds the headers too.
const BUFFER_BYTES_MAX: usize = 400 * 1024;
