//! The sealed state that a server behind a relay expects back from the same client, and from no
//! other.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::Mac;
use mcplane_proto::limits::REQUEST_STATE_BYTES_MAX;
use sha2::{Digest, Sha256};

use super::relay::Relayed;
use super::rounds::{SEAL_LIFETIME, SealKey, digest, now_s};
use crate::error::Result;

/// How every sealed state begins.
const PREFIX: &str = "mcplane.sealed.";

/// Seals `requestState` (2026-07-28, SEP-2322) of servers: an HMAC-SHA-256 binds it to the server, to
/// the principal, to the request (method, target and arguments), and to one hour.
#[derive(Clone)]
pub struct Seal(SealKey);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// Seals with a random key, which are void in every other process.
    ///
    /// # Errors
    /// The operating system provides no randomness.
    pub fn random() -> Result<Self> {
        SealKey::random().map(Self)
    }

    /// Seals with a given secret, valid wherever the secret is the same.
    #[must_use]
    pub fn of_secret(secret: &[u8]) -> Self {
        Self(SealKey::new(Sha256::digest(secret).into()))
    }

    /// Seals the state that `server` gave for a request. `json` is the JSON text of a string; the
    /// result is a string, or `None` if it would be longer than [`REQUEST_STATE_BYTES_MAX`].
    #[must_use]
    pub fn close(&self, json: &str, server: &str, request: &Relayed) -> Option<String> {
        let inner = json.strip_prefix('"')?.strip_suffix('"')?;
        // What a client may write in another way is kept as it was.
        let state = match inner.contains('\\') {
            true => format!("b{}", BASE64.encode(json)),
            false => format!("p{inner}"),
        };
        let expires_s = now_s() + SEAL_LIFETIME.as_secs();
        let mac = self.mac(expires_s, &state, server, request).finalize().into_bytes();
        let sealed = format!("{PREFIX}{expires_s}.{}.{state}", BASE64.encode(mac));
        (sealed.len() <= REQUEST_STATE_BYTES_MAX).then_some(sealed)
    }

    /// The JSON text that was sealed, byte for byte, if the seal is genuine, belongs to this
    /// server, principal and request, and has not expired.
    #[must_use]
    pub fn open(&self, sealed: &str, server: &str, request: &Relayed) -> Option<String> {
        let (expires_s, rest) = sealed.strip_prefix(PREFIX)?.split_once('.')?;
        let (mac, state) = rest.split_once('.')?;
        let expires_s = expires_s.parse().ok()?;
        let mac = BASE64.decode(mac).ok()?;
        self.mac(expires_s, state, server, request).verify_slice(&mac).ok()?;
        if expires_s <= now_s() {
            return None;
        }
        match state.strip_prefix('b') {
            Some(text) => String::from_utf8(BASE64.decode(text).ok()?).ok(),
            None => Some(format!("\"{}\"", state.strip_prefix('p')?)),
        }
    }

    fn mac(
        &self,
        expires_s: u64,
        state: &str,
        server: &str,
        request: &Relayed,
    ) -> impl Mac + use<> {
        let principal = request.caller().principal.as_deref();
        let mut mac = self.0.mac(&expires_s.to_le_bytes());
        for part in [server, principal.unwrap_or_default(), &digest(request.message()), state] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}
