//! Where clients come in: HTTP (both eras, HTTP+SSE and WebSocket), TCP, a Unix socket, stdio.

pub mod discovery;
pub(crate) mod site;

use std::future::Future;
use std::pin::Pin;

use mcplane::Result;
use mcplane::transport::Address;
use mcplane::transport::http::server::{self as http, ConnectionLimits};
use mcplane::transport::listen::{self, Limits, Listener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::gateway::Gateway;

/// The addresses that a gateway listens on.
#[must_use = "no client is served before serve"]
pub struct Listeners {
    bound: Vec<Bound>,
    /// The first HTTP endpoint, as clients name it.
    url: Option<String>,
}

/// One of them.
enum Bound {
    /// And whether other machines can reach it.
    Http(Listener, bool),
    Lines(Listener),
    Stdio,
}

impl Listeners {
    /// Opens every address of the settings; the gateway need not run yet.
    ///
    /// # Errors
    /// The first address that cannot be listened on, and why.
    pub async fn open(config: &Config) -> Result<Self> {
        let settings = &config.gateway;
        let mut opened = Self { bound: Vec::new(), url: None };
        for listen in &settings.listen {
            // Whether an address that others can reach is wanted is the settings' own rule.
            let limits = Limits::default()
                .public(listen.is_public())
                .accepts_per_s(settings.accept_rate)
                .drain(settings.drain.duration());
            let bind = Listener::bind(listen.address(), limits);
            opened.bound.push(match listen.address() {
                Address::Http(_) => {
                    let listener = bind.await?;
                    let url = format!("http://{}/mcp", listener.local_address());
                    opened.url.get_or_insert(url);
                    Bound::Http(listener, listen.is_public())
                }
                Address::Stdio => Bound::Stdio,
                _ => Bound::Lines(bind.await?),
            });
        }
        Ok(opened)
    }

    /// The endpoint of all servers, if there is one over HTTP.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Every address, as it is written in a client's settings.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.bound
            .iter()
            .map(|bound| match bound {
                Bound::Http(listener, _) => format!("http://{}/mcp", listener.local_address()),
                Bound::Lines(listener) => listener.local_address().url(),
                Bound::Stdio => "stdio".to_owned(),
            })
            .collect()
    }

    /// Serves clients until `shutdown` completes, or the client on stdio has left; calls in flight may
    /// then finish within the settings' `drain`.
    ///
    /// Cancel safe: dropped, every listener and connection is closed.
    pub async fn serve(self, gateway: &Gateway, shutdown: impl Future<Output = ()>) {
        let (end, ended) = watch::channel(false);
        let mut serving = JoinSet::new();
        let mut of_stdio = JoinSet::new();
        for bound in self.bound {
            let mut ended = ended.clone();
            let shutdown = async move { drop(ended.wait_for(|ended| *ended).await) };
            let serve: Pin<Box<dyn Future<Output = ()> + Send>> = match bound {
                Bound::Http(listener, is_public) => {
                    let site = gateway.0.site.at(is_public);
                    Box::pin(http::serve(listener, site, ConnectionLimits::default(), shutdown))
                }
                Bound::Lines(listener) => {
                    Box::pin(listen::serve(listener, gateway.service(), shutdown))
                }
                Bound::Stdio => {
                    let service = gateway.service();
                    of_stdio.spawn(async move {
                        // A broken connection concerns only its client.
                        let _ = service.serve(mcplane::stdio()).await;
                    });
                    continue;
                }
            };
            serving.spawn(serve);
        }
        tokio::select! {
            () = shutdown => {}
            Some(_) = of_stdio.join_next() => {}
        }
        end.send_replace(true);
        while serving.join_next().await.is_some() {}
    }
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listeners").field("addresses", &self.addresses()).finish()
    }
}
