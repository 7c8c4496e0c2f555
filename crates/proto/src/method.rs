//! Every method of every revision: its name, kind, direction and lifetime.

use std::fmt;

use crate::version::Revision;

/// Who may send a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Either way.
    Both,
}

/// Whether a method is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Answered by exactly one result or error.
    Request,
    /// Never answered.
    Notification,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $kind:ident, $direction:ident, $first:ident ..= $last:ident;)*) => {
        /// A method that some revision of the protocol defines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`")] $(#[$doc])* $variant,)*
        }

        impl Method {
            /// Every method, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The method of this name; `None` for one that no revision defines.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Request or notification.
            #[must_use]
            pub const fn kind(self) -> Kind {
                match self {
                    $(Self::$variant => Kind::$kind,)*
                }
            }

            /// Who sends it. In 2026-07-28 a server sends no request at all: what was
            /// server-to-client travels inside `inputRequests` (SEP-2322).
            #[must_use]
            pub const fn direction(self) -> Direction {
                match self {
                    $(Self::$variant => Direction::$direction,)*
                }
            }

            const fn lifetime(self) -> (Revision, Revision) {
                match self {
                    $(Self::$variant => (Revision::$first, Revision::$last),)*
                }
            }
        }
    };
}

methods! {
    Initialize = "initialize", Request, ToServer, V2024_11_05 ..= V2025_11_25;
    Initialized = "notifications/initialized", Notification, ToServer, V2024_11_05 ..= V2025_11_25;
    Discover = "server/discover", Request, ToServer, V2026_07_28 ..= V2026_07_28;
    Ping = "ping", Request, Both, V2024_11_05 ..= V2025_11_25;
    ToolsList = "tools/list", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    ToolsCall = "tools/call", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    ResourcesList = "resources/list", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    ResourceTemplatesList = "resources/templates/list", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    ResourcesRead = "resources/read", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    ResourcesSubscribe = "resources/subscribe", Request, ToServer, V2024_11_05 ..= V2025_11_25;
    ResourcesUnsubscribe = "resources/unsubscribe", Request, ToServer, V2024_11_05 ..= V2025_11_25;
    Listen = "subscriptions/listen", Request, ToServer, V2026_07_28 ..= V2026_07_28;
    PromptsList = "prompts/list", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    PromptsGet = "prompts/get", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    Complete = "completion/complete", Request, ToServer, V2024_11_05 ..= V2026_07_28;
    SetLevel = "logging/setLevel", Request, ToServer, V2024_11_05 ..= V2025_11_25;
    CreateMessage = "sampling/createMessage", Request, ToClient, V2024_11_05 ..= V2025_11_25;
    RootsList = "roots/list", Request, ToClient, V2024_11_05 ..= V2025_11_25;
    ElicitationCreate = "elicitation/create", Request, ToClient, V2025_06_18 ..= V2025_11_25;
    /// Also a method of the tasks extension of 2026-07-28.
    TasksGet = "tasks/get", Request, Both, V2025_11_25 ..= V2026_07_28;
    /// Also a method of the tasks extension of 2026-07-28.
    TasksCancel = "tasks/cancel", Request, Both, V2025_11_25 ..= V2026_07_28;
    TasksResult = "tasks/result", Request, Both, V2025_11_25 ..= V2025_11_25;
    TasksList = "tasks/list", Request, Both, V2025_11_25 ..= V2025_11_25;
    /// Tasks extension of 2026-07-28 only.
    TasksUpdate = "tasks/update", Request, ToServer, V2026_07_28 ..= V2026_07_28;
    /// In 2026-07-28: from the client on stdio, from the server only to end a listen.
    Cancelled = "notifications/cancelled", Notification, Both, V2024_11_05 ..= V2026_07_28;
    /// In 2026-07-28: from the server only.
    Progress = "notifications/progress", Notification, Both, V2024_11_05 ..= V2026_07_28;
    LogMessage = "notifications/message", Notification, ToClient, V2024_11_05 ..= V2026_07_28;
    ToolsListChanged = "notifications/tools/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28;
    PromptsListChanged = "notifications/prompts/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28;
    ResourcesListChanged = "notifications/resources/list_changed", Notification, ToClient, V2024_11_05 ..= V2026_07_28;
    ResourcesUpdated = "notifications/resources/updated", Notification, ToClient, V2024_11_05 ..= V2026_07_28;
    ListenAcknowledged = "notifications/subscriptions/acknowledged", Notification, ToClient, V2026_07_28 ..= V2026_07_28;
    RootsListChanged = "notifications/roots/list_changed", Notification, ToServer, V2024_11_05 ..= V2025_11_25;
    ElicitationComplete = "notifications/elicitation/complete", Notification, ToClient, V2025_11_25 ..= V2025_11_25;
    TasksStatus = "notifications/tasks/status", Notification, Both, V2025_11_25 ..= V2025_11_25;
    /// Tasks extension of 2026-07-28 only.
    TasksNotification = "notifications/tasks", Notification, ToClient, V2026_07_28 ..= V2026_07_28;
}

impl Method {
    /// Whether `revision` defines this method.
    #[must_use]
    pub fn exists_in(self, revision: Revision) -> bool {
        let (first, last) = self.lifetime();
        first <= revision && revision <= last
    }

    /// Whether a server of 2026-07-28 may answer with `input_required` (SEP-2322).
    #[must_use]
    pub const fn takes_input(self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead)
    }

    /// Whether the complete result of 2026-07-28 carries `ttlMs` and `cacheScope` (SEP-2549).
    #[must_use]
    pub const fn is_cacheable(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::PromptsList
                | Self::ResourcesList
                | Self::ResourceTemplatesList
                | Self::ResourcesRead
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &method in Method::ALL {
            assert_eq!(Method::parse(method.as_str()), Some(method));
            let notifies = method.as_str().starts_with("notifications/");
            assert_eq!(method.kind() == Kind::Notification, notifies, "{method}");
        }
        assert_eq!(Method::parse("tools/List"), None);
    }

    #[test]
    fn lifetimes_follow_the_table() {
        assert!(Method::Ping.exists_in(Revision::V2025_11_25));
        assert!(!Method::Ping.exists_in(Revision::V2026_07_28));
        assert!(!Method::ElicitationCreate.exists_in(Revision::V2025_03_26));
        assert!(Method::Discover.exists_in(Revision::V2026_07_28));
        assert!(!Method::Discover.exists_in(Revision::V2025_11_25));
    }
}
