//! How the user is asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use url::Url;

use super::fetch::{Fetch, bare, is_loopback, is_loopback_address};
use crate::error::{Error, Kind, Result};
use crate::transport::http::Work;
use crate::transport::http::client::Pool;

/// How long [`LoopbackBrowser`] waits unless told otherwise: enough to find a second factor.
const WAIT: Duration = Duration::from_secs(5 * 60);
/// Connections that are served at once while waiting: a browser opens a few.
const CONNECTIONS_MAX: usize = 16;
/// A browser that says nothing for this long is not a browser.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The head of a request; codes are short.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long the last page gets to reach the browser.
const FAREWELL: Duration = Duration::from_millis(100);
/// Redirects that [`FollowRedirect`] follows before the one it waits for.
const REDIRECTS_MAX: usize = 5;

/// Sends the user to an authorization server and waits for the answer.
pub trait Interaction: Send + Sync + 'static {
    /// Shows the user `url`, and returns the whole URL that the user's browser was sent to: it
    /// begins with `redirect_uri`. It is checked by the caller.
    ///
    /// `url` is `https`, or `http` on this machine. Never give it to a shell.
    ///
    /// # Errors
    /// If the user did not answer; authorization fails with this error.
    fn authorize<'a>(&'a self, url: &'a Url, redirect_uri: &'a Url) -> Work<'a, Result<Url>>;
}

/// Listens on the redirect URI's port of this machine, until the browser comes back.
///
/// It does not open a browser: it passes the URL to a function that does, or that prints it.
pub struct LoopbackBrowser {
    show: Box<dyn Fn(&Url) + Send + Sync>,
    wait: Duration,
}

impl LoopbackBrowser {
    /// `show` is called with the URL once the answer can be received.
    #[must_use]
    pub fn new(show: impl Fn(&Url) + Send + Sync + 'static) -> Self {
        Self { show: Box::new(show), wait: WAIT }
    }

    /// How long to wait for the user; five minutes unless set.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    async fn answer(&self, url: &Url, redirect_uri: &Url) -> Result<Url> {
        let listeners = listen(redirect_uri).await?;
        let (sender, receiver) = oneshot::channel();
        let inbox =
            Arc::new(Inbox { base: redirect_uri.clone(), sender: Mutex::new(Some(sender)) });
        // Dropped with this future, and all that they serve with them.
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(serve(listener, Arc::clone(&inbox)));
        }
        (self.show)(url);
        match tokio::time::timeout(self.wait, receiver).await {
            Ok(Ok(answer)) => {
                tokio::time::sleep(FAREWELL).await;
                Ok(answer)
            }
            _ => Err(Error::new(Kind::TimedOut(format!(
                "no answer came back from {} within {} s",
                bare(url),
                self.wait.as_secs()
            )))),
        }
    }
}

impl Interaction for LoopbackBrowser {
    fn authorize<'a>(&'a self, url: &'a Url, redirect_uri: &'a Url) -> Work<'a, Result<Url>> {
        Box::pin(self.answer(url, redirect_uri))
    }
}

impl std::fmt::Debug for LoopbackBrowser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopbackBrowser").field("wait", &self.wait).finish_non_exhaustive()
    }
}

/// Where the answer goes, once.
struct Inbox {
    base: Url,
    sender: Mutex<Option<oneshot::Sender<Url>>>,
}

impl Inbox {
    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let answer = self.base.join(path).ok().filter(|url| {
            let asked = ["code", "error"];
            let has = url.query_pairs().any(|(name, _)| asked.contains(&name.as_ref()));
            bare(url) == bare(&self.base) && has && request.method() == Method::GET
        });
        let Some(answer) = answer else {
            return page(StatusCode::NOT_FOUND, "Nothing is here.");
        };
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        match sender.map(|sender| sender.send(answer)) {
            Some(Ok(())) => page(StatusCode::OK, "You can close this window."),
            _ => page(StatusCode::GONE, "The answer is already there. You can close this window."),
        }
    }
}

fn page(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let html = format!(
        "<!doctype html><meta charset=utf-8><title>Authorization</title>\
         <body style=\"font:1.2em system-ui;margin:4em\"><p>{text}"
    );
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (header::CONNECTION, "close"),
    ] {
        headers.insert(name, http::HeaderValue::from_static(value));
    }
    response
}

/// Every loopback address that the redirect URI's host stands for: a browser may try any of them.
async fn listen(redirect_uri: &Url) -> Result<Vec<TcpListener>> {
    let port = redirect_uri.port_or_known_default().filter(|&port| port != 0);
    let (true, "http", Some(port), Some(host)) =
        (is_loopback(redirect_uri), redirect_uri.scheme(), port, redirect_uri.host_str())
    else {
        return Err(Error::misuse(format!(
            "{redirect_uri} is not an http URL of this machine with a port, so no answer can be \
             received there; choose another redirect URI or another Interaction"
        )));
    };
    let doing = || format!("listening on {redirect_uri} for the browser");
    let host = host.trim_matches(|c| c == '[' || c == ']');
    let found = lookup_host((host, port)).await.map_err(|error| Error::io(doing(), error))?;
    let addresses: Vec<SocketAddr> = found.filter(|at| is_loopback_address(at.ip())).collect();
    let mut listeners = Vec::new();
    let mut failure = None;
    for address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => listeners.push(listener),
            Err(error) => failure = Some(error),
        }
    }
    if listeners.is_empty() {
        let none = || std::io::Error::other("its host has no address of this machine");
        return Err(Error::io(doing(), failure.unwrap_or_else(none)));
    }
    Ok(listeners)
}

async fn serve(listener: TcpListener, inbox: Arc<Inbox>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                match accepted {
                    Ok((stream, _)) => drop(connections.spawn(converse(stream, Arc::clone(&inbox)))),
                    // Out of descriptors, most likely; nothing here can free one.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, inbox: Arc<Inbox>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = inbox.respond(&request);
        async { Ok::<_, std::convert::Infallible>(response) }
    });
    // A browser that breaks off has nothing to tell.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Does not ask the user: requests the URL and takes the redirect as the answer. For authorization
/// servers that consent without a user, in tests and between machines.
#[derive(Clone)]
pub struct FollowRedirect {
    pool: Pool,
}

impl FollowRedirect {
    /// Sends its requests through this pool.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    async fn answer(&self, url: &Url, redirect_uri: &Url) -> Result<Url> {
        let fetch = Fetch::new(self.pool.clone(), url);
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let (status, next) = fetch.redirect(&at).await?;
            let Some(next) = next else {
                return Err(Error::malformed(format!(
                    "{} answers {status} instead of a redirect: it wants to ask the user",
                    bare(&at)
                )));
            };
            if bare(&next) == bare(redirect_uri) {
                return Ok(next);
            }
            at = next;
        }
        Err(Error::malformed(format!("{} redirects in circles", bare(url))))
    }
}

impl Interaction for FollowRedirect {
    fn authorize<'a>(&'a self, url: &'a Url, redirect_uri: &'a Url) -> Work<'a, Result<Url>> {
        Box::pin(self.answer(url, redirect_uri))
    }
}

impl std::fmt::Debug for FollowRedirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FollowRedirect")
    }
}
