//! How many connections may come in a second.

use std::time::{Duration, Instant};

/// A token bucket, kept as the one moment at which it will be full again. A pure function of the
/// moments that it is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    /// Time between two tokens; zero lets everything pass.
    period: Duration,
    /// How far the bucket may be from full: the burst, less the token that is asked for.
    depth: Duration,
    full_at: Option<Instant>,
}

impl Gate {
    /// `per_s` tokens a second, and `burst` at once after a pause. No rate, no limit.
    pub(crate) fn new(per_s: u32, burst: u32) -> Self {
        let period = Duration::from_secs(1).checked_div(per_s).unwrap_or(Duration::ZERO);
        Self { period, depth: period.saturating_mul(burst.saturating_sub(1)), full_at: None }
    }

    /// Takes a token; `Err` says when there will be one.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.unwrap_or(now).max(now);
        let empty = full_at.saturating_duration_since(now);
        if empty > self.depth {
            return Err(empty - self.depth);
        }
        self.full_at = Some(full_at + self.period);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` pass at once.
    fn pass(gate: &mut Gate, now: Instant, count: usize) -> usize {
        (0..count).filter(|_| gate.admit(now).is_ok()).count()
    }

    #[test]
    fn a_burst_then_the_rate() {
        let (mut gate, start) = (Gate::new(100, 200), Instant::now());
        assert_eq!(pass(&mut gate, start, 1000), 200);
        assert_eq!(gate.admit(start), Err(Duration::from_millis(10)));
        let almost = start + Duration::from_nanos(9_999_999);
        assert_eq!(gate.admit(almost), Err(Duration::from_nanos(1)));
        assert_eq!(pass(&mut gate, start + Duration::from_millis(10), 1000), 1);
        assert_eq!(pass(&mut gate, start + Duration::from_millis(510), 1000), 50);
    }

    #[test]
    fn a_pause_fills_it_up_to_the_burst_and_no_further() {
        let (mut gate, start) = (Gate::new(100, 200), Instant::now());
        assert_eq!(pass(&mut gate, start, 1000), 200);
        assert_eq!(pass(&mut gate, start + Duration::from_secs(3600), 1000), 200);
    }

    #[test]
    fn over_a_minute_the_rate_is_exact() {
        let (mut gate, start) = (Gate::new(100, 200), Instant::now());
        let passed =
            (0..60_000).filter(|ms| gate.admit(start + Duration::from_millis(*ms)).is_ok()).count();
        assert_eq!(passed, 200 + 5_999);
    }

    #[test]
    fn no_rate_is_no_limit_and_no_burst_is_one_at_a_time() {
        let now = Instant::now();
        assert_eq!(pass(&mut Gate::new(0, 0), now, 1000), 1000);
        assert_eq!(pass(&mut Gate::new(100, 0), now, 1000), 1);
        assert_eq!(pass(&mut Gate::new(u32::MAX, u32::MAX), now, 1000), 1000);
    }

    #[test]
    fn a_clock_that_steps_back_opens_nothing() {
        let (mut gate, start) = (Gate::new(1, 1), Instant::now() + Duration::from_secs(9));
        assert_eq!(pass(&mut gate, start, 9), 1);
        let before = start - Duration::from_secs(1);
        assert_eq!(gate.admit(before), Err(Duration::from_secs(2)));
    }
}
