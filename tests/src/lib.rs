//! The tests are in `interop/` and `wire/`; there is nothing to link.
