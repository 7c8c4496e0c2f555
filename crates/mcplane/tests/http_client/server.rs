//! A server whose every answer is written by the test.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcplane::client::{Client, ClientBuilder, EraChoice};
use mcplane::transport::http::client::Http;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// Nothing in these tests takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// One request as the server sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// Which TCP connection it came on, from 1.
    pub(crate) connection: usize,
    pub(crate) at: std::time::Instant,
}

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// `POST initialize`, `GET`, …
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.verb, self.method()).trim_end().to_owned()
    }
}

/// What the server answers.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Pieces,
}

/// Pieces of a body as they are sent; dropped, the body breaks off or ends.
pub(crate) struct Pieces(mpsc::Receiver<Option<Bytes>>);

/// The sending end of a body.
#[derive(Clone)]
pub(crate) struct Tap(mpsc::Sender<Option<Bytes>>);

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self::body(status, "")
    }

    pub(crate) fn body(status: u16, text: &str) -> Self {
        let (tap, reply) = Self::pieces(status);
        if !text.is_empty() {
            tap.0.try_send(Some(Bytes::copy_from_slice(text.as_bytes()))).unwrap();
        }
        reply
    }

    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self::body(status, &value.to_string()).header("content-type", "application/json")
    }

    /// The result of a request.
    pub(crate) fn result(seen: &Seen, result: Value) -> Self {
        Self::json(200, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}))
    }

    pub(crate) fn error(status: u16, seen: &Seen, code: i64, data: Value) -> Self {
        let error = json!({"code": code, "message": "no", "data": data});
        Self::json(status, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
    }

    /// A whole event stream.
    pub(crate) fn events(text: &str) -> Self {
        Self::body(200, text).header("content-type", "text/event-stream")
    }

    /// An event stream that the test goes on writing.
    pub(crate) fn stream() -> (Tap, Self) {
        let (tap, reply) = Self::pieces(200);
        (tap, reply.header("content-type", "text/event-stream"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn pieces(status: u16) -> (Tap, Self) {
        let (tap, pieces) = mpsc::channel(64);
        (Tap(tap), Self { status, headers: Vec::new(), body: Pieces(pieces) })
    }
}

impl Tap {
    pub(crate) async fn send(&self, text: &str) {
        self.0.send(Some(Bytes::copy_from_slice(text.as_bytes()))).await.unwrap();
    }

    pub(crate) async fn message(&self, message: Value) {
        self.send(&format!("data: {message}\n\n")).await;
    }

    pub(crate) async fn answer(&self, seen: &Seen, result: Value) {
        self.message(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result})).await;
    }

    /// Breaks the connection inside the body.
    pub(crate) async fn cut(&self) {
        self.0.send(None).await.unwrap();
    }

    /// Comes back when the client has closed the stream.
    pub(crate) async fn closed(&self) {
        timeout(PATIENCE, self.0.closed()).await.expect("the stream stays open");
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(cx).map(|piece| {
            piece.map(|piece| {
                piece.map(Frame::data).ok_or_else(|| std::io::ErrorKind::ConnectionReset.into())
            })
        })
    }
}

type Answer = Pin<Box<dyn Future<Output = Reply> + Send>>;

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    news: Arc<Notify>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request as `script` says; `http2` from the first byte if so.
    pub(crate) async fn start<F, A>(script: F) -> Self
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = Reply> + Send + 'static,
    {
        Self::listen(false, script).await
    }

    pub(crate) async fn listen<F, A>(http2: bool, script: F) -> Self
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/mcp", listener.local_addr().unwrap()),
            seen: Arc::default(),
            news: Arc::default(),
            connections: Arc::default(),
        };
        let script: Arc<dyn Fn(Seen) -> Answer + Send + Sync> =
            Arc::new(move |seen| Box::pin(script(seen)));
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let number = accepting.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let (server, script) = (accepting.clone(), Arc::clone(&script));
                let serve = service_fn(move |request| {
                    let (server, script) = (server.clone(), Arc::clone(&script));
                    async move { Ok::<_, Infallible>(server.answer(request, number, &script).await) }
                });
                let io = TokioIo::new(stream);
                tokio::spawn(async move {
                    if http2 {
                        let builder =
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(io, serve).await;
                    } else {
                        let builder = hyper::server::conn::http1::Builder::new();
                        let _ = builder.serve_connection(io, serve).await;
                    }
                });
            }
        });
        server
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: usize,
        script: &Arc<dyn Fn(Seen) -> Answer + Send + Sync>,
    ) -> Response<Pieces> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let seen = Seen {
            verb: head.method.to_string(),
            path: head.uri.path_and_query().unwrap().to_string(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            connection,
            at: std::time::Instant::now(),
        };
        self.seen.lock().unwrap().push(seen.clone());
        self.news.notify_waiters();
        let reply = script(seen).await;
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response.body(reply.body).unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What came so far, as `POST tools/call` and so on.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }

    /// The first request of this kind, once it has come.
    pub(crate) async fn wait(&self, line: &str) -> Seen {
        self.wait_for(line, 1).await
    }

    /// The request of this kind that is number `count`, once it has come.
    pub(crate) async fn wait_for(&self, line: &str, count: usize) -> Seen {
        let wait = async {
            loop {
                let news = self.news.notified();
                if let Some(seen) =
                    self.seen().into_iter().filter(|seen| seen.line() == line).nth(count - 1)
                {
                    return seen;
                }
                news.await;
            }
        };
        let found = timeout(PATIENCE, wait).await;
        found.unwrap_or_else(|_| panic!("no {line} number {count} among {:?}", self.lines()))
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(&self.url).unwrap()
    }

    pub(crate) async fn client(&self) -> mcplane::Result<Client> {
        connect(builder(), self.http()).await
    }

    pub(crate) async fn legacy_client(&self) -> mcplane::Result<Client> {
        connect(builder().revision(EraChoice::Legacy), self.http()).await
    }
}

pub(crate) fn builder() -> ClientBuilder {
    Client::builder("test", "0.1").timeout(PATIENCE)
}

pub(crate) async fn connect(builder: ClientBuilder, http: Http) -> mcplane::Result<Client> {
    timeout(2 * PATIENCE, builder.connect(http)).await.expect("connecting hangs")
}

/// Answers `server/discover`.
pub(crate) fn discovered(seen: &Seen) -> Reply {
    Reply::result(
        seen,
        json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "1"}}}),
    )
}

/// Answers `initialize` in a session.
pub(crate) fn initialized(seen: &Seen, session: &str) -> Reply {
    Reply::result(
        seen,
        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"}}),
    )
    .header("mcp-session-id", session)
}

pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "resultType": "complete"})
}

/// What a legacy server in good order says; `None` for what the test is about.
pub(crate) fn orderly(seen: &Seen) -> Option<Reply> {
    Some(match (&*seen.verb, seen.method()) {
        ("POST", "server/discover") => Reply::error(400, seen, -32600, json!(null)),
        ("POST", "initialize") => initialized(seen, "s1"),
        ("POST", "notifications/initialized" | "notifications/cancelled") => Reply::status(202),
        ("GET", _) => Reply::status(405),
        ("DELETE", _) => Reply::status(200),
        _ => return None,
    })
}
