//! What figures mean: whether something changed, whether that may be released, whether it drifts.
//!
//! * [`judge`]  — the one rule for ratios (this file).
//! * `compare`  — two sides that were measured in turns.
//! * `contest`  — everything about targets that were measured in turns, and `text` for people.
//! * `recorded` — result files, of this version or an older one.
//! * `gate`     — a result against a baseline, by a profile of limits.
//! * `assert`   — limits that a user wrote.
//! * `drift`    — figures over time; `drifting` — those of a run.

mod assert;
mod compare;
mod contest;
mod drift;
mod drifting;
mod gate;
mod recorded;
mod text;

pub use assert::{Assertions, Facts};
pub use compare::{EFFECT_DEFAULT, PAIRS_DEFAULT, PAIRS_MIN, compare};
pub use drift::{Drift, Flag, Point, Trend, drift};
pub use gate::{Finding, Gate, Outcome, PROFILES, Profile, gate};
pub use recorded::{Group, RUN_NOISE, Recorded, RecordedError, TOO_FEW};

pub use crate::results::{Checked, Comparison, Contest, Metric, Role, Series, Side, Verdict};
use crate::stats::Interval;

/// Judges a ratio by the least effect that matters, as a fraction: 0.05 for 5 %.
///
/// With `e` = ln(1 + effect), the ratio's logarithm `r` and its interval:
///
/// * **faster**, **slower**: the interval excludes 0, and |r| ≥ e;
/// * **no difference seen**: otherwise, if |r| < e and the interval lies within ±2e;
/// * **cannot tell**: otherwise.
///
/// Why 2e: an interval within ±e would be the textbook's test of equivalence, but ten pairs of runs
/// of the same program at the usual noise of 3 to 4 % give one only two times in three.
#[must_use]
pub fn judge(ratio: &Interval, effect: f64, more_is_better: bool) -> Verdict {
    let limit = effect.ln_1p();
    let ln = ratio.map(f64::ln);
    if !ln.contains(0.0) && ln.value.abs() >= limit {
        let is_more = ln.value > 0.0;
        return if is_more == more_is_better { Verdict::Faster } else { Verdict::Slower };
    }
    let ruled_out = ln.low >= -2.0 * limit && ln.high <= 2.0 * limit;
    if ln.value.abs() < limit && ruled_out { Verdict::NoDifference } else { Verdict::CannotTell }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64, low: f64, high: f64, more_is_better: bool) -> Verdict {
        judge(&Interval { value, low, high }, 0.05, more_is_better)
    }

    #[test]
    fn each_region_has_its_verdict() {
        for (value, low, high, verdict) in [
            (1.10, 1.06, 1.14, Verdict::Faster),
            (1.06, 1.01, 1.11, Verdict::Faster),
            (0.90, 0.86, 0.94, Verdict::Slower),
            (1.00, 0.97, 1.03, Verdict::NoDifference),
            (1.03, 1.01, 1.05, Verdict::NoDifference), // sure, and too small to matter
            (1.02, 0.96, 1.09, Verdict::NoDifference),
            (1.02, 0.90, 1.15, Verdict::CannotTell), // could be a lot
            (1.06, 0.99, 1.10, Verdict::CannotTell), // matters, may be chance
            (f64::NAN, f64::NAN, f64::NAN, Verdict::CannotTell),
        ] {
            assert_eq!(of(value, low, high, true), verdict, "{value} [{low}, {high}]");
        }
    }

    #[test]
    fn a_longer_latency_is_slower() {
        assert_eq!(of(1.10, 1.06, 1.14, false), Verdict::Slower);
        assert_eq!(of(0.90, 0.86, 0.94, false), Verdict::Faster);
    }
}
