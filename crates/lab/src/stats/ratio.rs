//! The ratio of two sets of positive samples. It is computed with logarithms, where a ratio is a
//! difference, noise that multiplies is noise that adds, and B/A is exactly the inverse of A/B.

use super::{
    Bootstrap, Interval, bootstrap, logs, mean, median, signed_rank, t_quantile, variance,
};

/// The ratio of the geometric means of `b` by `a`, whose samples come in pairs that met the same
/// weather: Student's interval ("The Probable Error of a Mean", 1908) on ln b − ln a. When both sides
/// have the same noise, the differences are symmetric whatever its shape, and the interval holds its
/// level with few pairs.
#[must_use]
pub fn ratio_paired(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    let differences = differences(a, b)?;
    let count = differences.len() as f64;
    let error = (variance(&differences)? / count).sqrt();
    Some(around(mean(&differences)?, error, count - 1.0, level))
}

/// The typical ratio of such pairs by ranks: [`signed_rank`] on ln b − ln a. It needs no more than
/// that the differences are symmetric around the true one, and a disturbed run moves it little.
#[must_use]
pub fn ratio_by_ranks(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    signed_rank(&differences(a, b)?, level).map(|middle| middle.map(f64::exp))
}

/// The ratio of the geometric means of samples that were taken apart: B. L. Welch, "The Generalization of 'Student's' Problem
/// when Several Different Population Variances are Involved" (1947).
#[must_use]
pub fn ratio_unpaired(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    let (a, b) = (logs(a)?, logs(b)?);
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (of_a, of_b) = (variance(&a)? / n, variance(&b)? / m);
    let both = of_a + of_b;
    let df = both * both / (of_a * of_a / (n - 1.0) + of_b * of_b / (m - 1.0));
    let difference = mean(&b)? - mean(&a)?;
    // Without any noise the interval is a point, whatever the degrees of freedom.
    let df = if df.is_finite() { df } else { n + m - 2.0 };
    Some(around(difference, both.sqrt(), df, level))
}

/// The ratio of the medians of `b` by `a`, with intervals by resampling pairs of runs.
#[must_use]
pub fn ratio_of_medians(a: &[f64], b: &[f64], level: f64, seed: u64) -> Option<Bootstrap> {
    let pairs: Vec<_> = a.iter().copied().zip(b.iter().copied()).collect();
    if a.len() != b.len() || logs(a).is_none() || logs(b).is_none() {
        return None;
    }
    let of = |pairs: &[(f64, f64)]| {
        let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        median(&b).unwrap_or(f64::NAN) / median(&a).unwrap_or(f64::NAN)
    };
    bootstrap(&pairs, of, level, seed)
}

fn differences(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    let (a, b) = (logs(a)?, logs(b)?);
    (a.len() == b.len()).then(|| b.iter().zip(a).map(|(b, a)| b - a).collect())
}

fn around(ln: f64, error: f64, df: f64, level: f64) -> Interval {
    let reach = t_quantile(f64::midpoint(1.0, level), df) * error;
    Interval { value: ln, low: ln - reach, high: ln + reach }.map(f64::exp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_turned_round_is_its_inverse() {
        let (a, b) = ([10.0, 11.0, 9.5, 10.2], [20.0, 23.0, 18.0, 21.0]);
        for ratio in [ratio_paired, ratio_unpaired] {
            let (one, other) = (ratio(&a, &b, 0.95).unwrap(), ratio(&b, &a, 0.95).unwrap());
            assert!((one.value * other.value - 1.0).abs() < 1e-12);
            assert!((one.low * other.high - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn what_has_no_ratio_gives_none() {
        assert_eq!(ratio_paired(&[1.0], &[2.0], 0.95), None);
        assert_eq!(ratio_paired(&[1.0, 2.0], &[2.0], 0.95), None);
        assert_eq!(ratio_paired(&[1.0, 0.0], &[2.0, 2.0], 0.95), None);
        assert!(ratio_of_medians(&[1.0, -1.0], &[1.0, 1.0], 0.95, 1).is_none());
    }

    #[test]
    fn without_noise_the_interval_is_a_point() {
        let exact = ratio_unpaired(&[2.0; 3], &[3.0; 3], 0.95).unwrap();
        assert!((exact.low - 1.5).abs() < 1e-12 && (exact.high - 1.5).abs() < 1e-12);
    }
}
