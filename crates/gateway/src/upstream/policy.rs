//! The policies by which a worker is chosen. They have no clock and no dice, and take nothing.

use super::state::State;
use crate::config::Policy;

/// A worker, as a policy sees it.
pub(super) trait Candidate {
    fn state(&self) -> State;

    /// How many calls it has.
    fn load(&self) -> usize;

    /// When it was last used, as a place in an order.
    fn used(&self) -> u64;
}

/// The worker that a policy prefers among those in this state; `None` if that is whichever has the
/// fewest calls. `number` is what the policy goes by: a count, a hash of the caller, or any.
#[inline]
pub(super) fn preferred<W: Candidate>(
    policy: Policy,
    workers: &[W],
    state: State,
    number: u64,
) -> Option<&W> {
    let is_usable = |worker: &&W| worker.state() == state;
    let at = |number: u64| {
        let place = number.checked_rem(workers.len() as u64)?;
        workers.get(usize::try_from(place).ok()?).filter(is_usable)
    };
    match policy {
        Policy::RecentIdle => {
            let idle = workers.iter().filter(is_usable).filter(|worker| worker.load() == 0);
            idle.max_by_key(|worker| worker.used())
        }
        Policy::LeastBusy => None,
        Policy::TwoChoices => {
            let two = at(number).into_iter().chain(at(number >> 32));
            two.min_by_key(|worker| worker.load())
        }
        Policy::RoundRobin | Policy::Sticky => at(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its number, its state, its calls, and when it was used.
    #[derive(Clone, Copy, Debug)]
    struct One(u32, State, usize, u64);

    impl Candidate for One {
        fn state(&self) -> State {
            self.1
        }

        fn load(&self) -> usize {
            self.2
        }

        fn used(&self) -> u64 {
            self.3
        }
    }

    const WORKERS: [One; 4] = [
        One(0, State::Healthy, 0, 5),
        One(1, State::Healthy, 3, 9),
        One(2, State::Degraded, 0, 8),
        One(3, State::Healthy, 1, 7),
    ];

    fn choose(policy: Policy, workers: &[One], number: u64) -> Option<u32> {
        preferred(policy, workers, State::Healthy, number).map(|one| one.0)
    }

    #[test]
    fn of_idle_ones_the_one_that_was_used_last() {
        let mut workers = WORKERS;
        assert_eq!(choose(Policy::RecentIdle, &workers, 0), Some(0));
        workers[3].2 = 0;
        assert_eq!(choose(Policy::RecentIdle, &workers, 0), Some(3));
        workers.iter_mut().for_each(|one| one.2 = 1);
        assert_eq!(choose(Policy::RecentIdle, &workers, 0), None, "none is idle");
    }

    #[test]
    fn of_two_the_one_that_has_fewer_calls() {
        for (a, b, chosen) in [(0, 1, Some(0)), (1, 3, Some(3)), (3, 3, Some(3)), (2, 1, Some(1))] {
            assert_eq!(choose(Policy::TwoChoices, &WORKERS, a | (b << 32)), chosen, "{a} {b}");
        }
        assert_eq!(choose(Policy::TwoChoices, &WORKERS, 2 | (2 << 32)), None, "it is degraded");
    }

    #[test]
    fn each_in_turn() {
        let chosen = [0, 1, 2, 3, 4, u64::MAX].map(|n| choose(Policy::RoundRobin, &WORKERS, n));
        assert_eq!(chosen, [Some(0), Some(1), None, Some(3), Some(0), Some(3)]);
    }

    #[test]
    fn the_same_for_the_same_caller() {
        for hash in [3, 0x1234_5678_9abc_def3] {
            assert_eq!(choose(Policy::Sticky, &WORKERS, hash), Some(3));
        }
    }

    #[test]
    fn where_none_is_preferred_the_least_busy_one_is_taken() {
        assert_eq!(choose(Policy::LeastBusy, &WORKERS, 0), None);
        let all = [
            Policy::RecentIdle,
            Policy::LeastBusy,
            Policy::TwoChoices,
            Policy::RoundRobin,
            Policy::Sticky,
        ];
        for policy in all {
            assert_eq!(choose(policy, &[], 7), None, "of none");
        }
    }
}
