//! One campaign: its results while they are measured, and then one compressed file of all of them, with
//! the environment and the commands beside it to be read as they are.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};

use crate::run::{cargo, output, run, step};

/// What of an environment differs from one run to the next.
const MOMENTARY: [&str; 3] = ["command", "time", "load_before"];

pub struct Campaign {
    name: &'static str,
    /// `bench/results/<date>-<host>`.
    folder: PathBuf,
    /// Where results are until all of them are there.
    rough: PathBuf,
}

impl Campaign {
    /// Builds mcplane as it is shipped, and begins a campaign of today.
    pub fn with_build(root: &Path, name: &'static str) -> anyhow::Result<Self> {
        let build = ["build", "--profile", "dist", "--package", "mcplane-cli"];
        let build = [&build[..], &["--target-dir", "target"]].concat();
        step("build of what is shipped", || run(&mut cargo(root, &build)))?;
        Self::begin(root, name)
    }

    /// A campaign of today. What one before it did not finish is gone.
    fn begin(root: &Path, name: &'static str) -> anyhow::Result<Self> {
        let rough = root.join("target/speed").join(name);
        if rough.exists() {
            fs::remove_dir_all(&rough)?;
        }
        fs::create_dir_all(&rough)?;
        Ok(Self { name, folder: folder(root)?, rough })
    }

    /// Where a result is to be written.
    pub fn file(&self, result: &str) -> PathBuf {
        self.rough.join(format!("{result}.json"))
    }

    /// Writes the summary, the environment and the commands, and all results as lines
    /// `{"name": …, "result": …}`.
    pub fn publish(&self, summary: &str) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let results = self.results()?;
        let raw = self.folder.join(format!("{}.jsonl.gz", self.name));
        // Without a name and a time in it the same results make the same file.
        let mut to = GzBuilder::new().write(File::create(&raw)?, Compression::best());
        for (name, text) in &results {
            writeln!(to, "{}", line(name, text))?;
        }
        to.finish()?;
        let environments = serde_json::to_string_pretty(&environments(&results)?)?;
        let beside = self.folder.join(format!("{}.environment.json", self.name));
        fs::write(beside, environments + "\n")?;
        let title = if self.name == "stdio" { String::new() } else { format!("-{}", self.name) };
        fs::write(self.folder.join(format!("summary{title}.md")), summary)?;
        fs::remove_dir_all(&self.rough)?;
        println!("{summary}\nraw data: {}", raw.display());
        Ok(())
    }

    /// The results with their names, in the order of these.
    fn results(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for file in fs::read_dir(&self.rough)? {
            let path = file?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            all.push((name, fs::read_to_string(&path)?));
        }
        all.sort();
        Ok(all)
    }
}

/// A result on one line. No line of JSON ends within a string.
fn line(name: &str, text: &str) -> String {
    let text: String = text.lines().map(str::trim_start).collect();
    format!("{{\"name\":{},\"result\":{text}}}", Value::from(name))
}

/// Each environment that results were measured in, with the commands that were run there.
fn environments(results: &[(String, String)]) -> anyhow::Result<Vec<Value>> {
    let mut all: Vec<(Value, Map<String, Value>)> = Vec::new();
    for (name, text) in results {
        let mut result: Value =
            serde_json::from_str(text).with_context(|| format!("{name} is no JSON"))?;
        let Some(environment) = result.get_mut("environment").and_then(Value::as_object_mut) else {
            continue;
        };
        let [command, ..] = MOMENTARY.map(|key| environment.remove(key).unwrap_or_default());
        let words = command.as_array().into_iter().flatten().filter_map(Value::as_str);
        let command = Value::from(words.map(quoted).collect::<Vec<_>>().join(" "));
        let environment = Value::from(environment.clone());
        match all.iter_mut().find(|(known, _)| *known == environment) {
            Some((_, commands)) => _ = commands.insert(name.clone(), command),
            None => all.push((environment, Map::from_iter([(name.clone(), command)]))),
        }
    }
    let told = |(environment, commands)| json!({"environment": environment, "commands": commands});
    Ok(all.into_iter().map(told).collect())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r#"'"'"'"#)),
    }
}

/// `bench/results/<date>-<host>`.
fn folder(root: &Path) -> anyhow::Result<PathBuf> {
    let text = |command: &mut Command| -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&output(command)?).trim().to_owned())
    };
    let date = text(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let cores = std::thread::available_parallelism()?;
    let kind = text(Command::new("uname").args(["-sm"]))?.to_lowercase().replace(' ', "-");
    Ok(root.join("bench/results").join(format!("{date}-{kind}-{cores}-cores")))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn results_become_one_file_with_environment_and_commands_beside_it() {
        let root = std::env::temp_dir().join(format!("mcplane-campaign-{}", std::process::id()));
        let campaign = Campaign::begin(&root, "stdio").unwrap();
        let result = |command: &str, load: f64| {
            json!({"text": "a\n  b", "environment": {"os": "linux", "command": ["mcplane", command],
                "time": "now", "load_before": [load, 0.0, 0.0]}})
        };
        for (name, command, load) in [("b-1", "b 1", 0.5), ("a-1", "a-1", 0.25)] {
            let text = serde_json::to_string_pretty(&result(command, load)).unwrap();
            fs::write(campaign.file(name), text).unwrap();
        }
        fs::write(campaign.file("list"), "[]").unwrap();
        campaign.publish("said\n").unwrap();
        let mut text = String::new();
        let raw = File::open(campaign.folder.join("stdio.jsonl.gz")).unwrap();
        flate2::read::GzDecoder::new(raw).read_to_string(&mut text).unwrap();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let names: Vec<_> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a-1", "b-1", "list"]);
        assert_eq!(lines[1]["result"], result("b 1", 0.5));
        let beside = fs::read_to_string(campaign.folder.join("stdio.environment.json")).unwrap();
        let beside: Value = serde_json::from_str(&beside).unwrap();
        assert_eq!(
            beside,
            json!([{"environment": {"os": "linux"},
            "commands": {"a-1": "mcplane a-1", "b-1": "mcplane 'b 1'"}}])
        );
        assert_eq!(fs::read_to_string(campaign.folder.join("summary.md")).unwrap(), "said\n");
        assert!(!campaign.rough.exists());
        fs::remove_dir_all(root).unwrap();
    }
}
