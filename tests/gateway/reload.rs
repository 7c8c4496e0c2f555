//! Settings that change while the gateway runs.

use std::{thread, time::Duration};

use serde_json::json;

#[cfg(target_os = "linux")]
use crate::processes::detach;
use crate::{
    client::{Client, Http, text},
    gateway::{Gateway, bad, eventually, good},
    neighbour::Neighbours,
};

fn named(name: &str, keys: &str, words: &[&str]) -> String {
    bad(keys, words).replace("servers.bad", &format!("servers.{name}"))
}

/// What stays the same does not notice; what changes lets its calls finish; what is gone is gone.
#[test]
fn a_change_of_the_file_is_taken_over() {
    let settings = good() + &named("changed", "", &[]) + &named("gone", "", &[]);
    let gateway = Gateway::serve(&settings);
    let address = gateway.address();
    let neighbours = Neighbours::of(&gateway, "good");
    let (stays, changes) = (gateway.pids("good"), gateway.pids("changed"));
    let client = gateway.legacy("changed");
    let mut changed = client.listen(address);
    let mut all = Client::legacy(address, "/mcp").listen(address);
    assert_eq!(text(&gateway.modern("gone").call("echo", json!({"message": "hi"}))), "hi");

    let mut calling = gateway.modern("changed");
    let call = thread::spawn(move || calling.call("sleep", json!({"ms": 1500})));
    gateway.server("changed", |server| server["workers"][0]["in_flight"] == 1);
    gateway.rewrite(&(good() + &named("changed", "", &["--tools", "1"]) + &named("new", "", &[])));
    for stream in [&mut changed, &mut all] {
        assert_eq!(stream.event().unwrap()["method"], "notifications/tools/list_changed");
    }
    gateway.says("was read again");
    gateway.offers("changed", "more_0000");
    assert_eq!(text(&call.join().unwrap()), "slept 1500 ms");
    assert_eq!(gateway.pids("good"), stays);
    assert_ne!(gateway.pids("changed"), changes);
    gateway.offers("new", "echo");
    assert_eq!(text(&gateway.modern("new").call("echo", json!({"message": "hi"}))), "hi");
    assert_eq!(Http::get(address, "/gone/mcp").status, 404);
    let runs =
        || gateway.processes().iter().filter(|(_, line)| line.contains("bad-server")).count();
    eventually(|| match runs() {
        2 => Ok(()),
        count => Err(format!("{count} run")),
    });
    neighbours.are_well();
}

/// Calls that wait for a worker when the settings of their server change are made all the same, by
/// the workers that they came to.
#[test]
fn a_call_that_waits_outlives_a_change() {
    let settings = |words: &[&str]| good() + &named("changed", "calls_per_worker = 1", words);
    let gateway = Gateway::serve(&settings(&[]));
    gateway.offers("changed", "sleep");
    let call = |ms: u64| {
        let mut client = gateway.modern("changed");
        thread::spawn(move || client.call("sleep", json!({"ms": ms})))
    };
    let first = call(1500);
    gateway.server("changed", |server| server["workers"][0]["in_flight"] == 1);
    let waiting: Vec<_> = (0..3).map(|_| call(1)).collect();
    gateway.server("changed", |server| server["queued"] == 3);
    gateway.rewrite(&settings(&["--tools", "1"]));
    gateway.says("was read again");
    assert_eq!(text(&first.join().unwrap()), "slept 1500 ms");
    for call in waiting {
        assert_eq!(text(&call.join().unwrap()), "slept 1 ms");
    }
    gateway.offers("changed", "more_0000");
}

/// However often the settings change, no call fails for it.
#[test]
fn no_call_fails_because_of_a_change() {
    let settings = |count: usize| good() + &named("changed", "", &["--tools", &count.to_string()]);
    let gateway = Gateway::serve(&settings(0));
    gateway.offers("changed", "echo");
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let calling = (0..4).map(|_| {
            scope.spawn(|| {
                let mut client = gateway.modern("changed");
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let response = client.call("echo", json!({"message": "hi"}));
                    assert_eq!(text(&response), "hi");
                }
            })
        });
        let calling: Vec<_> = calling.collect();
        for count in 1..=8 {
            gateway.rewrite(&settings(count));
            gateway.server("changed", |_| gateway.status()["reloads"] == count);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        calling.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// Nor is anything left that had left the group of its worker.
#[test]
#[cfg(target_os = "linux")]
fn a_server_that_is_gone_leaves_nothing_detached() {
    let gateway = Gateway::serve(&(good() + &bad("", &[])));
    let neighbours = Neighbours::of(&gateway, "good");
    detach(&gateway);
    gateway.rewrite(&good());
    gateway.says("was read again");
    gateway.runs_no("bad-server");
    gateway.runs_no("sleep 600");
    neighbours.are_well();
}

/// A file with an error changes nothing at all, and the error is told with its place.
#[test]
fn a_file_that_is_wrong_changes_nothing() {
    let settings = good() + &named("other", "", &[]);
    let gateway = Gateway::serve(&settings);
    let neighbours = Neighbours::of(&gateway, "good");
    let pids = [gateway.pids("good"), gateway.pids("other")];
    gateway.rewrite(&(settings.clone() + "workrs = 2\n"));
    gateway.says("nothing was changed");
    gateway.says("servers.other.workrs");
    gateway.rewrite("[[[");
    eventually(|| match gateway.said().matches("nothing was changed").count() {
        2 => Ok(()),
        _ => Err(gateway.said()),
    });
    assert_eq!([gateway.pids("good"), gateway.pids("other")], pids);
    assert_eq!(gateway.status()["reloads"], 0);
    // Put right, it is taken again.
    gateway.rewrite(&(settings + "workers = 2\n"));
    gateway.server("other", |server| server["workers"].as_array().unwrap().len() == 2);
    assert_eq!(gateway.pids("good"), pids[0]);
    neighbours.are_well();
}

/// SIGHUP reads it again, changed or not; servers that are the same keep their workers.
#[test]
fn sighup_reads_it_again() {
    let gateway = Gateway::serve(&good());
    let neighbours = Neighbours::of(&gateway, "good");
    let pids = gateway.pids("good");
    for count in 1..=2 {
        gateway.signal("HUP");
        eventually(|| match gateway.status()["reloads"].as_u64().unwrap() {
            reloads if reloads == count => Ok(()),
            reloads => Err(format!("{reloads} of {count}")),
        });
    }
    gateway.rewrite(&(good() + &named("new", "", &[])));
    gateway.signal("HUP");
    gateway.offers("new", "echo");
    assert_eq!(gateway.pids("good"), pids);
    neighbours.are_well();
}

/// How long a call may take is another matter at once, for the workers that run.
#[test]
fn other_times_hold_at_once() {
    let slow = |timeout: &str| format!("call_timeout = {timeout:?}\n{}", bad("", &[]));
    let gateway = Gateway::serve(&slow("300s"));
    gateway.offers("bad", "sleep");
    let pids = gateway.pids("bad");
    gateway.rewrite(&slow("1s"));
    gateway.says("was read again");
    let mut client = gateway.modern("bad");
    let response = client.call("sleep", json!({"ms": 15_000}));
    assert_eq!(response["error"]["code"], -31_998, "{response}");
    assert_eq!(gateway.pids("bad"), pids);
    assert!(!gateway.said().contains("next start"), "{}", gateway.said());
}

/// Nobody reads what it says: it goes on all the same.
#[test]
fn a_closed_standard_error_ends_nothing() {
    let gateway = Gateway::serve_unheard(&good());
    gateway.rewrite("this is no file of settings");
    thread::sleep(Duration::from_secs(1));
    gateway.rewrite(&(good() + &named("new", "", &[])));
    gateway.offers("new", "echo");
    gateway.rewrite(&(good() + &named("newer", "", &[])));
    gateway.offers("newer", "echo");
}

/// What the listeners have cannot change while they run: it is said, and the rest is taken over.
#[test]
fn what_needs_a_restart_is_named() {
    let gateway = Gateway::serve(&good());
    gateway.rewrite(&format!(
        "tokens = {{alice = \"a-secret\"}}\n{}{}",
        good(),
        named("new", "", &[])
    ));
    gateway.says("gateway.tokens changes with the next start");
    assert!(!gateway.said().contains("gateway.drain"), "{}", gateway.said());
    gateway.offers("new", "echo");
    assert_eq!(text(&gateway.modern("new").call("echo", json!({"message": "hi"}))), "hi");
    // It still differs from what was started with.
    gateway.signal("HUP");
    eventually(|| match gateway.said().matches("gateway.tokens changes").count() {
        2 => Ok(()),
        count => Err(format!("{count}: {}", gateway.said())),
    });
}

/// A token is no good from the moment that it is taken back, and what was opened with it is closed.
#[test]
fn a_token_that_is_taken_back_is_no_good_at_once() {
    let settings = |bob: &str| format!("tokens = {{alice = \"a-secret\"{bob}}}\n{}", good());
    let gateway = Gateway::serve(&settings(", bob = \"b-secret\""));
    let address = gateway.address();
    let known = |token| Client::known(address, "/mcp", token);
    let (mut alice, mut bob) = (known("a-secret").initialized(), known("b-secret").initialized());
    let (mut hers, mut his) = (alice.listen(address), bob.listen(address));
    for client in [&mut alice, &mut bob] {
        assert_eq!(text(&client.call("echo", json!({"message": "hi"}))), "hi");
    }
    gateway.rewrite(&settings(""));
    gateway.says("was read again");
    assert!(his.event().is_none(), "his stream is closed");
    for mut client in [bob, known("b-secret")] {
        let message = client.message("tools/list", json!({}));
        assert_eq!(client.post(&message).status, 401);
    }
    assert_eq!(text(&alice.call("echo", json!({"message": "hi"}))), "hi");
    gateway.rewrite(&(settings(", carol = \"c-secret\"") + &named("new", "", &[])));
    assert_eq!(hers.event().unwrap()["method"], "notifications/tools/list_changed");
    eventually(|| match gateway.said().matches("was read again").count() {
        2 => Ok(()),
        count => Err(format!("{count}: {}", gateway.said())),
    });
    assert_eq!(text(&known("c-secret").call("add", json!({"a": 2, "b": 40}))), "42");
}

/// Neither a file that was emptied nor one that cannot be read takes anything away.
#[test]
fn a_file_without_servers_or_with_a_pipe_changes_nothing() {
    let gateway = Gateway::serve(&good());
    let pids = gateway.pids("good");
    gateway.rewrite("");
    gateway.says("there are no servers in");
    let pipe = gateway.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    gateway.rewrite(&format!("tokens = {{alice = \"file:pipe\"}}\n{}", good()));
    gateway.says("it is not a regular file");
    assert_eq!(gateway.pids("good"), pids);
    assert_eq!(gateway.status()["reloads"], 0);
}
