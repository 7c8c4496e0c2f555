//! Who is next at the tools that have a limit of their own. Sans-I/O: what happens goes in, who goes
//! on comes out, and the time is an argument.

use std::collections::VecDeque;
use std::time::Instant;

/// The tools of one upstream whose calls are counted. Those that wait are in the order in which they
/// came.
pub(super) struct Turns<T> {
    tools: Vec<Tool<T>>,
    /// How many wait, at all tools.
    waiting: usize,
}

struct Tool<T> {
    max: usize,
    taken: usize,
    waiting: VecDeque<(Instant, T)>,
    /// Somebody hands turns on: what becomes free meanwhile is theirs to hand on, too.
    is_passed_on: bool,
}

/// What comes of it to ask for a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<T> {
    /// The turn is taken, and has to be given back.
    Taken(T),
    Waits,
    /// As many wait as may.
    Full(T),
}

impl<T> Turns<T> {
    /// Tools by their number: how many calls of each may run at the same time.
    pub(super) fn new(tools: impl Iterator<Item = usize>) -> Self {
        let tool = |max| Tool { max, taken: 0, waiting: VecDeque::new(), is_passed_on: false };
        Self { tools: tools.map(tool).collect(), waiting: 0 }
    }

    /// How many wait.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a turn at a tool, or lets this wait if fewer than `max` do.
    pub(super) fn ask(&mut self, now: Instant, tool: usize, what: T, max: usize) -> Asked<T> {
        let Some(tool) = self.tools.get_mut(tool) else { return Asked::Full(what) };
        if tool.taken < tool.max && tool.waiting.is_empty() {
            tool.taken += 1;
            return Asked::Taken(what);
        }
        if self.waiting >= max {
            return Asked::Full(what);
        }
        self.waiting += 1;
        tool.waiting.push_back((now, what));
        Asked::Waits
    }

    /// A turn is given back. `true` if whoever does it is to hand on what is free, with
    /// [`Turns::next`] until that says that nobody goes on.
    pub(super) fn free(&mut self, tool: usize) -> bool {
        let Some(tool) = self.tools.get_mut(tool) else { return false };
        tool.taken -= 1;
        let is_first = !tool.is_passed_on && !tool.waiting.is_empty();
        tool.is_passed_on |= is_first;
        is_first
    }

    /// Who goes on, with a turn that is taken.
    pub(super) fn next(&mut self, tool: usize) -> Option<T> {
        let tool = self.tools.get_mut(tool)?;
        let next = if tool.taken < tool.max { tool.waiting.pop_front() } else { None };
        tool.is_passed_on = next.is_some();
        let (_, what) = next?;
        tool.taken += 1;
        self.waiting -= 1;
        Some(what)
    }

    /// Takes those out that wait and are meant, given since when.
    pub(super) fn extract(&mut self, is_meant: impl Fn(Instant, &T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for tool in &mut self.tools {
            let all = std::mem::take(&mut tool.waiting).into_iter();
            let (gone, stay): (VecDeque<_>, VecDeque<_>) =
                all.partition(|(since, what)| is_meant(*since, what));
            tool.waiting = stay;
            taken.extend(gone.into_iter().map(|(_, what)| what));
        }
        self.waiting -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::tests::dice::Dice;

    const TOOLS: [usize; 3] = [1, 2, 5];
    const WAIT_MAX: usize = 8;

    /// Many schedules of calls that come, end, are given up and wait for too long: no tool has more
    /// than it may, nobody waits while a turn is free, none overtakes, and none is lost.
    #[test]
    fn whoever_waits_goes_on_in_order_and_none_is_lost() {
        for seed in 0..500 {
            let mut dice = Dice(seed);
            let mut turns = Turns::new(TOOLS.into_iter());
            let (mut now, mut running, mut queue) =
                (Instant::now(), [0; 3], [const { Vec::new() }; 3]);
            for call in 0..200_u32 {
                now += Duration::from_millis(1);
                let tool = dice.index(3);
                match dice.index(5) {
                    0..=2 => match turns.ask(now, tool, (tool, call), WAIT_MAX) {
                        Asked::Taken(_) => running[tool] += 1,
                        Asked::Waits => queue[tool].push(call),
                        Asked::Full(_) => {
                            assert_eq!(queue.iter().map(Vec::len).sum::<usize>(), WAIT_MAX);
                        }
                    },
                    3 if running[tool] > 0 => {
                        running[tool] -= 1;
                        if turns.free(tool) {
                            while let Some((of, next)) = turns.next(tool) {
                                assert_eq!((of, next), (tool, queue[tool].remove(0)), "{seed}");
                                running[tool] += 1;
                            }
                        }
                    }
                    _ => {
                        let patience = Duration::from_millis(50);
                        let late = |since, (_, call): &(usize, u32)| {
                            now.duration_since(since) > patience || call % 7 == 0
                        };
                        for (of, gone) in turns.extract(late) {
                            queue[of].retain(|call| *call != gone);
                        }
                    }
                }
                for (tool, max) in TOOLS.into_iter().enumerate() {
                    assert!(running[tool] <= max, "seed {seed}: too many");
                    assert!(queue[tool].is_empty() || running[tool] == max, "seed {seed}: idle");
                }
                assert_eq!(turns.waiting(), queue.iter().map(Vec::len).sum::<usize>());
            }
        }
    }

    /// A turn that is given back while turns are handed on is handed on by the same.
    #[test]
    fn one_at_a_time_hands_turns_on() {
        let mut turns = Turns::new([1].into_iter());
        let now = Instant::now();
        assert_eq!(turns.ask(now, 0, 'a', 8), Asked::Taken('a'));
        for call in ['b', 'c'] {
            assert_eq!(turns.ask(now, 0, call, 8), Asked::Waits);
        }
        assert!(turns.free(0));
        assert_eq!(turns.next(0), Some('b'));
        // It ends at once, while `next` is being called.
        assert!(!turns.free(0));
        assert_eq!(turns.next(0), Some('c'));
        assert_eq!(turns.next(0), None);
        assert!(!turns.free(0), "nobody waits");
        assert_eq!(turns.ask(now, 0, 'd', 8), Asked::Taken('d'));
    }
}
