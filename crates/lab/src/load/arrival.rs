//! When the calls of an open loop are meant to begin.
//!
//! Every process counts calls along a course `Λ(t)`, the calls meant before `t`. A constant spacing
//! takes its whole numbers; a Poisson process takes the points of one of rate 1, `E₁, E₁ + E₂, …`
//! with exponential steps, and maps them through `Λ⁻¹` (Çinlar 1975, inversion), which holds for
//! a rate that changes as well.

use std::time::Duration;

use crate::results::shape::{Rate, a_time};
use crate::results::{Arrivals, Shape, Spacing};
use crate::spec::{Field, SpecError};

impl Arrivals {
    /// Checks every bound.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let (curve, field) = (self.shape.curve(), Field::from(self.shape));
        curve.check().map_err(|(got, takes)| SpecError::value(field, got, takes))?;
        match (self.spacing, curve.why_constant()) {
            (Spacing::Poisson, Some(why)) => {
                let what = ["got poisson with ".into(), field.into()];
                Err(SpecError::new(Field::Arrivals, what)
                    .with(format!("; it takes constant: {why}")))
            }
            _ => Ok(()),
        }
    }
}

/// Checks a time by what every time may be.
pub(crate) fn a_duration(field: Field, time: Duration) -> Result<(), SpecError> {
    a_time(time).map_err(|(got, takes)| SpecError::value(field, got, takes))
}

/// The shape over a run of known length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    arrivals: Arrivals,
    /// Seconds.
    length_s: f64,
}

impl Course {
    /// Over a run of this length.
    pub(crate) fn over(arrivals: Arrivals, length: Duration) -> Self {
        Self { arrivals, length_s: length.as_secs_f64() }
    }

    /// Over a run of so many calls.
    #[allow(clippy::cast_precision_loss, reason = "more than 2^53 calls are not made")]
    pub(crate) fn of(arrivals: Arrivals, calls: u64) -> Self {
        Self { arrivals, length_s: calls as f64 / arrivals.rate_per_s() }
    }

    /// The course of a warm-up: at the mean rate, if the rate changes.
    pub(crate) fn level(self) -> Self {
        if self.arrivals.shape.curve().is_level() {
            return self;
        }
        let shape = Shape::Rate(Rate { per_s: self.arrivals.rate_per_s() });
        Self { arrivals: Arrivals { shape, ..self.arrivals }, ..self }
    }

    /// Calls meant before `at`.
    pub(crate) fn calls_before(&self, at: Duration) -> f64 {
        self.arrivals.shape.curve().calls_before(at, self.length_s)
    }

    /// When a call is meant, if it is.
    fn instant_of(&self, call: f64) -> Option<Duration> {
        let seconds = self.arrivals.shape.curve().second_of(call, self.length_s);
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// The intended instants of one slice, counted from its start.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    course: Course,
    random: Option<Random>,
    /// Where on the course the slice begins.
    start: Duration,
    /// The next call's place on the course.
    next: f64,
    /// Only instants before this, and so many, are given.
    length: Option<Duration>,
    left: u64,
}

impl Schedule {
    /// The calls that are meant in `length` from `start` on. `slice` tells the random steps of one
    /// slice from those of another.
    pub(crate) fn within(course: Course, start: Duration, length: Duration, slice: u64) -> Self {
        Self::new(course, start, course.calls_before(start), (Some(length), u64::MAX), slice)
    }

    /// The `calls` calls that follow the first `before` ones.
    #[allow(clippy::cast_precision_loss, reason = "more than 2^53 calls are not made")]
    pub(crate) fn after(course: Course, before: u64, calls: u64, slice: u64) -> Self {
        let before = before as f64;
        Self::new(
            course,
            course.instant_of(before).unwrap_or_default(),
            before,
            (None, calls),
            slice,
        )
    }

    fn new(
        course: Course,
        start: Duration,
        from: f64,
        (length, left): (Option<Duration>, u64),
        slice: u64,
    ) -> Self {
        let mut random = match course.arrivals.spacing {
            Spacing::Poisson => Some(Random::new(course.arrivals.seed, slice)),
            Spacing::Constant => None,
        };
        let next = match &mut random {
            Some(random) => from + random.exponential(),
            // A rounding error must not lose the call that is meant right at the start.
            None => (from - 1e-9 * from.max(1.0)).ceil(),
        };
        Self { course, random, start, next, length, left }
    }

    /// When the first call is meant that is not of this slice any more.
    pub(crate) fn end(&self) -> Duration {
        self.length.unwrap_or_else(|| {
            let calls = usize::try_from(self.left).unwrap_or(usize::MAX);
            let mut open = Self { left: u64::MAX, ..self.clone() };
            open.nth(calls).unwrap_or_default()
        })
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.left == 0 {
            return None;
        }
        let at = self.course.instant_of(self.next)?.saturating_sub(self.start);
        if self.length.is_some_and(|length| at >= length) {
            return None;
        }
        self.next += self.random.as_mut().map_or(1.0, Random::exponential);
        self.left -= 1;
        Some(at)
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(seed: u64, stream: u64) -> Self {
        // The stream's number is mixed first: neighbours would be the same sequence, shifted.
        Self(seed ^ Self(stream).next())
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Exponential with mean 1, by inversion.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn exponential(&mut self) -> f64 {
        // Over (0, 1], whose logarithm is finite.
        let uniform = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::shape::{Burst, Ramp};

    fn of(shape: Shape, spacing: Spacing) -> Arrivals {
        Arrivals { shape, spacing, seed: 7 }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Instants of a run of `length` ms, cut into `slices`, in ms of the whole run.
    fn run(arrivals: Arrivals, length: u64, slices: u64) -> Vec<f64> {
        let course = Course::over(arrivals, ms(length));
        let each = ms(length / slices);
        let slice = |i: u64| {
            let start = each * u32::try_from(i).unwrap();
            let instants = Schedule::within(course, start, each, i);
            instants.map(move |at| (at + start).as_secs_f64() * 1e3)
        };
        (0..slices).flat_map(slice).collect()
    }

    #[test]
    fn constant_spacing_goes_on_over_the_slices() {
        let arrivals = of(Shape::Rate(Rate { per_s: 40.0 }), Spacing::Constant);
        let whole = run(arrivals, 1000, 1);
        assert_eq!(whole.len(), 40);
        assert_eq!((whole[0], whole[39]), (0.0, 975.0));
        let cut = run(arrivals, 1000, 8);
        assert!(whole.iter().zip(&cut).all(|(a, b)| (a - b).abs() < 1e-6), "{cut:?}");
        assert_eq!(cut.len(), 40);
    }

    #[test]
    fn bursts_come_at_their_period_whatever_the_slices() {
        let arrivals =
            of(Shape::Burst(Burst { calls: 3, every_ns: 400_000_000 }), Spacing::Constant);
        let want = [0.0, 0.0, 0.0, 400.0, 400.0, 400.0, 800.0, 800.0, 800.0];
        assert_eq!((run(arrivals, 1000, 1), run(arrivals, 1000, 10)), (want.into(), want.into()));
        assert!((arrivals.rate_per_s() - 7.5).abs() < 1e-9);
    }

    #[test]
    fn a_ramp_meets_its_rates() {
        for (from, to) in [(100.0, 2000.0), (2000.0, 100.0), (0.0, 1000.0), (1000.0, 0.0)] {
            let arrivals =
                of(Shape::Ramp(Ramp { from_per_s: from, to_per_s: to }), Spacing::Constant);
            let instants = run(arrivals, 4000, 4);
            let want = 4.0 * (from + to) / 2.0;
            assert!((instants.len() as f64 - want).abs() <= 1.0, "{} for {want}", instants.len());
            assert!(instants.is_sorted());
            // In each second as many as its mean rate.
            for second in 0..4_i32 {
                let (low, high) = (f64::from(second) * 1e3, f64::from(second + 1) * 1e3);
                let count = instants.iter().filter(|at| **at >= low && **at < high).count();
                let want = from + (to - from) * (f64::from(second) + 0.5) / 4.0;
                assert!((count as f64 - want).abs() <= 1.5, "{count} for {want}");
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_dispersion_of_one() {
        let arrivals = of(Shape::Rate(Rate { per_s: 1000.0 }), Spacing::Poisson);
        let instants = run(arrivals, 100_000, 10);
        // 100,000 expected, standard deviation 316: within four of them.
        assert!((instants.len() as f64 - 100_000.0).abs() < 1_265.0, "{}", instants.len());
        assert!(instants.is_sorted());
        // Variance by mean of counts per 10 ms is 1: over n windows its deviation is √(2 / n).
        let mut counts = vec![0.0_f64; 10_000];
        instants.iter().for_each(|at| counts[(at / 10.0) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 1e4;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 9_999.0;
        assert!((variance / mean - 1.0).abs() < 4.0 * (2.0_f64 / 1e4).sqrt(), "{variance} {mean}");
    }

    #[test]
    fn a_seed_repeats_and_slices_and_seeds_differ() {
        let arrivals = of(Shape::Rate(Rate { per_s: 100.0 }), Spacing::Poisson);
        let course = |seed| Course::over(Arrivals { seed, ..arrivals }, ms(1000));
        let steps = |seed, slice| {
            let instants = Schedule::within(course(seed), ms(0), ms(1000), slice);
            instants.collect::<Vec<_>>()
        };
        assert_eq!(steps(1, 0), steps(1, 0));
        assert_ne!(steps(1, 0), steps(2, 0));
        assert_ne!(steps(1, 0), steps(1, 1));
    }

    #[test]
    fn a_number_of_calls_is_kept_and_ends_with_the_next_one() {
        let arrivals = of(Shape::Rate(Rate { per_s: 100.0 }), Spacing::Constant);
        let course = Course::of(arrivals, 20);
        let second = Schedule::after(course, 5, 15, 1);
        assert_eq!(second.end(), ms(150));
        assert_eq!((second.clone().next(), second.count()), (Some(ms(0)), 15));
        let burst = of(Shape::Burst(Burst { calls: 4, every_ns: 1_000_000 }), Spacing::Constant);
        let rest: Vec<_> = Schedule::after(Course::of(burst, 8), 2, 6, 0).collect();
        assert_eq!(rest, [0, 0, 1, 1, 1, 1].map(ms));
        let poisson = of(Shape::Rate(Rate { per_s: 100.0 }), Spacing::Poisson);
        assert_eq!(Schedule::after(Course::of(poisson, 20), 0, 20, 0).count(), 20);
    }
}
