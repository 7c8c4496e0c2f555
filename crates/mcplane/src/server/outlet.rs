//! What handlers send to their connection: a queue that costs one allocation while it is empty, so
//! that a connection can live for a single request.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcplane_proto::id::Id;

use super::context::{Event, Reply};
use super::refusals::Refusals;
use super::room;
use crate::budget::{Budget, Charge, FREE_BYTES};

/// Events that wait for one connection, at most, before notifications are dropped. Answers and
/// questions are bounded by the requests in flight, and by the connection's budget.
pub const NOTES_MAX: usize = 1024;

/// Bytes of notifications that wait for one connection, at most.
pub const NOTES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An event, and the room that it takes from the moment it is sent. Whoever takes the event takes the
/// charge over: if it were given back in between, others would get the room of what is still there.
pub(crate) type Charged = (Event, Charge);

struct Queue {
    events: VecDeque<Charged>,
    /// Bytes of the notifications among them.
    bytes: usize,
    budget: Budget,
    refusals: Arc<Refusals>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Queue {
    fn pop(&mut self) -> Option<Charged> {
        let (event, charge) = self.events.pop_front()?;
        self.bytes -= weight(&event);
        Some((event, charge))
    }

    /// An event for which there is room; the short answer to one for which there is none.
    fn admit(&self, event: Event) -> Option<Charged> {
        let (len, mut charge) = (len(&event), Charge::default());
        if charge.cover(&self.budget, len) {
            return Some((event, charge));
        }
        match event {
            Event::Done(id, _) => Some((Event::Done(id.clone(), refusal(&id, len)), charge)),
            Event::Ask { answer, .. } => {
                let _ = answer.send(Err(room::no_room_for_question(len)));
                None
            }
            Event::Note(..) | Event::TakeBack(..) | Event::ComeBack(_) => None,
        }
    }
}

/// What is answered where there is no room for the answer.
fn refusal(id: &Id, len: usize) -> Reply {
    let mut id_json = Vec::new();
    id.write_json(&mut id_json);
    Reply::error(Some(&id_json), &room::no_room_for_answer(len))
}

fn weight(event: &Event) -> usize {
    match event {
        Event::Note(_, note) => note.len(),
        _ => 0,
    }
}

/// Bytes of an event's text.
const fn len(event: &Event) -> usize {
    match event {
        Event::Note(_, bytes)
        | Event::Done(_, Reply { message: bytes, .. })
        | Event::Ask { params: bytes, .. } => bytes.len(),
        Event::TakeBack(_, reason) => reason.len(),
        Event::ComeBack(_) => 0,
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

    /// Answers a request that the server has no time for, now or later.
    pub(super) fn refuse(&self, id: Id, response: Reply) {
        let refusals = Arc::clone(&lock(&self.0).refusals);
        refusals.send(self.clone(), id, response);
    }

    /// `false` if the connection is gone. An answer for which there is no room becomes an error.
    pub(super) fn send(&self, mut event: Event) -> bool {
        if let Event::Done(_, answer) = &mut event
            && answer.message.len() > FREE_BYTES
        {
            answer.message.shrink_to_fit();
        }
        let mut queue = lock(&self.0);
        if queue.is_closed {
            return false;
        }
        let Some(charged) = queue.admit(event) else { return true };
        queue.bytes += weight(&charged.0);
        queue.events.push_back(charged);
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
    pub(super) fn new(budget: Budget, refusals: Arc<Refusals>) -> Self {
        let queue = Queue {
            events: VecDeque::new(),
            bytes: 0,
            budget,
            refusals,
            waker: None,
            is_closed: false,
        };
        Self(Arc::new(Mutex::new(queue)))
    }

    /// Charges what is sent from here on to another budget, if no handler has its end yet.
    pub(super) fn charge_to(&mut self, budget: &Budget) {
        if let Some(queue) = Arc::get_mut(&mut self.0) {
            queue.get_mut().unwrap_or_else(PoisonError::into_inner).budget = budget.clone();
        }
    }

    pub(super) fn outlet(&self) -> Outlet {
        Outlet(Arc::clone(&self.0))
    }

    /// Whether a handlers' end is that of this connection.
    pub(super) fn are_of(&self, outlet: &Outlet) -> bool {
        Arc::ptr_eq(&self.0, &outlet.0)
    }

    /// Whether no handler has its end any more.
    #[cfg(feature = "http")]
    pub(super) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).events.is_empty()
    }

    pub(super) fn try_recv(&self) -> Option<Charged> {
        lock(&self.0).pop()
    }

    /// The next event. Cancel safe.
    pub(crate) async fn recv(&self) -> Charged {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub(super) fn poll_recv(&self, cx: &Context<'_>) -> Poll<Charged> {
        let mut queue = lock(&self.0);
        if let Some(charged) = queue.pop() {
            return Poll::Ready(charged);
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
