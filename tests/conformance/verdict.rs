//! What the suite's checks say.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::suite::{Scenario, say};

/// How one scenario went.
pub(crate) struct Outcome {
    scenario: Scenario,
    /// It must not be green.
    expected_red: bool,
    passed: usize,
    skipped: usize,
    /// Why it is not green.
    faults: Vec<String>,
}

/// One check, as the suite writes it down.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    name: String,
    status: String,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
    details: Option<serde_json::Value>,
}

impl Outcome {
    /// Judges the checks that the suite left in `folder`, if it got that far.
    pub(crate) fn of(scenario: Scenario, folder: Option<&Path>) -> Self {
        let written = folder.and_then(checks_in).map(|file| fs::read_to_string(file).unwrap());
        let mut outcome =
            Self { scenario, expected_red: false, passed: 0, skipped: 0, faults: Vec::new() };
        let Some(written) = written else {
            return outcome.fault("the suite wrote no checks");
        };
        let checks: Vec<Check> = serde_json::from_str(&written).unwrap();
        for check in &checks {
            match check.status.as_str() {
                "SUCCESS" => outcome.passed += 1,
                "SKIPPED" => outcome.skipped += 1,
                "INFO" => {}
                _ => outcome.faults.push(check.complaint()),
            }
        }
        if outcome.passed == 0 && outcome.faults.is_empty() {
            return outcome.fault("no check passed");
        }
        outcome
    }

    pub(crate) fn name(&self) -> &str {
        &self.scenario.name
    }

    pub(crate) fn is_green(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a revision may ask for it.
    pub(crate) fn is_required(&self) -> bool {
        !self.scenario.extension
    }

    /// Why it is not green, a line for each reason.
    pub(crate) fn faults(&self) -> String {
        self.faults.join("\n  ")
    }

    /// The same, judged by whether it is red as it must be.
    pub(crate) fn expected_red(self, expected_red: bool) -> Self {
        Self { expected_red, ..self }
    }

    /// The same with one more reason why it is not green.
    pub(crate) fn fault(mut self, why: impl Into<String>) -> Self {
        self.faults.push(why.into());
        self
    }
}

impl Check {
    fn complaint(&self) -> String {
        let Self { id, name, status, .. } = self;
        let message = self.error_message.as_deref().unwrap_or(&self.description);
        let details = self.details.as_ref().map(|details| details.to_string()).unwrap_or_default();
        let details: String = details.chars().take(500).collect();
        format!("{status} {id} ({name}): {message} {details}")
    }
}

/// Says how many are green and fails the test unless exactly those are that must be.
#[track_caller]
pub(crate) fn judge(title: &str, outcomes: &[Outcome]) {
    let (extensions, required): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|outcome| outcome.scenario.extension);
    let mut text = format!("{title}: {}", count(&required));
    if !extensions.is_empty() {
        text += &format!("; extensions, not required: {}", count(&extensions));
        let red = extensions.iter().filter(|outcome| !outcome.faults.is_empty());
        let red: Vec<_> = red.map(|outcome| outcome.scenario.name.as_str()).collect();
        if !red.is_empty() {
            text += &format!(" (not green: {})", red.join(", "));
        }
    }
    let red = required.iter().filter(|outcome| outcome.expected_red);
    let red: Vec<_> = red.map(|outcome| outcome.scenario.name.as_str()).collect();
    if !red.is_empty() {
        text += &format!("; expected to fail: {}", red.join(", "));
    }
    say(&text);
    let wrong: Vec<String> = required
        .iter()
        .filter(|outcome| outcome.expected_red == outcome.faults.is_empty())
        .map(|Outcome { scenario, faults, .. }| match faults.as_slice() {
            [] => format!("{}\n  is green, but expected to fail", scenario.name),
            faults => format!("{}\n  {}", scenario.name, faults.join("\n  ")),
        })
        .collect();
    assert!(wrong.is_empty(), "{text}\n{}", wrong.join("\n"));
}

fn count(outcomes: &[&Outcome]) -> String {
    let green = outcomes.iter().filter(|outcome| outcome.faults.is_empty()).count();
    let sum = |part: fn(&Outcome) -> usize| outcomes.iter().map(|o| part(o)).sum::<usize>();
    let (passed, skipped) = (sum(|outcome| outcome.passed), sum(|outcome| outcome.skipped));
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    format!("{green} of {} scenarios green, {passed} checks passed{skipped}", outcomes.len())
}

/// A scenario's name may have a slash, so the file is not always at the same depth.
fn checks_in(folder: &Path) -> Option<PathBuf> {
    let file = folder.join("checks.json");
    if file.exists() {
        return Some(file);
    }
    let inner = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    inner.filter(|path| path.is_dir()).find_map(|folder| checks_in(&folder))
}
