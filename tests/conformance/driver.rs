//! The client under test: what each client scenario of the suite asks of it, on the library's
//! client.

use std::{collections::HashMap, env, error::Error, future::Future, sync::Arc, time::Duration};

use mcplane::{
    Client,
    auth::{FollowRedirect, OAuth},
    client::EraChoice,
    transport::http::client::{Http, Pool},
};
use mcplane_proto::{
    error::ErrorObject,
    types::{
        Content, CreateMessageParams, CreateMessageResult, ElicitForm, ElicitResult, Root, Tool,
    },
    version::Revision,
};
use serde::Deserialize;
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Where the suite says that the client's metadata are. Nobody looks there.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// Where the suite's authorization servers send their answers. Nobody listens there.
const REDIRECT_URI: &str = "http://localhost:3000/callback";
/// For each answer. The suite gives the whole client 30 s.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Plays the client of `scenario`. The last two words of the command line are the revision and the
/// server's address.
pub(crate) fn main(scenario: &str) {
    let words: Vec<String> = env::args().collect();
    let [.., revision, url] = words.as_slice() else { panic!("no revision and URL: {words:?}") };
    play(scenario, revision, url).unwrap();
}

pub(crate) fn play(scenario: &str, revision: &str, url: &str) -> Result {
    let choice = match Revision::parse(revision).ok_or("no such revision")? {
        // Asks for just this one, and takes the older one that a mock of 0.1.16 answers with.
        Revision::LATEST_LEGACY => EraChoice::Legacy,
        other => EraChoice::Only(other),
    };
    let mut builder = Client::builder("mcplane-conformance", env!("CARGO_PKG_VERSION"))
        .revision(choice)
        .timeout(ANSWER_TIME);
    let mut server = Http::new(url)?;
    if scenario.starts_with("auth/") {
        server = server.credentials(Arc::new(credentials(url)?));
    } else {
        let roots = vec![Root::new("file:///tmp")];
        builder = builder.roots(roots).on_elicit_form(fill_in).on_sample(say_something);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(act(scenario, builder.connect(server)))
}

async fn act(scenario: &str, connecting: impl Future<Output = mcplane::Result<Client>>) -> Result {
    match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            connecting.await?.list_tools().await?;
        }
        "tools_call" => {
            call(&connecting.await?, &[("add_numbers", json!({"a": 5, "b": 3}))]).await?;
        }
        "elicitation-sep1034-client-defaults" => {
            call(&connecting.await?, &[("test_client_elicitation_defaults", json!({}))]).await?;
        }
        "sse-retry" => call(&connecting.await?, &[("test_reconnection", json!({}))]).await?,
        "sep-2322-client-request-state" => {
            let names = ["echo_state", "no_state", "unrelated", "no_result_type"];
            let names = names.map(|name| format!("test_mrtr_{name}"));
            let calls: Vec<_> = names.iter().map(|name| (name.as_str(), json!({}))).collect();
            call(&connecting.await?, &calls).await?;
        }
        "http-standard-headers" => everything(&connecting.await?).await?,
        "http-custom-headers" => {
            let calls = context()?.tool_calls;
            let calls: Vec<_> =
                calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
            call(&connecting.await?, &calls).await?;
        }
        // All that the client shows: it must not show those that it must not call.
        "http-invalid-tool-headers" => {
            let client = connecting.await?;
            for tool in client.list_tools().await? {
                client.call_tool(&tool.name, &json!({"region": "us-west1"})).await?;
            }
        }
        "json-schema-2020-12-preservation" => send_schema_back(&connecting.await?).await?,
        _ if is_of_auth(scenario) => {
            call(&connecting.await?, &[("test-tool", json!({}))]).await?;
        }
        _ => return Err(format!("scenario {scenario:?} is not known here").into()),
    }
    Ok(())
}

/// Extensions of authorization are not spoken here.
fn is_of_auth(scenario: &str) -> bool {
    let extensions = ["client-credentials", "enterprise", "cross-app", "dpop", "wif"];
    scenario
        .strip_prefix("auth/")
        .is_some_and(|rest| !extensions.iter().any(|start| rest.starts_with(start)))
}

/// Lists the tools, as clients do, and calls some.
async fn call(client: &Client, calls: &[(&str, Value)]) -> Result {
    client.list_tools().await?;
    for (name, arguments) in calls {
        let result = client.call_tool(name, arguments).await?;
        if result.is_error() {
            return Err(format!("{name} failed: {:?}", result.content).into());
        }
    }
    Ok(())
}

async fn everything(client: &Client) -> Result {
    for tool in client.list_tools().await? {
        client.call_tool(&tool.name, &json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        client.get_prompt(&prompt.name, HashMap::<String, String>::new()).await?;
    }
    Ok(())
}

async fn send_schema_back(client: &Client) -> Result {
    let tools = client.list_tools().await?;
    let rich = |tool: &&Tool| tool.name == "json_schema_2020_12_tool";
    let rich = tools.iter().find(rich).ok_or("no tool with a rich schema")?;
    client.call_tool("json_schema_echo", &json!({"schema": rich.input_schema})).await?;
    Ok(())
}

/// What the suite tells a client beside its server's address.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    #[serde(rename = "toolCalls")]
    tool_calls: Vec<ToolCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
    issuer: Option<String>,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Value,
}

fn context() -> Result<Told> {
    match env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => Ok(serde_json::from_str(&context)?),
        Err(_) => Ok(Told::default()),
    }
}

fn credentials(url: &str) -> Result<OAuth> {
    let pool = Pool::new();
    let mut oauth = OAuth::new(url.parse()?, pool.clone(), FollowRedirect::new(pool))?
        .redirect_uri(REDIRECT_URI.parse()?)?
        .client_metadata_url(METADATA_URL.parse()?)?;
    let told = context()?;
    if let Some(id) = told.client_id {
        oauth = oauth.client(id, told.client_secret);
    }
    if let Some(issuer) = told.issuer {
        oauth = oauth.client_issuer(issuer);
    }
    Ok(oauth)
}

/// A user who leaves every field as it is, and says yes to what has no default.
async fn fill_in(form: ElicitForm) -> ElicitResult {
    let schema: Value = serde_json::from_str(form.requested_schema.get()).unwrap();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    fields.into_iter().fold(ElicitResult::accept(), |result, (name, field)| {
        result.with(name, field.get("default").cloned().unwrap_or(Value::Bool(true)))
    })
}

async fn say_something(
    _: CreateMessageParams,
) -> std::result::Result<CreateMessageResult, ErrorObject> {
    Ok(CreateMessageResult::new("none", Content::text("something")))
}
