//! What the upstreams offer, merged.
