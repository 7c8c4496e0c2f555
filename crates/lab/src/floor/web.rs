//! The floor over HTTP: hyper and nothing else, one thread. Over WebSocket: its library and nothing
//! else.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::TcpListener as StdListener;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream as _;
use futures_sink::Sink as _;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_websockets::{Message, ServerBuilder};

use super::Responder;
use crate::client::{SUBPROTOCOL, Transport};

/// Answers of one event stream that wait to be written. Its client has that many calls in flight at
/// most.
const EVENTS_MAX: usize = crate::plan::CONCURRENCY_MAX;

/// Serves until the process ends.
pub(super) fn serve(
    listener: StdListener,
    responder: Responder,
    transport: Transport,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let floor =
            Arc::new(Floor { responder, streams: Mutex::default(), last: AtomicU64::new(0) });
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let floor = Arc::clone(&floor);
            match transport {
                Transport::WebSocket => tokio::spawn(web_socket(stream, floor)),
                _ => tokio::spawn(connection(stream, floor, transport)),
            };
        }
    })
}

struct Floor {
    responder: Responder,
    /// The event streams of HTTP+SSE, by the number in their endpoint.
    streams: Mutex<HashMap<String, mpsc::Sender<Bytes>>>,
    last: AtomicU64,
}

type Reply = Response<Either<Full<Bytes>, Events>>;

async fn connection(stream: TcpStream, floor: Arc<Floor>, transport: Transport) {
    let service = service_fn(|request| {
        let floor = Arc::clone(&floor);
        async move {
            Ok::<_, Infallible>(match transport {
                Transport::Sse => floor.sse(request).await,
                _ => floor.answer(request).await,
            })
        }
    });
    // A connection that breaks has nobody left to tell.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Floor {
    /// One POST of Streamable HTTP, answered with JSON.
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let Ok(body) = request.into_body().collect().await else { return status(400) };
        match self.responder.reply(&body.to_bytes()) {
            Some(reply) => {
                let mut response = Response::new(Either::Left(Full::new(Bytes::from(reply))));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                response
            }
            None => status(202),
        }
    }

    /// The event stream, or a POST whose answer goes there.
    async fn sse(&self, request: Request<Incoming>) -> Reply {
        if request.method() == Method::GET {
            let name = self.last.fetch_add(1, Ordering::Relaxed).to_string();
            let (sender, receiver) = mpsc::channel(EVENTS_MAX);
            let first = format!("event: endpoint\ndata: /message?s={name}\n\n");
            // The channel is empty.
            let _ = sender.try_send(first.into());
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|_, sender| !sender.is_closed());
            streams.insert(name, sender);
            drop(streams);
            let mut response = Response::new(Either::Right(Events(receiver)));
            let events = HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(CONTENT_TYPE, events);
            return response;
        }
        let name = request.uri().query().and_then(|query| query.strip_prefix("s="));
        let streams = |name| {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.get(name).cloned()
        };
        let Some(sender) = name.and_then(streams) else { return status(404) };
        let Ok(body) = request.into_body().collect().await else { return status(400) };
        if let Some(reply) = self.responder.reply(&body.to_bytes()) {
            let mut event = b"event: message\ndata: ".to_vec();
            event.extend_from_slice(&reply);
            event.extend_from_slice(b"\n\n");
            if sender.try_send(event.into()).is_err() {
                return status(503);
            }
        }
        status(202)
    }
}

fn status(code: u16) -> Reply {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    response
}

/// The body of an event stream.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Answers what is there, and writes when nothing more is.
async fn web_socket(stream: TcpStream, floor: Arc<Floor>) {
    let protocol = (HeaderName::from_static("sec-websocket-protocol"), SUBPROTOCOL);
    let builder = ServerBuilder::new().add_header(protocol.0, HeaderValue::from_static(protocol.1));
    let Ok(builder) = builder else { return };
    let Ok((_, mut socket)) = builder.accept(stream).await else { return };
    loop {
        let next = poll_fn(|cx| {
            let next = Pin::new(&mut socket).poll_next(cx);
            if next.is_pending() {
                // Nothing more to read: what was answered goes out together.
                let _ = Pin::new(&mut socket).poll_flush(cx);
            }
            next
        });
        let Some(Ok(message)) = next.await else { return };
        let Some(reply) = message.as_text().and_then(|t| floor.responder.reply(t.as_bytes()))
        else {
            continue;
        };
        if poll_fn(|cx| Pin::new(&mut socket).poll_ready(cx)).await.is_err()
            || Pin::new(&mut socket).start_send(Message::text(Bytes::from(reply))).is_err()
        {
            return;
        }
    }
}
