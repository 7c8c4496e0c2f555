//! One session under load: a closed loop that keeps its slots full.
//!
//! One future reads and writes. Whatever has arrived is taken in one go, and the calls that replace
//! it leave in one write. A full pipe towards the server never keeps answers from being read. The
//! clock is read once per batch of answers and once per batch of calls.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mcplane_proto::frame::lines;
use mcplane_proto::message::write;
use mcplane_proto::{Id, Method};
use tokio::time::{Sleep, sleep};

use super::Phase;
use super::expect::{Expect, Incoming};
use super::slots::{Owner, Slots};
use crate::error::shorten;
use crate::record::{Fault, Tally};
use crate::target::{Connection, answer};

/// How often a session looks for calls that took too long, at most.
const TICK_MS_MAX: u64 = 50;

/// How long calls in flight are waited for after the user has stopped the run.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A session whose slots all timed out this often without an answer in between is given up.
const SILENT_ROUNDS_MAX: usize = 3;

/// A connection with calls of one kind on it.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    expect: Expect,
    slots: Slots,
    /// A request's bytes before and after its id.
    before: Vec<u8>,
    after: Vec<u8>,
}

/// What came of one phase.
pub(crate) struct Outcome {
    pub(crate) session: Session,
    pub(crate) tally: Tally,
    /// Why it ended before its time, if it did.
    pub(crate) broken: Option<String>,
}

impl Session {
    /// A session that keeps up to `slots` calls with these `params` in flight.
    pub(crate) fn new(
        mut connection: Connection,
        slots: usize,
        params: &[u8],
        expect: Expect,
    ) -> Self {
        let (before, after) = halves(params);
        let first_id = connection.wire.reserve_ids(1);
        Self { connection, expect, slots: Slots::new(slots, first_id), before, after }
    }

    /// Bytes of one call, newline included, with an id of one digit.
    pub(crate) fn call_bytes(&self) -> usize {
        self.before.len() + 1 + self.after.len()
    }

    /// Runs one phase. The session comes back even if it broke.
    pub(crate) async fn run(mut self, phase: Arc<Phase>) -> Outcome {
        let every = (phase.timeout / 10)
            .clamp(Duration::from_millis(1), Duration::from_millis(TICK_MS_MAX));
        let mut drive = Drive {
            tally: Tally::new(phase.start),
            session: &mut self,
            phase: &phase,
            tick: Box::pin(sleep(every)),
            every,
            stopping: false,
            give_up_at: None,
            silent: 0,
        };
        let broken = poll_fn(|cx| drive.poll(cx)).await;
        let tally = drive.tally;
        if broken.is_some() {
            phase.halt();
        }
        Outcome { session: self, tally, broken }
    }

    fn write_call(&mut self, id: i64) {
        let out = &mut self.connection.wire.output;
        out.extend_from_slice(&self.before);
        write_digits(out, id);
        out.extend_from_slice(&self.after);
    }
}

struct Drive<'a> {
    session: &'a mut Session,
    phase: &'a Phase,
    tally: Tally,
    tick: Pin<Box<Sleep>>,
    every: Duration,
    /// No more calls are begun.
    stopping: bool,
    give_up_at: Option<Instant>,
    /// Calls that timed out since the last answer.
    silent: usize,
}

impl Drive<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        loop {
            match self.session.connection.wire.poll_read(cx) {
                Poll::Ready(Ok(0)) => return self.die("the server closed its output".to_owned()),
                Poll::Ready(Ok(_)) => self.take(Instant::now()),
                Poll::Ready(Err(error)) => return self.die(format!("reading failed: {error}")),
                Poll::Pending => break,
            }
        }
        loop {
            self.refill();
            if let Poll::Ready(Err(error)) = self.session.connection.wire.poll_write(cx) {
                return self.die(format!("writing failed: {error}"));
            }
            if self.stopping && self.session.slots.in_flight() == 0 {
                return Poll::Ready(None);
            }
            if self.tick.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            self.tick.as_mut().reset((now + self.every).into());
            if let Some(why) = self.look(now) {
                return Poll::Ready(Some(why));
            }
        }
    }

    /// Takes every answer that has arrived, all of them at `now`.
    fn take(&mut self, now: Instant) {
        let (ok, failed) = (self.tally.latencies.count(), self.tally.errors.total());
        while let Some(line) = self.session.connection.wire.next_line() {
            match line.map(|line| (self.session.expect.judge(line.clone()), line)) {
                Ok((Incoming::Right(id), line)) => self.settle(id, now, None, &line),
                Ok((Incoming::Wrong(id, fault, what), line)) => {
                    self.settle(id, now, Some((fault, what)), &line);
                }
                Ok((Incoming::Other(message), _)) => {
                    answer(&message, &mut self.session.connection.wire.output);
                }
                Ok((Incoming::Stray(what), _)) => self.tally.fail(Fault::Transport, || what),
                Err(error) => self.tally.fail(Fault::Transport, || error.to_string()),
            }
        }
        self.tally.in_flight.set(self.session.slots.in_flight() as u64, now);
        let (ok, failed) = (self.tally.latencies.count() - ok, self.tally.errors.total() - failed);
        self.phase.count(ok, failed);
    }

    fn settle(&mut self, id: i64, now: Instant, wrong: Option<(Fault, String)>, line: &[u8]) {
        match (self.session.slots.end(id), wrong) {
            (Owner::InFlight(since), None) => {
                self.silent = 0;
                self.tally.latencies.record(now.saturating_duration_since(since));
            }
            (Owner::InFlight(_), Some((fault, what))) => {
                self.silent = 0;
                self.tally.fail(fault, || what);
            }
            (Owner::TimedOut, _) => {}
            (Owner::Nobody, _) => self.tally.fail(Fault::Transport, || {
                format!(
                    "an answer to a call that was answered before or never made: {}",
                    shorten(line)
                )
            }),
        }
    }

    /// Begins calls in the free slots, as far as the phase allows.
    fn refill(&mut self) {
        let free = self.session.slots.free();
        if self.stopping || free == 0 {
            return;
        }
        let now = Instant::now();
        let claimed = self.phase.claim(free as u64, now);
        self.stopping = claimed == 0;
        for _ in 0..claimed {
            let Some(id) = self.session.slots.begin(now) else { break };
            self.session.write_call(id);
            self.tally.sent += 1;
        }
        self.tally.in_flight.set(self.session.slots.in_flight() as u64, now);
    }

    /// What time brings: calls that took too long, the end of the phase. Gives the reason to break off.
    fn look(&mut self, now: Instant) -> Option<String> {
        self.phase.show(now);
        self.stopping |= self.phase.is_over(now);
        let expired = self.session.slots.expire(now, self.phase.timeout);
        for id in &expired {
            let limit = self.phase.timeout;
            self.tally.fail(Fault::Timeout, || format!("no answer within {limit:?}"));
            let out = &mut self.session.connection.wire.output;
            let start = out.len();
            let params = format!(r#"{{"requestId":{id},"reason":"timeout"}}"#);
            write::notification(out, Method::Cancelled.as_str(), Some(params.as_bytes()));
            lines::end(out, start);
        }
        if !expired.is_empty() {
            self.phase.count(0, expired.len() as u64);
            self.tally.in_flight.set(self.session.slots.in_flight() as u64, now);
            self.silent += expired.len();
            let slots = self.session.slots.free() + self.session.slots.in_flight();
            if self.silent >= slots * SILENT_ROUNDS_MAX && !self.stopping {
                return Some(format!("{} calls in a row were not answered", self.silent));
            }
        }
        if self.phase.is_broken_off() {
            let drain = DRAIN_MAX.min(self.phase.timeout);
            if now >= *self.give_up_at.get_or_insert(now + drain) {
                let left = self.session.slots.in_flight();
                self.tally.unfinished += left as u64;
                return (left > 0).then(|| format!("{left} calls were still in flight"));
            }
        }
        None
    }

    /// The connection is gone, and the calls in flight with it.
    fn die(&mut self, why: String) -> Poll<Option<String>> {
        let lost = self.session.slots.in_flight();
        for _ in 0..lost {
            self.tally.fail(Fault::Transport, || why.clone());
        }
        self.tally.in_flight.set(0, Instant::now());
        self.phase.count(0, lost as u64);
        Poll::Ready(Some(why))
    }
}

/// The bytes of a call before and after its id.
fn halves(params: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let whole = |id: i64| {
        let mut line = Vec::new();
        write::request(&mut line, &Id::from(id), Method::ToolsCall.as_str(), Some(params));
        lines::end(&mut line, 0);
        line
    };
    // Two calls differ in nothing but the id.
    let (mut zero, one) = (whole(0), whole(1));
    let at = zero.iter().zip(&one).position(|(a, b)| a != b).unwrap_or(0);
    let after = zero.split_off(at + 1);
    zero.truncate(at);
    (zero, after)
}

/// Appends a number that is not negative in decimal.
fn write_digits(out: &mut Vec<u8>, number: i64) {
    let start = out.len();
    let mut rest = number;
    while rest > 9 {
        out.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
    }
    out.push(b'0' + u8::try_from(rest).unwrap_or(0));
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_its_halves_around_the_id() {
        let (before, after) = halves(br#"{"name":"a0"}"#);
        assert_eq!(before, br#"{"jsonrpc":"2.0","id":"#);
        assert_eq!(after, b",\"method\":\"tools/call\",\"params\":{\"name\":\"a0\"}}\n");
    }

    #[test]
    fn digits_are_decimal() {
        let mut out = b"x".to_vec();
        for number in [0, 7, 10, 1234567890, i64::MAX] {
            write_digits(&mut out, number);
            out.push(b' ');
        }
        assert_eq!(out, b"x0 7 10 1234567890 9223372036854775807 ");
    }
}
