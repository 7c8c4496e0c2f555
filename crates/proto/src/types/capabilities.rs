//! What a client and a server can do. Open sets: the object is kept as it came, with typed
//! questions beside it.

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{append, is_object, member, members, raw};
use super::wire::Wire;
use crate::version::{Era, Revision};

/// What a client can do. An empty object by default.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ClientCapabilities(Box<RawValue>);

/// What a server can do. An empty object by default.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ServerCapabilities(Box<RawValue>);

macro_rules! capabilities {
    ($name:ident) => {
        impl $name {
            /// No capability.
            #[must_use]
            pub fn new() -> Self {
                Self(raw("{}".into()))
            }

            /// The object as it came.
            #[must_use]
            pub fn raw(&self) -> &RawValue {
                &self.0
            }

            /// The settings of an extension; `None` when it is not declared.
            #[must_use]
            pub fn extension(&self, name: &str) -> Option<&RawValue> {
                member(self.at_path(&["extensions"])?.get(), name)
            }

            /// The same with an extension and its settings, an object.
            #[must_use]
            pub fn with_extension(self, name: &str, settings: &RawValue) -> Self {
                self.with(&["extensions", name], settings.get())
            }

            /// The settings of an experimental capability; `None` when it is not declared.
            #[must_use]
            pub fn experimental(&self, name: &str) -> Option<&RawValue> {
                member(self.at_path(&["experimental"])?.get(), name)
            }

            /// The value at a path of keys; `null` counts as absent.
            fn at_path(&self, path: &[&str]) -> Option<&RawValue> {
                let mut value = &*self.0;
                for key in path {
                    value = member(value.get(), key)?;
                }
                (value.get() != "null").then_some(value)
            }

            fn is_true(&self, path: &[&str]) -> bool {
                self.at_path(path).is_some_and(|value| value.get() == "true")
            }

            fn with(self, path: &[&str], value: &str) -> Self {
                let mut out = Vec::new();
                insert(self.0.get(), path, value, &mut out);
                String::from_utf8(out).map_or(self, |json| Self(raw(json)))
            }

            fn without(&self, path: &[&str]) -> Cow<'_, Self> {
                if self.at_path(path).is_none() {
                    return Cow::Borrowed(self);
                }
                let mut out = Vec::new();
                remove(self.0.get(), path, &mut out);
                String::from_utf8(out)
                    .map_or(Cow::Borrowed(self), |json| Cow::Owned(Self(raw(json))))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = Box::<RawValue>::deserialize(deserializer)?;
                if is_object(json.get()) {
                    Ok(Self(json))
                } else {
                    Err(D::Error::custom("capabilities must be an object"))
                }
            }
        }
    };
}

capabilities!(ClientCapabilities);
capabilities!(ServerCapabilities);

impl ClientCapabilities {
    /// Whether the user can be asked through a form. `elicitation:{}` means just that.
    #[must_use]
    pub fn elicitation_form(&self) -> bool {
        self.at_path(&["elicitation", "form"]).is_some()
            || self.at_path(&["elicitation"]).is_some_and(|_| !self.elicitation_url())
    }

    /// Whether the user can be sent to a URL.
    #[must_use]
    pub fn elicitation_url(&self) -> bool {
        self.at_path(&["elicitation", "url"]).is_some()
    }

    /// Whether the model can be asked.
    #[must_use]
    pub fn sampling(&self) -> bool {
        self.at_path(&["sampling"]).is_some()
    }

    /// Whether the model can be asked with tools.
    #[must_use]
    pub fn sampling_tools(&self) -> bool {
        self.at_path(&["sampling", "tools"]).is_some()
    }

    /// Whether the model can be asked with the context of servers.
    #[must_use]
    pub fn sampling_context(&self) -> bool {
        self.at_path(&["sampling", "context"]).is_some()
    }

    /// Whether there are roots.
    #[must_use]
    pub fn roots(&self) -> bool {
        self.at_path(&["roots"]).is_some()
    }

    /// Whether changes of the roots are told (up to 2025-11-25).
    #[must_use]
    pub fn roots_list_changed(&self) -> bool {
        self.is_true(&["roots", "listChanged"])
    }

    /// The tasks of 2025-11-25: their settings.
    #[must_use]
    pub fn tasks(&self) -> Option<&RawValue> {
        self.at_path(&["tasks"])
    }

    /// The same that asks the user through forms.
    #[must_use]
    pub fn with_elicitation_form(self) -> Self {
        self.with(&["elicitation", "form"], "{}")
    }

    /// The same that sends the user to URLs.
    #[must_use]
    pub fn with_elicitation_url(self) -> Self {
        // An empty `elicitation` means forms; beside `url` that must be said.
        let same = if self.elicitation_form() { self.with_elicitation_form() } else { self };
        same.with(&["elicitation", "url"], "{}")
    }

    /// The same that asks the model.
    #[must_use]
    pub fn with_sampling(self) -> Self {
        if self.sampling() { self } else { self.with(&["sampling"], "{}") }
    }

    /// The same that asks the model with tools.
    #[must_use]
    pub fn with_sampling_tools(self) -> Self {
        self.with(&["sampling", "tools"], "{}")
    }

    /// The same with roots; `list_changed` is left out of 2026-07-28.
    #[must_use]
    pub fn with_roots(self, list_changed: bool) -> Self {
        self.with(&["roots"], if list_changed { r#"{"listChanged":true}"# } else { "{}" })
    }
}

impl Wire for ClientCapabilities {
    /// `tasks` is in 2025-11-25 only; `roots.listChanged` is not in 2026-07-28.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision == Revision::V2025_11_25 {
            return Cow::Borrowed(self);
        }
        let taskless = self.without(&["tasks"]);
        if revision.era() == Era::Modern && taskless.at_path(&["roots", "listChanged"]).is_some() {
            return Cow::Owned(taskless.without(&["roots", "listChanged"]).into_owned());
        }
        taskless
    }
}

impl ServerCapabilities {
    /// Whether there are tools.
    #[must_use]
    pub fn tools(&self) -> bool {
        self.at_path(&["tools"]).is_some()
    }

    /// Whether changes of the list of tools are told.
    #[must_use]
    pub fn tools_list_changed(&self) -> bool {
        self.is_true(&["tools", "listChanged"])
    }

    /// Whether there are resources.
    #[must_use]
    pub fn resources(&self) -> bool {
        self.at_path(&["resources"]).is_some()
    }

    /// Whether changes of the list of resources are told.
    #[must_use]
    pub fn resources_list_changed(&self) -> bool {
        self.is_true(&["resources", "listChanged"])
    }

    /// Whether subscribers are told about changes of a single resource.
    #[must_use]
    pub fn resources_subscribe(&self) -> bool {
        self.is_true(&["resources", "subscribe"])
    }

    /// Whether there are prompts.
    #[must_use]
    pub fn prompts(&self) -> bool {
        self.at_path(&["prompts"]).is_some()
    }

    /// Whether changes of the list of prompts are told.
    #[must_use]
    pub fn prompts_list_changed(&self) -> bool {
        self.is_true(&["prompts", "listChanged"])
    }

    /// Whether arguments are completed. 2024-11-05 has no word for it.
    #[must_use]
    pub fn completions(&self) -> bool {
        self.at_path(&["completions"]).is_some()
    }

    /// Whether log messages are sent.
    #[must_use]
    pub fn logging(&self) -> bool {
        self.at_path(&["logging"]).is_some()
    }

    /// The tasks of 2025-11-25: their settings.
    #[must_use]
    pub fn tasks(&self) -> Option<&RawValue> {
        self.at_path(&["tasks"])
    }

    /// The same with tools.
    #[must_use]
    pub fn with_tools(self, list_changed: bool) -> Self {
        self.with(&["tools"], list_settings(list_changed))
    }

    /// The same with prompts.
    #[must_use]
    pub fn with_prompts(self, list_changed: bool) -> Self {
        self.with(&["prompts"], list_settings(list_changed))
    }

    /// The same with resources.
    #[must_use]
    pub fn with_resources(self, list_changed: bool, subscribe: bool) -> Self {
        let same = self.with(&["resources"], list_settings(list_changed));
        if subscribe { same.with(&["resources", "subscribe"], "true") } else { same }
    }

    /// The same that completes arguments.
    #[must_use]
    pub fn with_completions(self) -> Self {
        self.with(&["completions"], "{}")
    }

    /// The same that sends log messages.
    #[must_use]
    pub fn with_logging(self) -> Self {
        self.with(&["logging"], "{}")
    }
}

impl Wire for ServerCapabilities {
    /// `tasks` is in 2025-11-25 only.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision == Revision::V2025_11_25 {
            return Cow::Borrowed(self);
        }
        let taskless = self.without(&["tasks"]);
        if revision < Revision::V2025_03_26 && taskless.completions() {
            return Cow::Owned(taskless.without(&["completions"]).into_owned());
        }
        taskless
    }
}

const fn list_settings(list_changed: bool) -> &'static str {
    if list_changed { r#"{"listChanged":true}"# } else { "{}" }
}

/// Appends `object` with `value` at `path`, replacing what was there.
fn insert(object: &str, path: &[&str], value: &str, out: &mut Vec<u8>) {
    let Some((key, rest)) = path.split_first() else {
        out.extend_from_slice(value.as_bytes());
        return;
    };
    let old = member(object, key).map_or("{}", RawValue::get);
    remove(object, &[*key], out);
    out.pop();
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    append(out, key);
    out.push(b':');
    insert(old, rest, value, out);
    out.push(b'}');
}

/// Appends `object` without what is at `path`. What is not an object becomes an empty one.
fn remove(object: &str, path: &[&str], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(b'{');
    let visited = members(object, |key, value| {
        let rest = path.split_first().filter(|(first, _)| **first == key).map(|(_, rest)| rest);
        if rest.is_some_and(<[_]>::is_empty) {
            return;
        }
        if out.len() > start + 1 {
            out.push(b',');
        }
        append(out, &*key);
        out.push(b':');
        match rest {
            Some(rest) => remove(value.get(), rest, out),
            None => out.extend_from_slice(value.get().as_bytes()),
        }
    });
    if visited.is_err() {
        out.truncate(start + 1);
    }
    out.push(b'}');
}
