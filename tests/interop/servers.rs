//! `mcplane inspect` and `mcplane bench` on other people's servers.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    child::mcplane,
    peers::{Peer, npm_server, python_server},
};

/// Node and Python need a second to start on a busy machine; the rest is quick.
const LIMIT: Duration = Duration::from_secs(60);

/// A server and what is known of it.
struct Server {
    peer: Peer,
    command: Vec<String>,
    revision: &'static str,
    tools: &'static [&'static str],
    resources: &'static [&'static str],
    prompts: &'static [&'static str],
    /// A call whose answer is always the same.
    tool: &'static str,
    args: Value,
    /// A part of the text that it answers.
    answer: &'static str,
    /// Whether a bench must find such a call by itself.
    bench_chooses: bool,
}

macro_rules! servers {
    ($($name:ident)+) => {
        $(mod $name {
            #[test]
            fn is_listed() {
                super::list(&super::$name());
            }

            #[test]
            fn is_called() {
                super::call(&super::$name());
            }

            #[test]
            fn is_measured() {
                super::bench(&super::$name());
            }
        })+
    };
}

servers! { everything filesystem time echo_ts1 echo_ts2 echo_python echo_rmcp }

fn everything() -> Server {
    let mut command = npm_server("server-everything");
    command.push("stdio".into());
    Server {
        peer: Peer::Ts1,
        command,
        revision: LEGACY,
        tools: &["echo", "get-sum", "get-structured-content", "get-tiny-image"],
        resources: &["demo://resource/static/document/features.md"],
        prompts: &["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"],
        tool: "get-sum",
        args: json!({ "a": 2, "b": 40 }),
        answer: "The sum of 2 and 40 is 42.",
        bench_chooses: false,
    }
}

fn filesystem() -> Server {
    let folder = folder();
    let file = folder.join("note.txt");
    fs::write(&file, "written by the test").unwrap();
    let mut command = npm_server("server-filesystem");
    command.push(folder.to_str().unwrap().to_owned());
    Server {
        peer: Peer::Ts1,
        command,
        revision: LEGACY,
        tools: &["read_text_file", "write_file", "list_directory", "list_allowed_directories"],
        resources: &[],
        prompts: &[],
        tool: "read_text_file",
        args: json!({ "path": file }),
        answer: "written by the test",
        bench_chooses: false,
    }
}

fn time() -> Server {
    Server {
        peer: Peer::Python,
        command: python_server("mcp_server_time"),
        revision: MODERN,
        tools: &["get_current_time", "convert_time"],
        resources: &[],
        prompts: &[],
        tool: "convert_time",
        args: json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }),
        answer: "T21:00:00+09:00",
        bench_chooses: false,
    }
}

fn echo_ts1() -> Server {
    echo(Peer::Ts1, LEGACY)
}

fn echo_ts2() -> Server {
    echo(Peer::Ts2, MODERN)
}

fn echo_python() -> Server {
    echo(Peer::Python, MODERN)
}

fn echo_rmcp() -> Server {
    echo(Peer::Rmcp, MODERN)
}

fn echo(peer: Peer, revision: &'static str) -> Server {
    Server {
        peer,
        command: peer.program("echo"),
        revision,
        tools: &["echo", "add"],
        resources: &[],
        prompts: &[],
        tool: "add",
        args: json!({ "a": 2, "b": 40 }),
        answer: "42",
        bench_chooses: true,
    }
}

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

fn list(server: &Server) {
    if !server.peer.is_there() {
        return;
    }
    let found = inspect(server, &[]);
    assert_eq!(found["revision"], server.revision, "{found:#}");
    for (list, key, wanted) in [
        ("tools", "name", server.tools),
        ("resources", "uri", server.resources),
        ("prompts", "name", server.prompts),
    ] {
        let empty = Vec::new();
        let items = found[list].as_array().unwrap_or(&empty);
        let names: Vec<_> = items.iter().filter_map(|item| item[key].as_str()).collect();
        let missing: Vec<_> = wanted.iter().filter(|name| !names.contains(*name)).collect();
        assert!(missing.is_empty(), "no {missing:?} among the {list} {names:?}");
    }
}

fn call(server: &Server) {
    if !server.peer.is_there() {
        return;
    }
    let result = inspect(server, &["--tool", server.tool, "--args", &server.args.to_string()]);
    let result = &result["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains(server.answer), "no {:?} in {result:#}", server.answer);
    assert_ne!(result["isError"], true, "{result:#}");
}

fn bench(server: &Server) {
    if !server.peer.is_there() {
        return;
    }
    let file = folder().join("bench.json");
    let args = server.args.to_string();
    let mut words = vec!["bench", "--requests", "200", "--concurrency", "4", "--json"];
    words.push(file.to_str().unwrap());
    if !server.bench_chooses {
        words.extend(["--tool", server.tool, "--args", &args]);
    }
    words.push("--");
    words.extend(server.command.iter().map(String::as_str));
    let ended = mcplane(&words, LIMIT).ok();
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let results = &report["runs"][0]["results"];
    assert_eq!(results["calls_ok"], 200, "{ended}");
    let errors = results["errors"].as_object().unwrap_or_else(|| panic!("no errors in {report:#}"));
    assert_eq!(errors.len(), 5, "{report:#}");
    for (kind, count) in errors {
        assert_eq!(count.as_u64(), Some(0), "{kind} errors: {ended}");
    }
}

fn inspect(server: &Server, options: &[&str]) -> Value {
    let mut words = vec!["inspect", "--json"];
    words.extend(options);
    words.push("--");
    words.extend(server.command.iter().map(String::as_str));
    let ended = mcplane(&words, LIMIT).ok();
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}

/// A folder of this test's own, in the build's place for temporary files.
fn folder() -> PathBuf {
    let name = thread::current().name().unwrap_or("interop").replace("::", "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
