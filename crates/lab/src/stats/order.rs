//! An interval for a median that assumes nothing about the distribution.

/// Most values: beyond, the chance of a sign pattern is below what a float holds.
const VALUES_MAX: usize = 1000;

/// The indices, from 0, of the two of `n` sorted values between which the median lies with a
/// confidence of at least 95 %: how many values fall below it is binomial (Thompson 1936). `None`
/// for fewer than 6 values, or more than 1000.
#[must_use]
pub fn median_interval(n: usize) -> Option<(usize, usize)> {
    if n > VALUES_MAX {
        return None;
    }
    // P(at most k of n below), summed up while it is at most 2.5 %.
    let mut chance = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut sum, mut k) = (chance, 0);
    while sum <= 0.025 {
        k += 1;
        #[allow(clippy::cast_precision_loss, reason = "at most a thousand")]
        let step = (n + 1 - k) as f64 / k as f64;
        chance *= step;
        sum += chance;
    }
    (k > 0).then(|| (k - 1, n - k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Ranks from 1, as they are published: 6: 1, 6; 10: 2, 9; 20: 6, 15; 30: 10, 21; 100: 40, 61.
        for (n, low, high) in [(6, 1, 6), (10, 2, 9), (20, 6, 15), (30, 10, 21), (100, 40, 61)] {
            assert_eq!(median_interval(n), Some((low - 1, high - 1)), "{n}");
        }
        assert_eq!([0, 1, 5, 1001].map(median_interval), [None; 4]);
        assert!(median_interval(1000).is_some_and(|(low, high)| low > 450 && high < 550));
    }
}
