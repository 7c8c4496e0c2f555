//! The smallest set of servers that has everything.
//!
//! Set cover is hard in general and small here: with up to [`EXACT_MAX`] servers that matter, every
//! set is looked at; beyond, the greedy one is taken, and the answer says so.

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
        self.word(number / 64) & (1 << (number % 64)) != 0
    }

    /// How many numbers are in it.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether every number of this one is in `other`.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.gain(self) == 0
    }

    /// Whether every number of this one is in one of two others.
    fn is_within_either(&self, one: &Self, other: &Self) -> bool {
        let words = self.0.iter().enumerate();
        let mut outside = words.map(|(at, word)| word & !(one.word(at) | other.word(at)));
        outside.all(|word| word == 0)
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
        words.map(|(at, word)| (word & !self.word(at)).count_ones() as usize).sum()
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
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
    let candidates = Candidate::list(sets, &matter);
    let largest = candidates.iter().map(|candidate| candidate.set.count()).max().unwrap_or(0);
    let search = Exact { goal: &goal, largest };
    let exact = (1..=greedy.len()).find_map(|size| {
        let mut chosen = Vec::with_capacity(size);
        search.choose(&candidates, size, &Bits::default(), &mut chosen).then_some(chosen)
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

/// A set that may be chosen.
struct Candidate<'a> {
    /// Its place among all sets.
    at: usize,
    set: &'a Bits,
    /// What it has together with all candidates behind it.
    reach: Bits,
}

impl<'a> Candidate<'a> {
    fn list(sets: &'a [Bits], matter: &[usize]) -> Vec<Self> {
        let mut reach = Bits::default();
        let sets = matter.iter().rev().filter_map(|&at| Some((at, sets.get(at)?)));
        let mut candidates: Vec<Self> = sets
            .map(|(at, set)| {
                reach.add(set);
                Self { at, set, reach: reach.clone() }
            })
            .collect();
        candidates.reverse();
        candidates
    }
}

/// A search through all choices.
struct Exact<'a> {
    goal: &'a Bits,
    /// How much the largest set has.
    largest: usize,
}

impl Exact<'_> {
    /// Whether `size` more candidates reach the goal; the first choice that does is in `chosen`.
    fn choose(
        &self,
        candidates: &[Candidate<'_>],
        size: usize,
        have: &Bits,
        chosen: &mut Vec<usize>,
    ) -> bool {
        let lacks = have.gain(self.goal);
        if size == 0 || lacks > size * self.largest {
            return lacks == 0;
        }
        let mut rest = candidates;
        while let Some((first, later)) = rest.split_first() {
            if rest.len() < size || !self.goal.is_within_either(have, &first.reach) {
                return false;
            }
            let mut with = have.clone();
            with.add(first.set);
            chosen.push(first.at);
            if self.choose(later, size - 1, &with, chosen) {
                return true;
            }
            chosen.pop();
            rest = later;
        }
        false
    }
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
