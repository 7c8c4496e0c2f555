//! Our own files, read back: the one reader that reports, verdicts and audits share.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::report::SCHEMA;
use super::{COMPARE_SCHEMA, Contest, Report};

/// What a file of ours holds.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "whoever reads files has to look at each")]
pub enum File {
    /// What `mcplane bench` or `mcplane compare` measured.
    Report(Box<Report>),
    /// Counts by themselves.
    Counts(Counts),
}

/// Counts of scenarios that are the same at every run: by kind, then by scenario.
#[derive(Clone, Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// The format, which tells our other files from these.
    schema: Option<String>,
    /// Instructions.
    #[serde(default)]
    pub instructions: BTreeMap<String, f64>,
    /// Allocations.
    #[serde(default)]
    pub allocations: BTreeMap<String, f64>,
    /// System calls.
    #[serde(default)]
    pub syscalls: BTreeMap<String, f64>,
    /// Bytes.
    #[serde(default)]
    pub bytes: BTreeMap<String, f64>,
}

/// Why a text is not one of our files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub struct Unread(String);

impl File {
    /// Reads the JSON of a file.
    ///
    /// # Errors
    /// What it is instead, or what is missing.
    pub fn parse(json: &str) -> Result<Self, Unread> {
        let unread = |wrong: serde_json::Error| Unread(wrong.to_string());
        let counts: Counts = serde_json::from_str(json).map_err(unread)?;
        let report = match counts.schema.as_deref() {
            Some(SCHEMA) => serde_json::from_str(json).map_err(unread)?,
            Some(COMPARE_SCHEMA) => serde_json::from_str::<Contest>(json).map_err(unread)?.into(),
            Some(other) => return Err(Unread(format!("its schema {other} is not known"))),
            None if counts.all().next().is_some() => return Ok(Self::Counts(counts)),
            None => return Err(Unread("it names no \"schema\"".to_owned())),
        };
        Ok(Self::Report(Box::new(report)))
    }
}

impl Counts {
    /// Each count with its name.
    pub fn all(&self) -> impl Iterator<Item = (String, f64)> {
        let kinds = [
            ("instructions", &self.instructions),
            ("allocations", &self.allocations),
            ("syscalls", &self.syscalls),
            ("bytes", &self.bytes),
        ];
        kinds.into_iter().flat_map(|(kind, counts)| {
            counts.iter().map(move |(name, count)| (format!("{kind} of {name}"), *count))
        })
    }
}

/// One file of a campaign.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    name: String,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The text of a file's bytes, which may be compressed with gzip.
///
/// # Errors
/// When it is not UTF-8, is longer than `bytes_max`, or its compression is broken.
pub fn text(bytes: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut bytes = io::BufReader::new(bytes);
    let is_gzip = io::BufRead::fill_buf(&mut bytes)?.starts_with(&[0x1f, 0x8b]);
    let source: &mut dyn Read = if is_gzip { &mut MultiGzDecoder::new(bytes) } else { &mut bytes };
    let mut text = String::new();
    source.take(bytes_max.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let why = format!("it is longer than {} MiB", bytes_max >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// The files of a campaign, each with its name: of a text of lines `{"name": …, "result": …}`. `None`
/// of any other text.
#[must_use]
pub fn campaign(text: &str) -> Option<Vec<(String, String)>> {
    let entry = |line: &str| {
        let Entry { name, result } = serde_json::from_str(line).ok()?;
        Some((name, result.get().to_owned()))
    };
    text.lines().map(entry).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::results::Environment;
    use crate::results::tests::sample;

    fn packed(text: &str) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::default());
        to.write_all(text.as_bytes()).unwrap();
        to.finish().unwrap()
    }

    #[test]
    fn a_compressed_text_is_read_in_all_its_parts_and_no_further_than_allowed() {
        let two = [packed("{\"a\":1}\n"), packed("{}\n")].concat();
        assert_eq!(text(two.as_slice(), 100).unwrap(), "{\"a\":1}\n{}\n");
        assert_eq!(text("plain".as_bytes(), 100).unwrap(), "plain");
        assert_eq!(text("".as_bytes(), 100).unwrap(), "");
        let long = packed(&" ".repeat(1 << 20));
        assert!(long.len() < 4096);
        let wrong = text(long.as_slice(), 1 << 16).unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::FileTooLarge);
        assert!(text(&long[..long.len() / 2], 1 << 21).is_err(), "cut off");
    }

    #[test]
    fn a_campaign_is_told_from_a_result() {
        let report = Report::new(Environment::look(), vec![sample(100, false)]);
        let result = serde_json::to_string(&report).unwrap();
        assert_eq!(campaign(&result).map(|all| all.len()), None);
        let lines =
            format!("{{\"name\":\"a\",\"result\":{result}}}\n{{\"name\":\"b\",\"result\":[]}}\n");
        let all = campaign(&lines).unwrap();
        assert_eq!((all[0].0.as_str(), all[1].0.as_str(), all[1].1.as_str()), ("a", "b", "[]"));
        assert!(matches!(File::parse(&all[0].1), Ok(File::Report(read)) if read.runs.len() == 1));
        assert!(campaign("").is_none() && campaign("{\"name\":1}\n").is_none());
    }

    #[test]
    fn what_is_no_file_of_ours_is_told() {
        for (text, why) in [
            ("{}", "names no \"schema\""),
            ("{\"schema\":\"mcplane.bench/2\"}", "mcplane.bench/2 is not known"),
            ("{\"schema\":\"mcplane.bench/1\"}", "missing field `environment`"),
            ("[1]", "invalid"),
        ] {
            let wrong = File::parse(text).unwrap_err().to_string();
            assert!(wrong.contains(why), "{wrong}");
        }
        let counts = File::parse("{\"compiler\":\"rustc 1\",\"bytes\":{\"echo\":3}}");
        assert!(matches!(counts, Ok(File::Counts(of)) if of.bytes["echo"] == 3.0));
    }
}
