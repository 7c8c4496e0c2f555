//! Log messages from a server. Deprecated in 2026-07-28 (SEP-2577).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{open_enum, setters};
use super::result::EmptyResult;
use super::wire::{Wire, params};

open_enum! {
    /// How severe a log message is (RFC 5424).
    LogLevel {
        /// Details for debugging.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// Normal, but worth a look.
        Notice = "notice",
        /// Might become an error.
        Warning = "warning",
        /// Something failed.
        Error = "error",
        /// A part failed.
        Critical = "critical",
        /// Act at once.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

impl LogLevel {
    /// 0 (debug) to 7 (emergency); `None` for a level that no revision defines.
    #[must_use]
    pub const fn severity(&self) -> Option<u8> {
        Some(match self {
            Self::Debug => 0,
            Self::Info => 1,
            Self::Notice => 2,
            Self::Warning => 3,
            Self::Error => 4,
            Self::Critical => 5,
            Self::Alert => 6,
            Self::Emergency => 7,
            Self::Other(_) => return None,
        })
    }

    /// Whether a message of this level passes the threshold `least`. Unknown levels pass only an
    /// equal threshold.
    #[must_use]
    pub fn passes(&self, least: &Self) -> bool {
        match (self.severity(), least.severity()) {
            (Some(severity), Some(least)) => severity >= least,
            _ => self == least,
        }
    }
}

/// `logging/setLevel`, up to 2025-11-25. Later each request names its level in `_meta`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetLevelParams {
    /// The least severe level to send.
    pub level: LogLevel,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl SetLevelParams {
    /// Sends this level and those above.
    #[must_use]
    pub const fn new(level: LogLevel) -> Self {
        Self { level, meta: None }
    }
}

impl Wire for SetLevelParams {}
params!(SetLevelParams, SetLevel => EmptyResult);

/// `notifications/message`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogMessageParams {
    /// How severe.
    pub level: LogLevel,
    /// Which part of the server speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The message: any JSON.
    pub data: Box<RawValue>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl LogMessageParams {
    /// A message.
    ///
    /// # Errors
    /// When `data` cannot be JSON.
    pub fn new<T: Serialize + ?Sized>(
        level: LogLevel,
        data: &T,
    ) -> Result<Self, serde_json::Error> {
        let data = serde_json::value::to_raw_value(data)?;
        Ok(Self { level, logger: None, data, meta: None })
    }

    setters!(logger: String);
}

impl Wire for LogMessageParams {}
params!(LogMessageParams, LogMessage);
