//! Statistics of ranks: they need no assumption about the shape of the noise.

use serde::{Deserialize, Serialize};

use super::{Interval, normal_cdf, normal_quantile, quantile_of_sorted};

/// Largest samples whose null distribution is counted exactly: C(50, 25) is still exact in an `f64`.
const EXACT_MAX: usize = 25;

/// Most samples whose signed ranks are counted exactly: 2⁵⁰ is still exact in an `f64`.
const SIGNED_EXACT_MAX: usize = 50;

/// Most samples whose pairs are formed: half a million means, 4 MB.
const SIGNED_MAX: usize = 1000;

/// Whether two sets of samples come from one distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MannWhitney {
    /// Pairs in which the first sample is the greater; a tie is half of one.
    pub u: f64,
    /// The two-sided probability of a `u` at least this far out, were they from one distribution.
    pub p: f64,
    /// Whether `p` was counted, and not approximated.
    pub exact: bool,
}

/// Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than
/// the Other" (1947), two-sided. Exact without ties and with at most 25 samples on each side;
/// otherwise the normal approximation, corrected for ties and for continuity.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|x| x.is_nan()) {
        return None;
    }
    let (mut u, mut tied) = (0.0_f64, false);
    for x in a {
        for y in b {
            tied |= x == y;
            u += if x > y {
                1.0
            } else if x < y {
                0.0
            } else {
                0.5
            };
        }
    }
    let all: Vec<_> = a.iter().chain(b).copied().collect();
    let groups = ties(&all);
    let tied = tied || !groups.is_empty();
    let (n, m) = (a.len() as f64, b.len() as f64);
    let extreme = u.max(n * m - u);
    let exact = !tied && a.len().max(b.len()) <= EXACT_MAX;
    let p = if exact {
        2.0 * at_most(&null(a.len(), b.len()), n * m - extreme)
    } else {
        let all = n + m;
        let lost: f64 = groups.iter().map(|t| t.powi(3) - t).sum();
        let deviation = (n * m / 12.0 * (all + 1.0 - lost / (all * (all - 1.0)))).sqrt();
        match (extreme - n * m / 2.0 - 0.5) / deviation {
            z if z.is_finite() => 2.0 * normal_cdf(-z),
            _ => 1.0, // every value is the same
        }
    };
    Some(MannWhitney { u, p: p.min(1.0), exact })
}

/// How far `b` lies above `a`: the median of all differences, with the interval that inverts the
/// Mann–Whitney test. Hodges and Lehmann, "Estimates of Location Based on Rank Tests" (1963). The
/// confidence is at least `level`; `None` if the samples are too few for it (four on each side do
/// for 95 %).
#[must_use]
pub fn hodges_lehmann(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    let mut differences: Vec<_> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    if differences.iter().any(|d| d.is_nan()) {
        return None;
    }
    differences.sort_by(f64::total_cmp);
    let outside = outside(a.len(), b.len(), (1.0 - level) / 2.0)?;
    let low = *differences.get(outside)?;
    let high = *differences.get(differences.len().checked_sub(outside + 1)?)?;
    Some(Interval { value: quantile_of_sorted(&differences, 0.5)?, low, high })
}

/// Where the middle of symmetric samples lies: the median of the means of all pairs, each with itself
/// as well, with the interval that inverts Wilcoxon's signed-rank test ("Individual Comparisons by
/// Ranking Methods", 1945). Exact with up to 50 samples, whatever the shape of their noise; a wild
/// sample moves it little. The confidence is at least `level`; `None` if the samples are too few for
/// it (six do for 95 %) or more than a thousand.
#[must_use]
pub fn signed_rank(samples: &[f64], level: f64) -> Option<Interval> {
    if samples.len() > SIGNED_MAX || samples.iter().any(|x| x.is_nan()) {
        return None;
    }
    let with = |(at, x): (usize, &f64)| {
        let x = *x;
        samples.iter().skip(at).map(move |y| f64::midpoint(x, *y))
    };
    let mut means: Vec<_> = samples.iter().enumerate().flat_map(with).collect();
    means.sort_by(f64::total_cmp);
    let outside = outside_signed(samples.len(), (1.0 - level) / 2.0)?;
    let low = *means.get(outside)?;
    let high = *means.get(means.len().checked_sub(outside + 1)?)?;
    Some(Interval { value: quantile_of_sorted(&means, 0.5)?, low, high })
}

/// The same for the signed-rank statistic, the sum of the ranks of what lies above.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn outside_signed(n: usize, probability: f64) -> Option<usize> {
    let count = n as f64;
    if n > SIGNED_EXACT_MAX {
        let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        let middle = count * (count + 1.0) / 4.0;
        return Some((middle - 0.5 + normal_quantile(probability) * deviation).floor() as usize);
    }
    // How many of the 2ⁿ sets of ranks have each sum.
    let mut sums = vec![0.0; n * (n + 1) / 2 + 1];
    sums.iter_mut().take(1).for_each(|one| *one = 1.0);
    for rank in 1..=n {
        let shifted = std::iter::repeat_n(0.0, rank).chain(sums.iter().copied());
        sums = sums.iter().zip(shifted).map(|(here, below)| here + below).collect();
    }
    within(sums.iter().map(|count| count / 2.0_f64.powf(n as f64)), probability)
}

/// The index of the last share whose sum with those before it stays within a probability.
fn within(shares: impl Iterator<Item = f64>, probability: f64) -> Option<usize> {
    let mut sum = 0.0;
    let sums = shares.map(|share| {
        sum += share;
        sum
    });
    sums.take_while(|sum| *sum <= probability).count().checked_sub(1)
}

/// The greatest `u` that is reached or gone below with no more than this probability: so many
/// differences lie outside the interval at each end.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn outside(n: usize, m: usize, probability: f64) -> Option<usize> {
    if n.max(m) <= EXACT_MAX {
        return within(null(n, m).into_iter(), probability);
    }
    let (n, m) = (n as f64, m as f64);
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let bound = (n * m / 2.0 - 0.5 + normal_quantile(probability) * deviation).floor();
    (bound >= 0.0).then_some(bound as usize)
}

/// The probability of each `u` from 0 to n·m when both sides are alike and nothing is tied: the
/// coefficients of the Gaussian binomial ∏ (1 − qⁿ⁺ⁱ) / (1 − qⁱ).
fn null(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![0.0; n * m + 1];
    counts.iter_mut().take(1).for_each(|one| *one = 1.0);
    for i in 1..=m {
        let shifted = std::iter::repeat_n(0.0, n + i).chain(counts.iter().copied());
        let product = counts.iter().zip(shifted).map(|(here, below)| here - below);
        let mut quotient: Vec<f64> = Vec::with_capacity(counts.len());
        for (at, value) in product.enumerate() {
            let below = at.checked_sub(i).and_then(|at| quotient.get(at)).copied();
            quotient.push(value + below.unwrap_or(0.0));
        }
        counts = quotient;
    }
    let all: f64 = counts.iter().sum();
    counts.iter().map(|count| count / all).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn at_most(null: &[f64], u: f64) -> f64 {
    null.iter().take(u as usize + 1).sum()
}

/// The sizes of the groups of equal values, of those with more than one.
pub(super) fn ties(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let groups = sorted.chunk_by(|a, b| a == b).filter(|group| group.len() > 1);
    groups.map(|group| group.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_against_two_is_counted_by_hand() {
        // Six arrangements: u is 0, 1, 2, 2, 3, 4.
        assert_eq!(null(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0].map(|count| count / 6.0));
        let test = mann_whitney(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
        assert!((test.u, test.exact) == (0.0, true) && (test.p - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn all_equal_is_no_difference() {
        let test = mann_whitney(&[5.0; 4], &[5.0; 4]).unwrap();
        assert_eq!((test.u, test.p, test.exact), (8.0, 1.0, false));
        let shift = hodges_lehmann(&[5.0; 4], &[5.0; 4], 0.95).unwrap();
        assert_eq!(shift, Interval { value: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn the_interval_is_that_of_the_published_tables() {
        // The critical value at 5 %, two-sided: 23 for 10 and 10, 0 for 4 and 4, none for 3 and 3.
        assert_eq!(outside(10, 10, 0.025), Some(23));
        assert_eq!(outside(4, 4, 0.025), Some(0));
        assert_eq!(outside(3, 3, 0.025), None);
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95), None);
    }

    #[test]
    fn signed_ranks_are_those_of_the_published_tables() {
        // The critical values at 5 %, two-sided: 0 for 6, 8 for 10, 52 for 20, 434 for 50.
        for (n, critical) in [(6, 0), (10, 8), (20, 52), (50, 434)] {
            assert_eq!(outside_signed(n, 0.025), Some(critical), "{n}");
        }
        assert_eq!(outside_signed(5, 0.025), None);
        // 51: between 434 and 460, the critical values of 50 and 52 less and plus a little.
        assert!((434..470).contains(&outside_signed(51, 0.025).unwrap()));
    }

    #[test]
    fn the_middle_of_a_few_is_computed_by_hand() {
        // Six samples: all 21 means lie within, so that the ends are the least and the greatest.
        let middle = signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 60.0], 0.95).unwrap();
        assert_eq!((middle.low, middle.high), (1.0, 60.0));
        // The eleventh mean of 1 1.5 2 2 2.5 2.5 3 3 3 3.5 3.5 4 4 4.5 5 30.5 …
        assert_eq!(middle.value, 3.5);
    }

    #[test]
    fn the_approximation_meets_the_count() {
        let exact = outside(25, 25, 0.025).unwrap();
        let close = outside(26, 26, 0.025).unwrap();
        // The tables: 211 and 230.
        assert_eq!((exact, close), (211, 230));
    }
}
