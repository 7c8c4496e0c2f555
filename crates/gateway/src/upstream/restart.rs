//! When a worker is started again: how long to wait before that, and how often it may be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::config::Restart;

/// When a worker was started again, or is to be, within the window of its budget.
#[derive(Clone, Debug, Default)]
pub(super) struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// How long to wait before the next start, which is counted: not at all for one that `lived`, then
    /// longer each time, and once the budget is spent until there is one again. `None` if there is none.
    pub(super) fn next(
        &mut self,
        now: Instant,
        settings: &Restart,
        lived: bool,
    ) -> Option<Duration> {
        let window = settings.window.duration();
        while self.0.front().is_some_and(|at| now.duration_since(*at) >= window) {
            self.0.pop_front();
        }
        if settings.budget == 0 {
            return None;
        }
        let pause = self.pause(now, settings, lived);
        self.0.push_back(now + pause);
        Some(pause)
    }

    fn pause(&self, now: Instant, settings: &Restart, lived: bool) -> Duration {
        let (recent, longest) = (self.0.len(), settings.longest.duration());
        match self.0.front() {
            None if lived => Duration::ZERO,
            Some(oldest) if recent >= settings.budget as usize => {
                let left = settings.window.duration().saturating_sub(now.duration_since(*oldest));
                left.max(longest)
            }
            _ => {
                let doubled = 1_u32 << recent.min(16);
                settings.first.duration().saturating_mul(doubled).min(longest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Period;
    use crate::upstream::tests::dice::Dice;

    fn restart(budget: u32) -> Restart {
        let (first, longest) = (Period::of_ms(200), Period::of_s(30));
        Restart { first, longest, budget, window: Period::of_s(600) }
    }

    #[test]
    fn pauses_grow_until_the_budget_is_spent() {
        let (mut restarts, began) = (Restarts::default(), Instant::now());
        let mut pauses = [0, 1, 2, 3, 4].map(|n| {
            let now = began + Duration::from_secs(n * 10);
            restarts.next(now, &restart(4), true).unwrap().as_millis()
        });
        assert_eq!(pauses, [0, 400, 800, 1600, 560_000]);
        // As if nothing had been once that is long ago.
        let later = began + Duration::from_secs(2000);
        pauses.fill_with(|| restarts.next(later, &restart(4), true).unwrap().as_millis());
        assert_eq!(pauses[..2], [0, 400]);
        assert_eq!(Restarts::default().next(began, &restart(4), false).unwrap().as_millis(), 200);
    }

    #[test]
    fn without_a_budget_there_is_no_start() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        for lived in [true, false] {
            assert_eq!(restarts.next(now, &restart(0), lived), None);
            now += Duration::from_secs(3600);
        }
    }

    /// Lives of all lengths, in seeded schedules.
    #[test]
    fn whatever_a_worker_lives_through_its_pauses_keep_the_rules() {
        for seed in 0..2_000_u64 {
            let mut dice = Dice(seed);
            let first = dice.below(2_000);
            let settings = Restart {
                first: Period::of_ms(first),
                longest: Period::of_ms(first + dice.below(30_000)),
                budget: 1 + u32::try_from(dice.below(5)).unwrap(),
                window: Period::of_ms(1 + dice.below(600_000)),
            };
            let (window, longest) = (settings.window.duration(), settings.longest.duration());
            let (mut restarts, mut now) = (Restarts::default(), Instant::now());
            let mut counted: Vec<Instant> = Vec::new();
            let mut starts = Vec::new();
            for _ in 0..100 {
                let longest_life = dice.one_of(&[1_000, 60_000, 900_000]);
                now += Duration::from_millis(dice.below(longest_life));
                let lived = dice.coin();
                let pause = restarts.next(now, &settings, lived).unwrap();
                counted.retain(|at| now.duration_since(*at) < window);
                match counted.len() {
                    0 if lived => assert_eq!(pause, Duration::ZERO, "seed {seed}"),
                    recent if recent < settings.budget as usize => {
                        let least = settings.first.duration() * (1 << recent);
                        assert_eq!(pause, least.min(longest), "seed {seed}");
                    }
                    _ => {
                        let again = counted[0] + window;
                        assert!(pause >= longest && now + pause >= again, "seed {seed}");
                        assert!(pause <= window.max(longest), "seed {seed}");
                    }
                }
                now += pause;
                counted.push(now);
                starts.push(now);
            }
            let budget = settings.budget as usize;
            for (first, beyond) in starts.iter().zip(&starts[budget..]) {
                let within = beyond.duration_since(*first);
                assert!(within >= window, "seed {seed}: more than {budget} within {within:?}");
            }
        }
    }
}
