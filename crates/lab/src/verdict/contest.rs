//! Several targets measured in turns: everything that `mcplane compare` found out.

use super::compare;
use crate::results::{Comparison, Contest, Environment, Metric, Role, Run, Side};
use crate::stats::median;

impl Contest {
    /// Compares the runs of the sides, the first of which is A. Runs with the same index were
    /// neighbours in time. Sides that have more runs than the shortest lose the last ones.
    #[must_use]
    pub fn new(
        environment: Environment,
        effect: f64,
        sides: Vec<(String, Role, Vec<Run>)>,
    ) -> Self {
        let pairs = sides.iter().map(|(_, _, runs)| runs.len()).min().unwrap_or(0);
        let base: Vec<_> = match sides.first() {
            Some((_, _, runs)) => runs.iter().take(pairs).cloned().collect(),
            None => Vec::new(),
        };
        let again = sides.iter().find(|(_, role, _)| *role == Role::Calibration);
        let noise = again.map(|(_, _, runs)| compared(&base, runs, effect)).unwrap_or_default();
        let of = |(at, (target, role, runs)): (usize, &(String, Role, Vec<Run>))| {
            let mut comparisons = match role {
                Role::Base => Vec::new(),
                Role::Calibration => noise.clone(),
                Role::Rival | Role::Gateway => compared(&base, runs, effect),
            };
            if *role != Role::Calibration {
                comparisons = calibrated(comparisons, &noise);
            }
            Side::new(at, target, *role, runs, comparisons)
        };
        let named = sides.iter().enumerate().map(of).collect();
        let runs = sides.into_iter().flat_map(|(_, _, runs)| runs).collect();
        Self::of(environment, effect, pairs, named, runs)
    }

    /// Whether every call of every side succeeded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.runs.iter().all(Run::is_clean)
    }
}

impl Side {
    fn new(
        at: usize,
        target: &str,
        role: Role,
        runs: &[Run],
        comparisons: Vec<Comparison>,
    ) -> Self {
        let letter = u8::try_from(at).ok().and_then(|at| b'A'.checked_add(at)).map(char::from);
        let name = match role {
            Role::Calibration => "A again".to_owned(),
            _ => letter.unwrap_or('?').to_string(),
        };
        let middle = |of: fn(&Run) -> Option<u64>| {
            median(&runs.iter().filter_map(of).map(|value| value as f64).collect::<Vec<_>>())
        };
        let spoken = |run: &Run| format!("{} {}", run.target.transport, run.target.revision);
        let broken = |run: &Run| run.results.first_failure.clone().or_else(|| run.broken.clone());
        Self {
            name,
            role,
            target: target.to_owned(),
            spoken: runs.first().map(spoken).unwrap_or_default(),
            runs: runs.len(),
            errors: runs.iter().map(|run| run.results.errors.total()).sum(),
            first_failure: runs.iter().find_map(broken),
            rss_bytes: middle(|run| run.results.resources.rss_bytes_max),
            processes: middle(|run| run.results.resources.processes_max),
            comparisons,
        }
    }
}

/// Every metric that enough pairs have.
fn compared(a: &[Run], b: &[Run], effect: f64) -> Vec<Comparison> {
    let value = |run: &Run, metric: Metric| {
        let results = &run.results;
        metric.of(results.throughput_per_s, &results.latency, results.resources.cpu_ns_per_call)
    };
    let of = |metric: Metric| {
        let both = |(a, b)| Some((value(a, metric)?, value(b, metric)?));
        let (a, b): (Vec<_>, Vec<_>) = a.iter().zip(b).filter_map(both).unzip();
        compare(metric, &a, &b, true, effect)
    };
    Metric::ALL.into_iter().filter_map(of).collect()
}

fn calibrated(comparisons: Vec<Comparison>, noise: &[Comparison]) -> Vec<Comparison> {
    let with = |comparison: Comparison| match noise.iter().find(|n| n.metric == comparison.metric) {
        Some(noise) => comparison.calibrated(noise),
        None => comparison,
    };
    comparisons.into_iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::shape::Rate;
    use crate::results::tests::sample;
    use crate::results::{Arrivals, Shape, Spacing, Verdict};
    use crate::verdict::EFFECT_DEFAULT;

    /// Runs at these rates, with latencies that go with them.
    fn runs(rates: &[f64]) -> Vec<Run> {
        let run = |rate: &f64| {
            let mut run = sample(5_000, false);
            run.results.throughput_per_s = *rate;
            for ns in [&mut run.results.latency.p50_ns, &mut run.results.latency.p99_ns] {
                *ns = ns.map(|ns| (ns as f64 * 1000.0 / rate) as u64);
            }
            run.results.resources.rss_bytes_max = Some(3 << 20);
            run.results.resources.processes_max = Some(2);
            run
        };
        rates.iter().map(run).collect()
    }

    const STEADY: [f64; 6] = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0];

    fn contest(role: Role, by: f64) -> Contest {
        let side = |name: &str, role, by: f64| {
            (name.to_owned(), role, runs(&STEADY.map(|rate| by * rate)))
        };
        let sides = vec![
            side("one", Role::Base, 1.0),
            side("two", role, by),
            side("one", Role::Calibration, 1.0),
        ];
        Contest::new(Environment::look(), EFFECT_DEFAULT, sides)
    }

    #[test]
    fn each_side_is_compared_with_the_first() {
        let contest = contest(Role::Rival, 1.2);
        let names: Vec<_> = contest.sides.iter().map(|side| side.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "A again"]);
        assert_eq!((contest.pairs, contest.runs.len()), (6, 18));
        let of = |side: usize, metric| {
            let rows = &contest.sides[side].comparisons;
            rows.iter().find(|row| row.metric == metric).unwrap().verdict
        };
        assert!(contest.sides[0].comparisons.is_empty());
        assert_eq!(of(1, Metric::Throughput), Verdict::Faster);
        assert_eq!(of(1, Metric::P99), Verdict::Faster);
        assert_eq!(of(1, Metric::P90), Verdict::NoDifference);
        assert_eq!(of(2, Metric::Throughput), Verdict::NoDifference);
    }

    #[test]
    fn its_text_says_it_in_words() {
        let text = contest(Role::Rival, 1.2).to_text(1000);
        assert!(text.contains("B       two  (stdio 2026-07-28)"), "{text}");
        assert!(text.contains("1.200 [1.200, 1.200]"), "{text}");
        assert!(text.contains("B: faster: throughput +20.0 % [+20.0, +20.0]; p50"), "{text}");
        assert!(text.contains("no difference seen: p90"), "{text}");
        assert!(text.contains("A again: the noise of this machine: throughput"), "{text}");
    }

    #[test]
    fn an_open_loop_is_told_by_its_rate() {
        let mut contest = contest(Role::Rival, 1.2);
        assert!(
            contest.to_text(1000).contains(" in flight · 6 pairs"),
            "{}",
            contest.to_text(1000)
        );
        let shape = Shape::Rate(Rate { per_s: 1000.0 });
        let arrivals = Arrivals { shape, spacing: Spacing::Poisson, seed: 1 };
        contest.runs[0].plan.arrivals = Some(arrivals);
        assert!(
            contest.to_text(1000).contains(" · 1,000/s poisson · 6 pairs"),
            "{}",
            contest.to_text(1000)
        );
    }

    #[test]
    fn a_gateway_is_told_by_what_it_adds() {
        let text = contest(Role::Gateway, 0.5).to_text(1000);
        // p99 is 4.95 ms, twice as much behind the gateway.
        assert!(text.contains("p99 +4.9"), "{text}");
        assert!(text.contains("2 processes with 3.0 MiB in place of 2 with 3.0 MiB"), "{text}");
    }

    #[test]
    fn failed_calls_are_told() {
        let (a, mut b) = (runs(&STEADY), runs(&STEADY));
        b[3].results.errors.timeout = 7;
        b[3].results.first_failure = Some("no answer".to_owned());
        let sides = vec![("a".to_owned(), Role::Base, a), ("b".to_owned(), Role::Rival, b)];
        let contest = Contest::new(Environment::look(), EFFECT_DEFAULT, sides);
        assert!(!contest.is_clean());
        assert!(contest.to_text(1000).contains("7 calls failed, the first: no answer"));
    }

    #[test]
    fn json_reads_back_and_is_a_result_for_the_gate() {
        let contest = contest(Role::Rival, 1.2);
        let json = serde_json::to_string(&contest).unwrap();
        let back: Contest = serde_json::from_str(&json).unwrap();
        assert_eq!(back.sides[1].comparisons, contest.sides[1].comparisons);
        let recorded = crate::verdict::Recorded::parse(&json).unwrap();
        let groups = recorded.groups();
        assert_eq!(groups[0].of_runs(Metric::Throughput).len(), 18);
    }
}
