//! What fields that take one of a few words may say.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An enum, each variant with its word in JSON, in tables and in sentences.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize,
            Deserialize,
        )]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$says])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Its word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// When calls begin.
    Loop {
        /// A call begins when another has ended.
        Closed = "closed",
        /// A call begins when it is meant to.
        Open = "open",
    }
}

words! {
    /// How results were compared.
    Checking {
        /// Each with the first.
        Equal = "equal",
        /// Each with the first, but for the number of the call.
        Stamped = "stamped",
        /// The tool gives different results by itself, so that only errors count.
        Varies = "varies",
        /// Each tool of a mix says how.
        Mix = "mix",
        /// Not at all.
        Off = "off",
    }
}

words! {
    /// How messages travelled.
    Transport {
        /// Stdin and stdout of a process.
        Stdio = "stdio",
        /// Pipes within this process.
        Memory = "memory",
        /// Streamable HTTP, either era.
        Http = "http",
        /// HTTP+SSE of 2024-11-05.
        Sse = "sse",
        /// WebSocket, one message per text frame.
        WebSocket = "ws",
        /// TCP, one message per line.
        Tcp = "tcp",
        /// A Unix socket, one message per line.
        Unix = "unix",
    }
}

words! {
    /// The era of a revision.
    Era {
        /// Up to 2025-11-25: a handshake opens a session.
        Legacy = "legacy",
        /// From 2026-07-28 on: no session.
        Modern = "modern",
    }
}

words! {
    /// What the loads of a ladder are.
    LoadUnit {
        /// Calls in flight, of all sessions.
        CallsInFlight = "calls_in_flight",
        /// Calls due per second.
        CallsPerS = "calls_per_s",
    }
}

impl From<mcplane_proto::Era> for Era {
    fn from(era: mcplane_proto::Era) -> Self {
        match era {
            mcplane_proto::Era::Legacy => Self::Legacy,
            mcplane_proto::Era::Modern => Self::Modern,
        }
    }
}
