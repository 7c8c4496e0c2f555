//! One session under load: a closed loop that keeps its slots full, or an open loop that begins each
//! call when it is meant to.
//!
//! One future reads and writes: first whatever has arrived, then the calls that replace it, so that
//! no answer waits for a call to be written. Over one stream the clock is read once per batch of
//! answers and once per batch of calls, which leave in one write. Where each call has a connection of
//! its own, the clock is read for each answer and for each call. A full pipe towards the server
//! never keeps answers from being read.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcplane_proto::Method;
use tokio::time::{Sleep, sleep};

use super::Phase;
use super::expect::{Expect, Incoming};
use super::mix::{Kind, Mix};
use super::pace::Pace;
use super::slots::{Out, Owner, Slots};
use super::think::Thinkers;
use crate::client::{Arrival, Call, Connection, Failure, Lost};
use crate::record::{Fault, tool};
use crate::results::Think;
use crate::text::shorten;

/// How often a session looks for calls that took too long, at most.
const TICK_MS_MAX: u64 = 50;

/// How long calls in flight are waited for after the user has stopped the run.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Ids that are set apart for calls: more than can be made.
const IDS_MAX: i64 = 1 << 52;

/// A session whose slots all timed out this often without an answer in between is given up.
const SILENT_ROUNDS_MAX: usize = 3;

/// A connection with calls of one kind on it.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    expect: Expect,
    slots: Slots,
    call: Call,
    /// Calls of several kinds, in place of `call` and `expect`.
    mix: Option<Box<Mix>>,
    think: Option<Think>,
}

/// What came of one phase.
pub(crate) struct Outcome {
    pub(crate) session: Session,
    /// Why it ended before its time, if it did.
    pub(crate) broken: Option<String>,
}

impl Session {
    /// A session that keeps up to `slots` calls of `tool` with these `params` in flight.
    pub(crate) fn new(
        mut connection: Connection,
        slots: usize,
        tool: &str,
        params: &[u8],
        expect: Expect,
    ) -> Self {
        let wire = &mut connection.wire;
        wire.widen(slots);
        let mut call = wire.call(Method::ToolsCall, params, Some(tool));
        if expect.is_stamped() {
            call = call.stamped();
        }
        // All the ids from here on are the slots'.
        let first_id = wire.reserve_ids(IDS_MAX);
        let slots = Slots::new(slots, first_id);
        Self { connection, expect, slots, call, mix: None, think: None }
    }

    /// The same with calls of these kinds, if there are any, drawn from this seed.
    pub(crate) fn mixed(mut self, kinds: &[Kind], seed: u64) -> Self {
        let wire = &self.connection.wire;
        let render = |tool: &str, params: &[u8]| wire.call(Method::ToolsCall, params, Some(tool));
        self.mix = (!kinds.is_empty()).then(|| Box::new(Mix::new(kinds, seed, render)));
        self
    }

    /// The same with users who think.
    pub(crate) const fn thinking(mut self, think: Option<Think>) -> Self {
        self.think = think;
        self
    }

    /// Bytes of one call with an id of one digit: its line, or over HTTP its request.
    pub(crate) fn call_bytes(&self) -> usize {
        self.call.len()
    }

    /// Runs one phase as session `lane.0` of `lane.1`. The session comes back even if it broke.
    pub(crate) async fn run(mut self, phase: Arc<Phase>, lane: (usize, usize)) -> Outcome {
        let every = (phase.timeout / 10)
            .clamp(Duration::from_millis(1), Duration::from_millis(TICK_MS_MAX));
        let pace = |schedule| Pace::new(schedule, phase.start, lane, phase.may_spin);
        let pace = match phase.schedule.clone().map(pace).transpose() {
            Ok(pace) => pace,
            Err(error) => {
                phase.halt();
                let broken = Some(format!("no timer for the schedule: {error}"));
                return Outcome { session: self, broken };
            }
        };
        let users = self.slots.count().min(phase.limit);
        let think = self.think.filter(|_| pace.is_none());
        let think = think.map(|think| Thinkers::new(think, users, phase.start, lane.0 as u64));
        let thinkers = match think.transpose() {
            Ok(thinkers) => thinkers,
            Err(error) => {
                phase.halt();
                let broken = Some(format!("no timer for those who think: {error}"));
                return Outcome { session: self, broken };
            }
        };
        let mut drive = Drive {
            thinkers,
            pace,
            counted: 0,
            session: &mut self,
            phase: &phase,
            tick: Box::pin(sleep(every)),
            every,
            stopping: false,
            give_up_at: None,
            silent: 0,
            weary: None,
        };
        let broken = poll_fn(|cx| drive.poll(cx)).await;
        if broken.is_some() {
            phase.halt();
        }
        Outcome { session: self, broken }
    }
}

struct Drive<'a> {
    session: &'a mut Session,
    phase: &'a Phase,
    /// An open loop only.
    pace: Option<Pace>,
    /// A closed loop with think times only.
    thinkers: Option<Thinkers>,
    /// How many calls of ours are counted as in flight.
    counted: u64,
    tick: Pin<Box<Sleep>>,
    every: Duration,
    /// No more calls are begun.
    stopping: bool,
    give_up_at: Option<Instant>,
    /// Calls that timed out, or whose connection failed, since the last answer.
    silent: usize,
    /// Why the session is given up, once it is.
    weary: Option<String>,
}

impl Drive<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        let per_call = self.session.connection.wire.is_per_call();
        loop {
            match self.session.connection.wire.poll_read(cx) {
                Poll::Ready(Ok(())) => self.take(Instant::now()),
                Poll::Ready(Err(broken)) => return self.die(broken.into_text()),
                Poll::Pending => break,
            }
        }
        loop {
            if let Some(why) = self.weary.take() {
                return self.die(why);
            }
            self.refill(per_call);
            if let Poll::Ready(Err(broken)) = self.session.connection.wire.poll_write(cx) {
                return self.die(broken.into_text());
            }
            if self.stopping && self.session.slots.in_flight() == 0 {
                return Poll::Ready(None);
            }
            if let Some(Poll::Ready(Err(error))) = self.pace.as_mut().map(|pace| pace.poll_due(cx))
            {
                return self.die(format!("the timer of the schedule failed: {error}"));
            }
            let thinking = self.thinkers.as_mut().map(|thinkers| thinkers.poll_due(cx));
            if let Some(Poll::Ready(Err(error))) = thinking {
                return self.die(format!("the timer of those who think failed: {error}"));
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
        let counts = || {
            let tally = self.phase.tally();
            (tally.latencies.count(), tally.errors.total())
        };
        let before = counts();
        while let Some(arrival) = self.session.connection.wire.next() {
            match arrival {
                Arrival::Message(bytes) => self.judge(bytes, now),
                Arrival::Over(id) => {
                    self.lose(id, Fault::Transport, || "the response held no answer".to_owned());
                }
                Arrival::Failed(id, Lost::Connection(why)) => self.cut_off(id, why),
                Arrival::Failed(id, Lost::Status(_, text)) => {
                    self.lose(id, Fault::Transport, || text);
                }
                Arrival::Failed(id, Lost::Refused(message)) => {
                    self.lose(id, Fault::JsonRpc, || Failure::of(&message).to_string());
                }
                Arrival::Noise(what) => self.phase.tally().fail(Fault::Transport, || what),
            }
        }
        self.note_in_flight(now);
        let (ok, failed) = counts();
        self.phase.count(ok - before.0, failed - before.1);
    }

    fn judge(&mut self, bytes: Bytes, now: Instant) {
        let mix = self.session.mix.as_ref();
        let expect = mix.and_then(|mix| mix.expect(&bytes)).unwrap_or(&self.session.expect);
        match expect.judge(bytes.clone()) {
            Incoming::Right(id) => self.settle(id, now, None, &bytes),
            Incoming::Wrong(id, fault, what) => self.settle(id, now, Some((fault, what)), &bytes),
            Incoming::Other(message) => self.session.connection.wire.answer(&message),
            Incoming::Stray(what) => self.phase.tally().fail(Fault::Transport, || what),
        }
    }

    /// The exchange of a call is over without a right answer. One that is settled already, or was
    /// never a call, does not matter.
    fn lose(&mut self, id: i64, fault: Fault, what: impl FnOnce() -> String) {
        if let Owner::InFlight(out) = self.session.slots.end(id) {
            if fault != Fault::Transport {
                self.silent = 0;
            }
            self.phase.tally().fail_after(out.sent.elapsed(), fault, what);
            self.end(id, Instant::now(), Err(fault));
        }
    }

    /// A call is over: its user thinks, and its tool counts it.
    fn end(&mut self, id: i64, now: Instant, how: Result<Duration, Fault>) {
        if let Some(thinkers) = &mut self.thinkers {
            thinkers.again(now);
        }
        if let Some(kind) = self.session.mix.as_mut().and_then(|mix| mix.end(id)) {
            tool(&mut self.phase.tally().tools, kind).end(how);
        }
    }

    /// The connection that carried a call is gone. When none brings an answer any more, so is the
    /// server.
    fn cut_off(&mut self, id: i64, why: String) {
        let before = self.session.slots.in_flight();
        self.lose(id, Fault::Transport, || why.clone());
        self.silent += before - self.session.slots.in_flight();
        if self.silent >= self.silent_max() {
            let count = self.silent;
            self.weary.get_or_insert_with(|| format!("{count} calls in a row failed: {why}"));
        }
    }

    fn silent_max(&self) -> usize {
        self.session.slots.count().min(self.phase.limit) * SILENT_ROUNDS_MAX
    }

    /// Slots in which a call may begin.
    fn free(&self) -> usize {
        let slots = &self.session.slots;
        slots.free().min(self.phase.limit.saturating_sub(slots.in_flight()))
    }

    fn settle(&mut self, id: i64, now: Instant, wrong: Option<(Fault, String)>, line: &[u8]) {
        match (self.session.slots.end(id), wrong) {
            (Owner::InFlight(out), None) => {
                self.silent = 0;
                self.phase.tally().succeed(out.intended, out.sent, now);
                self.end(id, now, Ok(now.saturating_duration_since(out.intended)));
            }
            (Owner::InFlight(out), Some((fault, what))) => {
                self.silent = 0;
                let time = now.saturating_duration_since(out.sent);
                self.phase.tally().fail_after(time, fault, || what);
                self.end(id, now, Err(fault));
            }
            (Owner::TimedOut, _) => {}
            (Owner::Nobody, _) => self.phase.tally().fail(Fault::Transport, || {
                format!(
                    "an answer to a call that was answered before or never made: {}",
                    shorten(line)
                )
            }),
        }
    }

    /// Begins calls in the free slots, as far as the phase allows.
    fn refill(&mut self, per_call: bool) {
        if self.pace.is_some() {
            return self.keep_pace(per_call);
        }
        let mut free = self.free();
        if self.stopping || free == 0 {
            return;
        }
        let mut now = Instant::now();
        if let Some(thinkers) = &mut self.thinkers {
            free = free.saturating_sub(thinkers.busy(now));
            if free == 0 {
                self.stopping = self.phase.is_over(now);
                return;
            }
        }
        let claimed = self.phase.claim(free as u64, now);
        self.stopping = claimed == 0;
        for index in 0..claimed {
            if per_call && index > 0 {
                now = Instant::now();
            }
            self.begin(Out { intended: now, sent: now }, per_call);
        }
        self.note_in_flight(now);
    }

    /// Begins the calls of the schedule that are due, as far as slots are free. What is still due when
    /// the phase is over was missed.
    fn keep_pace(&mut self, per_call: bool) {
        if self.stopping {
            return;
        }
        let Some(mut pace) = self.pace.take() else { return };
        let mut now = Instant::now();
        let (is_over, was_full) = (self.phase.is_over(now), pace.full);
        if !self.phase.is_broken_off() {
            while self.free() > 0
                && let Some(intended) = pace.due(now)
            {
                if per_call {
                    now = Instant::now();
                }
                self.phase.tally().pace(|paced| {
                    paced.begin(now.saturating_duration_since(intended), was_full, pace.spun(now));
                });
                self.begin(Out { intended, sent: now }, per_call);
                self.phase.note_begun();
                pace.advance();
            }
        }
        self.note_in_flight(now);
        pace.full = self.free() == 0;
        if is_over {
            let missed = pace.give_up(now);
            self.phase.tally().pace(|paced| paced.missed += missed);
        }
        self.stopping = pace.is_done();
        self.pace = Some(pace);
    }

    /// Begins one call.
    fn begin(&mut self, out: Out, per_call: bool) {
        let Some(id) = self.session.slots.begin(out) else { return };
        let Session { connection, call, mix, .. } = &mut *self.session;
        match mix.as_mut().and_then(|mix| mix.begin(id)) {
            None => connection.wire.begin(call, id),
            Some((kind, call)) => {
                connection.wire.begin(&call, id);
                tool(&mut self.phase.tally().tools, kind).sent += 1;
            }
        }
        self.phase.tally().sent += 1;
        if per_call {
            self.note_in_flight(out.sent);
        }
    }

    fn note_in_flight(&mut self, now: Instant) {
        let count = self.session.slots.in_flight() as u64;
        self.phase.tally().in_flight.change(self.counted, count, now);
        self.counted = count;
    }

    /// What time brings: calls that took too long, the end of the phase. Returns the reason to break off.
    fn look(&mut self, now: Instant) -> Option<String> {
        self.phase.show(now);
        // An open loop first counts what it missed.
        self.stopping |= self.pace.is_none() && self.phase.is_over(now);
        let expired = self.session.slots.expire(now, self.phase.timeout);
        for (id, time) in &expired {
            let limit = self.phase.timeout;
            let what = || format!("no answer within {limit:?}");
            self.phase.tally().fail_after(*time, Fault::Timeout, what);
            self.session.connection.wire.give_up(*id);
            self.end(*id, now, Err(Fault::Timeout));
        }
        if !expired.is_empty() {
            self.phase.count(0, expired.len() as u64);
            self.note_in_flight(now);
            self.silent += expired.len();
            if self.silent >= self.silent_max() && !self.stopping {
                return Some(format!("{} calls in a row were not answered", self.silent));
            }
        }
        if self.phase.is_broken_off() {
            let drain = DRAIN_MAX.min(self.phase.timeout);
            if now >= *self.give_up_at.get_or_insert(now + drain) {
                let left = self.session.slots.in_flight();
                self.note_in_flight(now);
                let spent = self.session.slots.spent(now);
                let mut tally = self.phase.tally();
                tally.unfinished += left as u64;
                tally.failed_time += spent;
                return (left > 0).then(|| format!("{left} calls were still in flight"));
            }
        }
        None
    }

    /// The connection is gone, and the calls in flight with it.
    fn die(&mut self, why: String) -> Poll<Option<String>> {
        let (lost, now) = (self.session.slots.in_flight(), Instant::now());
        let spent = self.session.slots.spent(now);
        let mut tally = self.phase.tally();
        tally.failed_time += spent;
        for _ in 0..lost {
            tally.fail(Fault::Transport, || why.clone());
        }
        for kind in self.session.mix.iter_mut().flat_map(|mix| mix.end_all()) {
            tool(&mut tally.tools, kind).end(Err(Fault::Transport));
        }
        tally.in_flight.change(self.counted, 0, now);
        drop(tally);
        self.phase.count(0, lost as u64);
        Poll::Ready(Some(why))
    }
}
