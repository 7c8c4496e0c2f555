//! The requests that are about the conversation itself: the session answers them.

use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Legacy, ServerEvent, ServerSession, known_level, listen_meta};
use crate::error::{Code, ErrorObject};
use crate::frame::Output;
use crate::id::Id;
use crate::limits::{LISTENS_MAX, SUBSCRIPTIONS_MAX};
use crate::message::{Message, Part, write};
use crate::meta::SERVER_INFO;
use crate::method::Method;
use crate::session::listen::ListenFilter;
use crate::types::{InitializeParams, SetLevelParams, Wire, parse_params};
use crate::version::{Era, Revision};

impl<Q, C> ServerSession<Q, C> {
    /// The requests that are about the conversation itself are answered here.
    pub(super) fn request(
        &mut self,
        method: Method,
        revision: Revision,
        message: &Message,
        out: &mut Output,
    ) -> ServerEvent<Q, C> {
        let answer = match method {
            Method::Initialize => self.initialize(message),
            Method::Ping => Ok(b"{}".to_vec()),
            Method::Discover => Ok(self.discover()),
            Method::SetLevel => self.set_level(message),
            Method::ResourcesSubscribe => self.subscribe(message),
            Method::ResourcesUnsubscribe => self.unsubscribe(message),
            Method::Listen => match self.listen(message, out) {
                Ok(id) => return ServerEvent::Listening(id),
                Err(error) => Err(error),
            },
            _ => return ServerEvent::Request(method, revision),
        };
        let id = message.part(Part::Id);
        match answer {
            Ok(result) => out.result(id.unwrap_or(b"null"), &result),
            Err(error) => out.error(id, &error),
        }
        ServerEvent::Handled
    }

    fn initialize(&mut self, message: &Message) -> Result<Vec<u8>, ErrorObject> {
        let params: InitializeParams = parse_params(message.part(Part::Params))?;
        let offered = Revision::parse(&params.protocol_version)
            .filter(|r| r.era() == Era::Legacy && self.config.revisions.contains(r));
        let revision = offered.or_else(|| self.newest_legacy()).unwrap_or(Revision::LATEST_LEGACY);
        let share = |json: &RawValue| Bytes::copy_from_slice(json.get().as_bytes());
        self.legacy = Some(Legacy {
            revision,
            capabilities: share(params.capabilities.raw()),
            info: message.part(Part::Params).and_then(client_info),
            level: None,
            subscriptions: HashSet::new(),
        });
        let mut result = format!(r#"{{"protocolVersion":"{revision}""#).into_bytes();
        self.write_identity(revision, &mut result);
        result.extend_from_slice(b",\"serverInfo\":");
        write::json(&mut result, &*self.config.info.at(revision));
        result.push(b'}');
        Ok(result)
    }

    fn discover(&self) -> Vec<u8> {
        let names: Vec<_> = self.served().map(Revision::as_str).collect();
        let mut result = b"{\"resultType\":\"complete\",\"supportedVersions\":".to_vec();
        write::json(&mut result, &names);
        self.write_identity(Revision::LATEST, &mut result);
        self.config.cache.write(&mut result);
        result.extend_from_slice(format!(r#","_meta":{{"{SERVER_INFO}":"#).as_bytes());
        write::json(&mut result, &self.config.info);
        result.extend_from_slice(b"}}");
        result
    }

    /// The members that both handshakes share.
    fn write_identity(&self, revision: Revision, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"capabilities\":");
        write::json(out, &*self.config.capabilities.at(revision));
        if let Some(instructions) = &self.config.instructions {
            out.extend_from_slice(b",\"instructions\":");
            write::string(out, instructions);
        }
    }

    fn set_level(&mut self, message: &Message) -> Result<Vec<u8>, ErrorObject> {
        let params: SetLevelParams = parse_params(message.part(Part::Params))?;
        let level = known_level(params.level.as_str());
        let level = level.ok_or_else(|| ErrorObject::invalid_params("unknown log level"))?;
        if let Some(legacy) = &mut self.legacy {
            legacy.level = Some(level);
        }
        Ok(b"{}".to_vec())
    }

    fn subscribe(&mut self, message: &Message) -> Result<Vec<u8>, ErrorObject> {
        let uri = required_uri(message)?;
        if let Some(legacy) = &mut self.legacy {
            if legacy.subscriptions.len() >= SUBSCRIPTIONS_MAX {
                let why = format!("{SUBSCRIPTIONS_MAX} subscriptions are the limit of a session");
                return Err(ErrorObject::new(Code::OVERLOADED, why));
            }
            legacy.subscriptions.insert(uri);
        }
        Ok(b"{}".to_vec())
    }

    fn unsubscribe(&mut self, message: &Message) -> Result<Vec<u8>, ErrorObject> {
        let uri = required_uri(message)?;
        if let Some(legacy) = &mut self.legacy {
            legacy.subscriptions.remove(&uri);
        }
        Ok(b"{}".to_vec())
    }

    /// Begins a listen. The acknowledgement is its first message and names what is honoured.
    fn listen(&mut self, message: &Message, out: &mut Output) -> Result<Id, ErrorObject> {
        #[derive(Deserialize)]
        struct Params {
            notifications: ListenFilter,
        }
        let bad = |error: serde_json::Error| {
            ErrorObject::invalid_params(format!("bad `notifications` filter: {error}"))
        };
        let params: Params =
            serde_json::from_slice(message.part(Part::Params).unwrap_or(b"{}")).map_err(bad)?;
        if self.listens.len() >= LISTENS_MAX {
            let why = format!("{LISTENS_MAX} listens are the limit of a connection");
            return Err(ErrorObject::new(Code::OVERLOADED, why));
        }
        let id = message.id().unwrap_or(Id::Integer(0));
        let honoured = params.notifications.honoured(self.config.offered);
        let mut params = listen_meta(&id);
        params.extend_from_slice(b",\"notifications\":");
        write::json(&mut params, &honoured);
        params.push(b'}');
        out.notification(Method::ListenAcknowledged, Some(&params));
        self.listens.insert(id.clone(), honoured);
        Ok(id)
    }
}

fn required_uri(message: &Message) -> Result<String, ErrorObject> {
    let uri = message.text(Part::Uri);
    let missing = || ErrorObject::invalid_params("`uri` is missing or not a string");
    uri.map(std::borrow::Cow::into_owned).ok_or_else(missing)
}

pub(super) fn requested_version(message: &Message) -> Option<String> {
    parse_params(message.part(Part::Params)).ok().map(|p: InitializeParams| p.protocol_version)
}

/// `clientInfo` of `initialize`, as it came.
fn client_info(params: &[u8]) -> Option<Bytes> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        client_info: &'a RawValue,
    }
    let params: Params<'_> = serde_json::from_slice(params).ok()?;
    Some(Bytes::copy_from_slice(params.client_info.get().as_bytes()))
}
