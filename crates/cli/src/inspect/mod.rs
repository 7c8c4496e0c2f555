//! `mcplane inspect`: who a server is and what it offers; or one call, and what came of it.
//!
//! * [`report`] — everything the server says of itself, and the JSON document of it.
//! * [`page`] — the same for people.
//! * [`arguments`] — a tool's arguments as a table.
//! * [`content`] — what a call returns.
//! * [`reach`] — servers at an address.
//! * [`text`] — widths, wrapping, colours, and text that is safe to print.

mod arguments;
mod content;
mod page;
mod reach;
mod report;
mod text;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mcplane::client::{Client, ClientBuilder, EraChoice};
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::method::Method;
use mcplane::proto::text::is_active;
use mcplane::proto::version::Revision;
use mcplane::transport::http::client::DroppedTools;
use mcplane::transport::process::Command;
use mcplane::types::{CallToolResult, ElicitResult, GetPromptResult, ReadResourceResult};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use reach::Unreached;
use report::{Identity, Report};
use text::Style;

use crate::report::say;

/// Everything went well.
const OK: u8 = 0;
/// The server answered with an error, or a tool says that it failed.
const REFUSED: u8 = 1;
/// The command line asks for something impossible.
const USAGE: u8 = 2;
/// The server could not be reached or spoken to.
const UNREACHABLE: u8 = 3;

/// Show who a server is and what it offers, or make one call and print its result.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "mcplane inspect [OPTIONS] <URL | -- COMMAND...>",
    after_help = "\
Examples:
  mcplane inspect -- npx -y @modelcontextprotocol/server-everything
  mcplane inspect --tool add --args '{\"a\": 1, \"b\": 2}' -- my-server --flag
  mcplane inspect http://localhost:8080/mcp
  mcplane inspect --json -- my-server | jq '.tools[].name'

Exit code: 0 all well, 1 the server answered with an error or the tool failed, 2 usage, 3 the \
server could not be reached or spoken to."
)]
pub(crate) struct InspectArgs {
    /// Call this tool
    #[arg(long, value_name = "NAME", group = "call")]
    pub(crate) tool: Option<String>,
    /// Read the resource at this URI
    #[arg(long, value_name = "URI", group = "call")]
    pub(crate) read: Option<String>,
    /// Fill in this prompt
    #[arg(long, value_name = "NAME", group = "call")]
    pub(crate) prompt: Option<String>,
    /// Arguments of the tool or the prompt: a JSON object
    #[arg(long, value_name = "JSON", value_parser = object, conflicts_with = "read")]
    pub(crate) args: Option<Map<String, Value>>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Handshake: auto, legacy, modern, or a revision such as 2025-06-18
    #[arg(long, visible_alias = "revision", value_name = "ERA", default_value = "auto",
        value_parser = era)]
    pub(crate) era: EraChoice,
    /// Longest time to wait for one answer (500ms, 30s, 2m)
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) reach: reach::ReachArgs,
    /// Address of a server: http(s)://, ws(s)://, tcp://HOST:PORT or unix:PATH
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Command that starts a server on stdio
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "url")]
    pub(crate) command: Vec<OsString>,
}

/// Inspects the server that the arguments name.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn run(args: InspectArgs) -> anyhow::Result<ExitCode> {
    if args.args.is_some() && args.tool.is_none() && args.prompt.is_none() {
        return Ok(complain("--args needs --tool or --prompt", USAGE));
    }
    let (client, name, dropped) = match connect(&args).await {
        Ok(connected) => connected,
        Err(Unreached::Usage(why)) => return Ok(complain(&why, USAGE)),
        Err(Unreached::Failed(why)) => return Ok(complain(&why, UNREACHABLE)),
    };
    let code = match Call::of(&args) {
        Some(call) => call.make(&client, args.json).await?,
        None => overview(&client, &name, args.json).await?,
    };
    for tool in dropped.iter().flat_map(DroppedTools::list) {
        say(&format!("note: tool `{}` is left out: {}", tool.name, tool.reason));
    }
    client.close().await;
    Ok(ExitCode::from(code))
}

/// Connects to the server that the arguments name; with its name for people.
async fn connect(args: &InspectArgs) -> Result<(Client, String, Option<DroppedTools>), Unreached> {
    let builder = builder(args);
    match (&args.url, args.command.split_first()) {
        (Some(url), _) => {
            let connected = reach::connect(builder, url, &args.reach).await;
            let (client, dropped) = connected.map_err(|error| error.at(url))?;
            Ok((client, url.clone(), dropped))
        }
        (None, Some((program, rest))) => {
            // Whoever types a command expects it to run as if it had been typed alone.
            let command = Command::new(program).args(rest).inherit_env(["*"]);
            let line = command.to_string();
            // Some errors say which command, and how it ended.
            let client = builder.spawn(command).await.map_err(|error| match &error {
                own if own.is_spawn() || own.is_closed() || own.is_timeout() => {
                    Unreached::Failed(error.to_string())
                }
                _ => Unreached::Failed(format!("cannot speak to `{line}`: {error}")),
            })?;
            Ok((client, line, None))
        }
        (None, None) => Err(Unreached::Usage(
            "name a server: mcplane inspect URL, or mcplane inspect -- COMMAND".to_owned(),
        )),
    }
}

fn builder(args: &InspectArgs) -> ClientBuilder {
    Client::builder("mcplane-inspect", env!("CARGO_PKG_VERSION"))
        .revision(args.era)
        .timeout(args.timeout)
        .on_elicit(async |_| {
            say("note: the server asked the user something; declined");
            ElicitResult::decline()
        })
        .on_sample(async |_| {
            say("note: the server asked for a model's answer; declined");
            Err(ErrorObject::new(Code::USER_REJECTED, "inspect has no model to ask"))
        })
}

async fn overview(client: &Client, command: &str, json: bool) -> anyhow::Result<u8> {
    let report = Report::gather(client).await;
    let silent = report.problems.iter().any(|problem| problem.timed_out);
    if silent && report.capabilities.is_none() && !json {
        let first = report.problems.iter().map(|problem| problem.error.as_str()).next();
        say(&format!("error: {}; {}", first.unwrap_or_default(), silence(client)));
        return Ok(UNREACHABLE);
    }
    let text =
        if json { document(&report)? } else { page::page(&report, command, Style::of_stdout()) };
    print(&text)?;
    for problem in &report.problems {
        say(&format!("error: {}: {}", problem.request, problem.error));
    }
    if silent {
        say(&silence(client));
    }
    Ok(if report.problems.is_empty() {
        OK
    } else if report.problems.iter().all(|problem| problem.answered) {
        REFUSED
    } else {
        UNREACHABLE
    })
}

/// One call to make.
struct Call {
    method: Method,
    name: String,
    params: Value,
}

impl Call {
    fn of(args: &InspectArgs) -> Option<Self> {
        let given = || args.args.clone().unwrap_or_default();
        let (method, name, params) = match (&args.tool, &args.prompt, &args.read) {
            (Some(name), ..) => {
                (Method::ToolsCall, name, json!({"name": name, "arguments": given()}))
            }
            (_, Some(name), _) => {
                // A prompt's arguments are strings.
                let text = |value: Value| match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let texts: Map<String, Value> =
                    given().into_iter().map(|(key, value)| (key, text(value).into())).collect();
                (Method::PromptsGet, name, json!({"name": name, "arguments": texts}))
            }
            (.., Some(uri)) => (Method::ResourcesRead, uri, json!({"uri": uri})),
            _ => return None,
        };
        Some(Self { method, name: name.clone(), params })
    }

    async fn make(&self, client: &Client, json: bool) -> anyhow::Result<u8> {
        let answer = client.request_raw(self.method, &self.params).await;
        let (outcome, shown) = match &answer {
            Ok(result) => (Ok(serde_json::from_slice(result)?), Some(self.show(result))),
            Err(error) => (Err(error), None),
        };
        if json {
            print(&document(&Made::new(client, self, outcome))?)?;
        }
        match (answer, shown) {
            (Ok(_), Some(Ok((text, failed)))) => {
                if !json {
                    print(&text)?;
                }
                if failed {
                    say(&format!("error: the tool `{}` says that it failed", self.name));
                }
                Ok(if failed { REFUSED } else { OK })
            }
            (Ok(_), Some(Err(error))) => {
                say(&format!("error: the answer to `{}` cannot be read: {error}", self.method));
                Ok(UNREACHABLE)
            }
            (Ok(_), None) => Ok(OK),
            (Err(error), _) => {
                let why = if error.is_timeout() {
                    format!("{error}; {}", silence(client))
                } else {
                    error.to_string()
                };
                say(&format!("error: `{}` of `{}`: {why}", self.method, self.name));
                let answered = error.is_rpc() || error.is_misuse();
                Ok(if answered { REFUSED } else { UNREACHABLE })
            }
        }
    }

    /// The content for people, and whether the tool says that it failed.
    fn show(&self, result: &[u8]) -> serde_json::Result<(String, bool)> {
        fn typed<T: DeserializeOwned>(result: &[u8]) -> serde_json::Result<T> {
            serde_json::from_slice(result)
        }
        let terminal = Style::of_stdout();
        Ok(match self.method {
            Method::ToolsCall => {
                let result: CallToolResult = typed(result)?;
                (content::tool(&result, terminal), result.is_error())
            }
            Method::PromptsGet => {
                let result: GetPromptResult = typed(result)?;
                (content::prompt(&result, terminal), false)
            }
            _ => {
                let result: ReadResourceResult = typed(result)?;
                (content::resource(&result, terminal), false)
            }
        })
    }
}

/// The JSON document of one call: the server, what was asked, and either `result` as the server
/// sent it or `error` with `message` and, if the server answered with one, `code` and `data`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made<'a> {
    #[serde(flatten)]
    identity: Identity<'a>,
    method: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl<'a> Made<'a> {
    fn new(
        client: &'a Client,
        call: &'a Call,
        outcome: Result<Box<RawValue>, &mcplane::Error>,
    ) -> Self {
        let error = outcome.as_ref().err().map(|error| match error.rpc() {
            Some(rpc) => json!(rpc),
            None => json!({"message": error.to_string()}),
        });
        Self {
            identity: Identity::of(client.peer()),
            method: call.method.as_str(),
            name: &call.name,
            result: outcome.ok(),
            error,
        }
    }
}

/// All that is known of a server that does not answer.
fn silence(client: &Client) -> String {
    let (command, lines) =
        client.process().map(|process| (process.command(), process.stderr())).unwrap_or_default();
    let words =
        if lines.is_empty() { "it wrote nothing to stderr" } else { "its last stderr lines:" };
    let quoted = lines.iter().map(|line| format!("\n  | {line}"));
    std::iter::once(format!("`{command}` is silent; {words}")).chain(quoted).collect()
}

fn document(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(value)?;
    // Text in JSON may command a terminal, too, and may as well be escaped there.
    let safe = |c: char| match c {
        c if is_active(c) && c != '\n' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    Ok(json.chars().map(safe).collect::<String>() + "\n")
}

/// Writes to stdout. A reader that has seen enough (`| head`) is not an error.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn complain(what: &str, code: u8) -> ExitCode {
    say(&format!("error: {what}"));
    ExitCode::from(code)
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("must be a JSON object, such as {\"key\": 1}".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

fn era(text: &str) -> Result<EraChoice, String> {
    Ok(match text {
        "auto" => EraChoice::Auto,
        "legacy" => EraChoice::Legacy,
        "modern" => EraChoice::Only(Revision::LATEST),
        name => EraChoice::Only(Revision::parse(name).ok_or_else(|| {
            let names = Revision::ALL.map(Revision::as_str).join(", ");
            format!("auto, legacy, modern, or one of {names}")
        })?),
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("ms") => 1e-3,
        Some("" | "s") => 1.0,
        Some("m") => 60.0,
        _ => return Err("units are ms, s and m".to_owned()),
    };
    let number: f64 = digits.parse().map_err(|_| "not a number with a unit".to_owned())?;
    match Duration::try_from_secs_f64(number * unit) {
        Ok(time) if time.is_zero() => Err("must be longer than nothing".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        inspect: InspectArgs,
    }

    fn parse(line: &[&str]) -> Result<InspectArgs, String> {
        let words = std::iter::once("inspect").chain(line.iter().copied());
        Cli::try_parse_from(words).map(|cli| cli.inspect).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_understood() {
        let args = parse(&["--tool", "add", "--args", r#"{"a":1}"#, "--", "srv", "-x"]).unwrap();
        assert_eq!(args.command, ["srv", "-x"]);
        assert_eq!((args.era, args.timeout), (EraChoice::Auto, Duration::from_secs(30)));
        let call = Call::of(&args).unwrap();
        assert_eq!(call.params, json!({"name": "add", "arguments": {"a": 1}}));
        let args = parse(&["--prompt", "p", "--args", r#"{"n":1,"s":"x"}"#, "--", "s"]).unwrap();
        let call = Call::of(&args).unwrap();
        assert_eq!(call.params, json!({"name": "p", "arguments": {"n": "1", "s": "x"}}));
        let args = parse(&["--revision", "2025-06-18", "--timeout", "500ms", "--", "s"]).unwrap();
        assert_eq!(args.era, EraChoice::Only(Revision::V2025_06_18));
        assert_eq!(args.timeout, Duration::from_millis(500));
        assert!(parse(&["http://localhost:1/mcp"]).unwrap().url.is_some());
        let args = parse(&["--header", "A: b:c", "http://localhost:1/mcp"]).unwrap();
        assert!(!format!("{args:?}").contains("b:c"), "secrets are not printed");
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        for (line, part) in [
            (&["--tool", "a", "--args", "{\"a\": 1 \"b\"}", "--", "s"][..], "column 9"),
            (&["--tool", "a", "--args", "[1]", "--", "s"], "must be a JSON object"),
            (&["--tool", "a", "--read", "b", "--", "s"], "cannot be used with"),
            (&["--era", "old", "--", "s"], "2024-11-05"),
            (&["--timeout", "0", "--", "s"], "longer than nothing"),
            (&["--header", "Secret", "http://h/"], "Name: value"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
