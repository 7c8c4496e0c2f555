//! The file as a tree of keys that know their places.

use std::{collections::BTreeMap, ops::Range};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Where a key and its value are, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// The places of all keys by path.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<Vec<String>, Place>);

impl Places {
    pub(super) fn of(root: &DeTable<'_>) -> Self {
        let mut places = Self::default();
        places.add(&mut Vec::new(), root);
        places
    }

    fn add(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            let place = Place { key: key.span(), value: value.span() };
            self.0.insert(path.clone(), place);
            if let DeValue::Table(table) = value.get_ref() {
                self.add(path, table);
            }
            path.pop();
        }
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<&Place> {
        self.0.get(&owned(path))
    }

    /// The key with exactly this span, or else the deepest one whose name or value covers it.
    pub(super) fn covering(&self, span: &Range<usize>) -> Option<(&[String], &Place)> {
        let covers = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let all = self.0.iter().filter(|(_, place)| covers(&place.key) || covers(&place.value));
        all.max_by_key(|(path, place)| (place.key == *span, path.len()))
            .map(|(path, place)| (path.as_slice(), place))
    }

    /// The place of the nearest key on this path that is in the file.
    pub(super) fn nearest(&self, path: &[&str]) -> Option<&Place> {
        (1..=path.len()).rev().find_map(|length| self.get(path.get(..length)?))
    }
}

pub(super) fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|&key| key.to_owned()).collect()
}

/// A path the way it is written: `servers.files."odd name"`.
pub(crate) fn written<K: AsRef<str>>(path: &[K]) -> String {
    let keys = path.iter().map(|key| key_written(key.as_ref()));
    keys.collect::<Vec<_>>().join(".")
}

/// A key the way it is written, quoted only if it must be.
pub(super) fn key_written(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) }
}

/// A string the way it is written.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Takes the key at this path out of the tree; whether it was there.
pub(super) fn remove(root: &mut DeTable<'_>, path: &[String]) -> bool {
    match path {
        [] => false,
        [key] => root.remove(key.as_str()).is_some(),
        [key, rest @ ..] => match root.get_mut(key.as_str()).map(Spanned::get_mut) {
            Some(DeValue::Table(table)) => remove(table, rest),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_place_and_by_path() {
        let text = "[servers.a]\nargs = [1, 2]\nenv.\"x y\" = 3\n";
        let mut root = DeTable::parse(text).unwrap().into_inner();
        let places = Places::of(&root);
        let at = text.find('2').unwrap();
        let (path, place) = places.covering(&(at..at + 1)).unwrap();
        assert_eq!((written(path).as_str(), &text[place.key.clone()]), ("servers.a.args", "args"));
        let (path, _) = places.covering(&(text.find('3').unwrap()..text.len() - 1)).unwrap();
        assert_eq!(written(path), "servers.a.env.\"x y\"");
        let path = path.to_vec();
        assert!(remove(&mut root, &path) && !remove(&mut root, &path));
        assert!(places.get(&["servers", "b"]).is_none());
        assert_eq!(&text[places.nearest(&["servers", "a", "cwd"]).unwrap().key.clone()], "a");
    }

    #[test]
    fn strings_read_back() {
        for text in ["", "plain", "a\"b\\c", "line\nend\r\t\u{7f}\u{1}é💡"] {
            let parsed: toml::Table = toml::from_str(&format!("k = {}", quoted(text))).unwrap();
            assert_eq!(parsed["k"].as_str(), Some(text));
        }
    }
}
