//! `mcplane compare` with real processes: servers in turns, a gateway, a core of their own, and what cannot be compared.

use std::{fs, net::TcpListener};

use mcplane_tests::child::{Ended, binary, mcplane, start_mcplane};
use serde_json::{Value, json};

use crate::gate::{begun_at, result, unread, written};
use crate::{LIMIT, file, wait_for};

/// Three short runs of each target.
fn compare(words: &[&str]) -> Ended {
    let quick = ["compare", "--pairs", "3", "-n", "200", "--warmup", "20"];
    mcplane(
        &[&quick[..], &["--tool", "echo", "--args", r#"{"message":"x"}"#], words].concat(),
        LIMIT,
    )
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

/// An address where nobody listens, until somebody takes it.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn servers_are_measured_in_turns() {
    let starts = file("starts");
    let server = |name: &str| {
        format!("sh -c 'echo {name} >> {}; exec {} fixture'", starts.display(), binary())
    };
    let (one, other) = (server("one"), server("other"));
    let report = json(&compare(&[&one, &other, "--json", "-"]).ok().left_nothing());
    let sides = report["sides"].as_array().unwrap();
    let of = |key: &str| sides.iter().map(|side| side[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("role"), ["base", "rival", "calibration"]);
    assert_eq!((of("runs"), of("errors")), (vec![3.into(); 3], vec![0.into(); 3]));
    assert!(sides[0]["comparisons"].as_array().unwrap().is_empty());
    for side in &sides[1..] {
        let first = &side["comparisons"][0];
        let [low, ratio, high] = ["low", "value", "high"].map(|key| first["ratio"][key].as_f64());
        assert!(low <= ratio && ratio <= high && low > Some(0.0), "{first:#}");
    }
    // Forwards, backwards, forwards; the first one closes each turn once more, for calibration.
    let order = fs::read_to_string(starts).unwrap();
    let turns = ["one other one", "one other one", "one other one"].join(" ");
    assert_eq!(order.split_whitespace().collect::<Vec<_>>().join(" "), turns);
}

#[test]
fn what_a_gateway_costs() {
    let server = format!("{} fixture", binary());
    let gateway = format!("{} serve --listen 127.0.0.1:0 -- {{server}}", binary());
    let ended = compare(&[&server, "--through", &gateway, "--no-calibration", "--json", "-"]);
    let report = json(&ended.ok().left_nothing());
    let [direct, through] = [&report["sides"][0], &report["sides"][1]];
    assert_eq!((&direct["role"], &through["role"]), (&"base".into(), &"gateway".into()));
    // Behind it are the server and who kills that should the gateway be killed.
    assert_eq!((&direct["processes"], &through["processes"]), (&1.0.into(), &3.0.into()));
}

/// Every side has the same instants, also behind a gateway.
#[test]
fn an_open_loop_is_one_schedule_for_all() {
    let server = format!("{} fixture", binary());
    let gateway = format!("{} serve --listen 127.0.0.1:0 -- {{server}}", binary());
    let open = ["--rate", "400", "--arrivals", "poisson", "--seed", "7", "--no-calibration"];
    let ended = compare(&[&[&server, "--through", &gateway, "--json", "-"], &open[..]].concat());
    let report = json(&ended.ok().left_nothing());
    let arrivals = json!({"shape": "rate", "per_s": 400.0, "spacing": "poisson", "seed": 7});
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!((&run["plan"]["load"], &run["plan"]["arrivals"]), (&"open".into(), &arrivals));
        assert_eq!(run["plan"]["concurrency"], 1024);
    }
}

#[test]
fn results_that_were_measured_apart_are_compared() {
    let (slow, fast) = (written("1.json", result(1000.0)), written("2.json", result(2000.0)));
    let report = file("report.json");
    let json = ["--json", report.to_str().unwrap()];
    let ended = mcplane(&[&["compare", &slow, &fast], &json[..]].concat(), LIMIT).ok();
    assert!(ended.stdout.contains("throughput    2.000 ["), "{ended}");
    assert!(ended.stdout.contains("faster"), "{ended}");
    fs::remove_file(&report).unwrap();
    assert_eq!(unread(&[&["compare", &slow, &fast], &json[..]].concat()), "0");
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["comparisons"][0]["verdict"], "faster");
}

#[test]
fn what_results_lack_is_told() {
    let (slow, fast) = (written("1.json", begun_at(1000.0)), written("2.json", begun_at(2000.0)));
    let ended = mcplane(&["compare", &slow, &fast], LIMIT).code(2);
    assert!(ended.stderr.contains("no run in common"), "{ended}");
    let mut short = begun_at(1000.0);
    short["runs"][0]["results"]["slices"].as_array_mut().unwrap().truncate(1);
    let short = written("short.json", short);
    let ended = mcplane(&["compare", &short, &short], LIMIT).code(3);
    assert!(ended.stdout.starts_with("s stdio echo @1000/s ≤4: "), "{ended}");
    assert!(ended.stdout.contains("cannot tell: too few samples"), "{ended}");
    assert!(ended.stdout.contains("open loop of 15 s"), "{ended}");
    for [flag, value] in [["--concurrency", "4"], ["--pairs", "10"], ["--html", "page.html"]] {
        let ended = mcplane(&["compare", &slow, &fast, flag, value], LIMIT).code(2);
        assert!(ended.stderr.contains(flag), "{ended}");
    }
    let ended = mcplane(&["compare", &slow, "--through", "gateway"], LIMIT).code(2);
    assert!(ended.stderr.contains("--through is for servers"), "{ended}");
    let ended = mcplane(&["compare", "/nowhere/nope.json", &slow], LIMIT).code(2);
    assert!(ended.stderr.contains("/nowhere/nope.json: No such file"), "{ended}");
    for words in [[&slow, "server"], ["server", &slow]] {
        let ended = mcplane(&["compare", words[0], words[1]], LIMIT).code(2);
        assert!(ended.stderr.contains("all targets must be results, or none: `server`"), "{ended}");
    }
    let none = written("none.json", "{}");
    let ended = mcplane(&["compare", &none, &slow], LIMIT).code(2);
    assert!(ended.stderr.contains("none.json: "), "{ended}");
}

/// The server of the fourth pair says nothing.
#[test]
fn ctrl_c_leaves_the_pairs_before_it() {
    let (starts, sign) = (file("starts"), file("silent"));
    let server = format!(
        "sh -c 'echo >> {0}; test $(wc -l < {0}) -lt 7 || {{ : > {1}; exec sleep 600; }}; exec {2} fixture'",
        starts.display(),
        sign.display(),
        binary()
    );
    let quick = ["compare", "--pairs", "5", "-n", "50", "--warmup", "5", "--no-calibration"];
    let running = start_mcplane(&[&quick[..], &[&server, &server]].concat(), "");
    wait_for(&sign);
    running.interrupt();
    let ended = running.wait(LIMIT).ok().left_nothing();
    assert_eq!(ended.stderr, "stopped after 3 of 5 pairs\n", "{ended}");
    assert!(ended.stdout.contains("3 pairs"), "{ended}");
}

/// A command that listens where it is told is pinned like one that is spoken to over its pipes.
#[cfg(target_os = "linux")]
#[test]
fn a_command_that_listens_has_the_same_core() {
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let list = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let core = list.trim().split([',', '-']).next_back().unwrap();
    let (address, seen) = (free(), file("cores"));
    let target = format!(
        "sh -c 'grep Cpus_allowed_list: /proc/self/status >> {}; exec {} fixture --transport http \
         --accept-rate 0 --listen {address}' @ http://{address}/mcp",
        seen.display(),
        binary(),
    );
    compare(&[&target, "--pin", core, "--no-calibration"]).code(2);
    compare(&[&target, &target, "--pin", core, "--no-calibration"]).ok().left_nothing();
    let seen = fs::read_to_string(seen).unwrap();
    let cores: Vec<_> = seen.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(cores, [core; 6], "{allowed}");
}

#[test]
fn what_cannot_be_compared_is_named() {
    let server = format!("{} fixture", binary());
    let none = compare(&[&server, "no-such-program-anywhere"]).code(3).left_nothing();
    assert!(none.stderr.contains("no-such-program-anywhere"), "{none}");

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let target = format!("{} fixture @ http://{address}/mcp", binary());
    let ended = compare(&[&server, &target]).code(3).left_nothing();
    assert!(ended.stderr.contains(&format!("{address} is taken already")), "{ended}");

    let deaf = format!("sh -c 'echo sorry >&2' @ http://{}/mcp", free());
    let ended = compare(&[&server, &deaf]).code(3).left_nothing();
    assert!(ended.stderr.contains("it ended") && ended.stderr.contains("sorry"), "{ended}");

    let ended = compare(&[&server, &server, "--pin", "4000"]).code(2).left_nothing();
    assert!(ended.stderr.contains("--pin: got 4000"), "{ended}");
}
