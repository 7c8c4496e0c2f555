//! Where in a file something is wrong: its line, its column and its key.

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue, Error};

use super::SpecError;

/// The text of a file that a spec was read from.
#[derive(Clone, Debug)]
pub struct Places {
    file: String,
    text: String,
}

impl Places {
    pub(super) fn new(file: &str, text: String) -> Self {
        Self { file: file.to_owned(), text }
    }

    /// Reads it as something.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        toml::from_str(&self.text).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, error: &Error) -> String {
        let Some(span) = error.span() else { return format!("{}: {}", self.file, error.message()) };
        let table = DeTable::parse(&self.text).ok();
        let key = table.as_ref().and_then(|table| {
            let around = |value: std::ops::Range<usize>| value.contains(&span.start);
            table.get_ref().iter().find(|(_, value)| around(value.span()))
        });
        let key = key.map(|(name, _)| format!("{}: ", name.get_ref())).unwrap_or_default();
        format!("{}: {key}{}", self.at(span.start), error.message())
    }

    /// What is wrong with a field, with file, line, column and key.
    #[must_use]
    pub fn complaint(&self, error: &SpecError) -> String {
        let what = error.words(|field| format!("`{}`", field.key()));
        let (start, key) = match self.place(error) {
            Some((start, key)) => (self.at(start), key),
            None => (self.file.clone(), error.field().key().to_owned()),
        };
        format!("{start}: {key}: {what}")
    }

    /// Where the key of a field begins, and its whole name.
    fn place(&self, error: &SpecError) -> Option<(usize, String)> {
        let table = DeTable::parse(&self.text).ok()?;
        let (key, index) = (error.field().key(), error.entry().unwrap_or(0));
        let named = |table: &DeTable<'_>, key: &str| {
            table.iter().find(|(name, _)| name.get_ref() == key).map(|(name, _)| name.span().start)
        };
        let entry = |list: &str| match table.get_ref().get(list)?.get_ref() {
            DeValue::Array(entries) => entries.get(index),
            _ => None,
        };
        if error.field().is_of_target() {
            let target = entry("targets")?;
            let at = match target.get_ref() {
                DeValue::Table(target) => named(target, key),
                _ => None,
            };
            let at = at.unwrap_or_else(|| target.span().start);
            return Some((at, format!("targets[{index}].{key}")));
        }
        match (error.entry(), entry(key)) {
            (Some(_), Some(entry)) => Some((entry.span().start, format!("{key}[{index}]"))),
            _ => Some((named(table.get_ref(), key)?, key.to_owned())),
        }
    }

    /// File, line and column of a byte.
    fn at(&self, byte: usize) -> String {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{}:{line}:{column}", self.file)
    }
}
