//! Opening a connection to an upstream, whatever it is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use mcplane::error::{Error, Result};
use mcplane::transport::http::client::Pool;
use mcplane::transport::process::{Command, Running};
use mcplane::transport::wire::Wire;
use mcplane::transport::{Address, Dialed, Dialer, Transport};

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
    /// Each line begins with the request on whose stream it came: see [`Dialer::attributed`].
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

impl TryFrom<Dialed> for Connected {
    type Error = Error;

    fn try_from(mut dialed: Dialed) -> Result<Self> {
        let (running, is_attributed) = (dialed.running.take(), dialed.is_attributed);
        Ok(Self { wire: Wire::open(dialed)?, running, is_attributed })
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
            let mut dialer = Dialer::new().pool(self.connections.clone()).attributed();
            for (name, value) in &server.headers {
                dialer = dialer.header(name, value.expose())?;
            }
            dialer.dial(&address(server)?).await?.try_into()
        })
    }
}

/// Where the server is, or how it is started.
fn address(server: &Server) -> Result<Address> {
    let Some(program) = &server.command else {
        return Address::with_scheme(server.url.as_deref().unwrap_or_default());
    };
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
    Ok(command.into())
}
