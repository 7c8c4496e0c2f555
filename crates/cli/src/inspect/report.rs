//! Everything a server says of itself. Serialised, it is the document of `--json`: its fields stay.

use mcplane::Result;
use mcplane::client::{Client, Peer};
use mcplane::proto::error::Code;
use mcplane::proto::method::Method;
use mcplane::types::{Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};
use serde::Serialize;

/// Who answered.
#[derive(Debug, Serialize)]
pub(super) struct Identity<'a> {
    pub(super) server: Server<'a>,
    /// Such as `2026-07-28`.
    pub(super) revision: &'static str,
    /// `legacy` or `modern`.
    pub(super) era: &'static str,
}

/// What it calls itself; `null` for what it does not say.
#[derive(Debug, Serialize)]
pub(super) struct Server<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) version: Option<&'a str>,
    pub(super) title: Option<&'a str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of(peer: &'a Peer) -> Self {
        Self {
            server: Server { name: peer.name(), version: peer.version(), title: peer.title() },
            revision: peer.revision.as_str(),
            era: peer.era().as_str(),
        }
    }
}

/// The whole of it. Lists that the server does not offer are empty.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    #[serde(flatten)]
    pub(super) identity: Identity<'a>,
    /// As the server sent them; `null` if it did not.
    pub(super) capabilities: Option<&'a ServerCapabilities>,
    pub(super) instructions: Option<&'a str>,
    pub(super) tools: Vec<Tool>,
    pub(super) resources: Vec<Resource>,
    pub(super) resource_templates: Vec<ResourceTemplate>,
    pub(super) prompts: Vec<Prompt>,
    /// Requests that failed.
    pub(super) problems: Vec<Problem>,
    /// Lines on the server's stdout that are not messages.
    pub(super) stray_lines: u64,
    /// The first of them.
    pub(super) first_stray_line: Option<String>,
}

/// A request that failed.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) request: &'static str,
    pub(super) error: String,
    /// Whether the server answered with this error; else there was no answer that makes sense.
    pub(super) answered: bool,
    #[serde(skip)]
    pub(super) timed_out: bool,
}

impl<'a> Report<'a> {
    /// Asks for every list that the server says it has.
    pub(super) async fn gather(client: &'a Client) -> Self {
        let peer = client.peer();
        let offers = |has: fn(&ServerCapabilities) -> bool| {
            // One that does not say what it offers is asked for everything.
            peer.capabilities.as_ref().is_none_or(has)
        };
        let resources = offers(ServerCapabilities::resources);
        let mut problems = Vec::new();
        let mut report = Self {
            identity: Identity::of(peer),
            capabilities: peer.capabilities.as_ref(),
            instructions: peer.instructions.as_deref(),
            tools: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
            prompts: Vec::new(),
            problems: Vec::new(),
            stray_lines: 0,
            first_stray_line: None,
        };
        if offers(ServerCapabilities::tools) {
            let tools = client.list_tools().await;
            report.tools = listed(Method::ToolsList, tools, &mut problems);
        }
        if peer.capabilities.is_none() && problems.iter().any(|problem| problem.timed_out) {
            // It has never said a word: each further question would take as long.
            return Self { problems, ..report };
        }
        if resources {
            let resources = client.list_resources().await;
            report.resources = listed(Method::ResourcesList, resources, &mut problems);
            let templates = client.list_resource_templates().await;
            report.resource_templates =
                listed(Method::ResourceTemplatesList, templates, &mut problems);
        }
        if offers(ServerCapabilities::prompts) {
            let prompts = client.list_prompts().await;
            report.prompts = listed(Method::PromptsList, prompts, &mut problems);
        }
        let strays = client.strays();
        Self { problems, stray_lines: strays.count, first_stray_line: strays.first, ..report }
    }
}

fn listed<T>(method: Method, list: Result<Vec<T>>, problems: &mut Vec<Problem>) -> Vec<T> {
    let unknown =
        |error: &mcplane::Error| error.rpc().is_some_and(|rpc| rpc.code == Code::METHOD_NOT_FOUND);
    match list {
        Ok(items) => items,
        // Many servers have resources and know nothing of templates.
        Err(error) if unknown(&error) => Vec::new(),
        Err(error) => {
            problems.push(Problem {
                request: method.as_str(),
                error: error.to_string(),
                answered: error.is_rpc(),
                timed_out: error.is_timeout(),
            });
            Vec::new()
        }
    }
}
