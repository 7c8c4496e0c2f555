//! How many processes there are, how many descriptors and bytes, and how all of it ends.

use std::{
    collections::HashSet,
    fs, thread,
    time::{Duration, Instant},
};

use mcplane_tests::child::signal;
use serde_json::json;

use crate::{
    OVERLOADED,
    client::{Client, error, text},
    gateway::{Gateway, bad, eventually, good},
    neighbour::Neighbours,
};

/// What may be left of a session that is over, in bytes: the allocator keeps what the sessions needed
/// that were there at the same time, and one that stayed would be more than twice as much.
const LEFT_BYTES_MAX: u64 = 4 * 1024;

fn workers(gateway: &Gateway) -> HashSet<u32> {
    let all = gateway.processes().into_iter();
    all.filter(|(_, line)| line.contains("bad-server")).map(|(id, _)| id).collect()
}

/// 50 clients, 5 servers, 2 workers each: 10 processes, and no eleventh at any time.
#[test]
fn many_clients_need_no_more_processes() {
    let server = |n| bad("workers = 2", &[]).replace("servers.bad", &format!("servers.s{n}"));
    let gateway = Gateway::serve(&(0..5).map(server).collect::<String>());
    let (gateway, mut seen) = (&gateway, HashSet::new());
    thread::scope(|scope| {
        let clients: Vec<_> = (0..50)
            .map(|client| {
                scope.spawn(move || {
                    for server in 0..5 {
                        let name = format!("s{}", (client + server) % 5);
                        let mut client = match client % 2 {
                            0 => gateway.modern(&name),
                            _ => gateway.legacy(&name),
                        };
                        for _ in 0..4 {
                            let message = format!("{name} and all");
                            let response = client.call("echo", json!({"message": message}));
                            assert_eq!(text(&response), message);
                        }
                    }
                })
            })
            .collect();
        while !clients.iter().all(|client| client.is_finished()) {
            seen.extend(workers(gateway));
            thread::sleep(Duration::from_millis(5));
        }
    });
    seen.extend(workers(gateway));
    assert_eq!(seen.len(), 10, "{seen:?}");
}

/// Descriptors, threads and resident bytes of a process.
fn costs(pid: u32) -> (usize, usize, u64) {
    let count = |of: &str| fs::read_dir(format!("/proc/{pid}/{of}")).unwrap().count();
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (count("fd"), count("task"), pages * 4096)
}

/// A thousand clients that connect and are never heard of again, without DELETE: when their time is
/// over, everything is as it was before.
#[test]
fn abandoned_sessions_leave_nothing_behind() {
    let gateway = Gateway::serve(&format!("session_idle = \"2s\"\n{}", bad("", &[])));
    let address = gateway.address();
    let abandon = || {
        for n in 0..1000 {
            let mut client = Client::legacy(address, "/bad/mcp");
            if n % 10 == 0 {
                assert_eq!(text(&client.call("echo", json!({"message": "bye"}))), "bye");
            }
        }
        eventually(|| match gateway.status()["sessions"].as_u64().unwrap() {
            0 => Ok(()),
            count => Err(format!("{count} sessions")),
        });
        costs(gateway.pid())
    };
    let running = workers(&gateway);
    // What is made once and kept is there after the first round.
    let (before, after) = (abandon(), abandon());
    assert!(after.0 <= before.0 + 1 && after.1 <= before.1 + 1, "{before:?} {after:?}");
    let grown = after.2.saturating_sub(before.2);
    assert!(grown < 1000 * LEFT_BYTES_MAX, "{grown} bytes more");
    assert_eq!(workers(&gateway), running);
}

/// A worker for each session is there for as long as it is used, and there are never too many.
#[test]
fn workers_of_abandoned_sessions_are_stopped() {
    let keys = "mode = \"per_session\"\nworkers_max = 4\nidle_stop = \"1s\"";
    let gateway = Gateway::serve(&bad(keys, &[]));
    let mut pids = HashSet::new();
    for _ in 0..12 {
        let mut client = gateway.legacy("bad");
        pids.insert(text(&client.call("pid", json!({}))).to_owned());
        // Those that were told to leave may take a moment.
        let count = workers(&gateway).len();
        assert!(count <= 8, "{count}");
    }
    assert_eq!(pids.len(), 12);
    eventually(|| match workers(&gateway).len() {
        // One for the next session, and one that reads the lists.
        2 => Ok(()),
        count => Err(format!("{count} run")),
    });
    // All of them are busy: the next one is told.
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let mut client = gateway.legacy("bad");
            thread::spawn(move || client.call("sleep", json!({"ms": 1500})))
        })
        .collect();
    gateway.server("bad", |server| {
        let workers = server["workers"].as_array().unwrap();
        workers.iter().filter(|worker| worker["in_flight"] == 1).count() == 4
    });
    let response = gateway.legacy("bad").call("pid", json!({}));
    let (code, why) = error(&response);
    assert!(code == OVERLOADED && why.contains("all 4 workers"), "{response}");
    for client in busy {
        assert_eq!(text(&client.join().unwrap()), "slept 1500 ms");
    }
}

#[test]
fn kill_9_leaves_no_worker() {
    let mut gateway = Gateway::serve(&bad("workers = 3", &["--stubborn"]));
    gateway.starts_child("bad", "fork");
    eventually(|| if workers(&gateway).len() == 3 { Ok(()) } else { Err("3 workers".into()) });
    gateway.signal("KILL");
    assert_eq!(gateway.code(), None);
    gateway.leaves_nothing();
}

/// Starts one that leaves the group of its worker, and waits until it has.
#[cfg(target_os = "linux")]
pub fn detach(gateway: &Gateway) -> u32 {
    let child = gateway.starts_child("bad", "detach");
    eventually(|| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        let group = stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap();
        if group == child.to_string() { Ok(child) } else { Err(stat) }
    })
}

#[test]
#[cfg(target_os = "linux")]
fn kill_9_of_a_worker_leaves_nothing_detached() {
    let gateway = Gateway::serve(&(good() + &bad("", &[])));
    let neighbours = Neighbours::of(&gateway, "good");
    detach(&gateway);
    let before = gateway.pids("bad");
    signal("KILL", &before[0].to_string());
    gateway.runs_no("sleep 600");
    eventually(|| match gateway.pids("bad") {
        now if now.len() == 1 && now != before => Ok(()),
        now => Err(format!("{now:?} after {before:?}")),
    });
    neighbours.are_well();
}

#[test]
#[cfg(target_os = "linux")]
fn kill_9_leaves_nothing_detached() {
    let mut gateway = Gateway::serve(&bad("workers = 2", &["--stubborn"]));
    let _two = [detach(&gateway), detach(&gateway)];
    gateway.signal("KILL");
    assert_eq!(gateway.code(), None);
    gateway.leaves_nothing();
}

#[test]
#[cfg(target_os = "linux")]
fn sigterm_leaves_nothing_detached() {
    let mut gateway = Gateway::serve(&bad("", &[]));
    detach(&gateway);
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));
    gateway.leaves_nothing();
}

/// After SIGTERM nobody gets in, what is in flight may finish, and then it ends well.
#[test]
fn sigterm_lets_calls_finish() {
    let mut gateway = Gateway::serve(&bad("", &[]));
    let address = gateway.address();
    let calls: Vec<_> = [gateway.modern("bad"), gateway.legacy("bad")]
        .into_iter()
        .map(|mut client| thread::spawn(move || client.call("sleep", json!({"ms": 1500}))))
        .collect();
    gateway.server("bad", |server| server["workers"][0]["in_flight"] == 2);
    let began = Instant::now();
    gateway.signal("TERM");
    eventually(|| match std::net::TcpStream::connect(address) {
        Err(_) => Ok(()),
        Ok(_) => Err("somebody got in".into()),
    });
    for call in calls {
        assert_eq!(text(&call.join().unwrap()), "slept 1500 ms");
    }
    assert_eq!(gateway.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    gateway.leaves_nothing();
}

/// What does not finish in time is told so.
#[test]
fn sigterm_does_not_wait_for_ever() {
    let mut gateway = Gateway::serve(&format!("drain = \"700ms\"\n{}", bad("", &[])));
    let mut client = gateway.legacy("bad");
    let listening = client.listen(gateway.address());
    let message = client.message("tools/call", json!({"name": "silent", "arguments": {}}));
    client.begin(&message);
    gateway.server("bad", |server| server["workers"][0]["in_flight"] == 1);
    let began = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));
    assert!(began.elapsed() > Duration::from_millis(600), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    gateway.leaves_nothing();
    drop(listening);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut gateway = Gateway::serve(&format!("drain = \"60s\"\n{}", bad("", &[])));
    let mut client = gateway.modern("bad");
    let message = client.message("tools/call", json!({"name": "silent", "arguments": {}}));
    client.begin(&message);
    gateway.server("bad", |server| server["workers"][0]["in_flight"] == 1);
    gateway.signal("TERM");
    thread::sleep(Duration::from_millis(500));
    assert!(!gateway.has_ended());
    let began = Instant::now();
    gateway.signal("TERM");
    gateway.code();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    gateway.leaves_nothing();
}
