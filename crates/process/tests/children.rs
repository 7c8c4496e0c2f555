//! Real children: started, watched, stopped, lost. Each test is bounded in time and leaves nothing
//! behind.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use mcplane_process::{Child, Command, INHERITED, Rung, SpawnError, Stderr};
use rustix::process::{self, Pid, Signal, WaitOptions};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::time::timeout;

const GRACE: Duration = Duration::from_millis(500);
const BOUND: Duration = Duration::from_secs(20);

fn sh(script: &str) -> Command {
    Command::new("sh").args(["-c", script])
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(BOUND, future).await.expect("done within the bound")
}

/// The next line of the child's stdout as a number.
async fn number(child: &mut Child) -> u32 {
    let mut line = String::new();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    within(stdout.read_line(&mut line)).await.unwrap();
    line.trim().parse().unwrap_or_else(|_| panic!("a number, not {line:?}"))
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// The state letter of `/proc/PID/stat`; `Z` is a zombie.
fn state(number: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Alive; an orphan that init has yet to reap is not.
fn is_running(number: u32) -> bool {
    if cfg!(target_os = "linux") {
        return state(number).is_some_and(|state| state != 'Z' && state != 'X');
    }
    process::test_kill_process(pid(number)).is_ok()
}

/// Neither running nor waiting to be reaped by us.
fn is_gone(number: u32) -> bool {
    process::test_kill_process(pid(number)).is_err()
}

fn eventually(what: &str, check: impl Fn() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < BOUND, "{what}: not within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_missing_command_says_so() {
    let error = Command::new("mcplane-no-such-program").spawn().unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error:?}");
    assert!(error.to_string().contains("`mcplane-no-such-program`"), "{error}");

    let error = Command::new("/etc/passwd").spawn().unwrap_err();
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error:?}");

    let error = Command::new("cat").cwd("/no/such/folder").spawn().unwrap_err();
    assert!(matches!(error, SpawnError::CwdMissing { .. }), "{error:?}");
}

/// What a child finds in its environment, by name.
async fn environment(command: &Command) -> BTreeMap<String, String> {
    let mut child = command.spawn().unwrap();
    let (mut stdout, mut said) = (child.take_stdout().unwrap(), String::new());
    within(stdout.read_to_string(&mut said)).await.unwrap();
    within(child.wait()).await;
    let variables = said.lines().filter_map(|line| line.split_once('='));
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Cargo sets variables of its own for tests: secrets, as far as this one is concerned.
#[tokio::test]
async fn a_child_gets_a_small_environment() {
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "run by cargo");
    let small = environment(&Command::new("env")).await;
    for name in small.keys() {
        assert!(INHERITED.contains(&&**name) || name == "MCPLANE_GROUP", "{name}");
    }
    assert_eq!(small.get("PATH"), std::env::var("PATH").ok().as_ref());
    assert!(small.contains_key("MCPLANE_GROUP"));

    let command = Command::new("env").inherit_env(["CARGO_PKG_NAME", "CARGO_PKG_V*", "NO_SUCH"]);
    let more = environment(&command.env("PATH", "/bin").env("OWN", "1").env_remove("HOME")).await;
    assert_eq!(more.get("CARGO_PKG_NAME").map(String::as_str), Some("mcplane-process"));
    assert!(more.contains_key("CARGO_PKG_VERSION") && !more.contains_key("CARGO_MANIFEST_DIR"));
    assert_eq!((more["PATH"].as_str(), more["OWN"].as_str()), ("/bin", "1"));
    assert!(!more.contains_key("HOME") && !more.contains_key("NO_SUCH"));

    let all = environment(&Command::new("env").inherit_env(["*"])).await;
    assert!(all.contains_key("CARGO_MANIFEST_DIR") && all.contains_key("MCPLANE_GROUP"));
}

#[tokio::test]
async fn a_script_without_interpreter_says_so() {
    use std::os::unix::fs::PermissionsExt;

    let path = std::env::temp_dir().join(format!("mcplane-script-{}", std::process::id()));
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = Command::new(&path).spawn();
    std::fs::remove_file(&path).unwrap();
    let error = outcome.unwrap_err();
    assert!(matches!(error, SpawnError::InterpreterMissing { .. }), "{error:?}");
}

#[test]
fn spawn_outside_a_runtime_is_an_error() {
    assert!(matches!(Command::new("cat").spawn(), Err(SpawnError::NoRuntime { .. })));
}

#[tokio::test]
async fn one_that_exits_at_once_is_quoted() {
    let mut child = sh("echo one >&2; echo two >&2; exit 3").spawn().unwrap();
    let exit = within(child.wait()).await;
    assert_eq!((exit.code, exit.signal, exit.rung), (Some(3), None, Rung::Itself));
    assert_eq!(child.report(1).stderr.unwrap(), ["two"]);
    assert_eq!(
        child.report(5).to_string(),
        "`sh -c 'echo one >&2; echo two >&2; exit 3'` exited with code 3; \
         its last stderr lines:\n  | one\n  | two"
    );
    assert_eq!(child.try_wait(), Some(exit));
    assert_eq!(within(child.stop(GRACE)).await, exit);
    assert!(is_gone(child.pid()));
}

#[tokio::test]
async fn environment_and_folder_are_as_asked() {
    let child = sh("echo $A:$HOME:$PWD; echo unseen >&2")
        .env("A", "b")
        .env_remove("HOME")
        .cwd("/")
        .stderr(Stderr::Null)
        .spawn();
    let mut child = child.unwrap();
    let mut text = String::new();
    within(child.take_stdout().unwrap().read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "b::/\n");
    assert!(within(child.wait()).await.is_success());
    assert!(child.stderr().is_none());
}

#[tokio::test]
async fn closing_stdin_is_enough_for_a_polite_one() {
    let mut child = Command::new("cat").spawn().unwrap();
    assert_eq!(child.try_wait(), None);
    let exit = within(child.stop(BOUND)).await;
    assert_eq!((exit.code, exit.rung), (Some(0), Rung::StdinClosed));
    assert!(is_gone(child.pid()));
}

#[tokio::test]
async fn one_that_does_not_read_gets_sigterm() {
    let mut child = Command::new("sleep").arg("300").spawn().unwrap();
    assert!(timeout(GRACE, child.wait()).await.is_err(), "still running");
    let exit = within(child.stop(GRACE)).await;
    assert_eq!((exit.code, exit.signal, exit.rung), (None, Some(15), Rung::Terminated));
}

#[tokio::test]
async fn one_that_ignores_sigterm_is_killed() {
    let mut child = sh("trap '' TERM; echo $$; while :; do sleep 0.05; done").spawn().unwrap();
    assert_eq!(number(&mut child).await, child.pid());
    let exit = within(child.stop(GRACE)).await;
    assert_eq!((exit.code, exit.signal, exit.rung), (None, Some(9), Rung::Killed));
    assert!(is_gone(child.pid()));
}

#[tokio::test]
async fn a_grandchild_does_not_outlive_the_child() {
    let mut child = sh("trap '' TERM; sleep 300 & echo $!").spawn().unwrap();
    let grandchild = number(&mut child).await;
    let exit = within(child.wait()).await;
    assert_eq!(exit.code, Some(0));
    eventually("grandchild gone", || !is_running(grandchild));
}

#[tokio::test]
async fn dropping_kills_the_group() {
    let mut child = sh("trap '' TERM; sleep 300 & echo $!; wait").spawn().unwrap();
    let (leader, grandchild) = (child.pid(), number(&mut child).await);
    assert!(is_running(leader) && is_running(grandchild));
    drop(child);
    eventually("child reaped", || is_gone(leader));
    eventually("grandchild gone", || !is_running(grandchild));
}

#[test]
fn dropping_without_a_runtime_kills_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let child = runtime.block_on(async { Command::new("sleep").arg("300").spawn().unwrap() });
    drop(runtime);
    let leader = child.pid();
    assert!(is_running(leader));
    drop(child);
    eventually("child reaped", || is_gone(leader));
}

#[tokio::test]
async fn an_ended_child_is_not_reaped_behind_our_back() {
    let mut child = Command::new("true").spawn().unwrap();
    if cfg!(target_os = "linux") {
        eventually("a zombie holds the pid", || state(child.pid()) == Some('Z'));
    }
    assert!(within(child.wait()).await.is_success());
    assert!(is_gone(child.pid()), "reaped: no zombie");
}

#[tokio::test]
async fn a_child_reaped_by_a_stranger_ends_with_an_unknown_status() {
    let mut child = Command::new("true").spawn().unwrap();
    let leader = pid(child.pid());
    within(tokio::task::spawn_blocking(move || {
        process::waitpid(Some(leader), WaitOptions::empty()).unwrap();
    }))
    .await
    .unwrap();
    let exit = within(child.wait()).await;
    assert_eq!((exit.code, exit.signal), (None, None));
}

#[tokio::test]
async fn a_flood_on_stderr_is_bounded() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done";
    let mut child = sh(script).stderr(Stderr::Capture { bytes_max: 1000 }).spawn().unwrap();
    assert!(within(child.wait()).await.is_success());
    let stderr = child.stderr().unwrap();
    assert!(stderr.bytes_total() > 200_000, "{}", stderr.bytes_total());
    let kept = stderr.tail(usize::MAX);
    assert!(kept.iter().map(|line| line.len() + 1).sum::<usize>() <= 1000);
    assert_eq!(kept.first().map(|line| line.starts_with("line ")), Some(true));
    assert_eq!(kept.last().map(String::as_str), Some("line 19999"));
}

#[tokio::test]
async fn stderr_is_readable_while_the_child_runs() {
    let mut child = sh("echo hello >&2; cat").spawn().unwrap();
    let stderr = child.stderr().unwrap();
    within(async {
        while stderr.tail(1) != ["hello"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(child.report(1).to_string().starts_with("`sh -c 'echo hello >&2; cat'` is still"));
    within(child.kill()).await;
}

#[tokio::test]
async fn one_that_left_the_group_cannot_hold_us_up() {
    // Without the mark of its group it may live on.
    let script = "(trap '' HUP; exec env -u MCPLANE_GROUP setsid sleep 5) & echo $!; sleep 0.1";
    let mut child = sh(script).spawn().unwrap();
    let escaped = number(&mut child).await;
    let start = Instant::now();
    assert!(within(child.wait()).await.is_success());
    assert!(start.elapsed() < Duration::from_secs(4), "waited for the pipe's other holder");
    assert!(is_running(escaped));
    let _ = process::kill_process(pid(escaped), Signal::KILL);
}

#[tokio::test]
async fn a_child_can_be_handed_to_another_task() {
    let stop = async {
        let mut child = Command::new("cat").spawn().unwrap();
        child.stop(BOUND).await
    };
    assert!(within(tokio::spawn(stop)).await.unwrap().is_success());
}

#[tokio::test]
async fn a_cancelled_wait_loses_nothing() {
    let mut child = sh("read -r _; echo bye >&2; exit 7").spawn().unwrap();
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(5), child.wait()).await.is_err());
    }
    drop(child.take_stdin());
    assert_eq!(within(child.wait()).await.code, Some(7));
    assert_eq!(child.report(1).stderr.unwrap(), ["bye"]);
}
