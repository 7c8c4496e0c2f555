//! `mcplane inspect`: looking, calling, and the command line.

use mcplane_tests::child::{Ended, binary, mcplane, start_mcplane};
use serde_json::Value;

use crate::{LIMIT, file, wait_for};

fn fixture(options: &[&str]) -> Ended {
    let words = [&["inspect"], options, &["--", binary(), "fixture"]].concat();
    mcplane(&words, LIMIT).left_nothing()
}

#[test]
fn a_tool_is_called_and_its_text_printed() {
    for era in ["legacy", "modern", "auto", "2024-11-05"] {
        let ended =
            fixture(&["--era", era, "--tool", "echo", "--args", r#"{"message":"hi"}"#]).ok();
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("hi\n", ""), "{era}");
    }
}

#[test]
fn a_tool_that_fails_is_told_from_one_that_works() {
    let ended = fixture(&["--tool", "fail"]).code(1);
    assert!(ended.stdout.contains("this tool fails, always"), "{ended}");
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains("`fail`"), "{ended}");
    let ended = fixture(&["--tool", "ehco", "--args", "{}"]).code(1);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("unknown tool: ehco"), "{ended}");
}

#[test]
fn everything_is_listed_for_people() {
    let ended = fixture(&[]).ok();
    for part in
        ["mcplane-fixture", "2026-07-28", "echo", "message", "test://", "test_simple_prompt"]
    {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    assert!(!ended.stdout.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn json_is_one_document() {
    for (options, list) in [
        (&["--json"][..], Some("tools")),
        (&["--json", "--era", "legacy"], Some("tools")),
        (&["--json", "--tool", "echo", "--args", r#"{"message":"hi"}"#], None),
    ] {
        let ended = fixture(options).ok();
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        match list {
            Some(list) => assert!(document[list].as_array().unwrap().len() > 5, "{document:#}"),
            None => assert_eq!(document["result"]["content"][0]["text"], "hi", "{document:#}"),
        }
    }
    let ended = fixture(&["--json", "--tool", "ehco"]).code(1);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["error"]["code"], -32_602, "{document:#}");
}

#[test]
fn a_wrong_command_line_starts_nothing() {
    for (options, part) in [
        (&["--tool", "echo", "--args", r#"{"message": 1"#][..], "line 1 column 13"),
        (&["--tool", "echo", "--args", "[1]"], "must be a JSON object"),
        (&["--args", "{}"], "--tool"),
        (&["--tool", "a", "--read", "b"], "--read"),
        (&["--timeout", "0"], "--timeout"),
        (&["--era", "2026"], "2026-07-28"),
    ] {
        let started = file("started");
        let script = format!("touch '{}'", started.display());
        let words = [&["inspect"], options, &["--", "sh", "-c", &script]].concat();
        let ended = mcplane(&words, LIMIT).code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(part), "no {part:?} in {ended}");
        assert!(!started.exists(), "{ended}");
    }
}

#[test]
fn without_a_server_the_usage_is_shown() {
    for (words, part) in [
        (&["inspect"][..], "mcplane inspect -- COMMAND"),
        (&["inspect", "my-server"], "mcplane inspect -- my-server"),
        (
            &["inspect", "gopher://localhost:1"],
            "`gopher://localhost:1` is not an address: the scheme `gopher` is unknown",
        ),
        (&["inspekt"], "inspect"),
        (&[], "Usage"),
    ] {
        let ended = mcplane(words, LIMIT).code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(part), "no {part:?} in {ended}");
    }
}

#[test]
fn an_address_where_nobody_listens_is_named() {
    let ended = mcplane(&["inspect", "http://127.0.0.1:1/mcp"], LIMIT).code(3);
    let why = "http://127.0.0.1:1/mcp: cannot connect";
    assert!(ended.stdout.is_empty() && ended.stderr.contains(why), "{ended}");
}

#[test]
fn ctrl_c_leaves_no_process_behind() {
    let sign = file("started");
    // Not before the first line: the guard against orphans learns of the child just after its start.
    let fork = "read -r line; (trap '' TERM; sleep 600; :) &";
    let script = format!("{fork} : > '{}'; sleep 600", sign.display());
    let running = start_mcplane(&["inspect", "--", "sh", "-c", &script], "");
    wait_for(&sign);
    running.interrupt();
    let ended = running.wait(LIMIT).left_nothing();
    assert!(ended.stdout.is_empty(), "{ended}");
}

/// What a server says of an error may forge a line, or command the terminal.
#[test]
fn an_error_commands_no_terminal() {
    let said = r"\u001b]0;x\u0007\u009b2J\u202e\nmcplane: forged";
    let error =
        format!(r#"{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32000,"message":"{said}"}}}}"#);
    let script = format!(
        "while read -r line; do id=$(echo \"$line\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'); \
         printf '%s\\n' '{error}' | sed \"s/%s/$id/\"; done"
    );
    for options in [&[][..], &["--json"], &["--tool", "a"]] {
        let words = [&["inspect", "--era", "legacy"], options, &["--", "sh", "-c", &script]];
        let ended = mcplane(&words.concat(), LIMIT).left_nothing();
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert!(shown.contains("forged"), "{ended}");
        assert!(!shown.contains(|c: char| "\u{1b}\u{7}\u{9b}\u{202e}".contains(c)), "{ended}");
        assert!(!shown.lines().any(|line| line.starts_with("mcplane: forged")), "{ended}");
    }
}
