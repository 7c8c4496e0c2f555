//! A process tree is measured from outside.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use mcplane_process::Command;
use mcplane_process::observe::Tree;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

const BOUND: Duration = Duration::from_secs(20);

/// A child that runs `script`, says "ready" and then reads its stdin to the end.
async fn sample_after(script: &str) -> (mcplane_process::Child, Vec<u32>) {
    let script = format!("{script}\necho ready; read -r _");
    let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    timeout(BOUND, stdout.read_line(&mut line)).await.unwrap().unwrap();
    assert_eq!(line, "ready\n");
    let tree = Tree::of(child.pid()).unwrap();
    (child, tree.pids().to_vec())
}

#[tokio::test]
async fn an_idle_child_uses_little() {
    let (mut child, pids) = sample_after("").await;
    assert_eq!(pids, [child.pid()]);
    let usage = Tree::sample(child.pid()).unwrap();
    assert_eq!((usage.processes, usage.threads), (1, 1));
    assert!(usage.fds >= 3, "{usage:?}");
    assert!((100_000..100_000_000).contains(&usage.rss_bytes), "{usage:?}");
    assert!(usage.pss_bytes.is_some_and(|pss| pss > 0), "{usage:?}");
    assert!((1..1_000_000_000).contains(&usage.cpu_ns()), "{usage:?}");
    let waits = async {
        while Tree::glance(child.pid()).unwrap().ctx_switches_voluntary == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(BOUND, waits).await.expect("it gives up the CPU to read");
    assert_eq!(Tree::glance(child.pid()).unwrap().pss_bytes, None);
    child.stop(BOUND).await;
    assert_eq!(Tree::sample(child.pid()), None);
}

#[tokio::test]
async fn the_whole_tree_counts() {
    let (mut child, _) = sample_after("sleep 300 & sh -c 'sleep 300 & wait' &").await;
    let whole = async {
        while Tree::of(child.pid()).unwrap().pids().len() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(BOUND, whole).await.expect("a shell, a sleep, a shell and its sleep");
    let usage = Tree::sample(child.pid()).unwrap();
    assert_eq!((usage.processes, usage.threads), (4, 4), "{usage:?}");
    child.kill().await;
}

#[tokio::test]
async fn cpu_of_reaped_children_counts() {
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let (mut child, pids) = sample_after(&format!("sh -c '{burn}'; :")).await;
    assert_eq!(pids.len(), 1);
    let usage = Tree::sample(child.pid()).unwrap();
    assert!(usage.cpu_ns() >= 20_000_000, "{usage:?}");
    child.kill().await;
}
