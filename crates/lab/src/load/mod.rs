//! Making calls: phases, and the sessions that carry them.
//!
//! * [`Phase`] — when to begin no more calls (this file).
//! * [`Fleet`] — sessions that run a phase at once (this file).
//! * `arrival` — when the calls of an open loop are meant to begin.
//! * `session` — the loop of one connection.
//! * `pace` — what an open loop has to do next.
//! * `alarm` — waking up in time.
//! * `slots` — which calls are in flight.
//! * `mix` — calls of several kinds.
//! * `template` — arguments that differ from call to call.
//! * `think` — users who think between calls.
//! * `expect` — what a right answer is.

mod alarm;
mod arrival;
mod expect;
mod mix;
mod pace;
mod session;
mod slots;
mod template;
mod think;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub(crate) use alarm::sharpen;
pub(crate) use arrival::{Course, Schedule, a_duration};
pub(crate) use expect::{Check, Expect, fault};
pub(crate) use mix::Kind;
pub(crate) use session::{Outcome, Session};
pub use template::{NUMBER, Template};
pub(crate) use template::{fill, is_numbered, sized};

use crate::client::{Site, Traffic};
use crate::control::Control;
use crate::observe::{Gauge, cpu_since, cpu_time};
use crate::record::{Seconds, Tally, Total};
use crate::spec::Until;

/// One stretch of load: when it began and when it is over.
pub(crate) struct Phase {
    pub(crate) start: Instant,
    pub(crate) timeout: Duration,
    until: Until,
    schedule: Option<Schedule>,
    may_spin: bool,
    /// Calls in flight per session, at most; a session may have fewer slots.
    limit: usize,
    begun: AtomicU64,
    halted: AtomicBool,
    control: Arc<Control>,
    show: Show,
    /// All sessions share one thread: nobody ever waits for it.
    tally: Mutex<Tally>,
}

/// What the watcher sees of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Show {
    /// Nothing.
    Nothing,
    /// Its progress, as part `index` of `of`; the calls only if they are the target's.
    Part { index: u64, of: u64, calls: bool },
}

impl Phase {
    /// A phase that begins now.
    pub(crate) fn new(until: Until, timeout: Duration, show: Show, control: Arc<Control>) -> Self {
        let start = Instant::now();
        Self {
            start,
            timeout,
            until,
            schedule: None,
            may_spin: false,
            limit: usize::MAX,
            begun: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            control,
            show,
            tally: Mutex::new(Tally::new(start)),
        }
    }

    /// The same as an open loop, if there is a schedule. `may_spin` says whether the generator has a
    /// core of its own.
    pub(crate) fn paced(self, schedule: Option<Schedule>, may_spin: bool) -> Self {
        if schedule.is_some() {
            self.tally().paced = Some(Box::default());
        }
        Self { schedule, may_spin, ..self }
    }

    /// The same with at most so many calls in flight per session.
    pub(crate) const fn limited(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The same, with what happens second by second in `seconds`.
    pub(crate) fn recorded(self, seconds: Option<Box<Seconds>>) -> Self {
        let mut seconds = seconds.unwrap_or_else(|| Box::new(Seconds::new(self.start)));
        seconds.resume(self.start);
        self.tally().seconds = Some(seconds);
        self
    }

    /// What was seen so far.
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of `wanted` calls may begin `now`; 0 means that no more will.
    fn claim(&self, wanted: u64, now: Instant) -> u64 {
        if self.is_over(now) {
            return 0;
        }
        let begun = self.begun.load(Ordering::Relaxed);
        let granted = match self.until {
            Until::Calls(calls) => wanted.min(calls.saturating_sub(begun)),
            Until::Elapsed(_) => wanted,
        };
        // All sessions share one thread, so that nothing comes between the load and this.
        self.begun.store(begun + granted, Ordering::Relaxed);
        granted
    }

    /// A call of the schedule has begun.
    fn note_begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self, now: Instant) -> bool {
        let by_time = |time| now.saturating_duration_since(self.start) >= time;
        self.is_broken_off() || matches!(self.until, Until::Elapsed(time) if by_time(time))
    }

    /// Whether it ends before its time: the user's wish, or another session that broke.
    fn is_broken_off(&self) -> bool {
        self.control.is_stopped() || self.halted.load(Ordering::Relaxed)
    }

    fn halt(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    fn count(&self, ok: u64, failed: u64) {
        if matches!(self.show, Show::Part { calls: true, .. }) {
            self.control.add(ok, failed);
        }
    }

    fn show(&self, now: Instant) {
        let Show::Part { index, of, calls } = self.show else { return };
        if calls && self.control.is_watched() {
            let mut tally = self.tally();
            let fresh = tally.seconds.as_mut().and_then(|seconds| seconds.fresh());
            if let Some((length, interval)) = fresh {
                self.control.show_calls(length, interval);
            }
        }
        let done = match self.until {
            Until::Calls(calls) => self.begun.load(Ordering::Relaxed) * 1000 / calls.max(1),
            Until::Elapsed(time) => {
                let elapsed = now.saturating_duration_since(self.start).as_micros() * 1000;
                u64::try_from(elapsed / time.as_micros().max(1)).unwrap_or(1000)
            }
        };
        self.control.set_permille((index * 1000 + done.min(1000)) / of.max(1));
    }
}

/// The sessions of one target.
pub(crate) struct Fleet {
    pub(crate) sessions: Vec<Session>,
    /// What is seen of the processes behind them.
    pub(crate) gauge: Arc<Gauge>,
    /// What goes through their sockets.
    pub(crate) traffic: Arc<Traffic>,
}

impl Fleet {
    /// These sessions, and the processes behind them, each once: sessions may share one.
    pub(crate) fn new(sessions: Vec<Session>, site: &Site) -> Self {
        let mut pids: Vec<_> =
            sessions.iter().filter_map(|session| session.connection.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        Self { sessions, gauge: Gauge::new(pids), traffic: site.traffic() }
    }

    /// Runs one phase on every session, all on this thread. Returns what they saw, and why the phase
    /// broke off, if it did.
    pub(crate) async fn run(&mut self, phase: Phase) -> (Total, Option<String>) {
        let phase = Arc::new(phase);
        let mut running = JoinSet::new();
        let (cpu, of) = (cpu_time(), self.sessions.len());
        for (index, session) in self.sessions.drain(..).enumerate() {
            running.spawn(session.run(Arc::clone(&phase), (index, of)));
        }
        let mut why = None;
        while let Some(joined) = running.join_next().await {
            // A session's future has no panic of its own; one in the caller's stream loses that session.
            let Ok(Outcome { session, broken }) = joined else {
                why = Some("the connection panicked".to_owned());
                phase.halt();
                continue;
            };
            why = why.or(broken);
            self.sessions.push(session);
        }
        let tally = std::mem::replace(&mut *phase.tally(), Tally::new(phase.start));
        let mut wall = tally.in_flight.last_change().saturating_duration_since(phase.start);
        if let Some(schedule) = phase.schedule.as_ref().filter(|_| !phase.is_broken_off()) {
            // A pause at its end is part of the load.
            wall = wall.max(schedule.end());
        }
        (Total::of(tally, wall, cpu_since(cpu)), why)
    }
}
