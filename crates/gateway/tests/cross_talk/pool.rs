//! Which worker gets a call, one property at a time.
