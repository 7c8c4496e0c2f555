//! Servers on other people's SDKs, alone and behind `mcplane serve` with nothing but its defaults.
//!
//! What the suite finds in one of them alone, which is everything, it must find behind the gateway,
//! too, but for what `expected-failures-gateway-reference-*.yml` names with its reason. The programs are
//! `tests/interop/*/reference.*`.

use std::{
    fmt::Write as _,
    fs::{self, File},
    path::Path,
    process::Command,
    sync::{Mutex, PoisonError},
};

use crate::{
    server::{Server, run},
    suite::{Line, Set, is_installed, is_there, path, results, root, say},
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
        Kind::Legacy if set.revision() == MODERN => &[set, Set::Required("2025-11-25")],
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
        let row = format!("{test}_{}", transport.name());
        let gateway = Server::gateway_of(&row, &format!("[servers.reference]\n{settings}\n"));
        let mut after = String::new();
        for (set, direct) in sets.iter().zip(&direct) {
            let row = format!("{row}{}", after.replace([' ', '-'], "_"));
            let (behind, _) = run(&row, &gateway, (LINE, *set), &[]);
            let client = format!("{}{after}", set.revision());
            let columns = [sdk.name(), kind.name(), transport.name(), &client];
            keep(&row, &columns, &behind, direct.as_deref());
            wrong += &faults(&row, &behind);
            after = format!(" after {}", set.revision());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

const MODERN: &str = "2026-07-28";

impl Sdk {
    /// Its folder of `tests/interop`.
    const fn name(self) -> &'static str {
        match self {
            Self::Ts1 => "ts1",
            Self::Ts2 => "ts2",
            Self::Python => "python",
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
        words.extend(matches!(kind, Kind::Modern).then(|| kind.name().to_owned()));
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
    let wrong = faults(&row, &outcomes);
    assert!(wrong.is_empty(), "{wrong}");
    outcomes
}

/// What is wrong with a row: red and not listed, or listed and not red. Nothing is listed for a server
/// alone, so behind the gateway all that is not listed must be as it is there.
fn faults(row: &str, outcomes: &[Outcome]) -> String {
    let expected = expected(row);
    let mut wrong = String::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.is_required()) {
        match (outcome.is_green(), expected.iter().any(|name| name == outcome.name())) {
            (true, true) => {
                let _ = writeln!(wrong, "{row}: {} is green, but listed", outcome.name());
            }
            (false, false) => {
                let _ = writeln!(wrong, "{row}: {}\n  {}", outcome.name(), outcome.faults());
            }
            (true, false) | (false, true) => {}
        }
    }
    let unknown =
        expected.iter().filter(|name| !outcomes.iter().any(|outcome| outcome.name() == **name));
    for name in unknown {
        let _ = writeln!(wrong, "{row}: no scenario {name}");
    }
    wrong
}

/// The scenarios that the file lists for a row.
fn expected(row: &str) -> Vec<String> {
    let file = fs::read_to_string(LINE.expected_failures_behind("reference")).unwrap();
    listed(&file, row)
}

fn listed(file: &str, row: &str) -> Vec<String> {
    let mut in_row = false;
    let mut names = Vec::new();
    for line in file.lines() {
        if let Some(names) = line.strip_suffix(':') {
            in_row = names.split(", ").any(|name| name == row);
        } else if let Some(name) = line.trim().strip_prefix("- ").filter(|_| in_row) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Says a row of the table, and keeps it beside those of the other tests.
fn keep(row: &str, columns: &[&str; 4], behind: &[Outcome], direct: Option<&[Outcome]>) {
    let count = |outcomes: &[Outcome]| {
        let required = outcomes.iter().filter(|outcome| outcome.is_required());
        let green = required.clone().filter(|outcome| outcome.is_green()).count();
        format!("{green} of {}", required.count())
    };
    let red = behind.iter().filter(|outcome| outcome.is_required() && !outcome.is_green());
    let red: Vec<_> = red.map(Outcome::name).collect();
    let line = format!(
        "| {} | {} | {} | {} |",
        columns.join(" | "),
        count(behind),
        direct.map_or_else(|| "–".to_owned(), count),
        red.join(", ")
    );
    say(&line);
    let _alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance/references");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(row), line).unwrap();
    let mut rows: Vec<_> = fs::read_dir(&folder).unwrap().map(|row| row.unwrap().path()).collect();
    rows.sort();
    let rows: Vec<_> = rows.iter().map(|row| fs::read_to_string(row).unwrap()).collect();
    let table = format!("{HEAD}{}\n", rows.join("\n"));
    fs::write(folder.with_extension("md"), table).unwrap();
}

/// Held by who writes the table.
static TURN: Mutex<()> = Mutex::new(());

const HEAD: &str = "| server | speaks | transport | client | through the gateway | alone | not green |\n\
                    |---|---|---|---|---|---|---|\n";

#[test]
fn the_list_is_read() {
    let file = "# why\na, b:\n  # because\n  - one\n  - two\nc:\n  - three\n";
    assert_eq!(listed(file, "a"), ["one", "two"]);
    assert_eq!(listed(file, "b"), ["one", "two"]);
    assert_eq!(listed(file, "c"), ["three"]);
    assert!(listed(file, "d").is_empty());
}
