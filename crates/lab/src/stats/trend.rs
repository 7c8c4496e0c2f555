//! Whether a series of values rises or falls, and how fast, untroubled by single outliers.

use serde::{Deserialize, Serialize};

use super::rank::ties;
use super::{Interval, normal_cdf, normal_quantile, quantile_of_sorted};

/// Most points of a series. Time and memory grow with the square: a thousand make half a million
/// slopes, 4 MB.
pub const TREND_POINTS_MAX: usize = 1000;

/// Whether there is a trend at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MannKendall {
    /// Pairs of points that rise, less pairs that fall.
    pub s: i64,
    /// `s` in standard deviations, corrected for ties and continuity.
    pub z: f64,
    /// The two-sided probability of a `z` at least this far out, were there no trend.
    pub p: f64,
    /// Kendall's τ-b: 1 when every pair rises, −1 when every pair falls.
    pub tau: f64,
}

/// Mann, "Nonparametric Tests Against Trend" (1945), and Kendall, "Rank Correlation Methods" (1975), of
/// values in the order of time. `None` of fewer than four, which can show nothing, or more than
/// [`TREND_POINTS_MAX`].
#[must_use]
pub fn mann_kendall(values: &[f64]) -> Option<MannKendall> {
    if !(4..=TREND_POINTS_MAX).contains(&values.len()) || values.iter().any(|x| x.is_nan()) {
        return None;
    }
    let later = |at: usize| values.iter().skip(at + 1);
    let signs = |(at, x): (usize, &f64)| {
        later(at).map(|y| i64::from(y > x) - i64::from(y < x)).sum::<i64>()
    };
    let s: i64 = values.iter().enumerate().map(signs).sum();
    let (n, ties) = (values.len() as f64, ties(values));
    let tied = |weight: fn(f64) -> f64| ties.iter().map(|t| weight(*t)).sum::<f64>();
    let variance = spread(n) - tied(spread);
    let pairs = n * (n - 1.0) / 2.0;
    let untied = pairs - tied(|t| t * (t - 1.0) / 2.0);
    let z = if s == 0 { 0.0 } else { (s - s.signum()) as f64 / variance.sqrt() };
    let tau = if untied > 0.0 { s as f64 / (pairs * untied).sqrt() } else { 0.0 };
    Some(MannKendall { s, z, p: (2.0 * normal_cdf(-z.abs())).min(1.0), tau })
}

/// The slope of a series of (time, value), in units of value per unit of time: the median over all
/// pairs. Theil, "A Rank-Invariant Method of Linear and Polynomial Regression Analysis" (1950); the
/// interval is that of Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau" (1968).
/// `None` of fewer than three points at different times, or more than [`TREND_POINTS_MAX`].
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
pub fn theil_sen(points: &[(f64, f64)], level: f64) -> Option<Interval> {
    if points.len() < 3 || points.len() > TREND_POINTS_MAX {
        return None;
    }
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    for (at, (t, y)) in points.iter().enumerate() {
        let later = points.iter().skip(at + 1).filter(|(later, _)| later != t);
        slopes.extend(later.map(|(later, value)| (value - y) / (later - t)));
    }
    if slopes.is_empty() || slopes.iter().any(|slope| !slope.is_finite()) {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let (times, values): (Vec<_>, Vec<_>) = points.iter().copied().unzip();
    let tied: f64 = [ties(&times), ties(&values)].iter().flatten().map(|t| spread(*t)).sum();
    let deviation = (spread(points.len() as f64) - tied).max(0.0).sqrt();
    let reach = normal_quantile(f64::midpoint(1.0, level)) * deviation;
    let (count, last) = (slopes.len() as f64, (slopes.len() - 1) as f64);
    let low = ((count - reach) / 2.0).round_ties_even() - 1.0;
    let high = ((count + reach) / 2.0).round_ties_even();
    let at = |place: f64| slopes.get(place.clamp(0.0, last) as usize).copied();
    Some(Interval { value: quantile_of_sorted(&slopes, 0.5)?, low: at(low)?, high: at(high)? })
}

/// The variance of S for n values without ties; what a group of n equal values takes from it.
fn spread(n: f64) -> f64 {
    n * (n - 1.0) * (2.0 * n + 5.0) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_has_its_slope() {
        let points: Vec<_> = (0..20).map(|t| (f64::from(t), 3.0 + 2.0 * f64::from(t))).collect();
        let slope = theil_sen(&points, 0.95).unwrap();
        assert_eq!((slope.value, slope.low, slope.high), (2.0, 2.0, 2.0));
        let values: Vec<_> = points.iter().map(|(_, y)| *y).collect();
        let trend = mann_kendall(&values).unwrap();
        assert!((trend.s, trend.tau) == (190, 1.0) && trend.p < 1e-6, "{trend:?}");
    }

    #[test]
    fn a_constant_has_no_trend() {
        let trend = mann_kendall(&[7.0; 12]).unwrap();
        assert_eq!((trend.s, trend.p, trend.tau), (0, 1.0, 0.0));
        assert_eq!(theil_sen(&[(0.0, 7.0), (1.0, 7.0), (2.0, 7.0)], 0.95).unwrap().value, 0.0);
    }

    #[test]
    fn one_wild_point_moves_the_slope_little() {
        let mut points: Vec<_> = (0..30).map(|t| (f64::from(t), f64::from(t))).collect();
        points[29].1 = 1e6;
        let slope = theil_sen(&points, 0.95).unwrap();
        assert!((slope.value - 1.0).abs() < 1e-9, "{slope:?}");
    }

    #[test]
    fn too_little_gives_nothing() {
        assert!(mann_kendall(&[1.0, 2.0, 3.0]).is_none());
        assert!(theil_sen(&[(0.0, 1.0), (0.0, 2.0), (0.0, 3.0)], 0.95).is_none());
        assert!(mann_kendall(&vec![0.0; TREND_POINTS_MAX + 1]).is_none());
    }
}
