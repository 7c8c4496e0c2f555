//! Servers that cannot be spoken to: exit code 3, one line that names the command, its last words,
//! and no process left behind.

use mcplane_tests::child::{Ended, binary, mcplane};

use crate::{LIMIT, server};

/// A server in shell that does not work.
struct Broken {
    script: &'static str,
    /// Whether the user would wait for the time limit, so that it is a short one here.
    hangs: bool,
    /// What is said of the server's end.
    fate: &'static str,
    /// The last lines of its stderr.
    words: &'static [&'static str],
}

macro_rules! broken {
    ($($name:ident: $case:expr;)+) => {
        mod inspect {
            $(#[test]
            fn $name() {
                let patience = ["--era", "legacy", "--timeout", "500ms"];
                super::unreachable("inspect", &patience, &$case);
            })+
        }

        mod bench {
            $(#[test]
            fn $name() {
                let patience = ["--era", "legacy", "--start-timeout", "500ms"];
                super::unreachable("bench", &patience, &$case);
            })+
        }
    };
}

broken! {
    exits_at_once: super::Broken {
        script: "echo 'reading config' >&2; echo 'boom: no config' >&2; exit 7",
        hangs: false,
        fate: "exited with code 7",
        words: &["reading config", "boom: no config"],
    };
    is_killed: super::Broken {
        script: "echo 'goodbye' >&2; kill -KILL $$",
        hangs: false,
        fate: "ended by signal 9 (SIGKILL)",
        words: &["goodbye"],
    };
    ends_without_a_word: super::Broken {
        script: "read line; exit 0",
        hangs: false,
        fate: "exited with code 0",
        words: &[],
    };
    closes_its_output: super::Broken {
        script: "echo quiet >&2; exec >&-; sleep 600",
        hangs: true,
        fate: "still running",
        words: &["quiet"],
    };
    hangs: super::Broken {
        script: "echo thinking >&2; sleep 600",
        hangs: true,
        fate: "still running",
        words: &["thinking"],
    };
    talks_nonsense: super::Broken {
        script: "echo babbling >&2; while echo nonsense; do sleep 0.05; done",
        hangs: true,
        fate: "still running",
        words: &["babbling"],
    };
    ignores_sigterm: super::Broken {
        script: "trap '' TERM; echo stubborn >&2; while :; do sleep 1; done",
        hangs: true,
        fate: "still running",
        words: &["stubborn"],
    };
    forks_and_hangs: super::Broken {
        script: "(trap '' TERM; sleep 600; :) & echo forking >&2; sleep 600",
        hangs: true,
        fate: "still running",
        words: &["forking"],
    };
    // The grandchild holds stdin, stdout and stderr open when the server is long gone.
    forks_and_exits: super::Broken {
        script: "(trap '' TERM; sleep 600; :) & echo forked >&2; exit 7",
        hangs: true,
        fate: "exited with code 7",
        words: &["forked"],
    };
}

/// A server that is taken at its word, so that its silence shows only after the handshake.
#[test]
fn inspect_tells_of_silence_wherever_it_meets_it() {
    let hang = |words: &str| format!("echo '{words}' >&2; sleep 600");
    let quiet = hang("quiet from the start");
    let late = server::script(1, &hang("quiet in the call"));
    for (options, script, words) in [
        (&["--era", "modern"][..], &quiet, "quiet from the start"),
        (&["--era", "modern", "--tool", "echo"], &quiet, "quiet from the start"),
        (&["--era", "legacy", "--tool", "echo"], &late, "quiet in the call"),
    ] {
        let command = ["--timeout", "500ms", "--", "sh", "-c", script];
        let ended = mcplane(&[&["inspect"], options, &command].concat(), LIMIT);
        let ended = ended.code(3).left_nothing();
        assert_eq!(one_line(&ended), [words], "{ended}");
        let line = ended.stderr.lines().next().unwrap();
        assert!(line.contains("`sh -c ") && line.contains("no answer in time"), "{ended}");
    }
}

fn unreachable(subcommand: &str, patience: &[&str], broken: &Broken) {
    let mut words = vec![subcommand];
    words.extend(patience.iter().filter(|_| broken.hangs));
    words.extend(["--", "sh", "-c", broken.script, "the-server"]);
    let ended = mcplane(&words, LIMIT).code(3).left_nothing();
    let quoted = one_line(&ended);
    assert_eq!(quoted, broken.words, "{ended}");
    let line = ended.stderr.lines().next().unwrap();
    for part in ["`sh -c ", " the-server`", broken.fate] {
        assert!(line.contains(part), "no {part:?} in {ended}");
    }
    assert_eq!(line.matches("the-server").count(), 1, "the command is named once: {ended}");
    if broken.words.is_empty() {
        assert!(line.contains("wrote nothing to stderr"), "{ended}");
    }
}

/// Nothing on stdout, one line of ours on stderr; gives the server's words, which are quoted below.
fn one_line(ended: &Ended) -> Vec<&str> {
    assert!(ended.stdout.is_empty() && ended.stderr.starts_with("error: "), "{ended}");
    let quote = |line: &'_ str| line.starts_with("  | ");
    assert!(ended.stderr.lines().skip(1).all(quote), "{ended}");
    ended.stderr.lines().skip(1).map(|line| &line["  | ".len()..]).collect()
}

#[test]
fn a_command_that_does_not_exist() {
    for subcommand in ["inspect", "bench"] {
        for program in ["no-such-program-anywhere", "/no/such/program"] {
            let ended = mcplane(&[subcommand, "--", program, "--flag"], LIMIT).code(3);
            assert!(one_line(&ended).is_empty(), "{ended}");
            let wanted = format!("cannot start `{program} --flag`: there is no program");
            assert!(ended.stderr.contains(&wanted), "{ended}");
            ended.left_nothing();
        }
    }
}

#[test]
fn a_command_that_is_no_program() {
    for subcommand in ["inspect", "bench"] {
        let ended = mcplane(&[subcommand, "--", file!()], LIMIT).code(3);
        assert!(one_line(&ended).is_empty() && ended.stderr.contains("cannot start"), "{ended}");
    }
}

#[test]
fn a_server_that_speaks_neither_language_is_named_with_its_words() {
    let script = "echo 'old as the hills' >&2
        while read -r line; do
            id=${line#*'\"id\":'}
            echo '{\"jsonrpc\":\"2.0\",\"id\":'${id%%[,\\}]*}',\"error\":{\"code\":-32601,\"message\":\"what?\"}}'
        done";
    for subcommand in ["inspect", "bench"] {
        let ended = mcplane(&[subcommand, "--", "sh", "-c", script], LIMIT).code(3).left_nothing();
        one_line(&ended);
        assert!(ended.stderr.contains("what?") && ended.stderr.contains("`sh -c "), "{ended}");
    }
}

/// A line that is no message is noise from a wrapper; the server behind it works.
#[test]
fn a_banner_does_no_harm() {
    let script = format!("echo 'Welcome to the server!'; echo; exec '{}' fixture", binary());
    let command = ["--", "sh", "-c", &script];
    let words = [&["inspect", "--tool", "add", "--args", r#"{"a":2,"b":40}"#][..], &command];
    let ended = mcplane(&words.concat(), LIMIT).ok().left_nothing();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("42\n", ""));
    let words = [&["bench", "-n", "50", "-c", "4", "--warmup", "10", "--no-floor"][..], &command];
    let ended = mcplane(&words.concat(), LIMIT).ok().left_nothing();
    assert!(ended.stdout.contains("50 calls"), "{ended}");
}
