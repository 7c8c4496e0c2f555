//! `mcplane bench --profile`: what it writes, and that nobody takes its figures for results.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use mcplane_tests::child::{binary, mcplane};
use mcplane_tests::skip;
use serde_json::Value;

use crate::{LIMIT, file};

fn is_here(program: &str) -> bool {
    let is_here = Path::new("/usr/bin").join(program).exists();
    if !is_here {
        skip(&format!("there is no {program} here"));
    }
    is_here
}

/// A profile of the fixture behind a shell: the flame graph, the table, the report.
fn profile(kind: &str, path: &str, json: &Path) -> (String, String, Value) {
    let out = file("profile");
    let _ = fs::remove_dir_all(&out);
    let (me, at) = (binary(), out.to_str().unwrap());
    // The shell stays, so that the server is its child.
    let script = format!("{me} fixture; exit");
    let mcplane_line = format!(
        "PATH={path} exec {me} bench --profile {kind} --profile-out {at} --json {} --warmup 2 -n 20 \
         --tool echo --args '{{\"message\":\"x\"}}' -- sh -c '{script}'",
        json.display()
    );
    let words = ["sh", "-c", &mcplane_line].map(str::to_owned);
    let ended = mcplane_tests::child::run(&words, LIMIT).ok();
    assert!(ended.stdout.contains("PROFILED") && ended.stdout.contains("is a result"), "{ended}");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let report = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    (read("flame.svg"), read("top.md"), report)
}

/// A folder with these programs only, so that others are not found.
fn only(programs: &[&str]) -> String {
    let folder = file("bin");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for program in programs {
        let from = ["/usr/bin", "/bin"].map(|at| Path::new(at).join(program));
        let from = from.iter().find(|path| path.exists()).unwrap();
        // No link: valgrind looks for its parts beside itself.
        let script = folder.join(program);
        fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", from.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn callgrind_sees_the_server_behind_a_shell() {
    if !is_here("valgrind") {
        return;
    }
    let json = file("profile.json");
    let (svg, top, report) = profile("cpu", &only(&["valgrind", "sh"]), &json);
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    for text in [&svg, &top] {
        assert!(text.contains("callgrind") && text.contains("serde_json"), "{top}");
    }
    assert!(svg.contains("<title>mcplane"), "the child of the shell is in it");
    let run = &report["runs"][0];
    assert_eq!(run["profiled"], "valgrind's callgrind");
    assert_eq!(run["results"]["calls_ok"], 20);
    let result = json.to_str().unwrap();
    let ended = mcplane(&["gate", result, result], LIMIT).code(2);
    assert!(ended.stderr.contains("callgrind, which makes it no result"), "{ended}");
}

#[test]
fn a_server_on_mcplane_tells_its_stages() {
    const MESSAGE: &str = r#"{"message":"x"}"#;
    let (json, out) = (file("stages.json"), file("stages"));
    let (json, out) = (json.to_str().unwrap(), out.to_str().unwrap());
    let bench = |tool: &str, args: &str, command: &[&str]| {
        let mut words = vec!["bench", "--profile", "stages", "--profile-out", out, "--json", json];
        words.extend(["--warmup", "2", "-n", "20", "--tool", tool, "--args", args, "--"]);
        words.extend(command);
        mcplane(&words, LIMIT)
    };
    let ended = bench("echo", MESSAGE, &[binary(), "fixture"]).ok();
    assert!(ended.stdout.contains("PROFILED") && ended.stdout.contains("top.md"), "{ended}");
    let top = fs::read_to_string(Path::new(out).join("top.md")).unwrap();
    let times = |stage: &str| {
        let row = top.lines().find(|line| line.starts_with(&format!("| {stage} |")));
        row.and_then(|row| row.split('|').nth(2)?.trim().parse::<u64>().ok()).unwrap_or_default()
    };
    // 20 calls and those before them; what is not a call is parsed and written, too.
    for stage in ["validate", "handler", "encode"] {
        assert!((22..40).contains(&times(stage)), "{stage} in {top}");
    }
    assert!(
        times("parse") > times("handler") && times("read") >= 22 && times("write") >= 22,
        "{top}"
    );
    assert_eq!(times("queue"), 0, "an inline handler does not queue: {top}");

    let ended = bench("sleep", r#"{"ms":1}"#, &[binary(), "fixture"]).ok();
    let top = fs::read_to_string(Path::new(out).join("top.md")).unwrap();
    assert!(top.contains("| queue | ") && top.contains("| handler | "), "{top}\n{ended}");

    let deaf = ["sh", "-c", "unset MCPLANE_STAGES; exec \"$0\" fixture", binary()];
    let ended = bench("echo", MESSAGE, &deaf).code(2);
    assert!(ended.stderr.contains("did not tell its stages"));
}

#[test]
fn without_a_profiler_the_package_is_named() {
    let me = binary();
    let out = file("nothing");
    for (kind, package) in [("cpu", "linux-perf"), ("heap", "heaptrack")] {
        let line = format!(
            "PATH={} exec {me} bench --profile {kind} --profile-out {} -- sh -c true",
            only(&["sh"]),
            out.display()
        );
        let words = ["sh", "-c", &line].map(str::to_owned);
        let ended = mcplane_tests::child::run(&words, LIMIT).code(2);
        for part in ["install the package", package, "valgrind"] {
            assert!(ended.stderr.contains(part), "no {part:?} in {ended}");
        }
    }
    let ended = mcplane(&["bench", "--profile", "cpu"], LIMIT).code(2);
    assert!(ended.stderr.contains("COMMAND"), "{ended}");
}
