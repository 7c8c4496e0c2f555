//! References to the environment and to files, replaced by what they stand for.

use std::{borrow::Cow, fs, io::Read, ops::Range, path::Path};

use mcplane::transport::process::{mask_urls, mask_words};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    error::Finding,
    tree::{owned, written},
};

/// The environment, or what a test says it is.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Longest token in a file, bytes: longer ones do not fit a header.
const TOKEN_BYTES_MAX: u64 = 8 * 1024;

/// The keys of a server in which `${NAME}` is replaced.
const EXPANDED: [&str; 7] = ["args", "command", "cwd", "env", "headers", "roots", "url"];

/// The keys of a server whose values are nobody's business.
const SECRET: [&str; 2] = ["env", "headers"];

/// The keys whose values may hold something secret, wherever they are.
const SUSPECT: [&str; 6] = ["args", "env", "headers", "state_key", "tokens", "url"];

/// Replaces `${NAME}` in the servers and `env:NAME` and `file:PATH` in the tokens and the key. A value whose
/// reference leads nowhere is taken out of the tree, so that nothing else is said about it.
///
/// A server that is disabled may lack what it refers to.
pub(super) fn expand(
    root: &mut DeTable<'_>,
    environment: Environment<'_>,
    folder: &Path,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, server) in tables(root, "servers") {
        let disabled =
            server.get("disabled").is_some_and(|value| value.get_ref().as_bool() == Some(true));
        if disabled {
            continue;
        }
        for key in EXPANDED {
            let Some(value) = server.get_mut(key) else { continue };
            let before = findings.len();
            let path = owned(&["servers", &name, key]);
            each_string(value, path, &mut |text, span, path| match references(text, environment) {
                Ok(new) => *text = new,
                Err(message) => findings.push(finding(span, path, message)),
            });
            if findings.len() > before {
                server.remove(key);
            }
        }
    }
    let Some(DeValue::Table(gateway)) = root.get_mut("gateway").map(Spanned::get_mut) else {
        return findings;
    };
    if let Some(key) = gateway.get_mut("state_key") {
        let before = findings.len();
        each_string(key, owned(&["gateway", "state_key"]), &mut |text, span, path| match token(
            text,
            environment,
            folder,
        ) {
            Ok(new) => *text = new,
            Err(message) => findings.push(finding(span, path, message)),
        });
        if findings.len() > before {
            gateway.remove("state_key");
        }
    }
    if let Some(tokens) = gateway.get_mut("tokens") {
        let mut lost = Vec::new();
        each_string(tokens, owned(&["gateway", "tokens"]), &mut |text, span, path| match token(
            text,
            environment,
            folder,
        ) {
            Ok(new) => *text = new,
            Err(message) => {
                lost.extend(path.last().cloned());
                findings.push(finding(span, path, message));
            }
        });
        if let DeValue::Table(tokens) = tokens.get_mut() {
            lost.iter().for_each(|name| drop(tokens.remove(name.as_str())));
        }
    }
    findings
}

fn finding(span: Range<usize>, path: &[String], message: String) -> Finding {
    Finding { span, key: written(path), message, help: None }
}

/// The text with its references replaced: `${NAME}` by the variable, `${NAME:-WORDS}` by the
/// variable or else these words, and `$$` by `$`.
fn references(text: &str, environment: Environment<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(behind) = from.strip_prefix("$$") {
            out.push('$');
            rest = behind;
        } else if let Some(behind) = from.strip_prefix("${") {
            let Some((reference, behind)) = behind.split_once('}') else {
                return Err("`${` without `}`; a plain `$` is written `$$`".into());
            };
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (reference, None),
            };
            if !is_variable(name) {
                return Err(format!(
                    "`${{{reference}}}` names no environment variable; a plain `$` is written `$$`"
                ));
            }
            let value = environment(name).or_else(|| default.map(str::to_owned));
            out.push_str(&value.ok_or_else(|| {
                format!("the environment variable `{name}` is not set; expected it, or `${{{name}:-DEFAULT}}`")
            })?);
            rest = behind;
        } else {
            out.push('$');
            rest = from.strip_prefix('$').unwrap_or_default();
        }
    }
    Ok(out + rest)
}

/// Whether this can be the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The token that `env:NAME` or `file:PATH` stands for, or the text itself.
fn token(text: &str, environment: Environment<'_>, folder: &Path) -> Result<String, String> {
    if let Some(name) = text.strip_prefix("env:") {
        let value = environment(name).filter(|value| !value.is_empty());
        return value
            .ok_or_else(|| format!("the environment variable `{name}` is not set or empty"));
    }
    let Some(path) = text.strip_prefix("file:") else { return Ok(text.to_owned()) };
    let path = folder.join(path);
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    // To open a pipe would wait for whoever writes into it.
    if !fs::metadata(&path).map_err(|error| cannot(&error))?.is_file() {
        return Err(cannot(&"it is not a regular file"));
    }
    let file = fs::File::open(&path).map_err(|error| cannot(&error))?;
    let mut token = String::new();
    file.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut token).map_err(|error| cannot(&error))?;
    if token.len() as u64 > TOKEN_BYTES_MAX {
        return Err(cannot(&format_args!("more than {TOKEN_BYTES_MAX} bytes")));
    }
    Ok(token.trim().to_owned())
}

/// Where the values of secrets are, unless they only refer to them.
pub(super) fn secrets(root: &mut DeTable<'_>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let tables = tables(root, "servers").into_iter().map(|(_, server)| (server, &SECRET[..]));
    let mut tables: Vec<_> = tables.collect();
    for (table, keys) in &mut tables {
        suspects(table, &mut spans);
        for key in keys.iter() {
            if let Some(value) = table.get_mut(*key) {
                leaves(value, &mut spans);
            }
        }
    }
    if let Some(DeValue::Table(gateway)) = root.get_mut("gateway").map(Spanned::get_mut) {
        for key in ["tokens", "state_key"] {
            gateway.get_mut(key).into_iter().for_each(|value| leaves(value, &mut spans));
        }
    }
    spans
}

/// The same for text that is no TOML, line by line: what is not taken has no place in the tree.
pub(super) fn secret_lines(text: &str) -> Vec<Range<usize>> {
    let words = |text: &str| {
        let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.any(|word| SUSPECT.contains(&word))
    };
    let (mut spans, mut start) = (Vec::new(), 0);
    // Whether the table is secret, and the value that may go on.
    let (mut table, mut value) = (false, false);
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let equals = line.find('=').map(|at| start + at + 1);
        let is_header =
            line.trim_start().starts_with('[') && (!value || DeTable::parse(line).is_ok());
        if is_header {
            (table, value) = (words(line), false);
        } else {
            value = match equals {
                Some(_) => table || words(line),
                None => value && !line.trim().is_empty(),
            };
            if value {
                spans.push(equals.unwrap_or(start)..end);
            }
        }
        start = end;
    }
    spans
}

/// The arguments of each server as they are written.
pub(super) fn written_args(root: &mut DeTable<'_>) -> Vec<(String, Vec<String>)> {
    let args = |(name, server): (String, &mut DeTable<'_>)| {
        let args = server.get("args")?.get_ref().as_array()?.iter();
        let args = args.filter_map(|arg| arg.get_ref().as_str().map(str::to_owned));
        Some((name, args.collect()))
    };
    tables(root, "servers").into_iter().filter_map(args).collect()
}

/// Adds the places of what looks secret in the arguments and the address of a server.
fn suspects(server: &DeTable<'_>, spans: &mut Vec<Range<usize>>) {
    if let Some(args) = server.get("args").and_then(|args| args.get_ref().as_array()) {
        let words = || args.iter().map(|arg| arg.get_ref().as_str().unwrap_or_default());
        let masked = mask_words(words().map(Cow::Borrowed));
        let shown = args.iter().zip(words()).zip(masked);
        let hidden = shown.filter(|((_, word), masked)| word != masked);
        spans.extend(hidden.map(|((arg, _), _)| arg.span()));
    }
    let url = server.get("url").filter(|url| {
        let text = url.get_ref().as_str().unwrap_or_default();
        mask_urls(text) != text
    });
    spans.extend(url.map(Spanned::span));
}

/// Adds the places of all values that are no references.
fn leaves(value: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => table.values().for_each(|value| leaves(value, spans)),
        DeValue::Array(array) => array.iter().for_each(|value| leaves(value, spans)),
        DeValue::String(text)
            if text.starts_with("env:") || text.starts_with("file:") || text.contains("${") => {}
        _ => spans.push(value.span()),
    }
}

/// The tables within the table of this name.
fn tables<'a, 'i>(root: &'a mut DeTable<'i>, name: &str) -> Vec<(String, &'a mut DeTable<'i>)> {
    let Some(DeValue::Table(all)) = root.get_mut(name).map(Spanned::get_mut) else {
        return Vec::new();
    };
    let names: Vec<String> = all.keys().map(|key| key.get_ref().to_string()).collect();
    let values = all.iter_mut().map(|(_, value)| value.get_mut());
    let tables = names.into_iter().zip(values).filter_map(|(name, value)| match value {
        DeValue::Table(table) => Some((name, table)),
        _ => None,
    });
    tables.collect()
}

/// What is done to a string at a place, under the key of a path.
type Change<'a> = dyn FnMut(&mut String, Range<usize>, &[String]) + 'a;

/// Calls `change` with each string in the value, its place, and the path of its key.
fn each_string(value: &mut Spanned<DeValue<'_>>, path: Vec<String>, change: &mut Change<'_>) {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) => {
            let mut new = text.to_string();
            change(&mut new, span, &path);
            *text = new.into();
        }
        DeValue::Array(array) => {
            array.iter_mut().for_each(|value| each_string(value, path.clone(), change));
        }
        DeValue::Table(table) => {
            let names: Vec<String> = table.keys().map(|key| key.get_ref().to_string()).collect();
            for ((_, value), name) in table.iter_mut().zip(names) {
                let path = path.iter().cloned().chain([name]).collect();
                each_string(value, path, change);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/srv/a".into()),
            "EMPTY" => Some(String::new()),
            "MONEY" => Some("$HOME ${HOME}".into()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced_once() {
        for (text, expanded) in [
            ("", ""),
            ("plain", "plain"),
            ("${HOME}/x", "/srv/a/x"),
            ("a${EMPTY}b", "ab"),
            ("${MONEY}", "$HOME ${HOME}"),
            ("$${HOME} costs $5 and $$6$", "${HOME} costs $5 and $6$"),
            ("${NONE:-https://a:-b}", "https://a:-b"),
            ("${HOME:-x}", "/srv/a"),
            ("ü${HOME}ü", "ü/srv/aü"),
        ] {
            assert_eq!(references(text, &environment).as_deref(), Ok(expanded), "{text}");
        }
        for (text, part) in [
            ("${NONE}", "`NONE` is not set"),
            ("${HOME", "without `}`"),
            ("${}", "names no"),
            ("${input:key}", "`${input:key}` names no"),
            ("${1A}", "names no"),
        ] {
            assert!(references(text, &environment).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn tokens_come_from_where_they_are_said_to_be() {
        let folder = std::env::temp_dir().join(format!("mcplane-token-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("alice"), " s3cret\n").unwrap();
        fs::write(folder.join("large"), "x".repeat(9000)).unwrap();
        let token = |text| token(text, &environment, &folder);
        assert_eq!(token("file:alice").as_deref(), Ok("s3cret"));
        assert_eq!(token("env:HOME").as_deref(), Ok("/srv/a"));
        assert_eq!(token("literal").as_deref(), Ok("literal"));
        assert!(token("env:EMPTY").unwrap_err().contains("`EMPTY` is not set"));
        assert!(token("file:bob").unwrap_err().contains("bob"));
        assert!(token("file:large").unwrap_err().contains("more than"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
