//! Where a server stops giving more throughput for more load.
//!
//! Kneedle (Satopää, Albrecht, Irwin, Raghavan 2011) finds the rung: of all rungs the one whose
//! throughput, both axes scaled to 0…1, lies farthest above the diagonal. Rungs are far apart, so the
//! load itself is read off the two asymptotes of operational analysis (Denning and Buzen 1978): the
//! line through the lightest rung, on which nobody waits, and the level that the throughput reaches
//! at the knee. They meet at N* = C·(S + Z) calls in flight for a capacity C, a service time S and a
//! think time Z, and at C for a rate of arrivals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewest rungs that have a knee.
const RUNGS_MIN: usize = 3;

/// A distance from the diagonal that noise does not make.
const DISTANCE_MIN: f64 = 0.1;

/// A range of throughputs, as a part of the greatest, that counts as no rise at all.
const FLAT: f64 = 0.1;

/// A knee.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Knee {
    /// The load at which the asymptotes meet: calls in flight, or calls per second.
    pub load: f64,
    /// The throughput of the upper asymptote, in calls per second.
    pub throughput_per_s: f64,
    /// The rung that Kneedle chose.
    pub rung: f64,
    /// Whether the lightest rung already had all the throughput there is: the knee is at most there.
    pub from_the_first: bool,
}

/// The knee of points of load and throughput; `None` if there are fewer than three, or throughput
/// rose in step with the load to the last one.
#[must_use]
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    let mut points: Vec<_> = points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0 == b.0);
    let ((x_min, y_first), (x_max, _)) = (*points.first()?, *points.last()?);
    if points.len() < RUNGS_MIN {
        return None;
    }
    let y_max = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let y_min = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    if y_max - y_first < FLAT * y_max {
        let throughput_per_s = y_max;
        return Some(Knee { load: x_min, throughput_per_s, rung: x_min, from_the_first: true });
    }
    let above = |(x, y): &(f64, f64)| (y - y_min) / (y_max - y_min) - (x - x_min) / (x_max - x_min);
    let (rung, distance) = points
        .iter()
        .map(|point| (point.0, above(point)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, distance)| *distance >= DISTANCE_MIN)?;
    debug_assert!(distance.is_finite(), "the ends are apart");
    let level = points.iter().filter(|point| point.0 >= rung).map(|point| point.1);
    let throughput_per_s = level.fold(0.0, f64::max);
    let load = throughput_per_s * x_min / y_first;
    Some(Knee { load, throughput_per_s, rung, from_the_first: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNGS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    fn of(throughput: impl Fn(f64) -> f64) -> Option<Knee> {
        knee(&RUNGS.map(|load| (load, throughput(load))))
    }

    #[test]
    fn a_server_of_known_capacity_has_its_knee() {
        // C = k / S and Z: N* = C·(S + Z).
        for (at_once, service, think) in [
            (4.0, 0.02, 0.0),
            (6.0, 0.005, 0.0),
            (1.0, 0.01, 0.05),
            (20.0, 0.1, 0.0),
            (2.0, 0.1, 0.0),
        ] {
            let capacity = at_once / service;
            let want = capacity * (service + think);
            let knee = of(|n| (n / (service + think)).min(capacity)).unwrap();
            assert!((knee.load / want - 1.0).abs() < 1e-9, "{knee:?} for {want}");
            assert!((knee.throughput_per_s / capacity - 1.0).abs() < 1e-9);
            assert!(knee.rung <= 2.0 * want && 2.0 * knee.rung >= want, "{knee:?}");
        }
    }

    #[test]
    fn noise_of_a_few_percent_moves_it_by_as_much() {
        for seed in 0..50_u32 {
            let noise = |n: f64| 1.0 + 0.02 * (f64::from(seed) * 7.3 + n * 1.7).sin();
            let knee = of(|n| noise(n) * n.min(6.0) * 100.0).unwrap();
            assert!((knee.load / 6.0 - 1.0).abs() < 0.05, "{knee:?}");
        }
    }

    #[test]
    fn rates_have_their_knee_at_the_capacity() {
        let rates = [100.0, 200.0, 400.0, 800.0, 1600.0];
        let knee = knee(&rates.map(|rate: f64| (rate, rate.min(330.0)))).unwrap();
        assert!((knee.load - 330.0).abs() < 1e-6 && knee.rung == 400.0, "{knee:?}");
    }

    #[test]
    fn a_server_that_thrashes_has_it_at_its_best() {
        // Gunther's law with σ = 0.02, κ = 0.002: the greatest throughput at √(0.98 / 0.002) = 22.
        let knee = of(|n| 100.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.002 * n * (n - 1.0))).unwrap();
        assert!((8.0..=16.0).contains(&knee.rung) && (8.0..22.0).contains(&knee.load), "{knee:?}");
    }

    #[test]
    fn one_at_a_time_is_full_from_the_first() {
        let knee = of(|n| 100.0 + 0.01 * n).unwrap();
        assert_eq!((knee.load, knee.rung, knee.from_the_first), (1.0, 1.0, true));
        let falling = of(|n| 100.0 / n.sqrt()).unwrap();
        assert!(falling.from_the_first);
    }

    #[test]
    fn no_knee_is_found_where_none_is() {
        assert_eq!(of(|n| 50.0 * n), None);
        assert_eq!(of(|n| 50.0 * n * (1.0 - 0.001 * n)), None);
        assert_eq!(knee(&[(1.0, 10.0), (2.0, 10.0)]), None);
        assert_eq!(knee(&[]), None);
    }
}
