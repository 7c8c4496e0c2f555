//! Where in a file something is wrong: its line and its key.

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue, Error};

/// The text of a file.
#[derive(Debug)]
pub(super) struct Text {
    file: String,
    text: String,
}

impl Text {
    pub(super) fn new(file: &str, text: String) -> Self {
        Self { file: file.to_owned(), text }
    }

    /// Reads it as something.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        toml::from_str(&self.text).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, error: &Error) -> String {
        let Some(span) = error.span() else { return format!("{}: {}", self.file, error.message()) };
        let key = self.key_around(span.start).map(|key| format!("{key}: ")).unwrap_or_default();
        format!("{}:{}: {key}{}", self.file, self.line(span.start), error.message())
    }

    /// What is wrong with the key of the first of these names that the file has.
    pub(super) fn at(&self, keys: &[&str], what: &str) -> String {
        let Ok(table) = DeTable::parse(&self.text) else { return self.anywhere(what) };
        for key in keys {
            let found = table.get_ref().iter().find(|(name, _)| name.get_ref() == key);
            if let Some((name, _)) = found {
                return format!("{}:{}: {key}: {what}", self.file, self.line(name.span().start));
            }
        }
        self.anywhere(what)
    }

    /// What is wrong with an entry of a list.
    pub(super) fn at_item(&self, key: &str, index: usize, what: &str) -> String {
        let Ok(table) = DeTable::parse(&self.text) else { return self.anywhere(what) };
        let list = table.get_ref().iter().find(|(name, _)| name.get_ref() == key);
        let start = match list.map(|(_, value)| value.get_ref()) {
            Some(DeValue::Array(items)) => items.get(index).map(|item| item.span().start),
            _ => None,
        };
        match start {
            Some(start) => {
                format!("{}:{}: {key}[{index}]: {what}", self.file, self.line(start))
            }
            None => self.at(&[key], what),
        }
    }

    /// A complaint about a flag, at the key that is that flag.
    pub(super) fn blame(&self, complaint: &str) -> String {
        let Ok(table) = DeTable::parse(&self.text) else { return self.anywhere(complaint) };
        let has = |name: &str| table.get_ref().iter().any(|(key, _)| key.get_ref() == name);
        if let Some((key, what)) = complaint.split_once(": ").filter(|(key, _)| has(key)) {
            return self.at(&[key], what);
        }
        let flags = complaint.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        for flag in flags.filter_map(|word| word.strip_prefix("--")) {
            let key = flag.replace('-', "_");
            if has(&key) {
                let what = complaint.strip_prefix(&format!("--{flag}: "));
                return self.at(&[&key], what.unwrap_or(complaint));
            }
        }
        self.anywhere(complaint)
    }

    fn anywhere(&self, what: &str) -> String {
        format!("{}: {what}", self.file)
    }

    /// The key at the file's top whose value has this byte.
    fn key_around(&self, at: usize) -> Option<String> {
        let table = DeTable::parse(&self.text).ok()?;
        let around = table.get_ref().iter().find(|(_, value)| value.span().contains(&at));
        around.map(|(name, _)| name.get_ref().to_string())
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }
}
