//! What a child has started outside of its group ends with the group, however the group ends; what
//! is no part of it lives on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use mcplane_process::{Child, Command};
use rustix::process::{self, Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader as AsyncReader};
use tokio::time::{sleep, timeout};

const GRACE: Duration = Duration::from_millis(500);
const BOUND: Duration = Duration::from_secs(20);
const ROLE: &str = "MCPLANE_TEST_OWNER";

/// Two that leave the group, one of them by a double fork, and one that has no mark. All are silent,
/// so that nobody waits for a pipe that they hold. Prints their numbers, then does `then`.
fn escaping(then: &str) -> Command {
    let script = format!(
        "exec 3>&1; setsid sleep 600 >/dev/null 2>&1 3>&- & one=$!
         two=$(setsid sh -c 'sleep 600 >/dev/null 2>&1 3>&- & echo $!')
         env -u MCPLANE_GROUP setsid sleep 600 >/dev/null 2>&1 3>&- & free=$!
         echo $one $two $free; {then}"
    );
    Command::new("sh").args(["-c", &script])
}

struct Escaped {
    marked: Vec<u32>,
    free: u32,
}

impl Escaped {
    async fn of(child: &mut Child) -> Self {
        let mut line = String::new();
        let mut stdout = AsyncReader::new(child.take_stdout().unwrap());
        timeout(BOUND, stdout.read_line(&mut line)).await.unwrap().unwrap();
        Self::parse(&line)
    }

    fn parse(line: &str) -> Self {
        let numbers: Vec<u32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [one, two, free] = *numbers else { panic!("three numbers, not {line:?}") };
        // Until then they are a shell that is about to become what it was asked for.
        eventually("they sleep", || numbers.iter().all(|pid| is_asleep(*pid)));
        Self { marked: vec![one, two], free }
    }

    /// Also ends the one that lives on.
    fn are_gone_but_the_free_one(self) {
        eventually("gone", || !self.marked.iter().any(|pid| is_asleep(*pid)));
        assert!(is_asleep(self.free), "a stranger was hit");
        let free = Pid::from_raw(i32::try_from(self.free).unwrap()).unwrap();
        process::kill_process(free, Signal::KILL).unwrap();
    }
}

/// Runs, and leads a session of its own or is a child of one that did.
fn is_asleep(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_dead = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
    !is_dead && fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default() == b"sleep\x00600\x00"
}

fn eventually(what: &str, check: impl Fn() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < BOUND, "{what}: not within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_stop_ends_them() {
    let mut child = escaping("exec cat").spawn().unwrap();
    let escaped = Escaped::of(&mut child).await;
    assert!(timeout(BOUND, child.stop(GRACE)).await.unwrap().is_success());
    // Not eventually: that is what was waited for. A killed one may take a moment to be gone.
    sleep(Duration::from_millis(200)).await;
    assert!(!escaped.marked.iter().any(|pid| is_asleep(*pid)));
    escaped.are_gone_but_the_free_one();
}

/// Groups of the same process are told apart.
#[tokio::test]
async fn those_of_another_group_live_on() {
    let mut first = escaping("exec cat").spawn().unwrap();
    let mut second = escaping("exec cat").spawn().unwrap();
    let (ended, alive) = (Escaped::of(&mut first).await, Escaped::of(&mut second).await);
    timeout(BOUND, first.kill()).await.unwrap();
    ended.are_gone_but_the_free_one();
    assert!(alive.marked.iter().all(|pid| is_asleep(*pid)));
    timeout(BOUND, second.kill()).await.unwrap();
    alive.are_gone_but_the_free_one();
}

#[tokio::test]
async fn a_drop_ends_them() {
    let mut child = escaping("trap '' TERM; exec sleep 300").spawn().unwrap();
    let escaped = Escaped::of(&mut child).await;
    drop(child);
    escaped.are_gone_but_the_free_one();
}

#[test]
fn a_drop_without_a_runtime_ends_them() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (child, escaped) = runtime.block_on(async {
        let mut child = escaping("exec cat").spawn().unwrap();
        let escaped = Escaped::of(&mut child).await;
        (child, escaped)
    });
    drop(runtime);
    drop(child);
    escaped.are_gone_but_the_free_one();
}

#[tokio::test]
async fn the_end_of_the_leader_ends_them() {
    let mut child = escaping("exit 3").spawn().unwrap();
    let escaped = Escaped::of(&mut child).await;
    assert_eq!(timeout(BOUND, child.wait()).await.unwrap().code, Some(3));
    escaped.are_gone_but_the_free_one();
}

/// Many groups that end at once share their sweeps, and each is swept.
#[tokio::test]
async fn many_at_once_are_all_swept() {
    let mut children: Vec<Child> = (0..20).map(|_| escaping("exec cat").spawn().unwrap()).collect();
    let mut escaped = Vec::new();
    for child in &mut children {
        escaped.push(Escaped::of(child).await);
    }
    drop(children);
    escaped.into_iter().for_each(Escaped::are_gone_but_the_free_one);
}

/// Not a test by itself: the owner that the next two start.
#[test]
fn owner() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut child = escaping("exec cat").spawn().unwrap();
        let mut line = String::new();
        let mut stdout = AsyncReader::new(child.take_stdout().unwrap());
        stdout.read_line(&mut line).await.unwrap();
        std::io::stdout().write_all(format!("pids {line}").as_bytes()).unwrap();
        sleep(Duration::from_secs(60)).await;
    });
}

/// What the owner says of its child's children.
fn said(line: &str) -> Option<Escaped> {
    line.split_once("pids ").map(|(_, pids)| Escaped::parse(pids))
}

#[test]
fn the_guard_ends_them() {
    let mut owner = std::process::Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "owner", "--nocapture"]).env(ROLE, "1");
    let mut owner = owner.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let escaped = lines.map_while(Result::ok).find_map(|line| said(&line)).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    escaped.are_gone_but_the_free_one();
}

/// An owner inside a group that is killed: its own guard ends what is its own.
#[tokio::test]
async fn an_inner_guard_ends_them() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner", "--nocapture"])
        .env(ROLE, "1")
        .spawn()
        .unwrap();
    let mut lines = AsyncReader::new(owner.take_stdout().unwrap()).lines();
    let escaped = loop {
        let line = timeout(BOUND, lines.next_line()).await.unwrap().unwrap().unwrap();
        if let Some(escaped) = said(&line) {
            break escaped;
        }
    };
    timeout(BOUND, owner.kill()).await.unwrap();
    escaped.are_gone_but_the_free_one();
}
