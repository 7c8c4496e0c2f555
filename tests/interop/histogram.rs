//! The histograms that the lab writes, read by HdrHistogram's implementation in JavaScript.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;

use crate::{
    child::{binary, run},
    peers::Peer,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Three significant digits: what is read may differ by a thousandth.
const PRECISION: f64 = 0.001;

#[test]
fn another_implementation_reads_the_same_figures() {
    if !Peer::Histogram.is_there() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("histogram.json");
    let file = file.to_str().unwrap();
    let bench =
        [binary(), "bench", "--requests", "5000", "--no-floor", "--settle", "1ms", "--json", file];
    let target = ["--tool", "echo", "--", binary(), "fixture"];
    let words: Vec<_> = bench.iter().chain(&target).map(|word| (*word).to_owned()).collect();
    run(&words, LIMIT).ok().left_nothing();
    let mut words = Peer::Histogram.program("read");
    words.push(file.to_owned());
    let read: Value = serde_json::from_str(&run(&words, LIMIT).ok().left_nothing().stdout).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let results = &report["runs"][0]["results"];
    let (whole, ours) = (&read["whole"], &results["latency"]);
    assert_eq!(whole["count"], 5000, "{read:#}");
    for figure in ["p50_ns", "p90_ns", "p99_ns", "max_ns"] {
        let [theirs, ours] = [whole, ours].map(|of| of[figure].as_f64().unwrap());
        assert!(
            (theirs / ours - 1.0).abs() <= PRECISION,
            "{figure}: {theirs}, {ours} in the report"
        );
    }
    // The seconds add up to the whole.
    let counts =
        read["seconds"].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 5000, "{read:#}");
}
