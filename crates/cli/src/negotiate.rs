//! `mcplane negotiate`: which of a gateway's servers fit a need.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use mcplane::client::Client;
use mcplane::proto::version::Revision;
use mcplane::transport::http::client::Pool;
use mcplane::transport::http::{Bytes, Request};
use mcplane_gateway::{Need, SEPARATOR};
use serde_json::Value;
use tokio::time::timeout;

use crate::endpoint::{EndpointArgs, Found, token};
use crate::report::to_stdout;

/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long the gateway may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is needed, and from which gateway.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("need").required(true).multiple(true)
    .args(["tools", "prompts", "resources", "revision", "min_versions"]))]
#[command(after_help = "Example:
  mcplane negotiate --tool read_file --tool search --revision 2025-06-18
Each thing is named as it is called at the endpoint that was asked.
Exit code: 0 if one server or a set of them covers everything, 1 if something is missing.")]
pub struct NegotiateArgs {
    /// A tool that is needed (repeatable)
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
    /// A prompt that is needed (repeatable)
    #[arg(long = "prompt", value_name = "NAME")]
    prompts: Vec<String>,
    /// A resource that is needed (repeatable)
    #[arg(long = "resource", value_name = "URI")]
    resources: Vec<String>,
    /// The oldest acceptable revision
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    revision: Option<Revision>,
    /// The oldest acceptable version: of any server, or of one as SERVER=VERSION (repeatable)
    #[arg(long = "min-version", value_name = "[SERVER=]VERSION")]
    min_versions: Vec<String>,
    /// Print the gateway's whole answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Asks the gateway and prints what it says.
///
/// # Errors
/// There is no gateway, or it does not understand the need.
pub async fn run(args: &NegotiateArgs) -> anyhow::Result<ExitCode> {
    let found = args.endpoint.find(None);
    let mut request = http_request(found.page("/admin/negotiate")?.as_str(), &need(args))?;
    if let Some(token) = token() {
        let value = format!("Bearer {token}").parse().context("MCPLANE_TOKEN is not a token")?;
        request.headers_mut().insert("authorization", value);
    }
    let answer = Pool::new().fetch(request, ANSWER_BYTES_MAX, PATIENCE).await;
    let answer = answer.with_context(|| found.hint())?;
    let said: Value = serde_json::from_slice(answer.body())
        .with_context(|| format!("{} is not an mcplane gateway", found.url))?;
    if !answer.status().is_success() {
        // The gateway's own words, or an error of JSON-RPC.
        let error = said.get("error");
        let why = error.and_then(|error| error.as_str().or_else(|| error.get("message")?.as_str()));
        let why = why.unwrap_or("it does not say why");
        let hint = if answer.status() == 401 { "; put a token into MCPLANE_TOKEN" } else { "" };
        bail!("the gateway answered {}: {why}{hint}", answer.status());
    }
    let called = if args.json { HashSet::new() } else { names(&found).await };
    let text = match args.json {
        true => format!("{said:#}\n"),
        false => words(&said, &called)?,
    };
    to_stdout(&text).context("cannot write to stdout")?;
    let is_missing = said.get("outcome").and_then(Value::as_str) == Some("missing");
    Ok(if is_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn need(args: &NegotiateArgs) -> Need {
    let mut need = Need {
        tools: args.tools.clone(),
        prompts: args.prompts.clone(),
        resources: args.resources.clone(),
        revision: args.revision,
        min_version: None,
        min_versions: BTreeMap::new(),
    };
    for version in &args.min_versions {
        match version.split_once('=') {
            Some((server, version)) => {
                need.min_versions.insert(server.to_owned(), version.to_owned());
            }
            None => need.min_version = Some(version.clone()),
        }
    }
    need
}

fn http_request(url: &str, need: &Need) -> anyhow::Result<Request<Bytes>> {
    let body = serde_json::to_vec(need)?;
    let request = Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json");
    Ok(request.body(body.into())?)
}

/// What is called at the endpoint, tools and prompts, as it is called there; none of them if the
/// endpoint does not say.
async fn names(found: &Found) -> HashSet<String> {
    let names = async {
        let client = Client::builder("mcplane", env!("CARGO_PKG_VERSION"));
        let client = client.connect(found.dial().await.ok()?).await.ok()?;
        let tools = client.list_tools().await.unwrap_or_default();
        let prompts = client.list_prompts().await.unwrap_or_default();
        client.close().await;
        let prompts = prompts.into_iter().map(|prompt| prompt.name);
        Some(tools.into_iter().map(|tool| tool.name).chain(prompts).collect())
    };
    timeout(PATIENCE, names).await.ok().flatten().unwrap_or_default()
}

/// The plan first, then each server with what it lacks. `called` is what the endpoint's things are
/// called.
fn words(said: &Value, called: &HashSet<String>) -> Result<String, fmt::Error> {
    let mut out = String::new();
    match text(said, "outcome") {
        "covered" => writeln!(out, "covered by {}", text(said, "best"))?,
        "split" => writeln!(out, "covered by several servers together")?,
        _ => writeln!(out, "not covered; missing: {}", join(list(said, "missing"), name))?,
    }
    for share in list(said, "plan") {
        let server = text(share, "server");
        let call = |item: &Value| {
            // Two servers have it: then each one's has its server's name in front.
            let long = format!("{server}{SEPARATOR}{}", name(item));
            if called.contains(&long) { long } else { name(item) }
        };
        writeln!(out, "  {server}: {}", join(list(share, "items"), call))?;
    }
    for rank in list(said, "ranked") {
        let part = |before: &str, words: String| match words.is_empty() {
            true => words,
            false => format!(", {before} {words}"),
        };
        let why = |why: &Value| why.as_str().unwrap_or_default().replace('_', " ");
        let unfit = part("not used:", join(list(rank, "unfit"), why));
        let missing = part("lacks", join(list(rank, "missing"), name));
        let number = |key: &str| rank.get(key).and_then(Value::as_u64).unwrap_or_default();
        let (server, health) = (text(rank, "server"), text(rank, "health"));
        let (has, of) = (number("has"), number("of"));
        writeln!(out, "{server}: {has} of {of}, {health}{unfit}{missing}")?;
    }
    Ok(out)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn name(item: &Value) -> String {
    text(item, "name").to_owned()
}

fn join(items: &[Value], word: impl Fn(&Value) -> String) -> String {
    items.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn revision(text: &str) -> Result<Revision, String> {
    let known = || Revision::ALL.map(Revision::as_str).join(", ");
    Revision::parse(text).ok_or_else(|| format!("known revisions: {}", known()))
}
