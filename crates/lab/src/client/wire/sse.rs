//! HTTP+SSE of 2024-11-05: one event stream brings everything, each message goes out as a POST to
//! the endpoint that the stream named.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};

use super::arrival::{Arrival, Broken, Lost};
use super::call::Call;
use super::http::{self, Came, Exchange, Pool};
use super::streamable::refusal;
use crate::client::dial::Dialer;
use crate::client::remote::Headers;

/// A session over HTTP+SSE.
pub(super) struct Sse {
    dialer: Dialer,
    headers: Headers,
    /// The one connection of the event stream.
    stream: Pool,
    posts: Pool,
    endpoint: String,
    arrived: VecDeque<Arrival>,
}

impl Sse {
    /// Opens the event stream and waits for the endpoint.
    pub(super) async fn open(dialer: Dialer, headers: Headers) -> Result<Self, Lost> {
        let mut stream = Pool::new(dialer.clone());
        let mut request = http::head("GET", &dialer.address, None);
        http::header(&mut request, "Accept", "text/event-stream");
        headers.iter().for_each(|(name, value)| http::header(&mut request, name, value));
        request.extend_from_slice(b"\r\n");
        stream.send(Exchange { id: 0, asks: true }, |out| out.extend_from_slice(&request));
        let reference = loop {
            match poll_fn(|cx| stream.poll(cx)).await.1 {
                Came::Event(event) if event.name.as_deref() == Some("endpoint") => {
                    break String::from_utf8_lossy(&event.data).into_owned();
                }
                Came::Event(_) | Came::Noise(_) => {}
                Came::Lost(why) => return Err(Lost::Connection(why)),
                Came::Response(head, body) => {
                    return Err(match refusal(0, &head, body) {
                        Arrival::Failed(_, lost) => lost,
                        _ => Lost::Status(head.status, head.to_string()),
                    });
                }
            }
        };
        let endpoint = dialer.address.join(&reference).map_err(Lost::Connection)?;
        let posts = Pool::new(dialer.clone());
        Ok(Self { dialer, headers, stream, posts, endpoint, arrived: VecDeque::new() })
    }

    /// Allows so many calls at once, and one message in between.
    pub(super) fn widen(&mut self, calls: usize) {
        self.posts.widen(calls + 1);
    }

    /// Everything of a request up to its length.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut out = http::head("POST", &self.dialer.address, Some(&self.endpoint));
        http::header(&mut out, "Content-Type", "application/json");
        self.headers.iter().for_each(|(name, value)| http::header(&mut out, name, value));
        out
    }

    pub(super) fn send(&mut self, call: &Call, id: Option<i64>, exchange: Exchange) {
        self.posts.send(exchange, |out| http::post(out, call, id));
    }

    pub(super) fn give_up(&mut self, id: i64) {
        self.posts.give_up(id);
    }

    /// Waits until something has come on the stream or for a POST.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if let Poll::Ready((_, came)) = self.stream.poll(cx) {
            return Poll::Ready(match came {
                Came::Event(event) => {
                    if event.is_message() {
                        self.arrived.push_back(Arrival::Message(event.data));
                    }
                    Ok(())
                }
                Came::Noise(what) => {
                    self.arrived.push_back(Arrival::Noise(what));
                    Ok(())
                }
                Came::Lost(why) => Err(Broken::Why(format!("the event stream: {why}"))),
                Came::Response(..) => Err(Broken::Why("the server ended its events".to_owned())),
            });
        }
        let Poll::Ready((exchange, came)) = self.posts.poll(cx) else { return Poll::Pending };
        match came {
            Came::Response(head, _) if (200..300).contains(&head.status) => {
                // The answer comes on the stream, before or after this.
                if !exchange.asks {
                    self.arrived.push_back(Arrival::Over(exchange.id));
                }
            }
            Came::Response(head, body) => {
                self.arrived.push_back(refusal(exchange.id, &head, body));
            }
            Came::Lost(why) => {
                self.arrived.push_back(Arrival::Failed(exchange.id, Lost::Connection(why)));
            }
            Came::Event(_) | Came::Noise(_) => {}
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn next(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }
}
