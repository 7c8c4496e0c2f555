//! `subscriptions/listen` of 2026-07-28: one long request that carries change notices.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{nullable, raw};
use super::wire::{Wire, params, result};
use crate::id::Id;
use crate::meta;

/// `subscriptions/listen`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListenParams {
    /// What to be told.
    pub notifications: SubscriptionFilter,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ListenParams {
    /// Asks to be told this.
    #[must_use]
    pub const fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: None }
    }
}

impl Wire for ListenParams {}
params!(ListenParams, Listen => ListenResult);

/// What a subscriber wants to be told, or what a server agreed to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// Changes of the list of prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// Changes of the list of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// Changes of these resources.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// Changes of these tasks (the tasks extension).
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

impl SubscriptionFilter {
    /// What is both in this filter and in `offered`; resources and tasks count as offered.
    #[must_use]
    pub fn honoured(&self, offered: &Self) -> Self {
        let both = |a: Option<bool>, b| (a == Some(true) && b == Some(true)).then_some(true);
        Self {
            tools_list_changed: both(self.tools_list_changed, offered.tools_list_changed),
            prompts_list_changed: both(self.prompts_list_changed, offered.prompts_list_changed),
            resources_list_changed: both(
                self.resources_list_changed,
                offered.resources_list_changed,
            ),
            resource_subscriptions: self.resource_subscriptions.clone(),
            task_ids: self.task_ids.clone(),
        }
    }
}

/// `notifications/subscriptions/acknowledged`: the first message of a subscription.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListenAcknowledgedParams {
    /// The part of the wish that the server grants.
    pub notifications: SubscriptionFilter,
    /// `_meta`, with the subscription's id.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ListenAcknowledgedParams {
    /// Grants `notifications` on the subscription that the request `id` opened.
    #[must_use]
    pub fn new(id: &Id, notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: Some(subscription_meta(id)) }
    }
}

impl Wire for ListenAcknowledgedParams {}
params!(ListenAcknowledgedParams, ListenAcknowledged);

/// The last message of a subscription that ends in good order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListenResult {
    /// `_meta`, with the subscription's id.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ListenResult {
    /// Ends the subscription that the request `id` opened.
    #[must_use]
    pub fn new(id: &Id) -> Self {
        Self { meta: Some(subscription_meta(id)) }
    }
}

impl Wire for ListenResult {}
result!(ListenResult);

/// The `_meta` object of a message on the subscription that the request `id` opened.
#[must_use]
pub fn subscription_meta(id: &Id) -> Box<RawValue> {
    let mut json = format!("{{\"{}\":", meta::SUBSCRIPTION_ID).into_bytes();
    id.write_json(&mut json);
    json.push(b'}');
    raw(String::from_utf8(json).unwrap_or_default())
}
