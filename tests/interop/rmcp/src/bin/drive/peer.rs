//! The connected client, its answers, and what the server asked and announced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::*,
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
    },
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::Outcome;

pub const ROOTS: [&str; 2] = ["file:///projects/one", "file:///projects/two"];

/// What the client does when the server asks, and everything that the server asked and announced.
#[derive(Clone)]
pub struct Hands {
    version: ProtocolVersion,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
pub struct Shared {
    pub decline: bool,
    /// The answer to an elicitation; `None`: the schema's own kind of value for each property.
    pub content: Option<Value>,
    pub asked: Vec<Value>,
    pub seen: Vec<(&'static str, Value)>,
}

impl Hands {
    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, method: &'static str, params: impl Serialize) {
        let params = serde_json::to_value(params).unwrap_or_default();
        self.lock().seen.push((method, params));
    }
}

impl ClientHandler for Hands {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_roots()
            .enable_sampling()
            .build();
        ClientConfig::new(capabilities, Implementation::new("drive-rmcp", "1.0.0"))
            .with_protocol_version(self.version.clone())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asked = serde_json::to_value(request).unwrap_or_default();
        let mut shared = self.lock();
        let content = shared.content.clone().unwrap_or_else(|| fill(&asked["requestedSchema"]));
        shared.asked.push(asked);
        Ok(match shared.decline {
            true => ElicitResult::new(ElicitationAction::Decline),
            false => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        })
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.lock().asked.push(serde_json::to_value(params).unwrap_or_default());
        let message = SamplingMessage::assistant_text("forty-two");
        Ok(CreateMessageResult::new(message, "driver".into()).with_stop_reason("endTurn"))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(ROOTS.map(Root::new).into()))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note("progress", params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note("message", params);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note("updated", params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note("tools_changed", ());
    }
}

pub struct Peer {
    pub service: RunningService<RoleClient, Hands>,
    pub hands: Hands,
    pub modern: bool,
    /// Over Streamable HTTP, not stdio.
    pub web: bool,
}

impl Peer {
    pub async fn connect(era: &str, command: &[String]) -> Outcome<Self> {
        let [program, args @ ..] = command else {
            return Err("no command after --".into());
        };
        let version = match era {
            "plain" => ProtocolVersion::default(),
            _ => ProtocolVersion::LATEST_WITH_INITIALIZE,
        };
        let hands = Hands { version, shared: Arc::default() };
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let lifecycle = match era {
            "legacy" | "plain" => ClientLifecycleMode::Initialize,
            "modern" => ClientLifecycleMode::Discover { preferred_versions },
            "auto" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
            _ => return Err(format!("unknown era {era}").into()),
        };
        let web = program.starts_with("http");
        let service = if web {
            let http = StreamableHttpClientTransport::from_uri(program.as_str());
            hands.clone().serve_with_lifecycle(http, lifecycle).await?
        } else {
            let mut child = Command::new(program);
            child.args(args);
            hands.clone().serve_with_lifecycle(TokioChildProcess::new(child)?, lifecycle).await?
        };
        let info = service.peer_info().ok_or("the server did not say who it is")?;
        let modern = info.protocol_version == ProtocolVersion::V_2026_07_28;
        Ok(Self { service, hands, modern, web })
    }
}

/// The schema's own kind of value for each property.
pub fn fill(schema: &Value) -> Value {
    let value = |schema: &Value| {
        if let Some(choice) = schema["enum"].get(0) {
            return choice.clone();
        }
        if let Some(choice) = schema["oneOf"].get(0) {
            return choice["const"].clone();
        }
        match schema["type"].as_str() {
            Some("integer") => json!(7),
            Some("number") => json!(1.5),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            _ => json!("ada"),
        }
    };
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    Value::Object(
        properties
            .iter()
            .map(|(name, schema)| (name.clone(), value(schema)))
            .collect::<Map<_, _>>(),
    )
}
