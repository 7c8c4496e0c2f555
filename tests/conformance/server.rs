//! The suite as a client of `mcplane fixture`, alone or behind `mcplane serve`.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    child::{Ended, binary},
    suite::{Line, Scenario, Set, is_there, path, results, say},
    table::{Found, Row},
    verdict::{Outcome, judge},
};

/// A run takes some ten seconds; one scenario that hangs takes 30.
const LIMIT: Duration = Duration::from_secs(150);

/// Where the suite puts the results of a scenario, beside when it ran: `-YYYY-MM-DDTHH-MM-SS-mmmZ`.
const TIME_BYTES: usize = 25;

pub(crate) fn conforms(test: &str, line: Line, set: Set) {
    if !is_there() {
        return;
    }
    let expected = Expected { file: line.expected_failures(), untested: &[] };
    let (outcomes, ended) = check(test, &Server::fixture(), (line, set), &expected);
    judge(test, &outcomes);
    ended.ok();
}

/// What is behind the gateway.
#[derive(Clone, Copy)]
pub(crate) enum Upstream {
    /// A worker of 2025-11-25, on stdio.
    Legacy,
    /// A worker of 2026-07-28, on stdio.
    Modern,
    /// Workers on stdio with no settings but the command: they speak both.
    Stdio,
    /// A server that runs already, with no settings but its URL: it speaks both.
    Http,
}

/// As [`conforms`], through a gateway.
pub(crate) fn conforms_behind(test: &str, upstream: Upstream, line: Line, set: Set) {
    if !is_there() {
        return;
    }
    let fixture = matches!(upstream, Upstream::Http).then(Server::fixture);
    let server = match (upstream, &fixture) {
        (_, Some(fixture)) => format!("url = {:?}", fixture.url),
        (Upstream::Stdio, None) => command(),
        (Upstream::Modern, None) => format!("{}revision = \"2026-07-28\"", command()),
        (_, None) => format!("{}revision = \"legacy\"", command()),
    };
    let gateway = Server::gateway(test, &server);
    let file = match (upstream, line, set.revision()) {
        (Upstream::Legacy, Line::V0_2, "2026-07-28") => line.expected_failures_behind("legacy"),
        _ => line.expected_failures(),
    };
    let untested = if fixture.is_some() && set.revision() != "2026-07-28" { &[] } else { UNTESTED };
    let expected = Expected { file, untested };
    let (outcomes, ended) = check(test, &gateway, (line, set), &expected);
    let (speaks, transport) = upstream.columns();
    let server = "`mcplane fixture`";
    let row = Row { name: test, server, speaks, transport, line, set, after: None };
    let wrong = row.keep(&Found::of(&outcomes, None), &[]);
    judge(test, &outcomes);
    ended.ok();
    assert!(wrong.is_empty(), "{wrong}");
}

impl Upstream {
    /// The eras that it speaks, and how the gateway reaches it.
    const fn columns(self) -> (&'static str, &'static str) {
        match self {
            Self::Legacy => ("older, by `revision`", "stdio"),
            Self::Modern => ("2026-07-28, by `revision`", "stdio"),
            Self::Stdio => ("both", "stdio"),
            Self::Http => ("both", "HTTP"),
        }
    }
}

/// In these the suite finds nothing to test: that a server closes a stream in the middle of a call
/// is said by no message, neither on stdio nor in 2026-07-28, so nothing of it crosses the gateway.
const UNTESTED: &[&str] = &["server-sse-polling"];

fn command() -> String {
    format!("command = {:?}\nargs = [\"fixture\"]\n", binary())
}

/// What must not be green: what the file names, and what finds nothing to test.
struct Expected {
    file: String,
    untested: &'static [&'static str],
}

/// Runs the suite. How it ended counts when its checks have been judged.
fn check(
    test: &str,
    server: &Server,
    (line, set): (Line, Set),
    Expected { file, untested }: &Expected,
) -> (Vec<Outcome>, Ended) {
    let red = fs::read_to_string(file).unwrap();
    let red: Vec<&str> = red.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    let (outcomes, ended) = run(test, server, (line, set), &["--expected-failures", file]);
    let expect = |outcome: Outcome| {
        let red = red.contains(&outcome.name()) || untested.contains(&outcome.name());
        outcome.expected_red(red)
    };
    (outcomes.into_iter().map(expect).collect(), ended)
}

/// Runs the suite and keeps its results in the folder of `test`.
pub(crate) fn run(
    test: &str,
    server: &Server,
    (line, set): (Line, Set),
    options: &[&str],
) -> (Vec<Outcome>, Ended) {
    let folder = results(test);
    let ended = put(&folder, server, line, &[options, &set.run_words()].concat());
    let outcome = |scenario| judged(scenario, &folder);
    (line.scenarios("server", set).into_iter().map(outcome).collect(), ended)
}

/// Runs some scenarios of the suite, each by itself.
pub(crate) fn run_some(
    test: &str,
    server: &Server,
    (line, set): (Line, Set),
    names: &[&str],
) -> Vec<Outcome> {
    let folder = results(test);
    let one = |name: &&str| {
        put(&folder, server, line, &["--scenario", name, "--spec-version", set.revision()]);
        judged(Scenario { name: (*name).to_owned(), extension: false }, &folder)
    };
    names.iter().map(one).collect()
}

fn put(folder: &Path, server: &Server, line: Line, words: &[&str]) -> Ended {
    let output = path(folder);
    let common = ["server", "--url", &server.url, "-o", &output];
    line.run(&[&common, words].concat(), LIMIT)
}

fn judged(scenario: Scenario, folder: &Path) -> Outcome {
    let result = result_of(&scenario.name, folder);
    Outcome::of(scenario, result.as_deref())
}

/// The folder of a scenario's results.
fn result_of(scenario: &str, folder: &Path) -> Option<PathBuf> {
    let start = format!("server-{scenario}-");
    let mut results = fs::read_dir(folder).unwrap().flatten();
    let result = results.find(|result| {
        let name = result.file_name().into_string().unwrap_or_default();
        name.starts_with(&start) && name.len() == start.len() - 1 + TIME_BYTES
    });
    result.map(|result| result.path())
}

/// A server whose first line is its URL, for as long as this lives.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Server {
    fn fixture() -> Self {
        let mut command = Command::new(binary());
        command.args(["fixture", "--transport", "http", "--listen", "localhost:0"]);
        Self::start(command.args(["--accept-rate", "0"]))
    }

    /// `upstream` is all that the settings say of the one server behind it.
    fn gateway(test: &str, upstream: &str) -> Self {
        let text = format!("[gateway]\naccept_rate = 0\n\n[servers.fixture]\n{upstream}\n");
        Self::gateway_of(test, &text)
    }

    /// `text` is all of its settings.
    pub(crate) fn gateway_of(test: &str, text: &str) -> Self {
        let folder = results(&format!("{test}-gateway"));
        let settings = folder.join("mcplane.toml");
        fs::write(&settings, text).unwrap();
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config", &path(&settings)]);
        command.env("XDG_STATE_HOME", &folder);
        Self::start(command.stderr(File::create(folder.join("stderr")).unwrap()))
    }

    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let server = Self { process, url: url.trim().to_owned() };
        assert!(server.url.starts_with("http://"), "{command:?} says {:?}", server.url);
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(Some(status)) = self.process.try_wait() {
            say(&format!("the server of {} ended by itself: {status}", self.url));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
