//! Unix sockets: one message per line, as on stdio.
