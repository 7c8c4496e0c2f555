//! Properties of the whole catalog.
