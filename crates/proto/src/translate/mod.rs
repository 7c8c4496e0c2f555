//! From one revision to another, message by message: the era bridge.
