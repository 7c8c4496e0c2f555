//! The smallest set of servers that has everything.
//!
//! Set cover is hard in general and small here: with up to [`EXACT_MAX`] servers that matter, every
//! set is looked at; beyond, the greedy one is taken, and the answer says so.

use std::num::NonZeroUsize;

/// Most sets that are searched through exactly, counted after those that another one contains are
/// gone: 2^20 combinations are some milliseconds.
pub const EXACT_MAX: usize = 20;

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// The set of these numbers.
    #[must_use]
    pub fn of(numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = Self::default();
        for number in numbers {
            let word = number / 64;
            if bits.0.len() <= word {
                bits.0.resize(word + 1, 0);
            }
            if let Some(word) = bits.0.get_mut(word) {
                *word |= 1 << (number % 64);
            }
        }
        bits
    }

    /// Whether a number is in it.
    #[must_use]
    pub fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// How many numbers are in it.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether every number of this one is in `other`.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let words = self.0.iter().enumerate();
        words.fold(true, |within, (at, word)| {
            within && word & !other.0.get(at).copied().unwrap_or_default() == 0
        })
    }

    /// Adds the numbers of another one.
    pub fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    /// How many numbers `other` has beyond this one.
    fn gain(&self, other: &Self) -> usize {
        let words = other.0.iter().enumerate();
        let new = |(at, word): (usize, &u64)| {
            (word & !self.0.get(at).copied().unwrap_or_default()).count_ones() as usize
        };
        words.map(new).sum()
    }

    fn all(sets: &[Self]) -> Self {
        let mut all = Self::default();
        sets.iter().for_each(|set| all.add(set));
        all
    }
}

/// How a cover was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "either nothing smaller exists or nobody knows")]
pub enum Search {
    /// No smaller set exists.
    Exact,
    /// A smaller set may exist.
    Greedy,
}

/// The places of a smallest choice of `sets` that has everything which any of them has; among
/// several, the one whose places come first. In ascending order.
#[must_use]
pub fn cover(sets: &[Bits]) -> (Vec<usize>, Search) {
    let goal = Bits::all(sets);
    let matter: Vec<usize> = (0..sets.len()).filter(|&at| matters(sets, at)).collect();
    let greedy = greedy(sets, &matter, &goal);
    if matter.len() > EXACT_MAX {
        return (greedy, Search::Greedy);
    }
    let candidates: Vec<(usize, &Bits)> =
        matter.iter().filter_map(|&at| Some((at, sets.get(at)?))).collect();
    let exact = (1..=greedy.len()).filter_map(NonZeroUsize::new).find_map(|size| {
        let mut chosen = Vec::with_capacity(size.get());
        choose(&candidates, size, &Bits::default(), &goal, &mut chosen).then_some(chosen)
    });
    (exact.unwrap_or(greedy), Search::Exact)
}

/// Whether a set is worth choosing: it is not empty and no other one contains it. Of equal ones
/// the first matters.
fn matters(sets: &[Bits], at: usize) -> bool {
    let Some(set) = sets.get(at).filter(|set| set.count() > 0) else { return false };
    let better = |(other_at, other): (usize, &Bits)| {
        other_at != at && set.is_within(other) && (!other.is_within(set) || other_at < at)
    };
    !sets.iter().enumerate().any(better)
}

/// The first choice of exactly `size` more candidates that reaches the goal, in the order of the
/// candidates.
fn choose(
    candidates: &[(usize, &Bits)],
    size: NonZeroUsize,
    have: &Bits,
    goal: &Bits,
    chosen: &mut Vec<usize>,
) -> bool {
    let mut rest = candidates;
    while let Some((&(at, set), later)) = rest.split_first() {
        // Not even all that are left would do.
        let mut reach = have.clone();
        rest.iter().for_each(|(_, set)| reach.add(set));
        if rest.len() < size.get() || !goal.is_within(&reach) {
            return false;
        }
        let mut with = have.clone();
        with.add(set);
        chosen.push(at);
        let done = match NonZeroUsize::new(size.get() - 1) {
            Some(fewer) => choose(later, fewer, &with, goal, chosen),
            None => goal.is_within(&with),
        };
        if done {
            return true;
        }
        chosen.pop();
        rest = later;
    }
    false
}

/// The set that adds most, again and again; then without what the others made needless.
fn greedy(sets: &[Bits], matter: &[usize], goal: &Bits) -> Vec<usize> {
    let mut have = Bits::default();
    let mut chosen = Vec::new();
    while !goal.is_within(&have) {
        let gain = |at: &&usize| sets.get(**at).map_or(0, |set| have.gain(set));
        // The first of those that add as much: `max_by_key` would take the last.
        let Some(&best) = matter.iter().rev().max_by_key(gain) else { break };
        sets.get(best).into_iter().for_each(|set| have.add(set));
        chosen.push(best);
    }
    for at in chosen.clone() {
        let others: Vec<Bits> =
            chosen.iter().filter(|&&o| o != at).filter_map(|&o| sets.get(o).cloned()).collect();
        if goal.is_within(&Bits::all(&others)) {
            chosen.retain(|&other| other != at);
        }
    }
    chosen.sort_unstable();
    chosen
}
