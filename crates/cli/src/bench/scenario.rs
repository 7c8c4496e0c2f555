//! `mcplane bench --scenario`: a file in place of the command line.

use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use mcplane_lab::Plan;
use mcplane_lab::scenario::Scenario;

use super::BenchArgs;

/// The scenario that arguments are from, if they are from one: it can ask for what no flag can.
#[derive(Clone, Debug, Default)]
pub struct Extra(Option<(Arc<Scenario>, usize)>);

impl Extra {
    /// The plan with what is asked for.
    pub(super) fn add_to(&self, plan: Plan) -> Plan {
        let Some((scenario, _)) = &self.0 else { return plan };
        let seed = scenario.seed.unwrap_or(plan.seed);
        Plan { mix: scenario.mix.clone(), think: scenario.think, seed, ..plan }
    }

    /// The variables of our environment that a command gets beside those which every server gets:
    /// what its scenario says, and all of them if somebody has typed the command.
    pub(super) fn inherited(&self) -> Vec<String> {
        match &self.0 {
            Some((scenario, target)) => scenario.inherit_env.get(*target).cloned(),
            None => Some(vec!["*".to_owned()]),
        }
        .unwrap_or_default()
    }

    /// A complaint about the arguments, with its place in the file.
    pub(super) fn blame(&self, complaint: &str) -> String {
        let scenario = self.0.as_ref();
        scenario.map_or_else(|| complaint.to_owned(), |(scenario, _)| scenario.blame(complaint))
    }
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    bench: BenchArgs,
}

/// The arguments that a scenario stands for, one for each of its targets.
///
/// # Errors
/// A text that names file, line and key.
pub(super) fn read(path: &Path, asked: &BenchArgs) -> Result<Vec<BenchArgs>, String> {
    let scenario = Arc::new(Scenario::read(path)?);
    let arguments = |(target, words): (usize, &Vec<String>)| {
        let line = Line::try_parse_from(words).map_err(|error| scenario.blame(&plain(&error)))?;
        let mut bench = line.bench;
        bench.extra = Extra(Some((Arc::clone(&scenario), target)));
        bench.json = asked.json.clone().or(bench.json);
        bench.outputs = asked.outputs.clone().or(bench.outputs);
        bench.quiet |= asked.quiet;
        bench.outputs.check(bench.json.as_deref()).map_err(|what| scenario.blame(&what))?;
        bench.plans().and_then(|_| bench.remote()).map_err(|what| scenario.blame(&what))?;
        if bench.modes.is_any() && scenario.lines.len() > 1 {
            let what =
                "several targets: --ladder, --ladder-rate, --find-limit and --cold-start take one";
            return Err(scenario.blame(what));
        }
        Ok(bench)
    };
    scenario.lines.iter().enumerate().map(arguments).collect()
}

/// What a flag is given without, and what to say of the flag's key: clap names only the former.
const LONELY: [(&str, &str); 5] = [
    ("--rate", "arrivals: it takes an open loop: rate, burst, ramp, ladder_rate or find_limit"),
    ("--args", "distinct: it takes args and no_floor"),
    ("--no-floor", "distinct: it takes args and no_floor"),
    ("--tool", "args: it takes a tool"),
    ("--profile", "profile_out: it takes profile"),
];

/// The first line of a complaint, without its lead.
fn plain(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let mut lonely = LONELY.iter().filter(|_| error.kind() == ErrorKind::MissingRequiredArgument);
    match lonely.find(|(missing, _)| text.contains(missing)) {
        Some((_, what)) => (*what).to_owned(),
        None => text.trim_start_matches("error: ").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use mcplane_lab::scenario::{TARGET_KEYS, schema};

    use super::*;

    #[test]
    fn every_flag_has_a_key() {
        let schema = schema();
        let keys = schema["properties"].as_object().unwrap();
        let command = Line::command();
        let mut flags = 0;
        for flag in command.get_arguments().filter_map(|argument| argument.get_long()) {
            let key = flag.replace('-', "_");
            let of_target = TARGET_KEYS
                .iter()
                .any(|name| name.trim_end_matches('s') == key.trim_end_matches('s'));
            let known = keys.contains_key(&key) || of_target || key == "scenario";
            assert!(known, "--{flag} has no key in a scenario");
            flags += 1;
        }
        assert!(flags > 30, "{flags}");
    }

    /// What the file says, no flag may say too; how results are shown, it may.
    #[test]
    fn no_flag_beside_a_scenario_is_ignored() {
        const BESIDE: [&str; 8] =
            ["quiet", "json", "html", "csv", "markdown", "junit", "prometheus", "erlmcp"];
        let value = |name: &str| match name {
            "args" => "{}",
            "burst" => "1/1s",
            "ramp" => "1..2",
            "era" => "legacy",
            "find-limit" | "assert" => "errors=0",
            "transport" => "http",
            "arrivals" => "poisson",
            "profile" => "cpu",
            _ => "1",
        };
        for argument in Line::command().get_arguments() {
            let Some(name) = argument.get_long().filter(|name| *name != "scenario") else {
                continue;
            };
            let flag = format!("--{name}");
            let mut words = vec!["--scenario", "s.toml", flag.as_str()];
            if argument.get_action().takes_values() {
                words.push(value(name));
            }
            let refused = Line::try_parse_from(&words).err().map(|error| error.kind());
            let conflict = ErrorKind::ArgumentConflict;
            let want = (!BESIDE.contains(&name)).then_some(conflict);
            assert_eq!(refused, want, "{flag}");
        }
        for words in [["--scenario", "s.toml", "http://x"], ["--scenario", "s.toml", "--x"]] {
            assert!(Line::try_parse_from(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_file_becomes_arguments_and_its_faults_have_places() {
        let folder = std::env::temp_dir().join(format!("mcplane-scenario-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("s.toml");
        let asked = Line::try_parse_from(["--json", "-"]).unwrap().bench;
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path, &asked)
        };
        let text = "sessions = 2\nthink = \"5ms\"\nseed = 9\n[[targets]]\ncommand = [\"x\", \"-y\"]\n\
            [[tools]]\nname = \"a\"\n[[tools]]\nname = \"b\"\n";
        let bench = of(text).unwrap().remove(0);
        assert_eq!((bench.sessions, bench.command.len()), (2, 2));
        let plan = bench.plans().unwrap().remove(0);
        assert_eq!((plan.mix.len(), plan.seed), (2, 9));
        assert_eq!(plan.think.unwrap().mean_ns, 5_000_000);
        assert_eq!(bench.extra.inherited(), Vec::<String>::new());
        let text = "[[targets]]\nurl = \"http://x/\"\n[[targets]]\ncommand = [\"x\"]\n\
            inherit_env = [\"API_KEY\"]\n";
        assert_eq!(of(text).unwrap().remove(1).extra.inherited(), ["API_KEY"]);
        assert_eq!(asked.extra.inherited(), ["*"], "a command that was typed");
        for (text, part) in [
            ("\nduration = \"5 parsecs\"", "s.toml:2: duration: invalid value"),
            ("rate = 0\n", "s.toml:1: rate: "),
            ("arrivals = \"poisson\"", "s.toml:1: arrivals: it takes an open loop: rate, burst"),
            ("seed = 1\nargs = { a = 1 }", "s.toml:2: args: it takes a tool"),
            ("\nprofile_out = \"x\"", "s.toml:2: profile_out: it takes profile"),
            ("distinct = true", "s.toml:1: distinct: it takes args and no_floor"),
            ("profile = \"cpu\"", "s.toml:1: profile: --profile takes a command"),
            ("think = \"5ms\"\nrate = 5.0\n", "think"),
            ("find_limit = \"p99<5\"", "s.toml:1: find_limit: "),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
