//! Simulations: what the rule promises, at the noise that machines have. Seeded, so that they give
//! the same every time.

use super::*;
use crate::stats::Rng;

/// The noise of one run, with unit standard deviation on the logarithm.
type Shape = fn(&mut Rng) -> f64;

fn normal(rng: &mut Rng) -> f64 {
    rng.normal()
}

/// A run can be disturbed for long, never undisturbed for long: exponential, shifted to mean 0.
fn skewed(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln() - 1.0
}

/// Pairs of runs with this noise each, B `effect` times A, and weather that both of a pair share.
fn pairs(rng: &mut Rng, shape: Shape, noise: f64, effect: f64) -> (Vec<f64>, Vec<f64>) {
    let mut weather = 0.0;
    let mut pair = || {
        weather += 0.01 * rng.normal();
        let mut run = || 1000.0 * (weather + noise * shape(rng)).exp();
        (run(), effect * run())
    };
    (0..PAIRS_DEFAULT).map(|_| pair()).unzip()
}

/// How many of `sets` comparisons `count` picks.
fn picked(
    sets: usize,
    (shape, noise, effect): (Shape, f64, f64),
    pick: impl Fn(&[f64], &[f64]) -> bool,
) -> f64 {
    let mut rng = Rng::new(2026);
    let hits = (0..sets).filter(|_| {
        let (a, b) = pairs(&mut rng, shape, noise, effect);
        pick(&a, &b)
    });
    hits.count() as f64 / sets as f64
}

fn verdict(a: &[f64], b: &[f64]) -> Verdict {
    let ratio = ratio(a, b, true).unwrap();
    judge(&ratio, EFFECT_DEFAULT, true)
}

const SHAPES: [Shape; 2] = [normal, skewed];

#[test]
fn the_intervals_cover_what_they_promise() {
    for shape in SHAPES {
        for effect in [1.0, 1.1] {
            for interval in [ratio_by_ranks, ratio_paired] {
                let covered = picked(1500, (shape, 0.035, effect), |a, b| {
                    interval(a, b, LEVEL).unwrap().contains(effect)
                });
                assert!((0.93..=0.97).contains(&covered), "ratio {effect}: {covered}");
            }
        }
    }
}

#[test]
fn so_does_the_interval_of_the_shift_and_the_one_of_runs_taken_apart() {
    let mut rng = Rng::new(7);
    for shape in SHAPES {
        let (mut shift, mut apart) = (0, 0);
        for _ in 0..1500 {
            let mut runs = || -> Vec<f64> {
                (0..PAIRS_DEFAULT).map(|_| 1000.0 * (0.035 * shape(&mut rng)).exp()).collect()
            };
            let (a, b) = (runs(), runs());
            let b: Vec<_> = b.iter().map(|b| b + 100.0).collect();
            shift += usize::from(hodges_lehmann(&a, &b, LEVEL).unwrap().contains(100.0));
            let b: Vec<_> = b.iter().map(|b| (b - 100.0) * 1.1).collect();
            apart += usize::from(ratio_unpaired(&a, &b, LEVEL).unwrap().contains(1.1));
        }
        for covered in [shift, apart].map(|count| f64::from(u32::try_from(count).unwrap()) / 1500.0)
        {
            assert!((0.93..=0.97).contains(&covered), "{covered}");
        }
    }
}

#[test]
fn the_same_against_itself_shows_no_difference() {
    for shape in SHAPES {
        for noise in [0.02, 0.03, 0.035, 0.04] {
            let same =
                picked(200, (shape, noise, 1.0), |a, b| verdict(a, b) == Verdict::NoDifference);
            assert!(same >= 0.95, "noise {noise}: {same}");
        }
    }
}

#[test]
fn ten_percent_are_found() {
    for shape in SHAPES {
        for (noise, least) in [(0.03, 0.99), (0.035, 0.97), (0.04, 0.96)] {
            for (effect, wanted) in [(1.1, Verdict::Faster), (1.0 / 1.1, Verdict::Slower)] {
                let found = picked(500, (shape, noise, effect), |a, b| verdict(a, b) == wanted);
                assert!(found >= least, "noise {noise}, effect {effect}: {found}");
            }
        }
    }
}

#[test]
fn of_twelve_pairs_one_may_be_wild() {
    let mut rng = Rng::new(5);
    let mut found = 0;
    for _ in 0..200 {
        let (mut a, mut b) = pairs(&mut rng, normal, 0.02, 1.1);
        let (more_a, more_b) = pairs(&mut rng, normal, 0.02, 1.1);
        a.extend(&more_a[..2]);
        b.extend(&more_b[..2]);
        b[2] *= 0.3;
        assert!(ratio_paired(&a, &b, LEVEL).unwrap().value < 1.03);
        found += usize::from(verdict(&a, &b) == Verdict::Faster);
    }
    assert!(found >= 190, "{found}");
}

#[test]
fn much_noise_cannot_be_told_through() {
    let silent = picked(200, (normal, 0.25, 1.0), |a, b| verdict(a, b) == Verdict::CannotTell);
    assert!(silent > 0.9, "{silent}");
    let mut rng = Rng::new(3);
    let (a, b) = pairs(&mut rng, normal, 0.25, 1.0);
    let found = compare(Metric::P99, &a, &b, true, EFFECT_DEFAULT).unwrap();
    // √2 · 25 % · 1.96 / √n = 4.9 %: about 200.
    let needed = found.samples_needed.unwrap();
    assert!((70..500).contains(&needed), "{needed}");
    assert!((0.12..0.4).contains(&found.noise), "{}", found.noise);
}

#[test]
fn latency_and_throughput_turn_opposite_ways() {
    let a = [100.0, 102.0, 98.0, 101.0];
    let b = a.map(|a| 1.2 * a);
    let of = |metric| compare(metric, &a, &b, true, 0.05).unwrap();
    assert_eq!(of(Metric::Throughput).verdict, Verdict::Faster);
    let slower = of(Metric::P99);
    assert_eq!((slower.verdict, slower.samples, slower.samples_needed), (Verdict::Slower, 4, None));
    assert!((slower.ratio.value - 1.2).abs() < 1e-9 && slower.noise < 1e-9);
    assert!((slower.shift.unwrap().value - 20.0).abs() < 2.0);
}

#[test]
fn what_the_machine_does_by_itself_is_no_verdict() {
    let a = [100.0, 102.0, 98.0, 101.0];
    let of = |by: f64| compare(Metric::P50, &a, &a.map(|a| by * a), true, 0.05).unwrap();
    let (noise, quiet) = (of(1.08), of(1.0));
    assert_eq!(of(1.1).calibrated(&noise).verdict, Verdict::CannotTell);
    assert!(of(1.1).calibrated(&noise).why.unwrap().contains("+8.0 %"));
    assert_eq!(of(1.5).calibrated(&noise).verdict, Verdict::Slower);
    assert_eq!(of(1.1).calibrated(&quiet).verdict, Verdict::Slower);
}

#[test]
fn too_little_is_not_judged() {
    assert!(compare(Metric::P50, &[1.0, 2.0], &[1.0, 2.0], true, 0.05).is_none());
    assert!(compare(Metric::P50, &[1.0, 2.0, 0.0], &[1.0, 2.0, 3.0], true, 0.05).is_none());
}
