//! The open loop of one session: which of its calls is due, and the wait for the next one.

use std::io;
use std::iter::{Skip, StepBy};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::arrival::Schedule;

/// How long before a call is due its session stops sleeping and looks again and again: what a core
/// may need to come out of its sleep. Answers are read meanwhile.
const SPIN: Duration = Duration::from_micros(50);

/// The calls of one session, each `of`-th of the schedule.
pub(super) struct Pace {
    instants: StepBy<Skip<Schedule>>,
    start: Instant,
    /// When the next call is meant to begin.
    next: Option<Instant>,
    alarm: Alarm,
    /// No slot was free when it was last looked at.
    pub(super) full: bool,
    /// Since when it looks again and again.
    spins_since: Option<Instant>,
    /// Whether it may: not where that would keep the server from running.
    may_spin: bool,
}

impl Pace {
    /// The calls number `index`, `index + of`, … of a schedule that begins at `start`.
    pub(super) fn new(
        schedule: Schedule,
        start: Instant,
        (index, of): (usize, usize),
        may_spin: bool,
    ) -> io::Result<Self> {
        let alarm = Alarm::new()?;
        let instants = schedule.skip(index).step_by(of.max(1));
        let mut pace =
            Self { instants, start, next: None, alarm, full: false, spins_since: None, may_spin };
        pace.advance();
        Ok(pace)
    }

    /// When the call was meant that is due `now`, if one is.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next <= now)
    }

    /// The due call has begun.
    pub(super) fn advance(&mut self) {
        self.next = self.instants.next().map(|at| self.start + at);
    }

    /// Whether no call is left.
    pub(super) const fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Gives up the calls that are left; gives how many were due by `now`.
    pub(super) fn give_up(&mut self, now: Instant) -> u64 {
        let mut missed = 0;
        while self.due(now).is_some() {
            missed += 1;
            self.advance();
        }
        self.next = None;
        missed
    }

    /// How long it has looked again and again until `now`, the end of that.
    pub(super) fn spun(&mut self, now: Instant) -> Duration {
        let since = self.spins_since.take();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Wakes the session in time for the next call. Never ready: between two looks there is
    /// reading to do.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(next) = self.next.filter(|_| !self.full) else { return Poll::Pending };
        let spin = if self.may_spin { SPIN } else { Duration::ZERO };
        let now = Instant::now();
        if next.saturating_duration_since(now) > spin {
            let wake = next.checked_sub(spin).unwrap_or(next);
            ready!(self.alarm.poll_at(wake, cx))?;
        } else if next > now {
            self.spins_since.get_or_insert(now);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
