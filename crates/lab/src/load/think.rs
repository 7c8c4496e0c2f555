//! Users who think between an answer and their next call.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use crate::results::Think;
use crate::stats::Rng;

/// The users of one session who think.
pub(super) struct Thinkers {
    think: Think,
    random: Rng,
    until: BinaryHeap<Reverse<Instant>>,
    alarm: Alarm,
}

impl Thinkers {
    /// All users think first: those of a constant time are spread over it, as they would be after a
    /// while.
    pub(super) fn new(think: Think, users: usize, now: Instant, seed: u64) -> io::Result<Self> {
        let mut random = Rng::new(seed);
        let mean = Duration::from_nanos(think.mean_ns);
        let first = |random: &mut Rng| match think.exponential {
            true => draw(think, random),
            false => mean.mul_f64(random.unit()),
        };
        let until = (0..users).map(|_| Reverse(now + first(&mut random))).collect();
        Ok(Self { think, random, until, alarm: Alarm::new()? })
    }

    /// How many still think.
    pub(super) fn busy(&mut self, now: Instant) -> usize {
        while self.until.peek().is_some_and(|Reverse(until)| *until <= now) {
            self.until.pop();
        }
        self.until.len()
    }

    /// Somebody got an answer.
    pub(super) fn again(&mut self, now: Instant) {
        self.until.push(Reverse(now + draw(self.think, &mut self.random)));
    }

    /// Wakes the session when the next one is done. Never ready.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(Reverse(next)) = self.until.peek() else { return Poll::Pending };
        if let Poll::Ready(done) = self.alarm.poll_at(*next, cx) {
            done?;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

fn draw(think: Think, random: &mut Rng) -> Duration {
    let mean = Duration::from_nanos(think.mean_ns);
    match think.exponential {
        // By inversion, over (0, 1].
        true => mean.mul_f64(-(1.0 - random.unit()).max(f64::MIN_POSITIVE).ln()),
        false => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn users_think_first_and_again() {
        let (now, mean) = (Instant::now(), Duration::from_millis(100));
        let think = Think { mean_ns: 100_000_000, exponential: false };
        let mut thinkers = Thinkers::new(think, 1000, now, 7).unwrap();
        assert_eq!(thinkers.busy(now + mean), 0);
        let mut thinkers = Thinkers::new(think, 1000, now, 7).unwrap();
        // Half of them, within four deviations.
        let half = thinkers.busy(now + mean / 2);
        assert!(half.abs_diff(500) < 64, "{half}");
        thinkers.again(now + mean);
        assert_eq!((thinkers.busy(now + mean), thinkers.busy(now + 2 * mean)), (1, 0));
    }

    #[test]
    fn exponential_times_have_their_mean() {
        let (think, mut random) = (Think { mean_ns: 1_000_000, exponential: true }, Rng::new(3));
        let sum: Duration = (0..20_000).map(|_| draw(think, &mut random)).sum();
        // The mean of 20,000 has a deviation of 0.7 %.
        assert!((sum.as_secs_f64() / 20.0 - 1.0).abs() < 0.03, "{sum:?}");
    }
}
