//! The published tables of `docs/lab/audit` against the rules: what each of them must show, and
//! what our own results must not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::fs;
use std::path::PathBuf;

use mcplane_lab::lint::{Audit, RULES, Severity, lint};
use mcplane_lab::report::Style;
use mcplane_lab::results::{campaign, text};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn published(file: &str) -> Audit {
    let path = root().join("docs/lab/audit/data").join(file);
    lint(&fs::read_to_string(&path).unwrap()).unwrap()
}

/// File, rule, and the lines (entries in JSON) where it must be found; 0 is the whole table.
const WANTED: [(&str, &str, &[usize]); 32] = [
    // The difference of 3.4 % that one run each cannot carry.
    ("cmcp-benches.csv", "no-spread", &[3]),
    // Whole microseconds at a median of 20.
    ("cmcp-benches.csv", "clock-resolution", &[2, 3]),
    ("cmcp-compare.csv", "clock-resolution", &[2]),
    // 64 calls: p99 = p99.9 = the greatest; a median one round late; a burst; six digits.
    ("cmcp-benches.csv", "sample-minimum", &[4]),
    ("cmcp-benches.csv", "same-percentiles", &[4]),
    ("cmcp-benches.csv", "service-rounds", &[4]),
    ("cmcp-benches.csv", "burst", &[4]),
    ("cmcp-benches.csv", "precision", &[4]),
    // Failures are in no column, also of the soak, whose drift is two points.
    ("cmcp-benches.csv", "errors-missing", &[0]),
    ("cmcp-soak-http.csv", "errors-missing", &[0]),
    ("cmcp-soak-http.csv", "two-points", &[0]),
    // 5.8 is the ratio of throughput, not of the median.
    ("cmcp-compare.csv", "ratio-label", &[3]),
    ("cmcp-compare.csv", "one-in-flight", &[0]),
    // p99 of 20 to 100 samples.
    (
        "xcode-ladder.csv",
        "sample-minimum",
        &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18],
    ),
    // 100 calls by 100, and by 50, are one burst and two.
    ("xcode-ladder.csv", "burst", &[5, 6, 10, 11, 18]),
    ("xcode-ladder.csv", "little", &[6, 11, 16]),
    ("xcode-ladder.csv", "flat-ladder", &[6, 11]),
    // One failed call makes a "36.80x".
    ("xcode-ladder.csv", "ratio-errors", &[16]),
    ("xcode-ladder.csv", "precision", &[16]),
    // Slower at one and two in flight; a serial share of 42 % at best.
    ("xcode-ladder.csv", "scaling", &[2, 7, 11, 12, 13]),
    ("xcode-ladder.csv", "no-spread", &[17]),
    // Batches counted as operations; means hidden behind medians.
    ("toolkit.csv", "batch-rate", &[2, 3, 4, 5]),
    ("toolkit.csv", "skew", &[3, 4]),
    ("toolkit.csv", "no-spread", &[0]),
    // A p95 below the wait of a fifth of the calls.
    ("mcp-find.csv", "mixture", &[2, 3, 4]),
    ("mcp-find.csv", "errors-missing", &[0]),
    ("mcp-find-claims.csv", "stated-wait", &[8]),
    ("mcp-find-claims.csv", "cache-mixture", &[10, 11]),
    ("mcp-find-claims.csv", "magnitude", &[4, 5]),
    // 100 sockets need a mean of 20.9 ms; messages that are calls.
    ("erlmcp-examples.json", "little", &[2]),
    ("erlmcp-examples.json", "message-count", &[2]),
    ("erlmcp-examples.json", "no-spread", &[0]),
];

#[test]
fn every_known_defect_that_figures_can_show_is_found_in_its_row() {
    for (file, rule, lines) in WANTED {
        let audit = published(file);
        let of_rule = audit.findings.iter().filter(|finding| finding.rule == rule);
        let found: Vec<_> = of_rule.map(|finding| finding.line.unwrap_or(0)).collect();
        for line in lines {
            assert!(found.contains(line), "{file}: {rule} in {line}, found in {found:?}");
        }
    }
}

#[test]
fn what_contradicts_arithmetic_is_called_impossible_and_nothing_else_is() {
    let mut found = Vec::new();
    for file in fs::read_dir(root().join("docs/lab/audit/data")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let audit = published(&file);
        let worst = audit.findings.iter().filter(|f| f.severity == Severity::Impossible);
        found.extend(worst.map(|f| (file.clone(), f.rule, f.line.unwrap_or(0))));
    }
    found.sort();
    let want = [
        ("cmcp-compare.csv", "ratio-label", 3),
        ("mcp-find.csv", "mixture", 2),
        ("mcp-find.csv", "mixture", 3),
        ("mcp-find.csv", "mixture", 4),
    ];
    assert_eq!(found, want.map(|(file, rule, line)| (file.to_owned(), rule, line)));
}

#[test]
fn the_wrong_ratio_is_explained_by_the_right_one() {
    let audit = published("cmcp-compare.csv");
    let finding = audit.findings.iter().find(|finding| finding.rule == "ratio-label").unwrap();
    assert!(finding.numbers.contains("of p50 it is 4.45"), "{}", finding.numbers);
    assert!(finding.numbers.contains("of throughput it is 5.82"), "{}", finding.numbers);
}

/// Every result of `bench/results`, with its name.
fn ours() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for host in fs::read_dir(root().join("bench/results")).unwrap() {
        for file in fs::read_dir(host.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "gz") {
                let text = text(fs::File::open(&path).unwrap(), 64 << 20).unwrap();
                let named = |(name, text)| (format!("{}#{name}", path.display()), text);
                all.extend(campaign(&text).unwrap().into_iter().map(named));
            }
        }
    }
    all
}

#[test]
fn our_own_results_hold() {
    let all = ours();
    for (name, text) in &all {
        let audit = lint(text).unwrap();
        assert!(audit.is_sound(), "{name}: {:?}", audit.findings.first());
        assert!(audit.figures > 20, "{name}");
    }
    assert!(all.len() > 300, "{}", all.len());
}

/// One figure of a sound report changed, and the rule that must see it.
#[test]
fn our_own_result_with_a_changed_figure_does_not() {
    let all = ours();
    let name = "2026-11-21-linux-x86_64-2-cores/stdio.jsonl.gz#mcplane-2";
    let (_, text) = all.iter().find(|(of, _)| of.ends_with(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(text).unwrap();
    let changes = [
        ("/runs/0/results/throughput_per_s", 3.0, "total"),
        ("/runs/0/results/latency/mean_ns", 30.0, "mean-bounds"),
        ("/runs/0/results/latency/p50_ns", 50.0, "monotone"),
        ("/runs/0/results/in_flight_mean", 0.001, "unit-scale"),
        ("/runs/0/results/calls_sent", 2.0, "balance"),
    ];
    for (pointer, by, rule) in changes {
        let mut changed = report.clone();
        let figure = changed.pointer_mut(pointer).unwrap();
        let value = figure.as_f64().unwrap() * by;
        *figure = if figure.is_u64() { (value as u64).into() } else { value.into() };
        let audit = lint(&changed.to_string()).unwrap();
        let seen = audit.findings.iter().any(|f| f.rule == rule && f.severity != Severity::Unclear);
        assert!(seen, "{pointer}: {:?}", audit.findings);
    }
}

#[test]
fn the_documents_say_what_the_rules_say() {
    let rules = fs::read_to_string(root().join("docs/lab/lint.md")).unwrap();
    for (id, _) in RULES {
        assert!(rules.contains(&format!("| `{id}` |")), "{id} is not in docs/lab/lint.md");
    }
    // Each block of the audit is output of `mcplane lint`, with lines left out.
    let page = fs::read_to_string(root().join("docs/lab/audit/README.md")).unwrap();
    let mut blocks = 0;
    for block in page.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let file = block.lines().next().unwrap();
        let output = published(file).to_text(file, Style::default());
        for line in block.lines().filter(|line| line.trim() != "…") {
            assert!(output.lines().any(|real| real == line), "{file}: {line}");
        }
        blocks += 1;
    }
    assert_eq!(blocks, 8);
}
