//! Prometheus' text exposition format 0.0.4, for a textfile collector or a push gateway.

use std::fmt::Write;

use super::csv::word;
use super::document::{Document, File};
use crate::results::{Latency, Ratio, Results, Run};

/// A metric: its name without the prefix, its type, its help, and its samples.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// A suffix of the name, labels, and a value.
struct Sample {
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Document {
    /// Every figure as `mcplane_bench_*`, in seconds and bytes, labelled by run, target and side, or
    /// by file where it is of no single run.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut families = families();
        for (at, (_, file, run)) in self.runs().enumerate() {
            let mut labels = vec![("run", at.to_string())];
            let target = &run.target;
            labels.extend([
                ("target", target.target.clone()),
                ("transport", target.transport.to_string()),
                ("revision", target.revision.clone()),
                ("tool", run.called().to_owned()),
                ("load", run.load()),
            ]);
            let info = [
                ("server", target.server.clone().unwrap_or_default()),
                ("version", target.version.clone().unwrap_or_default()),
                ("mcplane", file.report.environment.mcplane.clone()),
                ("time", file.report.environment.time.clone()),
            ];
            let info = labels.iter().cloned().chain(info).collect();
            add(&mut families, "info", "", info, Some(1.0));
            one(&mut families, &labels, run);
            side(&mut families, &labels, "target", &run.results);
            if let Some(floor) = &run.floor {
                side(&mut families, &labels, "floor", floor);
            }
            kinds(&mut families, &labels, run);
        }
        for (at, file) in self.files.iter().enumerate() {
            found(&mut families, at, file);
        }
        let mut out = String::new();
        for family in families.iter().filter(|family| !family.samples.is_empty()) {
            let (name, kind, help) = (family.name, family.kind, family.help);
            let _ = writeln!(
                out,
                "# HELP mcplane_bench_{name} {help}\n# TYPE mcplane_bench_{name} {kind}"
            );
            for sample in &family.samples {
                let labels: Vec<_> = sample
                    .labels
                    .iter()
                    .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
                    .collect();
                let (suffix, labels, value) = (sample.suffix, labels.join(","), sample.value);
                let _ = writeln!(out, "mcplane_bench_{name}{suffix}{{{labels}}} {value}");
            }
        }
        out
    }
}

fn families() -> Vec<Family> {
    let family = |(name, kind, help)| Family { name, kind, help, samples: Vec::new() };
    [
        ("info", "gauge", "What was measured; always 1."),
        ("calls_total", "counter", "Calls by outcome; only ok is a success."),
        ("latency_seconds", "summary", "Latency of successful calls from their intended start."),
        ("latency_min_seconds", "gauge", "The shortest latency."),
        ("latency_max_seconds", "gauge", "The longest latency."),
        ("throughput_calls_per_second", "gauge", "Successful calls per second."),
        ("duration_seconds", "gauge", "Measured time."),
        ("in_flight_calls", "gauge", "Calls in flight: asked for, mean and greatest seen."),
        ("cpu_seconds_per_call", "gauge", "CPU time of the server's processes per call, by mode."),
        (
            "context_switches_per_call",
            "gauge",
            "Context switches of the server's processes per call.",
        ),
        (
            "memory_bytes",
            "gauge",
            "Resident memory of the server's processes: greatest and at the end.",
        ),
        ("processes", "gauge", "Most processes of the server."),
        ("threads", "gauge", "Most threads of the server."),
        ("open_files", "gauge", "Most open file descriptors of the server."),
        ("start_seconds", "gauge", "Starting the server, by step."),
        ("floor_ratio", "gauge", "Target divided by floor."),
        ("schedule_missed_calls_total", "counter", "Calls that were due and never began."),
        ("schedule_late_calls_total", "counter", "Calls begun more than 1 ms late."),
        ("interrupted", "gauge", "Whether the user stopped the run."),
        ("kind_calls_total", "counter", "Calls of each kind of a mix, by outcome."),
        ("kind_latency_seconds", "summary", "Latency of the successful calls of each kind."),
        ("limit_calls_per_second", "gauge", "The highest rate that holds, the lowest that fails."),
        ("limit_finished", "gauge", "Whether the search for the highest rate came to its end."),
        ("limit_probe_holds", "gauge", "Whether the conditions held at the rate of a probe."),
        ("knee_load", "gauge", "The load from which on more gives no more throughput."),
        ("knee_calls_per_second", "gauge", "The throughput from there on."),
        ("cold_starts_total", "counter", "Cold starts by outcome."),
        (
            "cold_start_seconds",
            "gauge",
            "Cold starts by step: the median, its 95 % interval, extremes.",
        ),
    ]
    .map(family)
    .into()
}

fn add(
    families: &mut [Family],
    name: &str,
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: Option<f64>,
) {
    let family = families.iter_mut().find(|family| family.name == name);
    if let (Some(family), Some(value)) = (family, value.filter(|value| value.is_finite())) {
        family.samples.push(Sample { suffix, labels, value });
    }
}

/// What a run has once.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn one(families: &mut [Family], labels: &[(&'static str, String)], run: &Run) {
    let start = &run.start;
    let steps = [
        ("handshake", start.spawn_to_handshake_ns),
        ("ready", start.spawn_to_ready_ns),
        ("first_call", start.first_call_ns),
    ];
    for (step, ns) in steps {
        add(families, "start_seconds", "", and(labels, [("step", step)]), seconds(Some(ns)));
    }
    if let Some(ratios) = &run.ratios {
        let all = [
            ("throughput", ratios.throughput),
            ("p50", ratios.p50),
            ("p99", ratios.p99),
            ("cpu_per_call", ratios.cpu_per_call),
        ];
        for (figure, ratio) in all {
            let value = ratio.as_ref().map(Ratio::value);
            add(families, "floor_ratio", "", and(labels, [("figure", figure)]), value);
        }
    }
    add(
        families,
        "in_flight_calls",
        "",
        and(labels, [("figure", "asked")]),
        Some(run.plan.in_flight() as f64),
    );
    let interrupted = f64::from(u8::from(run.interrupted));
    add(families, "interrupted", "", labels.to_vec(), Some(interrupted));
    if let Some(open) = &run.results.open {
        add(
            families,
            "schedule_missed_calls_total",
            "",
            labels.to_vec(),
            Some(open.calls_missed as f64),
        );
        add(
            families,
            "schedule_late_calls_total",
            "",
            labels.to_vec(),
            Some(open.calls_late as f64),
        );
    }
}

/// A latency as a summary.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn summary(families: &mut [Family], name: &str, base: &[(&'static str, String)], of: &Latency) {
    let quantiles = [
        ("0.5", of.p50_ns),
        ("0.9", of.p90_ns),
        ("0.95", of.p95_ns),
        ("0.99", of.p99_ns),
        ("0.999", of.p99_9_ns),
    ];
    for (quantile, ns) in quantiles {
        add(families, name, "", and(base, [("quantile", quantile)]), seconds(ns));
    }
    let count = of.count as f64;
    let sum = of.mean_ns.map_or(0.0, |mean| mean / 1e9 * count);
    add(families, name, "_sum", base.to_vec(), Some(sum));
    add(families, name, "_count", base.to_vec(), Some(count));
}

/// Labels and more of them.
fn and<const N: usize>(
    base: &[(&'static str, String)],
    more: [(&'static str, &str); N],
) -> Vec<(&'static str, String)> {
    base.iter().cloned().chain(more.map(|(key, value)| (key, value.to_owned()))).collect()
}

/// Each kind of call of a mix.
#[allow(clippy::cast_precision_loss, reason = "a number of calls")]
fn kinds(families: &mut [Family], labels: &[(&'static str, String)], run: &Run) {
    let shared: Vec<_> = labels.iter().filter(|(key, _)| *key != "tool").cloned().collect();
    for (at, of) in run.results.tools.iter().enumerate() {
        let base = and(&shared, [("kind", &(at + 1).to_string()), ("tool", &of.name)]);
        for (outcome, number) in [("ok", of.calls_ok), ("failed", of.errors.total())] {
            let labels = and(&base, [("outcome", outcome)]);
            add(families, "kind_calls_total", "", labels, Some(number as f64));
        }
        summary(families, "kind_latency_seconds", &base, &of.latency);
    }
}

/// What a file holds beside its runs.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn found(families: &mut [Family], at: usize, file: &File) {
    let base = [("file", at.to_string())];
    if let Some(found) = file.report.limit() {
        let base = and(&base, [("conditions", &found.conditions)]);
        for (bound, rate) in [("holds", found.limit_per_s), ("fails", found.fails_at_per_s)] {
            add(families, "limit_calls_per_second", "", and(&base, [("bound", bound)]), rate);
        }
        let finished = f64::from(u8::from(found.unfinished.is_none()));
        add(families, "limit_finished", "", base.clone(), Some(finished));
        for (at, probe) in found.probes.iter().enumerate() {
            let (number, rate) = (at.to_string(), probe.rate_per_s.to_string());
            let labels = and(&base, [("probe", &number), ("rate_per_s", &rate)]);
            let holds = probe.holds.map(|holds| f64::from(u8::from(holds)));
            add(families, "limit_probe_holds", "", labels, holds);
        }
    }
    if let Some((ladder, knee)) = file.report.ladder().and_then(|l| Some((l, l.knee.as_ref()?))) {
        let labels = and(&base, [("load", ladder.load.as_str())]);
        add(families, "knee_load", "", labels.clone(), Some(knee.load));
        add(families, "knee_calls_per_second", "", labels, Some(knee.throughput_per_s));
    }
    if let Some(cold) = file.report.cold_start() {
        let base = and(&base, [("target", &cold.target), ("fresh", &cold.fresh)]);
        let ok = cold.starts.saturating_sub(cold.failed);
        for (outcome, number) in [("ok", ok), ("failed", cold.failed)] {
            let labels = and(&base, [("outcome", outcome)]);
            add(families, "cold_starts_total", "", labels, Some(number as f64));
        }
        for (step, of) in cold.figures() {
            let [low, high] = of.median_interval_ns.map_or([None; 2], |both| both.map(Some));
            let figures = [
                ("median", Some(of.median_ns)),
                ("low", low),
                ("high", high),
                ("min", Some(of.min_ns)),
                ("max", Some(of.max_ns)),
            ];
            for (figure, ns) in figures {
                let labels = and(&base, [("step", &word(step)), ("figure", figure)]);
                add(families, "cold_start_seconds", "", labels, seconds(ns));
            }
        }
    }
}

/// What target and floor have each.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn side(families: &mut [Family], labels: &[(&'static str, String)], side: &str, of: &Results) {
    let base = and(labels, [("side", side)]);
    let errors = &of.errors;
    let outcomes = [
        ("ok", of.calls_ok),
        ("transport", errors.transport),
        ("json_rpc", errors.json_rpc),
        ("is_error", errors.is_error),
        ("timeout", errors.timeout),
        ("wrong_content", errors.wrong_content),
        ("unfinished", of.calls_unfinished),
    ];
    for (outcome, number) in outcomes {
        add(families, "calls_total", "", and(&base, [("outcome", outcome)]), Some(number as f64));
    }
    let latency = &of.latency;
    summary(families, "latency_seconds", &base, latency);
    let used = &of.resources;
    let per_call = |ns: Option<f64>| ns.map(|ns| ns / 1e9);
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let plain = [
        ("latency_min_seconds", seconds(latency.min_ns)),
        ("latency_max_seconds", seconds(latency.max_ns)),
        ("throughput_calls_per_second", Some(of.throughput_per_s)),
        ("duration_seconds", seconds(Some(of.wall_ns))),
        ("context_switches_per_call", used.ctx_switches_per_call),
        ("processes", number(used.processes_max)),
        ("threads", number(used.threads_max)),
        ("open_files", number(used.fds_max)),
    ];
    for (name, value) in plain {
        add(families, name, "", base.clone(), value);
    }
    let keyed = [
        ("in_flight_calls", "figure", "mean", Some(of.in_flight_mean)),
        ("in_flight_calls", "figure", "max", Some(of.in_flight_max as f64)),
        ("cpu_seconds_per_call", "mode", "user", per_call(used.cpu_user_ns_per_call)),
        ("cpu_seconds_per_call", "mode", "system", per_call(used.cpu_system_ns_per_call)),
        ("memory_bytes", "figure", "max", number(used.rss_bytes_max)),
        ("memory_bytes", "figure", "end", number(used.rss_bytes_end)),
    ];
    for (name, key, is, value) in keyed {
        add(families, name, "", and(&base, [(key, is)]), value);
    }
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn seconds(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e9)
}

/// A label's value: backslash, quote and line feed are escaped, other control characters go.
fn escape(value: &str) -> String {
    let mut out = String::new();
    for char in value.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::report::tests::hostile;

    /// One line of samples by the grammar of the format: name, labels, value.
    fn parse(line: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
        let (name, mut rest) = line.split_once('{')?;
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let mut labels = BTreeMap::new();
        while !rest.starts_with('}') {
            let (key, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next()? {
                    (_, '\\') => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        _ => return None,
                    }),
                    (at, '"') => break at,
                    (_, c) => value.push(c),
                }
            };
            if !is_name(key) || labels.insert(key.to_owned(), value).is_some() {
                return None;
            }
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        let value = rest.strip_prefix("} ")?.parse().ok()?;
        is_name(name).then(|| (name.to_owned(), labels, value))
    }

    #[test]
    fn every_line_follows_the_grammar_and_no_series_comes_twice() {
        let document = hostile();
        let text = document.to_prometheus();
        let (mut typed, mut seen, mut last) = (BTreeMap::new(), BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(said) = line.strip_prefix("# TYPE ") {
                let (name, kind) = said.split_once(' ').unwrap();
                assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
                assert!(typed.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                last = name.to_owned();
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (name, labels, value) =
                parse(line).unwrap_or_else(|| panic!("not a sample: {line}"));
            let family = name.trim_end_matches("_sum").trim_end_matches("_count");
            assert_eq!(family, last, "samples of a family stand together");
            assert!(value.is_finite() && value >= 0.0, "{line}");
            assert!(seen.insert((name, labels)), "twice: {line}");
        }
        let first = document.runs().next().unwrap().2;
        let of = |name: &str, key: &str, is: &str| {
            let all: Vec<_> = text.lines().filter_map(parse).collect();
            let found = all.into_iter().find(|(n, labels, _)| {
                n == name
                    && labels["run"] == "0"
                    && labels.get(key).is_some_and(|value| value == is)
            });
            found.unwrap_or_else(|| panic!("no {name} {key}={is}"))
        };
        let (_, labels, p50) = of("mcplane_bench_latency_seconds", "quantile", "0.5");
        assert!((p50 - first.results.latency.p50_ns.unwrap() as f64 / 1e9).abs() < 1e-12);
        let target = first.target.target.replace('\u{1}', " ");
        assert_eq!(labels["target"], target, "labels read back as they were");
        let (.., ok) = of("mcplane_bench_calls_total", "outcome", "ok");
        assert!((ok - first.results.calls_ok as f64).abs() < 0.5);
    }
}
