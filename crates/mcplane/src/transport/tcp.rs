//! TCP: one message per line, as on stdio.
