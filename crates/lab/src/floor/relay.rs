//! The null relay: Streamable HTTP to one warm stdio server. It finds the id, puts one of its own in
//! its place, and puts the caller's back. It knows nothing else of the protocol, but that a server is
//! initialized once: what it takes is what the hops of a gateway take.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcplane_process::Command;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::{READ_BYTES, next_line};
use crate::plan::CONCURRENCY_MAX;

/// What a relay runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayThreads {
    /// As many threads as a gateway has by default: what the same hops take on them.
    #[default]
    AsGateway,
    /// The one that started it, without a pool of threads and what such a pool takes to hand work
    /// around: the least that the hops can take.
    One,
}

impl RelayThreads {
    fn runtime(self) -> io::Result<Runtime> {
        if self == Self::One {
            return tokio::runtime::Builder::new_current_thread().enable_all().build();
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        // As many as the gateway has by default, and by the same variable.
        if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
            let cores = std::thread::available_parallelism();
            runtime.worker_threads(cores.map_or(1, |cores| cores.get().div_ceil(2)));
        }
        runtime.enable_all().build()
    }
}

/// Starts `command`, listens at `HOST:PORT` (a port of the system's choice by default), prints the
/// URL as the one line on stdout, and relays until the process ends. It writes what waits for the
/// server in one piece.
///
/// # Errors
/// When the command cannot be started, or the address cannot be listened at.
pub fn serve_relay(
    command: &Command,
    listen: Option<&str>,
    threads: RelayThreads,
) -> io::Result<()> {
    threads.runtime()?.block_on(async {
        let mut child = command.spawn().map_err(io::Error::other)?;
        let pipes = child.take_stdin().zip(child.take_stdout());
        let (stdin, stdout) = pipes.ok_or_else(|| io::Error::other("no pipes to the server"))?;
        let listener = TcpListener::bind(listen.unwrap_or("127.0.0.1:0")).await?;
        writeln!(io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
        let (lines, waiting) = mpsc::channel(CONCURRENCY_MAX);
        let relay =
            Arc::new(Relay { lines, pending: Mutex::default(), initialized: OnceLock::new() });
        tokio::spawn(write(stdin, waiting));
        tokio::spawn(read(stdout, Arc::clone(&relay)));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let relay = Arc::clone(&relay);
                    async move { Ok::<_, Infallible>(relay.answer(request).await) }
                });
                // A connection that breaks has nobody left to tell.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

struct Relay {
    /// Lines on their way to the server, as many as there are calls in flight at most.
    lines: mpsc::Sender<Vec<u8>>,
    pending: Mutex<Pending>,
    /// The answer to the first `initialize`, around its id.
    initialized: OnceLock<(Vec<u8>, Range<usize>)>,
}

/// Who waits for the answer with which id, and the id that it had at first.
#[derive(Default)]
struct Pending {
    last: u64,
    callers: HashMap<u64, (Vec<u8>, oneshot::Sender<Vec<u8>>)>,
}

type Reply = Response<Full<Bytes>>;

impl Relay {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let Ok(body) = request.into_body().collect().await else {
            return status(StatusCode::BAD_REQUEST);
        };
        let body = body.to_bytes();
        let Some(id) = id(&body) else {
            let _ = self.lines.send(spliced(&body, body.len()..body.len(), b"\n")).await;
            return status(StatusCode::ACCEPTED);
        };
        let initializes = memchr::memmem::find(&body, b"\"method\":\"initialize\"").is_some();
        if let (true, Some((first, place))) = (initializes, self.initialized.get()) {
            let theirs = body.get(id).unwrap_or_default();
            return json(spliced(first, place.clone(), theirs));
        }
        let (sender, receiver) = oneshot::channel();
        let ours = {
            let mut pending = self.pending();
            pending.last += 1;
            let theirs = body.get(id.clone()).unwrap_or_default().to_vec();
            let last = pending.last;
            pending.callers.insert(last, (theirs, sender));
            last
        };
        let mut line = spliced(&body, id, ours.to_string().as_bytes());
        line.push(b'\n');
        let _ = self.lines.send(line).await;
        match receiver.await {
            Ok(answer) => {
                if let (true, Some(place)) = (initializes, self::id(&answer)) {
                    let _ = self.initialized.set((answer.clone(), place));
                }
                json(answer)
            }
            Err(_) => status(StatusCode::BAD_GATEWAY),
        }
    }

    /// One line of the server. One without an id of ours is dropped.
    fn line(&self, line: &[u8]) {
        let Some(id) = id(line) else { return };
        let ours = line.get(id.clone()).and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
        let Some(caller) = ours.and_then(|ours: u64| self.pending().callers.remove(&ours)) else {
            return;
        };
        let (theirs, sender) = caller;
        // Whoever has gone no longer waits.
        let _ = sender.send(spliced(line, id, &theirs));
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes all that waits at once.
async fn write(mut stdin: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    let mut out = Vec::new();
    while let Some(line) = lines.recv().await {
        out.extend_from_slice(&line);
        while let Ok(line) = lines.try_recv() {
            out.extend_from_slice(&line);
        }
        if stdin.write_all(&out).await.is_err() {
            return;
        }
        out.clear();
    }
}

async fn read(mut stdout: impl AsyncRead + Unpin, relay: Arc<Relay>) {
    let (mut chunk, mut partial) = (vec![0; READ_BYTES], Vec::new());
    while let Ok(len @ 1..) = stdout.read(&mut chunk).await {
        partial.extend_from_slice(chunk.get(..len).unwrap_or_default());
        let mut rest = partial.as_slice();
        while let Some(line) = next_line(&mut rest) {
            relay.line(line.trim_ascii_end());
        }
        let used = partial.len() - rest.len();
        partial.drain(..used);
    }
    // Whoever still waits is told that the server is gone.
    relay.pending().callers.clear();
}

/// Where the first id of a message is, up to the comma or brace behind it.
fn id(message: &[u8]) -> Option<Range<usize>> {
    const KEY: &[u8] = b"\"id\":";
    let start = memchr::memmem::find(message, KEY)? + KEY.len();
    let rest = message.get(start..)?;
    let len = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(start..start + len)
}

/// The message with other bytes in that place.
fn spliced(message: &[u8], place: Range<usize>, with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + with.len() + 1);
    out.extend_from_slice(message.get(..place.start).unwrap_or_default());
    out.extend_from_slice(with);
    out.extend_from_slice(message.get(place.end..).unwrap_or_default());
    out
}

fn json(answer: Vec<u8>) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from(answer)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn status(code: StatusCode) -> Reply {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use tokio::runtime::RuntimeFlavor;

    use super::*;

    #[test]
    fn one_thread_is_one_without_a_pool() {
        let flavor = |threads: RelayThreads| threads.runtime().unwrap().handle().runtime_flavor();
        assert_eq!(flavor(RelayThreads::One), RuntimeFlavor::CurrentThread);
        assert_eq!(flavor(RelayThreads::AsGateway), RuntimeFlavor::MultiThread);
    }

    #[test]
    fn an_id_is_found_and_replaced() {
        let message = br#"{"jsonrpc":"2.0","id":7,"params":{"id":1}}"#;
        let place = id(message).unwrap();
        assert_eq!(&message[place.clone()], b"7");
        let other = spliced(message, place, b"1234");
        assert_eq!(other, br#"{"jsonrpc":"2.0","id":1234,"params":{"id":1}}"#);
        assert_eq!(id(br#"{"id":"a"}"#), Some(6..9));
        assert_eq!(id(br#"{"method":"x"}"#), None);
    }
}
