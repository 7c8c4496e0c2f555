//! `JUnit` XML: each run is a test case, or the search for a limit that it is of; and so are cold
//! starts.

use std::fmt::Write;

use super::document::{Document, File};
use super::found::limit_text;
use super::markup::e;
use crate::results::{Checked, ColdStart, Found, Run, Spread};

impl Document {
    /// A suite for each file and a test case for each run. A run fails by failed calls, by breaking off
    /// and by each assertion that does not hold; without assertions, also by a leak. A search for a
    /// limit is one case, and its runs are evidence, and fails where no rate holds; cold starts fail
    /// where one failed. What could not be measured, or not to its end, is an error.
    #[must_use]
    pub fn to_junit(&self) -> String {
        let mut suites = String::new();
        let mut sum = Sum::default();
        for (at, file) in self.files.iter().enumerate() {
            let mut cases = String::new();
            let mut of = Sum::default();
            let is_case = |other| std::ptr::eq(other, file) && file.report.limit().is_none();
            let runs = self.runs().filter(|(_, other, _)| is_case(*other));
            for (index, (name, _, run)) in runs.enumerate() {
                let asserted =
                    file.report.asserted.get(index).map(Vec::as_slice).unwrap_or_default();
                case(&mut cases, &mut of, (&name, run), asserted);
            }
            if let Some(found) = file.report.limit() {
                limit(&mut cases, &mut of, found);
            }
            if let Some(cold) = file.report.cold_start() {
                cold_start(&mut cases, &mut of, cold);
            }
            missing(&mut cases, &mut of, file);
            let name = if self.files.len() > 1 {
                format!("{} {at}", file.name)
            } else {
                file.name.clone()
            };
            let timestamp = file.report.environment.time.trim_end_matches('Z');
            let _ = writeln!(
                suites,
                "<testsuite name=\"{}\" timestamp=\"{}\" {of}>\n{cases}</testsuite>",
                e(&name),
                e(timestamp)
            );
            sum.add(&of);
        }
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"mcplane\" {sum}>\n{suites}</testsuites>\n"
        )
    }
}

/// What a suite counts.
#[derive(Default)]
struct Sum {
    tests: usize,
    failures: usize,
    errors: usize,
    time_s: f64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.tests += other.tests;
        self.failures += other.failures;
        self.errors += other.errors;
        self.time_s += other.time_s;
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tests, failures, errors, time_s } = self;
        write!(
            f,
            "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{time_s:.3}\""
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds are printed")]
fn case(out: &mut String, sum: &mut Sum, (name, run): (&str, &Run), asserted: &[Checked]) {
    let of = &run.results;
    let time_s = of.wall_ns as f64 / 1e9;
    sum.tests += 1;
    sum.time_s += time_s;
    let _ = write!(
        out,
        "<testcase classname=\"bench.{}.{}\" name=\"{}\" time=\"{time_s:.3}\">\n<properties>",
        run.target.transport,
        e(run.called()),
        e(name)
    );
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let open = of.open.as_ref();
    let properties = [
        ("target", Some(run.target.target.clone())),
        ("load", Some(run.load())),
        ("throughput_per_s", Some(of.throughput_per_s.to_string())),
        ("p50_ns", number(of.latency.p50_ns)),
        ("p95_ns", number(of.latency.p95_ns)),
        ("p99_ns", number(of.latency.p99_ns)),
        ("p99_9_ns", number(of.latency.p99_9_ns)),
        ("calls_due", number(open.map(|open| open.calls_due))),
        ("calls_missed", number(open.map(|open| open.calls_missed))),
        ("raw_p99_ns", number(open.and_then(|open| open.latency_raw.p99_ns))),
        ("rss_bytes_max", number(of.resources.rss_bytes_max)),
        (
            "throughput_by_floor",
            run.ratios.and_then(|r| r.throughput).map(|r| r.value().to_string()),
        ),
    ];
    for (name, value) in properties {
        if let Some(value) = value {
            let _ = write!(out, "<property name=\"{name}\" value=\"{}\"/>", e(&value));
        }
    }
    out.push_str("</properties>\n");
    let failures = failures(run, asserted);
    // Readers expect one failure or one error for each case.
    let all = failures.join("\n");
    let outcome = match failures.first() {
        Some(first) => Outcome::Fails(first, &all),
        None if run.interrupted => {
            Outcome::CannotTell("interrupted", "these are the results up to then")
        }
        None => Outcome::Passes,
    };
    outcome.end(out, sum);
}

/// How a test case ends: a message, and the details.
enum Outcome<'a> {
    Passes,
    Fails(&'a str, &'a str),
    CannotTell(&'a str, &'a str),
}

impl Outcome<'_> {
    fn end(&self, out: &mut String, sum: &mut Sum) {
        let told = match self {
            Self::Passes => None,
            Self::Fails(message, all) => {
                sum.failures += 1;
                Some(("failure", message, all))
            }
            Self::CannotTell(message, all) => {
                sum.errors += 1;
                Some(("error", message, all))
            }
        };
        if let Some((name, message, all)) = told {
            let _ = writeln!(out, "<{name} message=\"{}\">{}</{name}>", e(message), e(all));
        }
        out.push_str("</testcase>\n");
    }
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds are printed")]
fn limit(out: &mut String, sum: &mut Sum, found: &Found) {
    let time_s = found.probes.iter().map(|probe| probe.duration_ns as f64 / 1e9).sum::<f64>();
    sum.tests += 1;
    sum.time_s += time_s;
    let _ = writeln!(
        out,
        "<testcase classname=\"bench.limit\" name=\"the highest rate with {}\" \
         time=\"{time_s:.3}\">",
        e(&found.conditions)
    );
    let properties = [("limit_per_s", found.limit_per_s), ("fails_at_per_s", found.fails_at_per_s)];
    out.push_str("<properties>");
    for (name, value) in properties {
        if let Some(value) = value {
            let _ = write!(out, "<property name=\"{name}\" value=\"{value}\"/>");
        }
    }
    out.push_str("</properties>\n");
    let text = limit_text(found);
    let outcome = match (&found.unfinished, found.limit_per_s) {
        (Some(why), _) => Outcome::CannotTell("the search is unfinished", why),
        (None, None) => Outcome::Fails("no rate that was tried holds", &text),
        (None, Some(_)) => Outcome::Passes,
    };
    outcome.end(out, sum);
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds are printed")]
fn cold_start(out: &mut String, sum: &mut Sum, cold: &ColdStart) {
    let steps = [&cold.ready, &cold.first_call].into_iter().flatten();
    let time_s = steps.flat_map(|of| &of.values_ns).map(|ns| *ns as f64 / 1e9).sum::<f64>();
    sum.tests += 1;
    sum.time_s += time_s;
    let _ = write!(
        out,
        "<testcase classname=\"bench.cold_start\" name=\"{} starts, each with a fresh {}\" \
         time=\"{time_s:.3}\">\n<properties><property name=\"target\" value=\"{}\"/>",
        cold.starts,
        e(&cold.fresh),
        e(&cold.target)
    );
    for (step, Spread { median_ns, .. }) in cold.figures() {
        let step = super::csv::word(step);
        let _ = write!(out, "<property name=\"{step}_median_ns\" value=\"{median_ns}\"/>");
    }
    out.push_str("</properties>\n");
    let failed = format!("{} of {} starts failed", cold.failed, cold.starts);
    let why = cold.first_failure.as_deref().unwrap_or("not recorded");
    let outcome = if cold.failed > 0 { Outcome::Fails(&failed, why) } else { Outcome::Passes };
    outcome.end(out, sum);
}

fn failures(run: &Run, asserted: &[Checked]) -> Vec<String> {
    let errors = &run.results.errors;
    let mut failures = Vec::new();
    if let Some(why) = &run.broken {
        failures.push(format!("broken off: {why}"));
    }
    let listed = errors.kinds().into_iter().filter(|(_, number)| *number > 0);
    let listed: Vec<_> = listed.map(|(name, number)| format!("{name} {number}")).collect();
    if !listed.is_empty() {
        let example = run.results.first_failure.as_deref().unwrap_or("not recorded");
        failures.push(format!("calls failed: {}; for example: {example}", listed.join(", ")));
    }
    if asserted.is_empty() {
        failures.extend(run.leak());
    }
    failures.extend(asserted.iter().filter_map(broken));
    failures
}

/// An assertion that does not hold.
fn broken(checked: &Checked) -> Option<String> {
    let Checked { text, measured, holds } = checked;
    match holds {
        Some(true) => None,
        Some(false) => Some(format!("{text} does not hold: {measured}")),
        None => Some(format!("{text} cannot be told: {measured}")),
    }
}

fn missing(out: &mut String, sum: &mut Sum, file: &File) {
    for missing in &file.report.missing {
        sum.tests += 1;
        sum.errors += 1;
        let _ = writeln!(
            out,
            "<testcase classname=\"bench\" name=\"{}, {} in flight\" time=\"0\"><error message=\"could not be measured\">{}</error></testcase>",
            e(&missing.target),
            missing.concurrency,
            e(&missing.why)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{elements, hostile};
    use crate::results::tests::sample;
    use crate::results::{Environment, Report};

    #[test]
    fn it_is_well_formed_and_counts_right() {
        let document = hostile();
        let xml = document.to_junit();
        let all = elements(&xml);
        let count = |name: &str| all.iter().filter(|(element, _)| element == name).count();
        let clean = document.runs().filter(|(.., run)| run.is_clean()).count();
        let runs = document.runs().count();
        assert_eq!(
            (count("testcase"), count("failure"), count("error")),
            (runs + 1, runs - clean, 1)
        );
        let (_, head) = all.iter().find(|(name, _)| name == "testsuites").unwrap();
        let head = |key: &str| head.iter().find(|(name, _)| name == key).unwrap().1.clone();
        assert_eq!(head("tests"), (runs + 1).to_string());
        assert_eq!(
            (head("failures"), head("errors")),
            ((runs - clean).to_string(), "1".to_owned())
        );
    }

    #[test]
    fn an_assertion_that_does_not_hold_fails_its_run() {
        let runs = vec![sample(100, false), sample(100, false)];
        let mut report = Report::new(Environment::look(), runs);
        let asserted = |text: &str, measured: &str, holds| Checked {
            text: text.to_owned(),
            measured: measured.to_owned(),
            holds,
        };
        report.asserted = vec![
            vec![asserted("p50<1ms", "50 µs", Some(true))],
            vec![asserted("p99<5ms", "n/a", None), asserted("errors=0", "3", Some(false))],
        ];
        let text = serde_json::to_string(&report).unwrap();
        let xml = Document::read([("r.json", text.as_str())]).unwrap().to_junit();
        let all = elements(&xml);
        let failures: Vec<_> = all.iter().filter(|(name, _)| name == "failure").collect();
        assert_eq!(failures.len(), 1, "{xml}");
        assert!(xml.contains("p99&lt;5ms cannot be told: n/a\nerrors=0 does not hold: 3"), "{xml}");
    }
}
