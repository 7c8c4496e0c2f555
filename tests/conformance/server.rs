//! The suite as a client of `mcplane fixture`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    child::binary,
    suite::{Line, Set, is_there, path, results},
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
    let fixture = Fixture::start();
    let folder = results(test);
    let (expected, output) = (line.expected_failures(), path(&folder));
    let words = ["server", "--url", &fixture.url, "--expected-failures", &expected, "-o", &output];
    let ended = line.run(&[&words[..], &set.run_words()].concat(), LIMIT);
    let outcomes: Vec<Outcome> = line
        .scenarios("server", set)
        .into_iter()
        .map(|scenario| {
            let result = result_of(&scenario.name, &folder);
            Outcome::of(scenario, result.as_deref())
        })
        .collect();
    judge(test, &outcomes);
    ended.ok();
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

/// `mcplane fixture`, for as long as this lives.
struct Fixture {
    process: Child,
    url: String,
}

impl Fixture {
    fn start() -> Self {
        let mut command = Command::new(binary());
        command.args(["fixture", "--transport", "http", "--listen", "localhost:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let fixture = Self { process, url };
        assert!(fixture.url.starts_with("http://"), "the fixture says {:?}", fixture.url);
        fixture
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
