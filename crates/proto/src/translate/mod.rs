//! What one side said, as the other side's revision says it: the era bridge.
//!
//! Everything that crosses a gateway is hop by hop. These functions rewrite one message for the
//! next hop and know nothing of connections. Within one era a message is spliced: the few bytes
//! that belong to the hop are replaced, every other byte stays, and nothing is allocated but the
//! growth of the output. Between eras only the members that one side lacks are added, taken away or
//! said differently; members that nobody here knows stay as they are.
//!
//! # Layout, in reading order
//!
//! * [`request`] — a client's request for an upstream ([`Onward`]).
//! * [`response`] — an upstream's answer for a client ([`Back`]); [`entry`] one entry of a list.
//! * [`hop_error`] — the errors that are for the gateway and not for the client ([`HopError`]).
//! * [`question_to_modern`], [`question_to_legacy`], [`question`], [`answer_to_modern`],
//!   [`answer_to_legacy`], [`can_answer`], [`input_required`] — what servers ask of clients.
//! * [`progress`], [`log`], [`change`] — notifications.
//!
//! All bytes given to these functions are JSON text: parts of a scanned [`Message`](crate::Message)
//! or text that this program wrote. Anything else does no harm, but what comes out is not JSON.

mod answer;
mod error;
mod form;
mod lower;
mod note;
mod question;
mod request;
mod response;
#[cfg(test)]
mod tests;
mod text;

pub use answer::{answer_to_legacy, answer_to_modern, can_answer, input_required};
pub use error::{HopError, hop_error, url_questions};
pub use lower::entry;
pub use note::{change, log, progress};
pub use question::{question, question_to_legacy, question_to_modern};
pub use request::{Onward, request};
pub use response::{Back, response};
