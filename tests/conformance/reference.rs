//! Servers on other people's SDKs, alone and behind `mcplane serve` with nothing but its defaults.
//!
//! What the suite finds in one of them alone, which is everything, it must find behind the gateway,
//! too, but for what `expected-failures-gateway-reference-*.yml` names with its reason. The programs are
//! `tests/interop/*/reference.*`.

use std::{
    fmt::Write as _,
    fs::{self, File},
    process::Command,
};

use crate::{
    server::{Server, run, run_some},
    suite::{Line, Set, is_installed, is_there, path, results, root},
    table::{Found, Row},
    verdict::Outcome,
};

/// The only line with requirements of a revision.
const LINE: Line = Line::V0_2;

/// What a server is built on.
#[derive(Clone, Copy)]
pub(crate) enum Sdk {
    /// TypeScript 1.x.
    Ts1,
    /// TypeScript 2.x.
    Ts2,
    Python,
}

/// The eras that a server speaks.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Legacy,
    /// Both: the client's opening decides.
    Auto,
    Modern,
}

/// How the gateway reaches a server.
#[derive(Clone, Copy)]
enum Transport {
    Http,
    Stdio,
}

pub(crate) fn conforms(test: &str, (sdk, kind): (Sdk, Kind), set: Set) {
    if !is_there() || !is_installed(sdk.name()) {
        return;
    }
    let words = sdk.words(kind);
    let server = listening(test, &words);
    // The sets one after the other: newer clients leave calls with open questions behind.
    let sets: &[Set] = match kind {
        Kind::Legacy if set.revision() == MODERN => &[set, Set::Required(LEGACY)],
        _ => &[set],
    };
    let direct: Vec<_> =
        sets.iter().map(|set| kind.speaks(*set).then(|| alone(test, &server, *set))).collect();
    let mut wrong = String::new();
    for transport in [Transport::Http, Transport::Stdio] {
        let settings = match transport {
            Transport::Http => format!("url = {:?}", server.url),
            Transport::Stdio => format!("command = {:?}\nargs = {:?}", words[0], &words[1..]),
        };
        let settings = format!("[servers.reference]\n{settings}\n");
        let row = format!("{test}_{}", transport.name());
        let gateway = Server::gateway_of(&row, &settings);
        let mut after = None;
        for (set, direct) in sets.iter().zip(&direct) {
            let name = match after {
                Some(before) => format!("{row} after {before}").replace([' ', '-'], "_"),
                None => row.clone(),
            };
            let (behind, _) = run(&name, &gateway, (LINE, *set), &[]);
            let (server, speaks) = (sdk.title(), kind.title());
            let transport = transport.title();
            let line = Row { name: &name, server, speaks, transport, line: LINE, set: *set, after };
            let expected = expected(&name);
            let either = expected.iter().filter(|listed| listed.or_green);
            let either: Vec<_> = either.map(|listed| listed.name.as_str()).collect();
            wrong += &line.keep(&Found::of(&behind, direct.as_deref()), &either);
            wrong += &faults(&name, &behind, &expected);
            after = Some(set.revision());
        }
        drop(gateway);
        wrong += &by_hand(&row, &settings, kind, set);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whether settings that are chosen by hand make anything green that is red without them. What is green
/// already cannot be better, and what is a matter of time is not compared.
fn by_hand(row: &str, settings: &str, kind: Kind, set: Set) -> String {
    let red: Vec<_> = expected(row).into_iter().filter(|listed| !listed.or_green).collect();
    if red.is_empty() {
        return String::new();
    }
    let name = format!("{row}_by_hand");
    let gateway = Server::gateway_of(&name, &format!("{settings}{}\n", kind.by_hand(set)));
    let names: Vec<_> = red.iter().map(|listed| listed.name.as_str()).collect();
    let outcomes = run_some(&name, &gateway, (LINE, set), &names);
    let better = outcomes.iter().filter(|outcome| outcome.is_green());
    better.fold(String::new(), |wrong, outcome| {
        format!("{wrong}{row}: {} is green with settings by hand\n", outcome.name())
    })
}

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
const EXCLUSIVE: &str = "mode = \"exclusive\"\nworkers = 4";
const PER_SESSION: &str = "mode = \"per_session\"";

impl Sdk {
    /// Its folder of `tests/interop`.
    const fn name(self) -> &'static str {
        match self {
            Self::Ts1 => "ts1",
            Self::Ts2 => "ts2",
            Self::Python => "python",
        }
    }

    /// What it is called in the table.
    const fn title(self) -> &'static str {
        match self {
            Self::Ts1 => "TypeScript SDK 1.x",
            Self::Ts2 => "TypeScript SDK 2.x",
            Self::Python => "Python SDK 2.x",
        }
    }

    /// What runs its program, the program, and its options.
    fn words(self, kind: Kind) -> Vec<String> {
        let (runner, ending) = match self {
            Self::Ts1 | Self::Ts2 => ("node".to_owned(), "mjs"),
            Self::Python => (path(&root().join(".interop/python/bin/python")), "py"),
        };
        let program = format!("tests/interop/{}/reference.{ending}", self.name());
        let mut words = vec![runner, path(&root().join(program))];
        let is_told = !matches!((self, kind), (Self::Ts1, _) | (_, Kind::Auto));
        words.extend(is_told.then(|| kind.name().to_owned()));
        words
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Auto => "auto",
            Self::Modern => "modern",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Legacy => "older",
            Self::Auto => "both",
            Self::Modern => MODERN,
        }
    }

    /// What one would choose for clients of this set's revision who knows the server: the revision that it
    /// is best spoken to in, and no worker for two clients at once. Those of the newer era have no sessions
    /// that a worker could belong to, and leave calls behind that each hold one.
    fn by_hand(self, set: Set) -> String {
        let (revision, mode) = match (self, set.revision()) {
            (Self::Legacy, MODERN) => (LEGACY, EXCLUSIVE),
            (_, MODERN) => (MODERN, EXCLUSIVE),
            (Self::Modern, _) => (MODERN, PER_SESSION),
            _ => (LEGACY, PER_SESSION),
        };
        format!("revision = {revision:?}\n{mode}")
    }

    /// Whether clients of this set's revision can do without a gateway.
    fn speaks(self, set: Set) -> bool {
        match self {
            Self::Legacy => set.revision() != MODERN,
            Self::Auto => true,
            Self::Modern => set.revision() == MODERN,
        }
    }
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Stdio => "stdio",
        }
    }
}

/// Starts it as a server of HTTP.
fn listening(test: &str, words: &[String]) -> Server {
    let said = File::create(results(&format!("{test}-server")).join("stderr")).unwrap();
    Server::start(Command::new(&words[0]).args(&words[1..]).arg("http").stderr(said))
}

/// What the suite finds without a gateway, which must be everything.
fn alone(test: &str, server: &Server, set: Set) -> Vec<Outcome> {
    let row = format!("{test}_direct_{}", set.revision());
    let (outcomes, _) = run(&row, server, (LINE, set), &[]);
    let wrong = faults(&row, &outcomes, &[]);
    assert!(wrong.is_empty(), "{wrong}");
    outcomes
}

/// What is wrong with a row: red and not listed, or listed and not red. Nothing is listed for a server
/// alone, so behind the gateway all that is not listed must be as it is there.
fn faults(row: &str, outcomes: &[Outcome], expected: &[Listed]) -> String {
    let mut wrong = String::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.is_required()) {
        let listed = expected.iter().find(|listed| listed.name == outcome.name());
        match (outcome.is_green(), listed) {
            (true, Some(Listed { or_green: false, .. })) => {
                let _ = writeln!(wrong, "{row}: {} is green, but listed", outcome.name());
            }
            (false, None) => {
                let _ = writeln!(wrong, "{row}: {}\n  {}", outcome.name(), outcome.faults());
            }
            _ => {}
        }
    }
    let is_there = |name| outcomes.iter().any(|outcome| outcome.name() == name);
    for listed in expected.iter().filter(|listed| !is_there(listed.name.as_str())) {
        let _ = writeln!(wrong, "{row}: no scenario {}", listed.name);
    }
    wrong
}

/// A scenario that a row may fail.
#[derive(Debug, PartialEq)]
struct Listed {
    name: String,
    /// It depends on the machine whether it does.
    or_green: bool,
}

/// The scenarios that the file lists for a row.
fn expected(row: &str) -> Vec<Listed> {
    let file = fs::read_to_string(LINE.expected_failures_behind("reference")).unwrap();
    listed(&file, row)
}

fn listed(file: &str, row: &str) -> Vec<Listed> {
    let mut in_row = false;
    let mut found = Vec::new();
    for line in file.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some(names) = line.strip_suffix(':') {
            in_row = names.split(", ").any(|name| name == row);
        } else if let Some(entry) = line.trim().strip_prefix("- ").filter(|_| in_row) {
            let name = entry.trim_end_matches(OR_GREEN);
            found.push(Listed { name: name.to_owned(), or_green: name != entry });
        }
    }
    found
}

const OR_GREEN: &str = " # or green";

#[test]
fn the_list_is_read() {
    let file =
        "# why:\na, b:\n  # because\n  - one\n  - two # or green\nc:\n  - three\na:\n  - four\n";
    let names = |row| {
        let names = listed(file, row).into_iter().map(|it| (it.name, it.or_green));
        names.collect::<Vec<_>>()
    };
    let of = |name: &str, or_green| (name.to_owned(), or_green);
    assert_eq!(names("a"), [of("one", false), of("two", true), of("four", false)]);
    assert_eq!(names("b"), [of("one", false), of("two", true)]);
    assert_eq!(names("c"), [of("three", false)]);
    assert!(names("d").is_empty());
}
