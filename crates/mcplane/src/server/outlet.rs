//! What handlers send to their connection: a queue that costs one allocation while it is empty, so
//! that a connection can live for a single request.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::context::Event;

/// Events that wait for one connection, at most, before notifications are dropped. Answers and
/// questions are bounded by the requests in flight.
pub const NOTES_MAX: usize = 1024;

/// Bytes of notifications that wait for one connection, at most.
pub const NOTES_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// Bytes of the notifications among them.
    bytes: usize,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Queue {
    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= weight(&event);
        Some(event)
    }
}

fn weight(event: &Event) -> usize {
    match event {
        Event::Note(_, note) => note.len(),
        _ => 0,
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handlers' end.
#[derive(Clone)]
pub(crate) struct Outlet(Arc<Mutex<Queue>>);

impl Outlet {
    /// Sends a notification, unless too much waits already.
    pub(super) fn note(&self, event: Event) {
        let queue = lock(&self.0);
        let has_room = queue.events.len() < NOTES_MAX && queue.bytes < NOTES_BYTES_MAX;
        drop(queue);
        if has_room {
            self.send(event);
        }
    }

    /// `false` if the connection is gone.
    pub(super) fn send(&self, event: Event) -> bool {
        let mut queue = lock(&self.0);
        if queue.is_closed {
            return false;
        }
        queue.bytes += weight(&event);
        queue.events.push_back(event);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// The connection's end.
pub(crate) struct Events(Arc<Mutex<Queue>>);

impl Events {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn outlet(&self) -> Outlet {
        Outlet(Arc::clone(&self.0))
    }

    /// Whether no handler has its end any more.
    #[cfg(feature = "http")]
    pub(super) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).events.is_empty()
    }

    pub(super) fn try_recv(&self) -> Option<Event> {
        lock(&self.0).pop()
    }

    /// The next event. Cancel safe.
    pub(crate) async fn recv(&self) -> Event {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub(super) fn poll_recv(&self, cx: &Context<'_>) -> Poll<Event> {
        let mut queue = lock(&self.0);
        if let Some(event) = queue.pop() {
            return Poll::Ready(event);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.events);
        drop(queue);
        // What waits for an answer learns that none comes.
        drop(left);
    }
}
