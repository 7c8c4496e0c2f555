//! The bridge, cell by cell.
