//! Scenarios: what to measure and how, in a file of TOML.
//!
//! * [`Scenario`] — a file that was read (this file).
//! * `model` — its keys, and the JSON Schema made of them.
//! * `place` — where in a file something is wrong.
//!
//! Keys that are flags of `mcplane bench` are handed on as such, so that both mean the same; what
//! only a file can say, the mix of tools and the think time, is read here.

mod model;
mod place;

use std::fs;
use std::path::Path;

use serde_json::Value;
use toml::Table;

use self::model::{Model, Target};
pub use self::model::{TARGET_KEYS, schema};
use self::place::Text;
use crate::load::Template;
use crate::results::Think;

/// Largest scenario file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A scenario that was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Scenario {
    /// The words of a command line for each target: its flags, then the target.
    pub lines: Vec<Vec<String>>,
    /// Variables of our environment that the command of each target gets, too: names, or how they
    /// begin and `*`.
    pub inherit_env: Vec<Vec<String>>,
    /// The kinds of calls; empty if there is no mix.
    pub mix: Vec<Template>,
    /// The think time.
    pub think: Option<Think>,
    /// Where its random parts begin.
    pub seed: Option<u64>,
    text: Text,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// A text that names file, line and key, and says what is wrong there.
    pub fn read(path: &Path) -> Result<Self, String> {
        let cannot = |what: String| format!("cannot read {}: {what}", path.display());
        let bytes = fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(cannot(format!("{bytes} bytes; at most {FILE_BYTES_MAX}")));
        }
        let text = fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
        Self::parse(
            &path.display().to_string(),
            text,
            path.parent().unwrap_or_else(|| Path::new("")),
        )
    }

    /// Reads the text of a file; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// As those of [`Scenario::read`].
    pub fn parse(file: &str, text: String, folder: &Path) -> Result<Self, String> {
        let text = Text::new(file, text);
        let model: Model = text.read()?;
        let table: Table = text.read()?;
        if let (Some(_), false) = (&model.tool, model.tools.is_empty()) {
            return Err(text.at(&["tool"], "either this or [[tools]], which name each tool"));
        }
        let template = |(index, tool): (usize, &model::Tool)| {
            let args = tool.args.clone().map(Value::from);
            let template = Template::new(tool.name.clone(), tool.weight, args, folder);
            let template = template.map_err(|what| text.at_item("tools", index, &what))?;
            Ok(if tool.check { template } else { template.unchecked() })
        };
        let mix: Result<_, String> = model.tools.iter().enumerate().map(template).collect();
        let think = match &model.think {
            None => None,
            Some(think) => Some(think.parse().map_err(|what| text.at(&["think"], &what))?),
        };
        if let (Some(_), Some(key)) = (think, model.open_by()) {
            let what = format!("beside `{key}`; it takes a closed loop: arrivals do not wait");
            return Err(text.at(&["think"], &what));
        }
        let empty = table.iter().find(|(key, value)| is_flag(key) && is_empty(value));
        if let Some((key, _)) = empty {
            return Err(text.at(&[key], "an empty list; it takes one number or more"));
        }
        let flags = flags(&table, model.open_by().is_some());
        let line = |target: &Target| [flags.clone(), target.words()].concat();
        let mut lines: Vec<_> = model.targets.iter().map(line).collect();
        if lines.is_empty() {
            lines.push(flags);
        }
        let inherit_env = model.targets.into_iter().map(|target| target.inherit_env).collect();
        Ok(Self { lines, inherit_env, mix: mix?, think, seed: model.seed, text })
    }

    /// A complaint of the command line about one of [`Scenario::lines`], with the place of the key
    /// that it names.
    #[must_use]
    pub fn blame(&self, complaint: &str) -> String {
        self.text.blame(complaint)
    }
}

/// Whether a key of the file's top is a flag.
fn is_flag(key: &str) -> bool {
    !matches!(key, "targets" | "tools" | "think")
}

fn is_empty(value: &toml::Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// The keys of the file's top as flags.
fn flags(table: &Table, is_open: bool) -> Vec<String> {
    let mut words = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| is_flag(key)) {
        // A seed is for more than arrivals here.
        if key == "seed" && !is_open {
            continue;
        }
        let flag = format!("--{}", key.replace('_', "-"));
        match value {
            toml::Value::Boolean(true) => words.push(flag),
            toml::Value::Boolean(false) => {}
            value => words.push(format!("{flag}={}", word(value))),
        }
    }
    words
}

fn word(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(","),
        toml::Value::Table(_) => {
            serde_json::to_string(value).unwrap_or_else(|error| error.to_string())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Scenario, String> {
        Scenario::parse("s.toml", text.to_owned(), Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    #[test]
    fn keys_become_flags_and_targets_lines() {
        let scenario = parse(
            "concurrency = [1, 8]\nduration = \"2s\"\nno_floor = true\nno_check = false\n\
             tool = \"echo\"\nargs = { message = \"a\" }\nrate = 50.5\nseed = 3\n\
             [[targets]]\ncommand = [\"server\", \"-x\"]\n\
             [[targets]]\nurl = \"http://a/\"\nheaders = [\"A: b\"]\n",
        )
        .unwrap();
        let flags = [
            "--args={\"message\":\"a\"}",
            "--concurrency=1,8",
            "--duration=2s",
            "--no-floor",
            "--rate=50.5",
            "--seed=3",
            "--tool=echo",
        ];
        let mut command = scenario.lines[0].clone();
        command[..7].sort_unstable();
        assert_eq!(command[..7], flags);
        assert_eq!(command[7..], ["--", "server", "-x"]);
        assert_eq!(scenario.lines[1][7..], ["--header=A: b", "http://a/"]);
        assert_eq!(parse("seed = 3").unwrap().lines, [Vec::<String>::new()]);
    }

    #[test]
    fn a_mix_has_its_templates() {
        let text = "think = \"exponential 10ms\"\n[[tools]]\nname = \"a\"\nweight = 3\n\
            args = { key = \"{zipf:10:1}\" }\n[[tools]]\nname = \"b\"\ncheck = false\n";
        let scenario = parse(text).unwrap();
        let tools: Vec<_> =
            scenario.mix.iter().map(|t| (t.tool.as_str(), t.weight, t.check)).collect();
        assert_eq!(tools, [("a", 3.0, true), ("b", 1.0, false)]);
        assert_eq!(scenario.think, Some(Think { mean_ns: 10_000_000, exponential: true }));
    }

    #[test]
    fn what_is_wrong_has_its_file_line_and_key() {
        for (text, parts) in [
            ("rate = 1\nratee = 2", &["s.toml:2", "ratee"][..]),
            ("rate = 1\n\nsessions = \"x\"", &["s.toml:3", "sessions"]),
            ("rate = ", &["s.toml:1"]),
            ("think = \"soon\"", &["s.toml:1", "think", "exponential 10ms"]),
            (
                "[[tools]]\nname = \"a\"\n[[tools]]\nname = \"b\"\nargs = { a = \"{size:x}\" }",
                &["s.toml:3", "tools", "{size:x}"],
            ),
            ("a = 1", &["s.toml:1", "concurrency"]),
            ("tool = \"a\"\n[[tools]]\nname = \"a\"", &["s.toml:1", "tool"]),
            ("[[targets]]\nuri = 1", &["s.toml:2", "uri"]),
            ("ladder_rate = [9.0]\nthink = \"5ms\"", &["s.toml:2: think: ", "`ladder_rate`"]),
            ("think = \"5ms\"\nfind_limit = \"errors=0\"", &["s.toml:1: think: "]),
            ("tool = \"a\"\nconcurrency = []", &["s.toml:2: concurrency: an empty list"]),
            ("ladder = []", &["s.toml:1: ladder: an empty list"]),
        ] {
            let error = parse(text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
    }

    #[test]
    fn a_complaint_about_a_flag_gets_the_place_of_its_key() {
        let scenario = parse("tool = \"echo\"\nstart_timeout = \"5 parsecs\"").unwrap();
        let blame = scenario.blame("invalid value '5 parsecs' for '--start-timeout <TIME>'");
        assert!(blame.starts_with("s.toml:2: start_timeout: invalid value"), "{blame}");
        assert!(scenario.blame("something else").starts_with("s.toml: something"));
    }
}
