//! The suite as the server of `driver`.

use std::{
    sync::{PoisonError, RwLock},
    time::Duration,
};

use crate::{
    suite::{Line, Scenario, Set, is_there, path, results},
    verdict::{Outcome, judge},
};

/// A scenario takes a second or two; the suite itself gives a client 30.
const LIMIT: Duration = Duration::from_secs(60);

/// Held by each scenario; by one that measures time, alone.
static TURN: RwLock<()> = RwLock::new(());

pub(crate) fn conforms(test: &str, line: Line, set: Set) {
    if !is_there() {
        return;
    }
    let folder = results(test);
    // Each by itself: a set starts all of its clients at once, and measures time beside them.
    let outcomes: Vec<Outcome> = line
        .scenarios("client", set)
        .into_iter()
        .map(|scenario| {
            let folder = path(&folder.join(scenario.name.replace('/', "-")));
            one(line, set.revision(), scenario, &folder)
        })
        .collect();
    judge(test, &outcomes);
}

fn one(line: Line, revision: &str, scenario: Scenario, folder: &str) -> Outcome {
    // The address comes behind these words.
    let this = std::env::current_exe().unwrap();
    let client = format!("{} client_under_test --exact --nocapture {revision}", path(&this));
    let (name, expected) = (scenario.name.clone(), line.expected_failures());
    let mut words = vec!["client", "--command", &client, "--scenario", &name];
    words.extend(["--expected-failures", &expected, "-o", folder]);
    if line == Line::V0_2 {
        // An extension belongs to no revision, so it must be told that it runs at this one.
        words.extend(["--spec-version", revision, "--force"]);
    }
    let ended = if name == "sse-retry" {
        let _alone = TURN.write().unwrap_or_else(PoisonError::into_inner);
        line.run(&words, LIMIT)
    } else {
        let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
        line.run(&words, LIMIT)
    };
    // How the client ended counts too, and only this line tells.
    let passed = ended.stderr.contains("OVERALL: PASSED");
    let said = ended.to_string();
    let outcome = Outcome::of(scenario, Some(folder.as_ref()));
    if passed { outcome } else { outcome.fault(said) }
}
