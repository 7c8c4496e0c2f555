//! The connections of one session: as many as calls in flight, each opened when it is first needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::lane::{Came, Exchange, Lane};
use super::ready::Ready;
use crate::client::dial::Dialer;

/// Connections, and requests that wait for one.
pub(crate) struct Pool {
    dialer: Dialer,
    lanes: Vec<Lane>,
    wakers: Vec<Waker>,
    lanes_max: usize,
    ready: Arc<Ready>,
    /// The last one given back is taken first: a connection that is in use stays warm.
    free: Vec<usize>,
    /// Bounded by the calls in flight and what the server asks in between.
    waiting: VecDeque<(Exchange, Vec<u8>)>,
}

impl Pool {
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self {
            dialer,
            lanes: Vec::new(),
            wakers: Vec::new(),
            lanes_max: 1,
            ready: Arc::new(Ready::default()),
            free: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Allows so many connections at once.
    pub(crate) fn widen(&mut self, lanes_max: usize) {
        self.lanes_max = self.lanes_max.max(lanes_max);
    }

    /// Sends a request, at once if a connection is free. Failures come out of [`Pool::poll`].
    pub(crate) fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>)) {
        let free = self.free.pop().or_else(|| self.open());
        let Some(number) = free else {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.waiting.push_back((exchange, bytes));
            return;
        };
        let (Some(lane), Some(waker)) = (self.lanes.get_mut(number), self.wakers.get(number))
        else {
            return;
        };
        lane.exchange = Some(exchange);
        write(&mut lane.output);
        let sent = lane.is_open() && lane.write(&mut Context::from_waker(waker)).is_ok();
        if !sent {
            waker.wake_by_ref();
        }
    }

    /// Waits until something has come for a request. There may be more at once: whoever wants to be
    /// woken polls until nothing has.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Exchange, Came)> {
        // One that wakes itself, to give others a turn, is polled in the next round.
        for _ in 0..self.ready.register(cx) {
            let Some(number) = self.ready.take() else { break };
            let (Some(lane), Some(waker)) = (self.lanes.get_mut(number), self.wakers.get(number))
            else {
                continue;
            };
            let exchange = lane.exchange;
            let Poll::Ready(came) = lane.poll(&mut Context::from_waker(waker)) else { continue };
            // There may be more in its buffer, and the end of the connection behind it.
            self.ready.list_again(number);
            if lane.exchange.is_none() {
                self.release(number);
            }
            if let Some(exchange) = exchange {
                return Poll::Ready((exchange, came));
            }
        }
        Poll::Pending
    }

    /// Forgets a request and closes its connection.
    pub(crate) fn give_up(&mut self, id: i64) {
        let is_it = |exchange: &Exchange| exchange.id == id;
        self.waiting.retain(|(exchange, _)| !is_it(exchange));
        let found = self.lanes.iter().position(|lane| lane.exchange.as_ref().is_some_and(is_it));
        if let Some(number) = found {
            if let Some(lane) = self.lanes.get_mut(number) {
                lane.reset();
            }
            self.release(number);
        }
    }

    fn open(&mut self) -> Option<usize> {
        let number = self.lanes.len();
        if number >= self.lanes_max {
            return None;
        }
        self.lanes.push(Lane::new(self.dialer.clone()));
        self.wakers.push(self.ready.waker());
        Some(number)
    }

    /// A connection is free: the next request takes it.
    fn release(&mut self, number: usize) {
        self.free.push(number);
        if let Some((exchange, bytes)) = self.waiting.pop_front() {
            self.send(exchange, |out| out.extend_from_slice(&bytes));
        }
    }
}
