//! Each fuzz target over the seeds that are kept in `fuzz/seeds`, and over what is near them: cut
//! short, changed in a few places, put together. The same in every run.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use mcplane_fuzz_targets::{TARGETS, Target};

/// What is tried beside each seed: it cut short, and it changed.
const CUTS: usize = 40;
const CHANGES: u64 = 120;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The seeds of a target, by name.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder().join("seeds").join(target));
    let files = files.unwrap_or_else(|error| panic!("the seeds of {target}: {error}"));
    let mut seeds: Vec<_> = files
        .map(|file| file.unwrap().path())
        .map(|path| (path.file_name().unwrap().display().to_string(), fs::read(path).unwrap()))
        .collect();
    seeds.sort();
    seeds
}

#[test]
fn every_target_holds_for_its_seeds() {
    let failures = thread::scope(|scope| {
        let running = TARGETS.map(|target| (target.0, scope.spawn(move || holds(target))));
        running
            .map(|(name, target)| target.join().unwrap_or_else(|_| Some(format!("{name} panics"))))
    });
    // What the target of the store has made.
    let folder = std::env::temp_dir().join(format!("mcplane-fuzz-{}", std::process::id()));
    fs::remove_dir_all(folder).unwrap();
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The first bytes for which it does not.
fn holds((name, run): Target) -> Option<String> {
    let seeds = seeds(name);
    let mut random = Random(0);
    for (seed, bytes) in &seeds {
        let cuts = CUTS.min(bytes.len());
        let cut = (0..cuts).map(|cut| bytes[..bytes.len() * cut / cuts].to_vec());
        let changed = (0..CHANGES).map(|_| {
            let other = &seeds[random.below(seeds.len())].1;
            random.change(bytes, other)
        });
        let mut tried = std::iter::once(bytes.clone()).chain(cut).chain(changed);
        if let Some(data) = tried.find(|data| panic::catch_unwind(|| run(data)).is_err()) {
            return Some(format!("{name}, near {seed}: \"{}\"", data.escape_ascii()));
        }
    }
    None
}

/// The fuzzer has the same targets, and something to begin with for each.
#[test]
fn every_target_is_run_by_the_fuzzer() {
    let manifest: toml::Table =
        fs::read_to_string(folder().join("Cargo.toml")).unwrap().parse().unwrap();
    let programs = manifest["bin"].as_array().unwrap().iter();
    let programs: BTreeSet<_> = programs.map(|program| program["name"].as_str().unwrap()).collect();
    assert!(programs.iter().eq(&TARGETS.map(|(name, _)| name)), "{programs:?}");
    for (name, _) in TARGETS {
        let path = folder().join("fuzz_targets").join(name).with_extension("rs");
        let source = fs::read_to_string(path).unwrap();
        assert!(source.contains(&format!("mcplane_fuzz_targets::{name}::run(data)")), "{source}");
        assert!(seeds(name).len() >= 2, "{name} has too little to begin with");
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }

    /// A few bytes of it flipped, doubled, taken out, or replaced by a piece of another.
    fn change(&mut self, bytes: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(8)).min(bytes.len());
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..end)),
                2 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
                3 => bytes.insert(at, b"\"\\{}[],:\0\n\xff0a"[self.below(13)]),
                _ => {
                    let from = self.below(other.len() + 1);
                    let to = (from + self.below(64)).min(other.len());
                    bytes.splice(at..end, other[from..to].iter().copied()).for_each(drop);
                }
            }
        }
        bytes
    }
}
