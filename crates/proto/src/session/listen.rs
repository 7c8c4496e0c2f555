//! What a `subscriptions/listen` asked for (2026-07-28, SEP-2575).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::SUBSCRIPTIONS_MAX;
use crate::method::Method;

/// The notifications that one listen wants, or that a server honours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers build")]
pub struct ListenFilter {
    /// `notifications/tools/list_changed`
    #[serde(skip_serializing_if = "is_false")]
    pub tools_list_changed: bool,
    /// `notifications/prompts/list_changed`
    #[serde(skip_serializing_if = "is_false")]
    pub prompts_list_changed: bool,
    /// `notifications/resources/list_changed`
    #[serde(skip_serializing_if = "is_false")]
    pub resources_list_changed: bool,
    /// URIs whose `notifications/resources/updated` are wanted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_subscriptions: BTreeSet<String>,
}

impl ListenFilter {
    /// The part of this filter that a server with `offered` honours: a flag that it does not offer
    /// is left out; URIs count only if it offers resource subscriptions, and only
    /// [`SUBSCRIPTIONS_MAX`] of them.
    #[must_use]
    pub fn honoured(self, offered: Offered) -> Self {
        Self {
            tools_list_changed: self.tools_list_changed && offered.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed && offered.prompts_list_changed,
            resources_list_changed: self.resources_list_changed && offered.resources_list_changed,
            resource_subscriptions: if offered.resource_subscriptions {
                self.resource_subscriptions.into_iter().take(SUBSCRIPTIONS_MAX).collect()
            } else {
                BTreeSet::new()
            },
        }
    }

    /// Whether a notification belongs on this listen. `uri` is that of an updated resource.
    #[must_use]
    pub fn wants(&self, method: Method, uri: Option<&str>) -> bool {
        match method {
            Method::ToolsListChanged => self.tools_list_changed,
            Method::PromptsListChanged => self.prompts_list_changed,
            Method::ResourcesListChanged => self.resources_list_changed,
            Method::ResourcesUpdated => {
                uri.is_some_and(|uri| self.resource_subscriptions.contains(uri))
            }
            _ => false,
        }
    }
}

/// Which changes a server tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    clippy::struct_excessive_bools,
    reason = "one flag per capability"
)]
pub struct Offered {
    /// `tools.listChanged`
    pub tools_list_changed: bool,
    /// `prompts.listChanged`
    pub prompts_list_changed: bool,
    /// `resources.listChanged`
    pub resources_list_changed: bool,
    /// `resources.subscribe`
    pub resource_subscriptions: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
