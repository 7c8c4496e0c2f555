//! Servers that are child processes, good ones and bad ones.

use std::time::{Duration, Instant};

use mcplane_proto::version::Era;

use super::*;
use crate::error::Error;
use crate::transport::process::{Command, Process, Rung};

/// Answers `initialize` and then `tools/list`, as old servers do.
const OLD: &str = r#"
    answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
    while read -r line; do
        id=${line#*\"id\":}; id=${id%%,*}
        case $line in
            *server/discover*) eval "$PROBE" ;;
            *'"initialize"'*) answer "$id" '{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}' ;;
            *tools/list*) answer "$id" '{"tools":[]}' ;;
            *tools/call*) echo 'about to fail' >&2; exit 7 ;;
        esac
    done
"#;

fn sh(script: &str) -> Command {
    Command::new("sh").arg("-c").arg(script)
}

async fn refused(command: Command) -> Error {
    builder().timeout(Duration::from_millis(300)).spawn(command).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_dies_on_the_probe_is_started_again() {
    let client = builder().spawn(sh(OLD).env("PROBE", "exit 1")).await.unwrap();
    assert_eq!((client.peer().era(), client.peer().name()), (Era::Legacy, Some("sh")));
    assert!(client.list_tools().await.unwrap().is_empty());
    let process = client.process().unwrap().clone();
    assert!(process.pid() > 0 && process.command().starts_with("sh -c"));
    assert!(process.exit().is_none());
    client.close().await;
    let exit = process.exit().unwrap().exit.unwrap();
    // It may end before it is asked whether it has: either way nobody had to insist.
    assert_eq!(exit.code, Some(0));
    assert!(exit.rung < Rung::Terminated, "{exit}");
}

#[tokio::test]
async fn a_banner_on_stdout_is_tolerated() {
    let script = format!("echo 'Welcome!'; echo; {OLD}");
    let probe = r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' $id"#;
    let client = builder().spawn(sh(&script).env("PROBE", probe)).await.unwrap();
    assert_eq!(client.strays().first.as_deref(), Some("Welcome!"));
    client.close().await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_quoted() {
    let client = builder().spawn(sh(OLD).env("PROBE", "exit 1")).await.unwrap();
    let error = client.call_tool("x", &()).await.unwrap_err();
    let text = error.to_string();
    assert!(error.is_closed(), "{text}");
    assert!(text.contains("exited with code 7") && text.contains("about to fail"), "{text}");
    assert_eq!(client.process().unwrap().stderr(), ["about to fail"]);
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_named() {
    let error = refused(Command::new("mcplane-no-such-program")).await;
    assert!(error.is_spawn(), "{error}");
    assert!(error.to_string().contains("`mcplane-no-such-program`"), "{error}");
}

#[tokio::test]
async fn a_server_that_exits_at_once_is_quoted() {
    let error = refused(sh("echo 'module not found' >&2; exit 3")).await;
    let text = error.to_string();
    assert!(error.is_closed(), "{text}");
    for part in ["no answer to `initialize`", "sh -c", "exited with code 3", "module not found"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_and_stopped() {
    let process = Process::new(sh("echo 'Type help'; trap '' TERM; while :; do sleep 0.05; done"));
    let start = Instant::now();
    let hasty = builder().timeout(Duration::from_millis(300));
    let error = hasty.spawn(process.grace(Duration::from_millis(100))).await.unwrap_err();
    let text = error.to_string();
    assert!(error.is_timeout(), "{text}");
    for part in ["`initialize` after 0.3 s", "Type help", "is still running"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn as_a_transport_a_process_is_a_stream_of_lines() {
    let process = Process::new(sh(OLD).env("PROBE", "exit 1"));
    let old = builder()
        .revision(crate::client::EraChoice::Only(mcplane_proto::version::Revision::V2025_06_18));
    let client = old.connect(process.clone()).await.unwrap();
    assert!(client.list_tools().await.unwrap().is_empty());
    assert!(client.process().is_none());
    client.close().await;
    // Without the means to start it again a death on the probe is the end.
    let error = builder().connect(process).await.unwrap_err();
    assert!(error.is_closed() && error.is_handshake(), "{error}");
}
