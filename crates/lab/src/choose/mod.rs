//! Which tool to call, and with what.
//!
//! * [`choose`] — a tool that is cheap and changes nothing (this file).
//! * `args` — arguments built from an input schema.

mod args;

use serde_json::value::{RawValue, to_raw_value};

use crate::client::Tool;
use crate::error::Error;
use crate::plan::Plan;

/// The call that is made over and over.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) args: Box<RawValue>,
    /// Whether the lab, not the user, decided on the tool or its arguments.
    pub(crate) chosen: bool,
}

/// Words in names of tools that change something, cost something, or never end.
const UNSAFE_WORDS: [&str; 40] = [
    "add", "append", "cancel", "clear", "click", "close", "commit", "create", "delete", "deploy",
    "drop", "edit", "elicit", "exec", "execute", "fail", "fill", "generate", "insert", "install",
    "kill", "long", "merge", "move", "navigate", "post", "publish", "push", "remove", "reset",
    "run", "sampling", "send", "set", "sleep", "stop", "trigger", "update", "upload", "write",
];

/// Words in names of tools that only look.
const SAFE_WORDS: [&str; 14] = [
    "current", "describe", "echo", "get", "hello", "info", "list", "ping", "read", "search",
    "show", "status", "time", "version",
];

/// The call that the plan asks for, completed from the server's list.
pub(crate) fn choose(plan: &Plan, tools: &[Tool]) -> Result<Call, Error> {
    let tool = match &plan.tool {
        Some(name) => tools.iter().find(|tool| tool.name == *name).ok_or_else(|| {
            Error::refused(format!("the server has no tool {name:?}; it has {}", names(tools)))
        })?,
        None => best(tools)?,
    };
    let args = match &plan.args {
        Some(args) => args.clone(),
        None => build(tool)?,
    };
    let chosen = plan.tool.is_none() || plan.args.is_none();
    Ok(Call { tool: tool.name.clone(), args, chosen })
}

/// Arguments that look valid to a tool.
fn build(tool: &Tool) -> Result<Box<RawValue>, Error> {
    let built = args::build(&tool.input_schema).ok_or_else(|| {
        Error::refused(format!(
            "the least arguments that the schema of {:?} allows are longer than {} MiB; give your \
             own with --args",
            tool.name,
            args::BYTES_MAX / (1024 * 1024)
        ))
    })?;
    to_raw_value(&built).map_err(|error| Error::refused(format!("no arguments: {error}")))
}

/// The safest tool, the first of equals.
fn best(tools: &[Tool]) -> Result<&Tool, Error> {
    let ranked = tools.iter().rev().filter_map(|tool| Some((rank(tool)?, tool)));
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, tool)| tool).ok_or_else(|| match tools {
        [] => Error::refused("the server lists no tools"),
        _ => Error::refused(format!(
            "none of the server's tools is known to be harmless; it has {}",
            names(tools)
        )),
    })
}

/// How well a tool suits; `None` for one that may change something.
fn rank(tool: &Tool) -> Option<i32> {
    if tool.name == "echo" {
        return Some(1000);
    }
    let hint = |name: &str| tool.annotations.get(name).and_then(serde_json::Value::as_bool);
    let read_only = hint("readOnlyHint") == Some(true);
    let words = words(&tool.name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let harmless = read_only || !has(&UNSAFE_WORDS);
    if !harmless || hint("readOnlyHint") == Some(false) || hint("destructiveHint") == Some(true) {
        return None;
    }
    if !read_only && !has(&SAFE_WORDS) {
        return None;
    }
    let required = args::required(&tool.input_schema).count();
    let mut rank = 100 - 10 * i32::try_from(required.min(9)).unwrap_or(9);
    rank += if read_only { 40 } else { 0 };
    rank += if words.iter().any(|word| word == "echo") { 100 } else { 0 };
    rank += if has(&["ping", "version", "hello", "status"]) { 20 } else { 0 };
    rank -= if has(&UNSAFE_WORDS) { 30 } else { 0 };
    rank -= if hint("openWorldHint") == Some(true) { 20 } else { 0 };
    Some(rank)
}

/// The words of a name in any of the usual spellings: `get_time`, `get-time`, `getTime`.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn names(tools: &[Tool]) -> String {
    const SHOWN_MAX: usize = 12;
    let shown = tools.iter().take(SHOWN_MAX).map(|tool| tool.name.as_str());
    let shown = shown.collect::<Vec<_>>().join(", ");
    match tools.len() {
        0 => "none".to_owned(),
        len if len > SHOWN_MAX => format!("{shown} and {} more", len - SHOWN_MAX),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, annotations: Value, required: &[&str]) -> Tool {
        let schema = json!({"type": "object", "required": required});
        serde_json::from_value(
            json!({"name": name, "annotations": annotations, "inputSchema": schema}),
        )
        .unwrap()
    }

    fn plain(name: &str) -> Tool {
        tool(name, json!({}), &[])
    }

    #[test]
    fn names_fall_into_words() {
        for name in ["get_current_time", "get-current-time", "getCurrentTime", "Get Current.time"] {
            assert_eq!(words(name), ["get", "current", "time"], "{name}");
        }
        assert_eq!(words("HTTPGet2"), ["httpget2"]);
        assert!(words("--").is_empty());
    }

    #[test]
    fn the_safest_tool_wins() {
        let read_only = json!({"readOnlyHint": true});
        for (tools, want) in [
            (vec![plain("get_x"), plain("echo"), plain("ping")], "echo"),
            (vec![plain("write_file"), plain("list_files")], "list_files"),
            (vec![tool("get_a", json!({}), &["q"]), plain("get_b")], "get_b"),
            (vec![plain("get_b"), tool("summarise", read_only.clone(), &[])], "summarise"),
            (vec![plain("get_first"), plain("get_second")], "get_first"),
            (vec![tool("run_report", read_only, &[]), plain("delete_all")], "run_report"),
        ] {
            assert_eq!(best(&tools).unwrap().name, want);
        }
    }

    #[test]
    fn a_tool_that_may_change_something_is_never_chosen() {
        for tool in [
            plain("delete_all"),
            plain("get_and_delete"),
            plain("frobnicate"),
            tool("get_x", json!({"readOnlyHint": false}), &[]),
            tool("read_x", json!({"destructiveHint": true}), &[]),
        ] {
            let error = best(std::slice::from_ref(&tool)).unwrap_err().to_string();
            assert!(error.contains(&tool.name) && error.contains("--tool"), "{error}");
        }
        assert!(best(&[]).unwrap_err().to_string().contains("no tools"));
    }

    #[test]
    fn the_users_choice_is_taken_as_it_is() {
        let args = RawValue::from_string(r#"{"n":1.0}"#.to_owned()).unwrap();
        let mut plan = Plan { tool: Some("delete_all".to_owned()), ..Plan::default() };
        plan.args = Some(args);
        let call = choose(&plan, &[plain("delete_all")]).unwrap();
        assert_eq!((call.tool.as_str(), call.args.get()), ("delete_all", r#"{"n":1.0}"#));
        assert!(!call.chosen);
        let error = choose(&plan, &[plain("other")]).unwrap_err().to_string();
        assert!(error.contains("\"delete_all\"") && error.contains("other"), "{error}");
    }
}
