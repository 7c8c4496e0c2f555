//! The open loop of one session: which of its calls is due, and the wait for the next one.

use std::io;
use std::iter::{Skip, StepBy};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::arrival::Schedule;

/// How long before a call is due its session stops sleeping and looks again and again, until it is
/// known how late this machine's cores come out of their sleep. Answers are read meanwhile.
const SPIN: Duration = Duration::from_micros(50);

/// Longest time for that.
const SPIN_MAX: Duration = Duration::from_micros(250);

/// The part of the time between two calls that it may take, one in so many, if [`SPIN`] is more than
/// that: the rest belongs to the server.
const SPIN_SHARE: u32 = 10;

/// The calls of one session, each `of`-th of the schedule.
pub(super) struct Pace {
    instants: StepBy<Skip<Schedule>>,
    start: Instant,
    /// When the next call is meant to begin.
    next: Option<Instant>,
    /// When to wake up for it.
    wake: Instant,
    /// How late wake-ups are, averaged over the last few.
    wakes_late: Duration,
    asleep: bool,
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
        let mut pace = Self {
            instants,
            start,
            next: None,
            wake: start,
            wakes_late: SPIN / 2,
            asleep: false,
            alarm,
            full: false,
            spins_since: None,
            may_spin,
        };
        pace.advance();
        Ok(pace)
    }

    /// When the call was meant that is due `now`, if one is.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next <= now)
    }

    /// The due call has begun.
    pub(super) fn advance(&mut self) {
        let before = self.next.unwrap_or(self.start);
        self.next = self.instants.next().map(|at| self.start + at);
        let Some(next) = self.next else { return };
        let share = next.saturating_duration_since(before) / SPIN_SHARE;
        let spin = match self.may_spin {
            true => (2 * self.wakes_late).min(share.max(SPIN)).min(SPIN_MAX),
            false => Duration::ZERO,
        };
        self.wake = next.checked_sub(spin).unwrap_or(next);
    }

    /// Whether no call is left.
    pub(super) const fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Gives up the calls that are left; returns how many were due by `now`.
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
        let now = Instant::now();
        if now < self.wake {
            self.asleep = true;
            ready!(self.alarm.poll_at(self.wake, cx))?;
        } else {
            if std::mem::take(&mut self.asleep) {
                let late = now.saturating_duration_since(self.wake).min(SPIN_MAX);
                self.wakes_late = (7 * self.wakes_late + late) / 8;
            }
            if now < next {
                self.spins_since.get_or_insert(now);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
