//! 64 clients of both eras over HTTP, in real time.
