//! The two halves that the connection's task holds: lines in, lines out.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::BytesMut;
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::frame::lines::Lines;
use mcplane_proto::id::Id;
use mcplane_proto::limits::IN_FLIGHT_MAX;
use mcplane_proto::message::{Kind, Message, Part};
use mcplane_proto::method::Method;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::{Order, Shared};
use super::tasks::{Purpose, Tasks};
use crate::error::{Failure, Lost};
use crate::transport::{Loss, Losses, Source};

/// Most exchanges at once: every request that may be in flight, and as many messages that are not
/// answered. Beyond it the writer waits.
const EXCHANGES_MAX: usize = 2 * IN_FLIGHT_MAX;

struct Link {
    shared: Arc<Shared>,
    tasks: Mutex<Tasks>,
}

/// The messages that have come.
pub struct Reader(Arc<Link>);

/// Takes messages to send.
pub struct Writer {
    link: Arc<Link>,
    buffer: BytesMut,
    lines: Lines,
    leaving: bool,
}

pub(super) fn open(shared: Shared) -> (Reader, Writer) {
    let link = Arc::new(Link { shared: Arc::new(shared), tasks: Mutex::default() });
    let writer = Writer {
        link: Arc::clone(&link),
        buffer: BytesMut::new(),
        // The server judges how long a message may be.
        lines: Lines::new(usize::MAX / 2),
        leaving: false,
    };
    (Reader(link), writer)
}

impl Link {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every exchange go on that can, and does what they want done.
    fn turn(&self, tasks: &mut Tasks) {
        loop {
            tasks.turn(|| self.shared.inbox.has_room());
            let orders = self.shared.orders();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                match order {
                    Order::Start(purpose, work) => tasks.add(purpose, work),
                    Order::Stop(id) => drop(tasks.remove(|p| *p == Purpose::Legacy(id.clone()))),
                }
            }
        }
    }

    /// Starts what a message of ours needs.
    fn send(&self, tasks: &mut Tasks, message: Message) {
        let shared = Arc::clone(&self.shared);
        match (message.kind(), message.id()) {
            (Kind::Request, Some(id)) => self.request(tasks, message, id),
            (Kind::Notification, _) if message.method() == Some(Method::Cancelled) => {
                self.cancel(tasks, message);
            }
            _ if shared.course().sse.is_some() => {
                tasks.add(Purpose::Notice, Box::pin(shared.sse_notice(message)));
            }
            // In 2026-07-28 there is nothing to tell a server that is not a request.
            _ if shared.legacy.session().is_none() => {}
            _ if message.method() == Some(Method::Initialized) => {
                tasks.add(Purpose::Notice, Box::pin(shared.initialized(message)));
            }
            _ => tasks.add(Purpose::Notice, Box::pin(shared.notice(message))),
        }
    }

    fn request(&self, tasks: &mut Tasks, message: Message, id: Id) {
        let shared = Arc::clone(&self.shared);
        if message.part(Part::ProtocolVersion).is_some() {
            let probes = message.method() == Some(Method::Discover) && !shared.course().settled;
            if !probes {
                let work = shared.modern(message, id.clone());
                return tasks.add(Purpose::Modern(id), Box::pin(work));
            }
            if self.skips_probe(&id) {
                return;
            }
            return tasks.add(Purpose::Probe(id.clone()), Box::pin(shared.probe(message, id)));
        }
        if message.method() == Some(Method::Initialize) {
            // The session has given up waiting for the probe. A server that is slow or out of
            // order is not one of another era.
            if !tasks.remove(|purpose| matches!(purpose, Purpose::Probe(_))).is_empty() {
                let why = format!("{} has not answered the probe in time", shared.endpoint.uri);
                return shared.fail(&id, &Failure::new(Lost::Late, why));
            }
            let work = shared.initialize(message, id.clone());
            return tasks.add(Purpose::Legacy(id), Box::pin(work));
        }
        let purpose = Purpose::Legacy(id.clone());
        if shared.course().sse.is_some() {
            tasks.add(purpose, Box::pin(shared.sse_request(message, id)));
        } else {
            tasks.add(purpose, Box::pin(shared.legacy(message, id)));
        }
    }

    /// Whether another client has found a legacy server here a moment ago.
    fn skips_probe(&self, id: &Id) -> bool {
        let shared = &self.shared;
        if shared.course().probed || shared.course().skipped.is_some() {
            return false;
        }
        let Some(verdict) = shared.endpoint.pool.verdicts().find(&shared.endpoint.url) else {
            return false;
        };
        shared.course().skipped = Some(verdict);
        let known = ErrorObject::new(Code::METHOD_NOT_FOUND, "known to be a legacy server");
        shared.refuse(id, &known);
        true
    }

    fn cancel(&self, tasks: &mut Tasks, message: Message) {
        let Some(id) = message.part(Part::RequestId).and_then(Id::from_json) else { return };
        let shared = Arc::clone(&self.shared);
        match tasks.purpose(&id) {
            // The stream that closes says it all.
            Some(Purpose::Modern(_) | Purpose::Probe(_)) => {
                tasks.remove(|p| matches!(p, Purpose::Modern(i) | Purpose::Probe(i) if *i == id));
            }
            _ if shared.course().sse.is_some() => {
                tasks.add(Purpose::Notice, Box::pin(shared.sse_notice(message)));
            }
            _ if shared.legacy.session().is_some() => {
                tasks.add(Purpose::Notice, Box::pin(shared.cancel(message)));
            }
            _ => {}
        }
    }
}

impl Reader {
    /// What tells of lost requests, if [`Inbox::lost`](super::inbox::Inbox::lost) takes them.
    pub(super) fn losses(&self) -> Losses {
        Losses::of(Arc::clone(&self.0) as Arc<dyn Source>)
    }
}

impl Source for Link {
    fn heard(&self) {
        self.shared.inbox.heard();
    }

    fn next(&self) -> Option<Loss> {
        self.shared.inbox.next_loss()
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let link = &self.0;
        let mut tasks = link.tasks();
        tasks.tell(cx.waker());
        link.turn(&mut tasks);
        if link.shared.inbox.read(buffer) {
            if !link.shared.inbox.has_room() {
                tasks.wake();
            }
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { link, buffer, lines, .. } = &mut *self;
        let mut tasks = link.tasks();
        if tasks.len() >= EXCHANGES_MAX {
            // As the exchanges are polled by the same task, it comes back when one has ended.
            tasks.tell(cx.waker());
            return Poll::Pending;
        }
        buffer.extend_from_slice(bytes);
        while let Some(line) = lines.next(buffer) {
            match line.map(Message::scan) {
                Ok(Ok(message)) => link.send(&mut tasks, message),
                // Arguments can be too deep; whoever gave them must not wait for an answer.
                Ok(Err(failure)) => {
                    if let Some(id) = &failure.id {
                        link.shared.refuse(id, &failure.object());
                    }
                }
                Err(_) => {}
            }
        }
        link.turn(&mut tasks);
        if link.shared.inbox.has_news() {
            tasks.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Gives up every request, and ends the session when the last messages are out.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { link, leaving, .. } = &mut *self;
        let mut tasks = link.tasks();
        tasks.tell(cx.waker());
        if !std::mem::replace(leaving, true) {
            tasks.remove(|purpose| *purpose != Purpose::Notice);
            let leave = Arc::clone(&link.shared).leave();
            tasks.add(Purpose::Notice, Box::pin(leave));
        }
        link.turn(&mut tasks);
        tasks.remove(|purpose| *purpose != Purpose::Notice);
        if tasks.len() == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport as _;
    use crate::transport::http::client::Http;

    /// What a request in flight takes, in bytes, beside its message and its connection.
    const EXCHANGE_BYTES_MAX: usize = 6 * 1024;

    #[tokio::test]
    async fn an_exchange_is_small() {
        let (reader, _) = Http::new("http://localhost/").unwrap().open().unwrap();
        let message =
            Message::scan(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}"[..]).unwrap();
        let shared = || Arc::clone(&reader.0.shared);
        let (message, id) = (|| message.clone(), || Id::from(1));
        let sizes = [
            size_of_val(&shared().modern(message(), id())),
            size_of_val(&shared().legacy(message(), id())),
            size_of_val(&shared().sse_request(message(), id())),
        ];
        assert!(sizes.iter().all(|size| *size <= EXCHANGE_BYTES_MAX), "{sizes:?}");
    }
}
