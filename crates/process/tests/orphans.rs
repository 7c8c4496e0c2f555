//! The parent dies by SIGKILL; its children must not live on. The parent is this test program,
//! run again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mcplane_process::Command;

const ROLE: &str = "MCPLANE_TEST_PARENT";

/// Not a test by itself: the parent that [`children_die_with_a_killed_parent`] starts.
#[test]
fn parent() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let gone = Command::new("sleep").arg("300").spawn().unwrap();
        let meek = Command::new("sleep").arg("300").spawn().unwrap();
        let stubborn = "trap '' TERM HUP; while :; do sleep 0.2; done";
        let stubborn = Command::new("sh").args(["-c", stubborn]).spawn().unwrap();
        drop(gone);
        let line = format!("pids {} {}\n", meek.pid(), stubborn.pid());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

#[test]
fn children_die_with_a_killed_parent() {
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap());
    parent.args(["--exact", "parent", "--nocapture"]).env(ROLE, "1");
    let mut parent = parent.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("pids ") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the parent started");
    }
    let (_, pids) = line.trim().split_once("pids ").unwrap();
    let mut pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    pids.push(guard_of(parent.id()));
    assert!(pids.iter().all(|pid| is_running(*pid)), "{pids:?}");

    parent.kill().unwrap();
    parent.wait().unwrap();
    // Nobody else holds the parent's stdout: its reader sees the end at once.
    let start = Instant::now();
    stdout.read_to_end(&mut Vec::new()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
    while pids.iter().any(|pid| is_running(*pid)) {
        assert!(start.elapsed() < Duration::from_secs(10), "left behind: {pids:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One test, because the guard is one for the whole process.
#[tokio::test]
async fn the_guard_is_alone_with_its_pipe_and_is_replaced_when_killed() {
    let mut first = Command::new("cat").spawn().unwrap();
    let mut second = Command::new("cat").spawn().unwrap();
    let old = guard_of(std::process::id());
    let guard = pipes_of(old).first().cloned().unwrap();
    let sibling = pipes_of(first.pid()).first().cloned().unwrap();
    assert!(pipes_of(std::process::id()).contains(&guard), "we hold it");
    let held = pipes_of(second.pid());
    assert!(held.len() >= 3 && !held.contains(&guard) && !held.contains(&sibling), "{held:?}");

    let pid = rustix::process::Pid::from_raw(i32::try_from(old).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let start = Instant::now();
    while is_running(old) {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    let mut third = Command::new("cat").spawn().unwrap();
    let new = guard_of(std::process::id());
    assert!(new != old && is_running(new));
    assert!(!fs::exists(format!("/proc/{old}")).unwrap(), "the old guard is reaped");
    for child in [&mut first, &mut second, &mut third] {
        assert!(child.stop(Duration::from_secs(10)).await.is_success());
    }
}

/// What the descriptors of a process lead to, stdin first.
fn pipes_of(pid: u32) -> Vec<PathBuf> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let mut fds: Vec<PathBuf> = fds.map(|fd| fd.path()).collect();
    fds.sort();
    fds.into_iter().filter_map(|fd| fs::read_link(fd).ok()).collect()
}

fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The running guard among the children of `parent`. In the middle of `exec` it has no arguments yet.
fn guard_of(parent: u32) -> u32 {
    let start = Instant::now();
    loop {
        match *guards_of(parent) {
            [guard] => return guard,
            ref guards => assert!(guards.is_empty(), "one guard per process, not {guards:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(10), "no guard");
    }
}

fn guards_of(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_guard = |pid: &u32| {
        let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let is_child = read("status").lines().any(|line| line == format!("PPid:\t{parent}"));
        is_child && is_running(*pid) && read("cmdline").contains("mcplane-guard")
    };
    pids.filter(is_guard).collect()
}
