//! The events of one stream of a session: what waits to be sent, and what can be sent again.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::frame::sse;

use crate::budget::Budget;

/// Most events of a stream that are kept to be sent again, and most that wait to be sent: the
/// oldest go first, and a client that never reads gets no more notifications.
const EVENTS_MAX: usize = 256;

/// Most bytes of a stream that are kept to be sent again; with more than that waiting to be sent,
/// there are no more notifications either.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of the events that a reader takes at once, unless a single one is longer: it has a copy of
/// them.
const TAKEN_BYTES_MAX: usize = 64 * 1024;

/// When a client should come back for the rest of a stream.
const RETRY: Duration = Duration::from_secs(1);

/// One stream. Its events are numbered from 1.
#[derive(Default)]
pub(super) struct Log {
    /// The number of the first event that is kept.
    first: u64,
    events: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the next event to send.
    next: u64,
    pub(super) ended: bool,
    /// The client has an event id, so that it can come back.
    primed: bool,
    readers: Vec<(u64, Option<Waker>)>,
    /// Readers up to this number are told to come back.
    sent_away: u64,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { first: 1, next: 1, ..Self::default() }
    }

    /// Adds an event. A notification that finds no room is dropped; what somebody waits for never is,
    /// for its connection would have refused it.
    pub(super) fn push(&mut self, message: Bytes, is_awaited: bool) {
        let waiting = (self.last() + 1).saturating_sub(self.next);
        // Whatever was sent is forgotten first, so that this much is unsent.
        let is_full = waiting >= EVENTS_MAX as u64 || self.bytes > KEPT_BYTES_MAX;
        if message.is_empty() || (!is_awaited && is_full) {
            return;
        }
        self.bytes += message.len();
        self.events.push_back(message);
        self.forget();
        self.wake();
    }

    /// No more events come.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.wake();
    }

    /// The number of the newest event.
    fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    /// Drops the oldest of what was sent, down to the limits.
    fn forget(&mut self) {
        while self.first < self.next
            && (self.events.len() > EVENTS_MAX || self.bytes > KEPT_BYTES_MAX)
        {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= event.len();
            self.first += 1;
        }
    }

    /// Whether the events after `last` are all kept.
    pub(super) fn has(&self, last: Option<u64>) -> bool {
        last.is_none_or(|last| last <= self.last() && last + 1 >= self.first)
    }

    /// Whether there was an event `last`.
    pub(super) fn had(&self, last: Option<u64>) -> bool {
        last.is_none_or(|last| last <= self.last())
    }

    /// A reader takes over from here on, or from after the event `last`, which [`Log::has`].
    pub(super) fn attach(&mut self, reader: u64, last: Option<u64>) {
        if let Some(last) = last {
            self.next = last + 1;
        }
        self.readers.push((reader, None));
    }

    pub(super) fn detach(&mut self, reader: u64) {
        self.readers.retain(|(number, _)| *number != reader);
        self.wake();
    }

    /// Bytes that are kept or wait.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn is_watched(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Whether everything is said and nobody can want it again.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.readers.is_empty() && (!self.primed || self.events.is_empty())
    }

    /// Sends the readers of now away; they come back for the rest.
    pub(super) fn send_away(&mut self) {
        self.sent_away = self.readers.iter().map(|(number, _)| *number).max().unwrap_or(0);
        self.wake();
    }

    /// What a stream begins with: the id of the last event that was sent, if the client takes an
    /// event for that alone.
    pub(super) fn begin(&mut self, route: u64, has_priming: bool) -> Option<Bytes> {
        self.primed |= has_priming;
        has_priming.then(|| prime(route, self.next - 1))
    }

    /// What a reader has to send: events, the end (`None`), or nothing yet. The newest reader gets
    /// the events, so that each goes out once.
    pub(super) fn take(
        &mut self,
        route: u64,
        reader: u64,
        waker: &Waker,
        budget: &Budget,
    ) -> Taken {
        let newest = self.readers.last().map(|(number, _)| *number);
        if newest == Some(reader) && self.next <= self.last() {
            let mut out = Vec::new();
            let skip = usize::try_from(self.next - self.first).unwrap_or(usize::MAX);
            for message in self.events.iter().skip(skip) {
                if !out.is_empty() && out.len() + message.len() > TAKEN_BYTES_MAX {
                    break;
                }
                event(&mut out, Some((route, self.next)), message);
                self.next += 1;
            }
            self.primed = true;
            self.forget();
            return Taken::Events(budget.hold(out));
        }
        if reader <= self.sent_away || (self.ended && self.next > self.last()) {
            return Taken::End;
        }
        if let Some((_, slot)) = self.readers.iter_mut().find(|(number, _)| *number == reader) {
            *slot = Some(waker.clone());
            return Taken::NotYet;
        }
        Taken::End
    }

    /// Whether all that there is can be taken at once.
    pub(super) const fn is_short(&self) -> bool {
        self.bytes <= TAKEN_BYTES_MAX
    }

    /// The only event, if it is the last one and none was sent: it can go out as JSON.
    pub(super) fn take_answer(&mut self) -> Option<Bytes> {
        let only = self.ended && self.events.len() <= 1 && self.next == self.first;
        only.then(|| {
            let answer = self.events.pop_front().unwrap_or_default();
            self.bytes -= answer.len();
            answer
        })
    }

    /// Whether a reader would find something; it is woken when it would.
    pub(super) fn wait(&mut self, reader: u64, waker: &Waker) -> bool {
        let has_news = self.ended || self.next <= self.last() || reader <= self.sent_away;
        if let (false, Some((_, slot))) =
            (has_news, self.readers.iter_mut().find(|(number, _)| *number == reader))
        {
            *slot = Some(waker.clone());
        }
        has_news
    }

    fn wake(&mut self) {
        for (_, waker) in &mut self.readers {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }
}

/// What a reader finds.
pub(super) enum Taken {
    Events(Bytes),
    End,
    NotYet,
}

/// What an event has beside its message, at most: its id among it.
pub(super) const EVENT_BYTES: usize = 64;

/// Appends a message as an event, with its stream and number if the stream can be resumed.
pub(super) fn event(out: &mut Vec<u8>, number: Option<(u64, u64)>, message: &[u8]) {
    match number {
        None => {
            let start = sse::begin(out, None, None);
            out.extend_from_slice(message);
            sse::end(out, start);
        }
        Some((route, number)) => {
            let start = sse::begin(out, None, Some(&format!("{route}-{number}")));
            out.extend_from_slice(message);
            sse::end(out, start);
        }
    }
}

/// The event that lets a client come back before anything was said (2025-11-25, SEP-1699).
fn prime(route: u64, number: u64) -> Bytes {
    let mut out = Vec::new();
    let id = format!("{route}-{number}");
    sse::Block { id: Some(&id), retry: Some(RETRY), data: Some(b""), event: None }.write(&mut out);
    out.into()
}

/// The stream and the number that an event id names.
pub(super) fn parse_id(id: &[u8]) -> Option<(u64, u64)> {
    let (route, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
    Some((route.parse().ok()?, number.parse().ok()?))
}
