//! The statistics against figures that `SciPy` computed; `tests/vectors/README.md` says how.
#![allow(clippy::unwrap_used, reason = "a test")]

use mcplane_lab::stats::{
    Rng, bootstrap, hodges_lehmann, mann_kendall, mann_whitney, mean, median, normal_cdf,
    normal_quantile, quantile, ratio_paired, ratio_unpaired, signed_rank, t_cdf, t_quantile,
    theil_sen,
};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/scipy.json")).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value[name].as_array().unwrap();
    assert!(!list.is_empty(), "no vectors for {name}");
    list
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Equal to nine digits, or to 1e-12 near zero.
#[track_caller]
fn same(got: f64, want: f64) {
    let close = (got - want).abs() <= (1e-9 * want.abs()).max(1e-12);
    assert!(close || (want.abs() < 1e-3 && (got / want - 1.0).abs() < 1e-9), "{got} for {want}");
}

#[test]
fn distributions() {
    let vectors = vectors();
    for row in list(&vectors, "normal_cdf") {
        let want = number(&row[1]);
        assert!((normal_cdf(number(&row[0])) / want - 1.0).abs() < 1e-9, "{row}");
    }
    for row in list(&vectors, "normal_quantile") {
        same(normal_quantile(number(&row[0])), number(&row[1]));
    }
    for row in list(&vectors, "t_cdf") {
        let want = number(&row[2]);
        assert!((t_cdf(number(&row[0]), number(&row[1])) / want - 1.0).abs() < 1e-9, "{row}");
    }
    for row in list(&vectors, "t_quantile") {
        same(t_quantile(number(&row[0]), number(&row[1])), number(&row[2]));
    }
}

#[test]
fn quantiles() {
    for case in list(&vectors(), "quantiles") {
        for row in list(case, "q") {
            same(quantile(&numbers(&case["x"]), number(&row[0])).unwrap(), number(&row[1]));
        }
    }
}

#[test]
fn ranks() {
    for case in list(&vectors(), "mann_whitney") {
        let (a, b) = (numbers(&case["a"]), numbers(&case["b"]));
        let test = mann_whitney(&a, &b).unwrap();
        same(test.u, number(&case["u"]));
        let name = if test.exact { "p_exact" } else { "p_normal" };
        same(test.p, number(&case[name]));
        assert_eq!(test.exact, case.get("p_exact").is_some() && a.len() <= 25);
        if let Some(shift) = hodges_lehmann(&a, &b, 0.95) {
            same(shift.value, number(&case["shift"]));
            // The interval inverts the test: a shift by its ends is just not rejected, and by a
            // little more it is.
            let moved = |by: f64| {
                let back: Vec<_> = b.iter().map(|y| y - by).collect();
                mann_whitney(&a, &back).unwrap().p
            };
            let step = 1e-9;
            if test.exact {
                assert!(moved(shift.low - step) <= 0.05 && moved(shift.low + step) > 0.05);
                assert!(moved(shift.high + step) <= 0.05 && moved(shift.high - step) > 0.05);
            }
        }
    }
}

#[test]
fn signed_ranks() {
    for case in list(&vectors(), "signed_rank") {
        let middle = signed_rank(&numbers(&case["x"]), 0.95).unwrap();
        for (got, name) in [(middle.value, "value"), (middle.low, "low"), (middle.high, "high")] {
            same(got, number(&case[name]));
        }
    }
}

#[test]
fn ratios() {
    for case in list(&vectors(), "ratio") {
        let (a, b) = (numbers(&case["a"]), numbers(&case["b"]));
        let paired = ratio_paired(&a, &b, 0.95).unwrap();
        let unpaired = ratio_unpaired(&a, &b, 0.95).unwrap();
        for (got, name) in [(paired, "paired"), (unpaired, "welch")] {
            same(got.value, number(&case["ratio"]));
            same(got.low, number(&case[name][0]));
            same(got.high, number(&case[name][1]));
        }
    }
}

#[test]
fn trends() {
    for case in list(&vectors(), "trend") {
        let (t, y) = (numbers(&case["t"]), numbers(&case["y"]));
        let points: Vec<_> = t.into_iter().zip(y.iter().copied()).collect();
        let slope = theil_sen(&points, 0.95).unwrap();
        same(slope.value, number(&case["slope"]));
        same(slope.low, number(&case["low"]));
        same(slope.high, number(&case["high"]));
        let trend = mann_kendall(&y).unwrap();
        assert_eq!(trend.s, case["s"].as_i64().unwrap());
        same(trend.z, number(&case["z"]));
        same(trend.p, number(&case["p"]));
        same(trend.tau, number(&case["tau_b"]));
    }
}

#[test]
fn resampling() {
    let vectors = vectors();
    let mut rng = Rng::new(vectors["splitmix"]["seed"].as_u64().unwrap());
    for value in list(&vectors["splitmix"], "values") {
        assert_eq!(rng.next().to_string(), value.as_str().unwrap());
    }
    for case in list(&vectors, "bootstrap") {
        let statistic: fn(&[f64]) -> Option<f64> =
            if case["statistic"] == "mean" { mean } else { median };
        let of = |samples: &[f64]| statistic(samples).unwrap();
        let seed = case["seed"].as_u64().unwrap();
        let found = bootstrap(&numbers(&case["x"]), of, 0.95, seed).unwrap();
        for (got, name) in [(found.percentile, "percentile"), (found.bca, "bca")] {
            same(got.value, number(&case["estimate"]));
            same(got.low, number(&case[name][0]));
            same(got.high, number(&case[name][1]));
        }
    }
}
