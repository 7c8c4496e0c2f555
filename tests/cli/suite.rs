//! `mcplane suite`: what it leaves behind, and that a workload on a broken server fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcplane_tests::child::mcplane;
use serde_json::Value;

use crate::{file, server};

/// A module in its quick form on a busy machine, in a build that is not optimised.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder for results that is not there yet.
fn out(name: &str) -> PathBuf {
    let out = file(name).with_extension("results");
    let _ = fs::remove_dir_all(&out);
    out
}

/// The one folder of a run.
fn folder(out: &Path) -> PathBuf {
    let mut all = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let one = all.next().unwrap();
    assert!(all.next().is_none(), "one run, one folder");
    one
}

fn index(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder(out).join("index.json")).unwrap()).unwrap()
}

#[test]
fn a_run_leaves_an_index_a_page_the_rows_and_the_reports() {
    let out = out("suite");
    let words = ["suite", "run", "calls", "negotiation_100", "--out", out.to_str().unwrap()];
    let ended = mcplane(&words, LIMIT).code(0).left_nothing();
    let folder = folder(&out);
    let index = index(&out);
    let entries = index["entries"].as_array().unwrap();
    assert_eq!((index["form"].as_str(), entries.len()), (Some("quick"), 6), "{index:#}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    for entry in entries {
        let id = entry["id"].as_str().unwrap();
        assert_eq!(entry["verdict"], "pass", "{entry:#}");
        assert!(!entry["figures"].as_array().unwrap().is_empty(), "{entry:#}");
        assert!(ended.stdout.contains(&format!("ok    {id}")) && page.contains(id), "{ended}");
        if let Some(report) = entry["report"].as_str() {
            let report = folder.join(report);
            mcplane(&["lint", report.to_str().unwrap()], LIMIT).code(0);
        }
    }
    let rows = fs::read_to_string(folder.join("cmcp.csv")).unwrap();
    let names: Vec<_> = rows.lines().map(|row| row.split(',').next().unwrap()).collect();
    let wanted = [
        "bench",
        "server_inline_stdio",
        "server_pool_stdio",
        "server_inline_http",
        "compare_stdio_echo",
    ];
    assert_eq!(names, wanted);
    assert!(rows.lines().all(|row| row.split(',').count() == 12), "{rows}");
}

#[test]
fn a_server_that_answers_with_errors_fails() {
    let out = out("broken");
    // One call of more than two thousand.
    let script = server::script(1_000, r#"result='"error":{"code":-32000,"message":"no"}'"#);
    let path = file("server.sh");
    fs::write(&path, script).unwrap();
    let target = format!("sh '{}'", path.display());
    let words = ["suite", "run", "compare_stdio_echo", "--out", out.to_str().unwrap()];
    let ended = mcplane(&[&words[..], &["--target", &target]].concat(), LIMIT).code(1);
    assert!(ended.stdout.contains("FAIL  compare_stdio_echo"), "{ended}");
    let entry = index(&out)["entries"][0].clone();
    assert_eq!(entry["verdict"], "fail");
    assert!(entry["why"].as_str().unwrap().contains("-32000"), "{entry:#}");
}

/// The mutation table: every fault fails on the server that is broken for it, and passes on a sound one;
/// without the fault nothing fails.
#[test]
fn every_fault_is_noticed_where_it_has_to_be_and_only_there() {
    let ended = mcplane(&["suite", "check"], LIMIT * 3).code(0).left_nothing();
    let rows: Vec<Vec<_>> =
        ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let with = |word| rows.iter().filter(|row| row.contains(&word)).count();
    assert!(with("FAIL") >= 12 && with("pass") == 2 * with("FAIL"), "{ended}");
}

#[test]
fn what_is_not_there_is_named_with_what_is_near() {
    for (words, part) in [
        (&["run", "pool_stdio"][..], "near it: server_pool_stdio"),
        (&["run", "nothing"], "mcplane suite list"),
        (&["run", "jsonrpc_50", "--target", "http://x/"], "only compare_stdio_echo takes one"),
        (&["run", "jsonrpc_50", "--form", "long"], "quick, standard and full"),
    ] {
        let ended = mcplane(&[&["suite"], words].concat(), LIMIT).code(2);
        assert!(ended.stderr.contains(part), "no {part:?} in {ended}");
    }
}
