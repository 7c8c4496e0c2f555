//! Arguments that differ from call to call: `{n}`, `{uuid}`, `{zipf:KEYS:S}`, `{file:PATH}` and
//! `{size:BYTES}` in any string of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::client::UNSTAMPED;
use crate::stats::Rng;

/// What stands for the number of a call in arguments that are to differ from call to call.
pub const NUMBER: &str = "{n}";

/// Most keys of a Zipf distribution.
const KEYS_MAX: usize = 1_000_000;

/// Greatest payload, in bytes.
const SIZE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest file of lines, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Most places of one template that are filled in.
const HOLES_MAX: usize = 1000;

/// What stands for the place of a value until a call is made.
const MARK: &str = "~mcplane-hole-";

/// One kind of call of a mix.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Template {
    /// The tool.
    pub tool: String,
    /// How often it is called, beside the weights of the others.
    pub weight: f64,
    /// The arguments as they were written; `None` builds them from the tool's input schema.
    pub args: Option<Value>,
    /// Whether the content of its results is checked.
    pub check: bool,
    /// The arguments as JSON, marks in place of values.
    text: String,
    pub(crate) sources: Vec<Source>,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Uuid,
    /// The chance of each key and all before it.
    Zipf(Arc<[f64]>),
    Lines(Arc<Lines>),
}

/// Lines that all sessions take in turn.
#[derive(Debug)]
pub(crate) struct Lines {
    lines: Vec<String>,
    next: AtomicUsize,
}

impl Template {
    /// A template; paths of files are relative to `folder`.
    ///
    /// # Errors
    /// A sentence about the placeholder or the weight at fault.
    pub fn new(
        tool: String,
        weight: f64,
        args: Option<Value>,
        folder: &Path,
    ) -> Result<Self, String> {
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(format!("the weight is {weight}; it takes a number above 0"));
        }
        let mut sources = Vec::new();
        let text = match &args {
            None => String::new(),
            Some(args @ Value::Object(_)) => {
                let mut args = args.clone();
                prepare(&mut args, folder, &mut sources)?;
                args.to_string()
            }
            Some(other) => return Err(format!("the arguments are {other}; they take a table")),
        };
        Ok(Self { tool, weight, args, check: true, text, sources })
    }

    /// The same without a check of the content.
    #[must_use]
    pub const fn unchecked(mut self) -> Self {
        self.check = false;
        self
    }

    /// The arguments with marks.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// A text with its marks filled in.
pub(crate) fn fill(text: &str, sources: &[Source], random: &mut Rng) -> String {
    let mut text = text.to_owned();
    for (index, source) in sources.iter().enumerate() {
        text = text.replacen(&mark(index), &source.draw(random), 1);
    }
    text
}

/// What stands for value number `index`.
pub(crate) fn mark(index: usize) -> String {
    format!("{MARK}{index:03}~")
}

/// Puts marks in place of the placeholders in every string.
fn prepare(value: &mut Value, folder: &Path, sources: &mut Vec<Source>) -> Result<(), String> {
    match value {
        Value::String(text) => *text = marked(text, folder, sources)?,
        Value::Array(items) => {
            items.iter_mut().try_for_each(|item| prepare(item, folder, sources))?;
        }
        Value::Object(members) => {
            members.values_mut().try_for_each(|member| prepare(member, folder, sources))?;
        }
        _ => {}
    }
    Ok(())
}

fn marked(text: &str, folder: &Path, sources: &mut Vec<Source>) -> Result<String, String> {
    if text.contains(MARK) {
        return Err(format!("`{MARK}` is the mark of a placeholder and cannot be sent"));
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        rest = behind;
        let (name, parameter) = inside.split_once(':').unwrap_or((inside, ""));
        let source = match name {
            "n" if parameter.is_empty() => {
                out.push_str(&String::from_utf8_lossy(&UNSTAMPED));
                continue;
            }
            "size" => {
                out.push_str(&letters(size(parameter)?));
                continue;
            }
            "uuid" if parameter.is_empty() => Source::Uuid,
            "zipf" => Source::zipf(parameter)?,
            "file" => Source::file(&folder.join(parameter))?,
            // A brace that is not a placeholder is itself.
            _ => {
                out.push('{');
                out.push_str(inside);
                out.push('}');
                continue;
            }
        };
        if sources.len() >= HOLES_MAX {
            return Err(format!("more than {HOLES_MAX} placeholders"));
        }
        out.push_str(&mark(sources.len()));
        sources.push(source);
    }
    Ok(out + rest)
}

impl Source {
    /// `KEYS:S`: key k of 1 to KEYS with a chance in proportion to 1 / k^S (Zipf 1949).
    fn zipf(parameter: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{{zipf:{parameter}}}: it takes KEYS:S, such as {{zipf:1000:1.1}}, at most \
                 {KEYS_MAX} keys and S from 0 to 10"
            )
        };
        let (keys, s) = parameter.split_once(':').ok_or_else(form)?;
        let keys: usize = keys.parse().map_err(|_| form())?;
        let s: f64 = s.parse().map_err(|_| form())?;
        if !(1..=KEYS_MAX).contains(&keys) || !(0.0..=10.0).contains(&s) {
            return Err(form());
        }
        let mut sum = 0.0;
        #[allow(clippy::cast_precision_loss, reason = "at most a million")]
        let mut chances: Vec<f64> = (1..=keys)
            .map(|key| {
                sum += (key as f64).powf(-s);
                sum
            })
            .collect();
        chances.iter_mut().for_each(|chance| *chance /= sum);
        Ok(Self::Zipf(chances.into()))
    }

    fn file(path: &Path) -> Result<Self, String> {
        let cannot = |why: String| format!("{{file:{}}}: {why}", path.display());
        let bytes = fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(cannot(format!("{bytes} bytes; at most {FILE_BYTES_MAX}")));
        }
        let text = fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).map(escape).collect();
        if lines.is_empty() {
            return Err(cannot("it has no line".to_owned()));
        }
        Ok(Self::Lines(Arc::new(Lines { lines, next: AtomicUsize::new(0) })))
    }

    /// The next value, as it stands within a JSON string.
    pub(crate) fn draw(&self, random: &mut Rng) -> String {
        match self {
            Self::Uuid => {
                let (high, low) = (random.next(), random.next());
                // Version 4, variant 1: RFC 9562 §5.4.
                let (high, low) = (high & !0xf000 | 0x4000, low >> 2 | 1 << 63);
                format!(
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    high >> 32,
                    high >> 16 & 0xffff,
                    high & 0xffff,
                    low >> 48,
                    low & 0xffff_ffff_ffff
                )
            }
            Self::Zipf(chances) => {
                let at = random.unit();
                let key = chances.partition_point(|chance| *chance < at);
                (key.min(chances.len() - 1) + 1).to_string()
            }
            Self::Lines(lines) => {
                let next = lines.next.fetch_add(1, Ordering::Relaxed) % lines.lines.len().max(1);
                lines.lines.get(next).cloned().unwrap_or_default()
            }
        }
    }
}

/// Arguments with letters in place of each `{size:BYTES}`.
///
/// # Errors
/// A sentence about the placeholder at fault.
pub(crate) fn sized(args: &str) -> Result<String, String> {
    const KEY: &str = "{size:";
    let (mut out, mut rest) = (String::new(), args);
    while let Some((before, after)) = rest.split_once(KEY) {
        let (parameter, behind) =
            after.split_once('}').ok_or_else(|| format!("`{KEY}` is not closed"))?;
        out.push_str(before);
        out.push_str(&letters(size(parameter)?));
        rest = behind;
    }
    Ok(out + rest)
}

/// A number of bytes: `100`, `64KiB`, `1MiB`.
fn size(parameter: &str) -> Result<usize, String> {
    let digits = parameter.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match parameter.strip_prefix(digits) {
        Some("" | "B") => Some(1),
        Some("KiB") => Some(1024),
        Some("MiB") => Some(1024 * 1024),
        _ => None,
    };
    let bytes = digits.parse().ok().zip(unit).and_then(|(n, unit): (usize, _)| n.checked_mul(unit));
    bytes.filter(|bytes| *bytes <= SIZE_BYTES_MAX).ok_or_else(|| {
        format!("{{size:{parameter}}}: it takes bytes, such as 100, 64KiB or 1MiB, at most 16MiB")
    })
}

/// Letters that look random, the same every time.
fn letters(count: usize) -> String {
    let mut random = Rng::new(1);
    (0..count).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or(0))).collect()
}

/// A text as it stands within a JSON string.
fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// Whether a text has a number of its call.
pub(crate) fn is_numbered(args: Option<&Value>) -> bool {
    args.is_some_and(|args| args.to_string().contains(NUMBER))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(args: Value) -> Result<Template, String> {
        Template::new("t".to_owned(), 1.0, Some(args), Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    fn draws(args: &str, count: usize) -> Vec<String> {
        let template = template(json!({ "a": [args] })).unwrap();
        let mut random = Rng::new(1);
        let draw = |_| {
            let text = fill(template.text(), &template.sources, &mut random);
            let value: Value = serde_json::from_str(&text).unwrap();
            value["a"][0].as_str().unwrap().to_owned()
        };
        (0..count).map(draw).collect()
    }

    #[test]
    fn every_placeholder_has_its_value() {
        assert_eq!(draws("no {n}.", 1), ["no 0000000000000000."]);
        assert_eq!(draws("{} { {x} }", 1), ["{} { {x} }"]);
        assert_eq!(draws("{size:2KiB}", 1)[0].len(), 2048);
        let ids = draws("{uuid}", 100);
        assert!(ids.iter().all(|id| id.len() == 36 && &id[14..15] == "4"));
        assert!(ids.iter().all(|id| "89ab".contains(&id[19..20])), "{ids:?}");
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 100);
        let lines = draws("{file:Cargo.toml}", 3);
        assert_eq!(lines[..2], ["[package]", "name = \"mcplane-lab\""]);
        assert_ne!(draws("{uuid}{uuid}", 1)[0][..36], draws("{uuid}{uuid}", 1)[0][36..]);
    }

    #[test]
    fn keys_have_the_chances_of_zipf() {
        let keys = draws("{zipf:4:1}", 12_000);
        // 1, 1/2, 1/3, 1/4 of 25/12; within four binomial deviations.
        for (key, chance) in [("1", 0.48), ("2", 0.24), ("3", 0.16), ("4", 0.12)] {
            let seen = keys.iter().filter(|drawn| *drawn == key).count() as f64 / 12e3;
            let deviation = (chance * (1.0 - chance) / 12e3_f64).sqrt();
            assert!((seen - chance).abs() < 4.0 * deviation, "{key}: {seen} for {chance}");
        }
    }

    #[test]
    fn sizes_alone_are_filled_in_where_nothing_else_is() {
        let args = r#"{"a":"{size:3}-{n}","b":"{size:1KiB}","c":{}}"#;
        let value: Value = serde_json::from_str(&sized(args).unwrap()).unwrap();
        assert_eq!(value["a"].as_str().unwrap().split_once('-').unwrap().1, "{n}");
        assert_eq!(
            (value["a"].as_str().unwrap().len(), value["b"].as_str().unwrap().len()),
            (7, 1024)
        );
        assert_eq!(value["a"].as_str().unwrap()[..3], value["b"].as_str().unwrap()[..3]);
        assert_eq!(sized("{}").unwrap(), "{}");
        for (args, part) in [("{size:17MiB}", "at most 16MiB"), ("{size:1", "not closed")] {
            assert!(sized(args).unwrap_err().contains(part));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (args, part) in [
            (json!({"a": "{zipf:0:1}"}), "{zipf:0:1}"),
            (json!({"a": "{zipf:10}"}), "KEYS:S"),
            (json!({"a": "{size:17MiB}"}), "at most 16MiB"),
            (json!({"a": "{size:1KB}"}), "{size:1KB}"),
            (json!({"a": "{file:no/such}"}), "no/such"),
            (json!({"a": "~mcplane-hole-0"}), "mark"),
            (json!([1]), "table"),
        ] {
            let error = template(args.clone()).unwrap_err();
            assert!(error.contains(part), "{args}: {error}");
        }
        assert!(
            Template::new("t".to_owned(), 0.0, None, Path::new("")).unwrap_err().contains("weight")
        );
    }
}
