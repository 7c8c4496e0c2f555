//! What a server offers, on one page for people.

use mcplane::types::{
    Prompt, PromptArgument, Resource, ResourceTemplate, ServerCapabilities, Tool, ToolAnnotations,
};

use super::arguments::{Argument, arguments, table};
use super::report::Report;
use super::text::{Style, WIDTH, line, padded, paragraph, shortened, size, wrap};

/// How much of the instructions is shown, in characters.
const INSTRUCTIONS_CHARS_MAX: usize = 600;

/// How much of a description is shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 400;

/// Widest column of URIs; longer ones push the rest to a line below.
const URI_WIDTH_MAX: usize = 48;

pub(super) fn page(report: &Report<'_>, command: &str, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, report, command, style);
    if let Some(instructions) = report.instructions {
        section(&mut out, "Instructions", None, style);
        paragraph(&mut out, 2, &shortened(&line(instructions), INSTRUCTIONS_CHARS_MAX));
    }
    if !report.tools.is_empty() {
        section(&mut out, "Tools", Some(report.tools.len()), style);
        report.tools.iter().for_each(|one| tool(&mut out, one, style));
    }
    if !report.resources.is_empty() {
        section(&mut out, "Resources", Some(report.resources.len()), style);
        let rows: Vec<_> = report.resources.iter().map(resource).collect();
        places(&mut out, &rows, style);
    }
    if !report.resource_templates.is_empty() {
        section(&mut out, "Resource templates", Some(report.resource_templates.len()), style);
        let rows: Vec<_> = report.resource_templates.iter().map(template).collect();
        places(&mut out, &rows, style);
    }
    if !report.prompts.is_empty() {
        section(&mut out, "Prompts", Some(report.prompts.len()), style);
        report.prompts.iter().for_each(|one| prompt(&mut out, one, style));
    }
    out
}

/// Whether the server was reached at an address, and not started.
fn is_address(server: &str) -> bool {
    let word = server.split(' ').next().unwrap_or_default();
    word == server && (word.contains("://") || word.starts_with("unix:"))
}

fn head(out: &mut String, report: &Report<'_>, command: &str, style: Style) {
    let server = &report.identity.server;
    let name = line(server.name.unwrap_or("(a server without a name)"));
    let version = server.version.map(|version| format!(" {}", line(version))).unwrap_or_default();
    let title = server.title.filter(|title| Some(*title) != server.name);
    let title = title.map(|title| format!(" · {}", line(title))).unwrap_or_default();
    out.push_str(&format!("{}{version}{title}\n", style.bold(&name)));
    let era = format!("{} ({} era)", report.identity.revision, report.identity.era);
    let offers = report.capabilities.map_or_else(|| "not said".to_owned(), capabilities);
    let place = if is_address(command) { "address" } else { "command" };
    for (label, value) in [(place, command), ("speaks", &*era), ("offers", &*offers)] {
        for (at, value) in wrap(value, WIDTH - 11).iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            out.push_str(&format!("  {}{value}\n", style.dim(&padded(label, 9))));
        }
    }
    if let Some(first) = &report.first_stray_line {
        let count = report.stray_lines;
        let note = format!(
            "Note: {count} line(s) on its stdout are not messages and were dropped, the first: {first:?}"
        );
        paragraph(out, 2, &note);
    }
}

fn section(out: &mut String, name: &str, count: Option<usize>, style: Style) {
    let count = count.map(|count| format!(" ({count})")).unwrap_or_default();
    out.push_str(&format!("\n{}{count}\n", style.bold(name)));
}

fn capabilities(capabilities: &ServerCapabilities) -> String {
    let with = |name: &str, details: &[(&str, bool)]| {
        let details: Vec<_> =
            details.iter().filter(|(_, has)| *has).map(|(detail, _)| *detail).collect();
        match details.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({})", details.join(", ")),
        }
    };
    let mut all = Vec::new();
    if capabilities.tools() {
        all.push(with("tools", &[("tells changes", capabilities.tools_list_changed())]));
    }
    if capabilities.resources() {
        let details = [
            ("tells changes", capabilities.resources_list_changed()),
            ("subscriptions", capabilities.resources_subscribe()),
        ];
        all.push(with("resources", &details));
    }
    if capabilities.prompts() {
        all.push(with("prompts", &[("tells changes", capabilities.prompts_list_changed())]));
    }
    let rest = [
        ("completions", capabilities.completions()),
        ("logging", capabilities.logging()),
        ("tasks", capabilities.tasks().is_some()),
    ];
    all.extend(rest.iter().filter(|(_, has)| *has).map(|(name, _)| (*name).to_owned()));
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

fn tool(out: &mut String, tool: &Tool, style: Style) {
    let hints = tool.annotations.as_ref().map(hints).unwrap_or_default();
    entry(out, &tool.name, Some(tool.display_name()), &hints, style);
    describe(out, tool.description.as_deref());
    table(out, 4, &arguments(tool.input_schema.get()), style);
}

fn prompt(out: &mut String, prompt: &Prompt, style: Style) {
    entry(out, &prompt.name, prompt.title.as_deref(), "", style);
    describe(out, prompt.description.as_deref());
    let row = |argument: &PromptArgument| Argument {
        name: line(&argument.name),
        kind: "text".to_owned(),
        required: argument.required == Some(true),
        description: line(argument.description.as_deref().unwrap_or_default()),
    };
    let rows: Vec<_> = prompt.arguments.iter().map(row).collect();
    table(out, 4, &rows, style);
}

/// `name · title  hints`
fn entry(out: &mut String, name: &str, title: Option<&str>, hints: &str, style: Style) {
    let title = title.filter(|title| *title != name);
    let title = title.map(|title| format!(" · {}", line(title))).unwrap_or_default();
    let text = format!("  {}{title}  {}", style.bold(&line(name)), style.dim(hints));
    out.push_str(text.trim_end());
    out.push('\n');
}

fn describe(out: &mut String, description: Option<&str>) {
    let description = line(description.unwrap_or_default());
    if !description.is_empty() {
        paragraph(out, 4, &shortened(&description, DESCRIPTION_CHARS_MAX));
    }
}

/// What a tool says of its behaviour, where that differs from what must be assumed.
fn hints(annotations: &ToolAnnotations) -> String {
    let read_only = annotations.read_only_hint == Some(true);
    let said = [
        (read_only, "read-only"),
        (!read_only && annotations.destructive_hint == Some(true), "destructive"),
        (!read_only && annotations.destructive_hint == Some(false), "adds only"),
        (!read_only && annotations.idempotent_hint == Some(true), "idempotent"),
        (annotations.open_world_hint == Some(false), "closed world"),
    ];
    let said: Vec<_> = said.iter().filter(|(says, _)| *says).map(|(_, hint)| *hint).collect();
    if said.is_empty() { String::new() } else { format!("[{}]", said.join(", ")) }
}

/// A URI, its type and size, and what is there.
type Place = (String, String, String);

fn resource(resource: &Resource) -> Place {
    let bytes = resource.size.as_ref().and_then(serde_json::Number::as_u64).map(size);
    let kind = resource.mime_type.as_deref().map(line);
    let facts: Vec<_> = kind.into_iter().chain(bytes).collect();
    let title = resource.title.as_ref().unwrap_or(&resource.name);
    (line(&resource.uri), facts.join(", "), named(title, resource.description.as_deref()))
}

fn template(template: &ResourceTemplate) -> Place {
    let title = template.title.as_ref().unwrap_or(&template.name);
    let kind = template.mime_type.as_deref().map(line).unwrap_or_default();
    (line(&template.uri_template), kind, named(title, template.description.as_deref()))
}

fn named(title: &str, description: Option<&str>) -> String {
    let title = line(title);
    match description.map(line).filter(|description| !description.is_empty()) {
        Some(text) => format!("{title}: {}", shortened(&text, DESCRIPTION_CHARS_MAX)),
        None => title,
    }
}

fn places(out: &mut String, rows: &[Place], style: Style) {
    let width = |column: fn(&Place) -> &str, max: usize| {
        let widths = rows.iter().map(|row| column(row).chars().count());
        widths.filter(|width| *width <= max).max().unwrap_or(0)
    };
    let (uris, facts) = (width(|row| &row.0, URI_WIDTH_MAX), width(|row| &row.1, URI_WIDTH_MAX));
    for (uri, fact, what) in rows {
        let first =
            format!("  {}  {}", style.name(&padded(uri, uris)), style.dim(&padded(fact, facts)));
        let used = 2 + padded(uri, uris).chars().count() + 2 + padded(fact, facts).chars().count();
        let mut text = String::new();
        // Beside the URI if it fits there, below it if not.
        let fits = used + 2 + what.chars().count() <= WIDTH;
        if !fits {
            paragraph(&mut text, 4, what);
        }
        let beside = if fits { format!("  {what}") } else { String::new() };
        out.push_str(format!("{first}{beside}").trim_end());
        out.push('\n');
        out.push_str(&text);
    }
}

#[cfg(test)]
mod tests {
    use mcplane::types::ToolAnnotations;
    use serde_json::value::to_raw_value;

    use super::super::report::{Identity, Server};
    use super::*;

    fn report(capabilities: &ServerCapabilities) -> Report<'_> {
        let schema = serde_json::json!({"type": "object", "required": ["a"],
            "properties": {"a": {"type": "integer", "description": "the first"}}});
        let add = Tool::new("add", to_raw_value(&schema).unwrap())
            .title("Add")
            .description("Adds two numbers. ".repeat(10))
            .annotations(ToolAnnotations::new().read_only_hint(true));
        Report {
            identity: Identity {
                server: Server { name: Some("demo"), version: Some("1.0"), title: Some("Demo") },
                revision: "2026-07-28",
                era: "modern",
            },
            capabilities: Some(capabilities),
            instructions: Some("Be\nkind."),
            tools: vec![add, Tool::without_arguments("now")],
            resources: vec![
                Resource::new("file:///a", "a").mime_type("text/plain").size(2048),
                Resource::new(format!("file:///{}", "b".repeat(80)), "b").description("much"),
            ],
            resource_templates: vec![ResourceTemplate::new("file:///{path}", "files")],
            prompts: vec![Prompt::new("greet").argument(PromptArgument::required("who"))],
            problems: Vec::new(),
            stray_lines: 0,
            first_stray_line: None,
        }
    }

    #[test]
    fn the_page_is_aligned_and_not_too_wide() {
        let capabilities = ServerCapabilities::new().with_tools(true).with_logging();
        let everything = capabilities.clone().with_resources(true, true).with_prompts(true);
        let everything = everything.with_completions();
        let wide = page(&report(&everything), &"c".repeat(150), Style::PLAIN);
        assert!(wide.lines().all(|line| line.chars().count() <= WIDTH), "{wide}");
        let page = page(&report(&capabilities), "demo --flag", Style::PLAIN);
        assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
        for part in [
            "demo 1.0 · Demo\n  command  demo --flag\n  speaks   2026-07-28 (modern era)\n",
            "  offers   tools (tells changes), logging\n",
            "\nInstructions\n  Be kind.\n",
            "\nTools (2)\n  add · Add  [read-only]\n    Adds two numbers. Adds",
            "\n    a  integer  required  the first\n  now\n",
            "\nResources (2)\n  file:///a  text/plain, 2.0 KiB  a\n  file:///bbb",
            "\nResource templates (1)\n  file:///{path}    files\n",
            "\nPrompts (1)\n  greet\n    who  text  required\n",
        ] {
            assert!(page.contains(part), "{part:?} is not in:\n{page}");
        }
    }

    #[test]
    fn the_document_has_its_fields() {
        let capabilities = ServerCapabilities::new().with_tools(true);
        let json = serde_json::to_value(report(&capabilities)).unwrap();
        assert_eq!(json["server"]["name"], "demo");
        assert_eq!((&json["revision"], &json["era"]), (&"2026-07-28".into(), &"modern".into()));
        assert_eq!(json["capabilities"]["tools"]["listChanged"], true);
        assert_eq!(json["tools"][0]["inputSchema"]["type"], "object");
        assert_eq!(json["resourceTemplates"][0]["uriTemplate"], "file:///{path}");
        for key in ["instructions", "resources", "prompts", "problems", "strayLines"] {
            assert!(json.get(key).is_some(), "{key}");
        }
    }
}
