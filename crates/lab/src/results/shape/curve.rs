//! What the lab has to know of a shape.

use std::time::Duration;

use crate::results::words::Words;

/// Highest rate of an open loop, in calls per second: more than one thread can begin.
pub const RATE_PER_S_MAX: f64 = 1e6;

/// Longest time limit, pause and warm-up: the range of the histogram.
pub const DURATION_MAX: Duration = Duration::from_secs(3600);

/// The calls that a shape asks for, counted as `Λ(t)`: those meant before `t`. A run lasts `length_s`
/// seconds.
pub(crate) trait Curve {
    /// Calls per second, averaged over the run.
    fn mean_per_s(&self) -> f64;

    /// `Λ`: calls meant before `at`.
    fn calls_before(&self, at: Duration, length_s: f64) -> f64;

    /// `Λ⁻¹`: the second in which a call is meant. It is not a number where there is no such call.
    fn second_of(&self, call: f64, length_s: f64) -> f64;

    fn told(&self, words: Words) -> String;

    /// Checks every bound.
    ///
    /// # Errors
    /// What it got, and what it takes.
    fn check(&self) -> Result<(), (String, String)>;

    /// Whether any part of a run is like any other.
    fn is_level(&self) -> bool {
        true
    }

    /// The shortest stretch that shows what the load is.
    fn window_min(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Why its calls cannot be spread at random, if they cannot.
    fn why_constant(&self) -> Option<&'static str> {
        None
    }
}

/// How a shape is written as text.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "there is no more to it")]
pub struct Syntax {
    /// Its form: `N/TIME`.
    pub form: &'static str,
    /// One that is right: `50/1s`.
    pub example: &'static str,
}

impl Syntax {
    /// What is wrong with any other text.
    pub(super) fn expected(&self) -> String {
        format!("not of the form {}, such as {}", self.form, self.example)
    }
}

/// Whether all of these are rates that can be made, and their mean is more than none.
pub(super) fn are_rates(rates: &[f64], mean: f64) -> bool {
    let possible = |rate: &f64| (0.0..=RATE_PER_S_MAX).contains(rate);
    mean > 0.0 && possible(&mean) && rates.iter().all(possible)
}

/// The rates that can be made.
pub(super) fn rates() -> String {
    format!("more than 0 to {RATE_PER_S_MAX:.0} calls/s")
}

/// Checks a time by what every time may be.
///
/// # Errors
/// What it got, and what it takes.
pub(crate) fn a_time(time: Duration) -> Result<(), (String, String)> {
    if time < Duration::from_millis(1) || time > DURATION_MAX {
        return Err((format!("{time:?}"), "1ms to 1h".to_owned()));
    }
    Ok(())
}
