//! What an open loop knows beyond latencies from the intended start: how its schedule was kept.

use crate::results::Latencies;
use std::time::Duration;

/// A call that begins later than this after its intended start is late.
const LATE: Duration = Duration::from_millis(1);

/// How the schedule was kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paced {
    /// Latencies from the actual start.
    pub(crate) raw: Latencies,
    /// How long after the intended start calls began that did not wait for others to end.
    pub(crate) pacing: Latencies,
    /// Calls that began late.
    pub(crate) late: u64,
    /// The longest time from an intended start to the actual one.
    pub(crate) lateness_max: Duration,
    /// Calls that began after others had ended.
    pub(crate) blocked: u64,
    /// Calls that never began, although they were due.
    pub(crate) missed: u64,
    /// Time that the generator did nothing but look at the clock.
    pub(crate) spun: Duration,
}

impl Paced {
    /// A call began so long after its intended start; `blocked` if others had to end first.
    pub(crate) fn begin(&mut self, lateness: Duration, blocked: bool, spun: Duration) {
        if blocked {
            self.blocked += 1;
        } else {
            self.pacing.record(lateness);
        }
        self.late += u64::from(lateness > LATE);
        self.lateness_max = self.lateness_max.max(lateness);
        self.spun += spun;
    }

    /// Adds another phase.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.raw.merge(&other.raw);
        self.pacing.merge(&other.pacing);
        self.late += other.late;
        self.lateness_max = self.lateness_max.max(other.lateness_max);
        self.blocked += other.blocked;
        self.missed += other.missed;
        self.spun += other.spun;
    }
}
