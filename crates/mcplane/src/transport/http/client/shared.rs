//! What all exchanges of one connection share, and the parts that both eras have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::id::Id;
use mcplane_proto::message::{Message, write};
use mcplane_proto::version::Revision;

use super::answer::{Stream, answers, messages, nonsense, with_id};
use super::body::Body;
use super::endpoint::{Endpoint, Outgoing};
use super::inbox::Inbox;
use super::legacy::Legacy;
use super::tasks::{Purpose, Work};
use super::tools::Tools;
use super::verdict::Verdict;
use crate::error::{Failure, Lost};

pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) inbox: Inbox,
    pub(super) tools: Arc<Tools>,
    pub(super) legacy: Legacy,
    course: Mutex<Course>,
    orders: Mutex<Vec<Order>>,
}

/// How far the two sides have come.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// The era is known from an answer.
    pub(super) settled: bool,
    /// The probe was left out, because of what another client has found.
    pub(super) skipped: Option<Verdict>,
    /// The probe was answered by a legacy server.
    pub(super) probed: bool,
    /// Where messages go in HTTP+SSE.
    pub(super) sse: Option<Uri>,
}

/// What an exchange wants done with others.
pub(super) enum Order {
    Start(Purpose, Work),
    /// Nobody waits for this legacy request any more.
    Stop(Id),
}

impl Shared {
    pub(super) fn new(endpoint: Endpoint, tools: Arc<Tools>, inbox: Inbox) -> Self {
        Self {
            endpoint,
            tools,
            inbox,
            legacy: Legacy::default(),
            course: Mutex::default(),
            orders: Mutex::default(),
        }
    }

    pub(super) fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    pub(super) fn orders(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// POSTs a message to the endpoint. `waits` is the request that is kept alive while somebody
    /// gets new credentials.
    pub(super) async fn post(
        &self,
        message: &Message,
        headers: HeaderMap,
        waits: Option<&Id>,
    ) -> Result<Response<Body>, Failure> {
        self.post_to(self.endpoint.uri.clone(), message, headers, waits).await
    }

    pub(super) async fn post_to(
        &self,
        uri: Uri,
        message: &Message,
        headers: HeaderMap,
        waits: Option<&Id>,
    ) -> Result<Response<Body>, Failure> {
        let name = message.method_name();
        let outgoing = Outgoing {
            method: Method::POST,
            uri,
            headers,
            body: message.bytes().clone(),
            asks: (!name.is_empty()).then_some(&*name),
        };
        let beat = || {
            if let Some(id) = waits {
                self.inbox.push(still_waiting(id));
            }
        };
        self.endpoint.send(&outgoing, &beat).await
    }

    /// The answer to `id` in a JSON body. Whatever else is in a batch goes to the reader.
    pub(super) fn own(&self, body: Bytes, id: &Id) -> Result<Message, Failure> {
        let mut own = None;
        for message in messages(body)? {
            if own.is_none() && answers(&message, id) {
                own = Some(message);
            } else {
                self.inbox.push_of(Some(id), message.bytes().clone());
            }
        }
        own.ok_or_else(|| nonsense(StatusCode::OK, "the body does not answer its request".into()))
    }

    /// Hands messages of a stream to the reader until one answers `id`; `None` if the stream ends
    /// first. `saw` is told each event.
    pub(super) async fn pump(
        &self,
        stream: &mut Stream,
        id: Option<&Id>,
        mut saw: impl FnMut(&mcplane_proto::frame::sse::Event) + Send,
    ) -> Result<Option<Message>, Failure> {
        while let Some(event) = stream.next().await.transpose()? {
            saw(&event);
            if !event.is_message() {
                continue;
            }
            match (Message::scan(event.data.clone()), id) {
                (Ok(message), Some(id)) if answers(&message, id) => return Ok(Some(message)),
                // What is not a message is for the reader to count.
                _ => self.inbox.push_of(id, event.data),
            }
            Room(&self.inbox).await;
        }
        Ok(None)
    }

    /// Lets a stream come to its end after its answer.
    pub(super) fn rest(&self, stream: Stream) {
        self.order(Order::Start(Purpose::Stream, Box::pin(stream.rest())));
    }

    /// Hands the reader the answer to `id`.
    pub(super) fn give(&self, message: &Message, id: &Id) {
        self.inbox.push(with_id(message, id));
    }

    /// Answers `id` in the server's place.
    pub(super) fn refuse(&self, id: &Id, error: &ErrorObject) {
        let (mut out, mut id_json) = (Vec::new(), Vec::new());
        id.write_json(&mut id_json);
        write::error(&mut out, Some(&id_json), error);
        self.inbox.push(out.into());
    }

    /// Tells whoever waits for `id` how it was lost.
    pub(super) fn fail(&self, id: &Id, failure: &Failure) {
        if !self.inbox.lost(id, failure) {
            self.refuse(id, &failure.object());
        }
    }

    /// Answers the probe as a legacy server does.
    pub(super) fn say_legacy(&self, id: &Id, why: String) {
        self.course().probed = true;
        self.refuse(id, &ErrorObject::new(Code::METHOD_NOT_FOUND, why));
    }

    /// Answers `initialize` as a modern server does, so that the era is found out after all.
    pub(super) fn say_modern(&self, id: &Id) {
        self.endpoint.pool.verdicts().forget(&self.endpoint.url);
        self.course().skipped = None;
        let error = ErrorObject::new(Code::UNSUPPORTED_VERSION, "not the legacy server it was");
        let supported = serde_json::json!({"supported": [Revision::LATEST.as_str()]});
        self.refuse(id, &error.with_data(&supported));
    }
}

/// The error that a server gives with a status, if it is an answer: not with statuses that have a
/// meaning of their own.
pub(super) fn reason(
    reason: Option<Message>,
    failure: Failure,
    id: &Id,
) -> Result<Message, Failure> {
    let reason = reason.filter(|reason| failure.kind == Lost::Status && answers(reason, id));
    reason.ok_or(failure)
}

/// Progress without figures: it only starts the clock of its request again.
fn still_waiting(id: &Id) -> Bytes {
    let mut out =
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#
            .to_vec();
    id.write_json(&mut out);
    out.extend_from_slice(b"}}");
    out.into()
}

/// Waits for the reader if it has a lot to take already.
struct Room<'a>(&'a Inbox);

impl Future for Room<'_> {
    type Output = ();

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<()> {
        if self.0.has_room() {
            return std::task::Poll::Ready(());
        }
        // The set does not come back to it before there is room.
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    }
}
