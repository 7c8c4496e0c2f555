//! TCP: one message per line, as on stdio.
//!
//! No authentication and, without a listener's TLS, no secrecy: for this machine, or for networks
//! that have both already.
//!
//! ```no_run
//! use mcplane::transport::listen::{Limits, Listener, serve};
//! use mcplane::transport::tcp;
//! use mcplane::{Client, Server};
//!
//! # async fn run() -> mcplane::Result<()> {
//! let listener = Listener::bind(&"127.0.0.1:8765".parse()?, Limits::default()).await?;
//! let service = Server::new("demo", "1.0.0").start()?;
//! tokio::spawn(serve(listener, service, std::future::pending()));
//!
//! let transport = tcp::connect("127.0.0.1:8765").await?;
//! let client = Client::builder("me", "1.0.0").connect(transport).await?;
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{Address, Transport};
use crate::error::{Error, Kind, Result};

/// How long a connection attempt may take, over all addresses of a name.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a server.
#[derive(Debug)]
pub struct Tcp(TcpStream);

/// Connects to a server at `host:port`. Cancel safe.
///
/// # Errors
/// The address is invalid ([`Error::is_misuse`]), the connection is refused ([`Error::is_io`]), or
/// it takes longer than [`CONNECT_TIMEOUT`] ([`Error::is_timeout`]).
pub async fn connect(address: &str) -> Result<Tcp> {
    match address.parse()? {
        Address::Tcp { host, port } => dial(&host, port).await,
        _ => Err(Error::misuse(format!("`{address}` is not a TCP address"))),
    }
}

pub(super) async fn dial(host: &str, port: u16) -> Result<Tcp> {
    stream(host, port).await.map(Tcp)
}

impl Transport for Tcp {
    type Reader = OwnedReadHalf;
    type Writer = OwnedWriteHalf;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        Ok(self.0.into_split())
    }
}

/// A connected stream that sends small messages at once.
pub(crate) async fn stream(host: &str, port: u16) -> Result<TcpStream> {
    let stream = async {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    within(&format!("{host}:{port}"), stream).await
}

/// The outcome of a connection attempt, which has a limit.
pub(super) async fn within<T>(
    peer: &str,
    attempt: impl Future<Output = io::Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
        Ok(outcome) => {
            outcome.map_err(|error| Error::io(format!("cannot connect to {peer}"), error))
        }
        Err(_) => Err(Error::new(Kind::TimedOut(format!(
            "connecting to {peer}, after {} s",
            CONNECT_TIMEOUT.as_secs()
        )))),
    }
}
