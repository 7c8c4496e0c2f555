//! JSON: every array of objects is a table, and so is an object of objects; what is nested deeper
//! within a row becomes a column with the joined name.

use serde_json::{Map, Value};

use super::bench;
use crate::lint::finding::{COLUMNS_MAX, LintError, ROWS_MAX};
use crate::lint::table::Table;

/// Objects within a row are followed this deep.
const DEPTH_MAX: usize = 4;

pub(super) fn tables(text: &str) -> Result<Vec<Table>, LintError> {
    let value = &serde_json::from_str(text)?;
    if bench::is_report(value) {
        return bench::tables(text);
    }
    let mut tables = Vec::new();
    find("", value, &mut tables, 0)?;
    Ok(tables)
}

fn find(name: &str, value: &Value, tables: &mut Vec<Table>, depth: usize) -> Result<(), LintError> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    let join = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Array(entries) => {
            let rows: Vec<_> =
                entries.iter().map(Value::as_object).map(|o| o.map(|o| (None, o))).collect();
            if let Some(rows) = rows.into_iter().collect::<Option<Vec<_>>>() {
                push(name, &rows, tables)?;
            }
            let nested =
                entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.as_object()?)));
            for (at, entry) in nested {
                let arrays = entry.iter().filter(|(_, value)| value.is_array());
                for (key, value) in arrays {
                    find(&join(&format!("{}.{key}", at + 1)), value, tables, depth + 1)?;
                }
            }
        }
        Value::Object(object) => {
            let rows: Vec<_> = object
                .iter()
                .filter_map(|(key, value)| Some((Some(key), value.as_object()?)))
                .collect();
            if rows.len() > 1 && rows.len() == object.len() {
                return push(name, &rows, tables);
            }
            push(name, &[(None, object)], tables)?;
            for (key, value) in object.iter().filter(|(_, value)| value.is_array()) {
                find(&join(key), value, tables, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A table of these objects, if they hold figures.
fn push(
    name: &str,
    rows: &[(Option<&String>, &Map<String, Value>)],
    tables: &mut Vec<Table>,
) -> Result<(), LintError> {
    let flat: Vec<_> = rows
        .iter()
        .map(|(key, object)| {
            let mut cells = Vec::new();
            cells.extend(key.map(|key| ("name".to_owned(), key.clone())));
            flatten("", object, &mut cells, 0);
            cells
        })
        .collect();
    let mut header: Vec<String> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (key, _) in flat.iter().flatten() {
        places.entry(key.clone()).or_insert_with(|| {
            header.push(key.clone());
            header.len() - 1
        });
    }
    // Before each row is as wide as all of them together.
    if header.len() > COLUMNS_MAX || rows.len() > ROWS_MAX {
        return Err(LintError::TooLarge);
    }
    let rows = flat.into_iter().enumerate().map(|(at, cells)| {
        let mut row = vec![String::new(); header.len()];
        for (key, text) in cells {
            if let Some(cell) = places.get(&key).and_then(|at| row.get_mut(*at)) {
                *cell = text;
            }
        }
        (at + 1, row)
    });
    let table = Table::new(name, &header, rows.collect())?;
    if table.understood() > 0 {
        tables.push(table);
    }
    Ok(())
}

fn flatten(
    prefix: &str,
    object: &Map<String, Value>,
    cells: &mut Vec<(String, String)>,
    depth: usize,
) {
    for (key, value) in object {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}_{key}") };
        match value {
            Value::String(text) => cells.push((key, text.clone())),
            Value::Number(number) => cells.push((key, number.to_string())),
            Value::Bool(flag) => cells.push((key, flag.to_string())),
            Value::Object(object) if depth < DEPTH_MAX => flatten(&key, object, cells, depth + 1),
            Value::Object(_) | Value::Array(_) | Value::Null => {}
        }
    }
}
