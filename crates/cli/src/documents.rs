//! Commands in the documents: each must parse.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::load::Source;
use crate::{Cli, Command};

/// Every document in a folder and those below it.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The words of each command of ours in a block of code, as a shell divides them.
fn commands(page: &str) -> Vec<Vec<String>> {
    let code = page.split("```").skip(1).step_by(2).collect::<String>().replace("\\\n", " ");
    let lines = code.lines().map(|line| line.trim_start_matches("$ "));
    let is_ours = |words: &Vec<String>| {
        // `mcplane = "0.1"` is a dependency.
        words.first().is_some_and(|word| word == "mcplane")
            && words.get(1).is_some_and(|w| w != "=")
    };
    lines.flat_map(parts).filter(is_ours).collect()
}

/// The commands of a pipeline, up to a remark.
fn parts(line: &str) -> Vec<Vec<String>> {
    let (mut parts, mut word, mut quote) = (vec![Vec::new()], None::<String>, None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '|' | '>' | '&') => {
                parts.last_mut().unwrap().extend(word.take());
                if c != ' ' {
                    parts.push(Vec::new());
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    parts
}

#[test]
fn every_command_in_the_documents_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut found);
    let (mut count, mut wrong) = (0, Vec::new());
    for page in found {
        for words in commands(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            if let Err(why) = parse(&words) {
                wrong.push(format!("{}: {}: {why}", page.display(), words.join(" ")));
            }
        }
    }
    assert!(count > 20, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What prior systems' own documents name, in ranges of their numbers.
const NAMED: [(char, &[std::ops::RangeInclusive<u32>]); 5] = [
    ('C', &[1..=18, 25..=25, 27..=28, 31..=32, 34..=36, 39..=39, 41..=41]),
    ('X', &[1..=13]),
    ('T', &[1..=7]),
    ('F', &[1..=12]),
    ('E', &[1..=16]),
];

#[test]
fn the_suites_have_a_row_for_all_that_prior_systems_name_and_its_commands_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/lab/suites.md")).unwrap();
    let (mut commands, mut unknown) = (0, Vec::new());
    for (system, numbers) in NAMED {
        for number in numbers.iter().cloned().flatten() {
            let begin = format!("| {system}{number} |");
            let row = page.lines().find(|line| line.starts_with(&begin));
            let row = row.unwrap_or_else(|| panic!("no row for {system}{number}"));
            for code in row.split('`').skip(1).step_by(2) {
                for words in parts(code).into_iter().filter(|words| words[0] == "mcplane") {
                    commands += 1;
                    unknown.extend(parse(&words).err().map(|why| format!("{begin} {code}: {why}")));
                }
            }
        }
    }
    assert!(commands > 40, "{commands}");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

fn parse(words: &[String]) -> Result<(), String> {
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    match cli.command {
        Command::Bench(args) => {
            args.spec().check().map_err(|error| Source::CommandLine.complaint(&error))
        }
        Command::Suite(args) => args.entries().map(|_| ()).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}
