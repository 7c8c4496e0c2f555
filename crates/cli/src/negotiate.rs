//! `mcplane negotiate`: which of a gateway's servers fit a need.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use mcplane::proto::version::Revision;
use mcplane::transport::http::client::Pool;
use mcplane::transport::http::{Bytes, Request};
use mcplane_gateway::catalog::Need;
use serde_json::Value;

use crate::endpoint::{EndpointArgs, token};

/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long the gateway may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is needed, and of whom.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  mcplane negotiate --tool read_file --tool search --revision 2025-06-18
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
    /// The oldest revision that will do
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    revision: Option<Revision>,
    /// The oldest version that will do: of any server, or of one as SERVER=VERSION (repeatable)
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
/// There is no gateway, or it cannot make sense of the need.
pub async fn run(args: &NegotiateArgs) -> anyhow::Result<ExitCode> {
    let found = args.endpoint.find(None);
    let mut request = http_request(found.page("/admin/negotiate")?.as_str(), &need(args))?;
    if let Some(token) = token() {
        let value = format!("Bearer {token}").parse().context("MCPLANE_TOKEN is no header")?;
        request.headers_mut().insert("authorization", value);
    }
    let answer = Pool::new().fetch(request, ANSWER_BYTES_MAX, PATIENCE).await;
    let answer = answer.with_context(|| found.hint())?;
    let said: Value = serde_json::from_slice(answer.body())
        .with_context(|| format!("{} is no mcplane gateway", found.url))?;
    if !answer.status().is_success() {
        let why = said.get("error").and_then(Value::as_str).unwrap_or("it does not say why");
        bail!("the gateway answered {}: {why}", answer.status());
    }
    if args.json {
        println!("{said:#}");
    } else {
        print(&said);
    }
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

/// The plan first, then each server with what it lacks.
fn print(said: &Value) {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let list = |value: &Value, key: &str| -> Vec<Value> {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let name = |item: &Value| text(item, "name");
    let names = |items: &[Value]| items.iter().map(name).collect::<Vec<_>>().join(", ");
    match text(said, "outcome").as_str() {
        "covered" => println!("covered by {}", text(said, "best")),
        "split" => println!("covered by several servers together"),
        _ => println!("not covered; missing: {}", names(&list(said, "missing"))),
    }
    for share in list(said, "plan") {
        println!("  {}: {}", text(&share, "server"), names(&list(&share, "items")));
    }
    for rank in list(said, "ranked") {
        let unfit: Vec<_> = list(&rank, "unfit")
            .iter()
            .filter_map(Value::as_str)
            .map(|why| why.replace('_', " "))
            .collect();
        let unfit = if unfit.is_empty() {
            String::new()
        } else {
            format!(", not used: {}", unfit.join(", "))
        };
        let missing = names(&list(&rank, "missing"));
        let missing = if missing.is_empty() { String::new() } else { format!(", lacks {missing}") };
        let number = |key: &str| rank.get(key).and_then(Value::as_u64).unwrap_or_default();
        println!(
            "{}: {} of {}, {}{unfit}{missing}",
            text(&rank, "server"),
            number("has"),
            number("of"),
            text(&rank, "health"),
        );
    }
}

fn revision(text: &str) -> Result<Revision, String> {
    let known = || Revision::ALL.map(Revision::as_str).join(", ");
    Revision::parse(text).ok_or_else(|| format!("known revisions: {}", known()))
}
