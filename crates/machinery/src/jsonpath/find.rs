//! Following a path through a value.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, Condition, JsonPathError, MAX_RESULTS, Operand, Slice, Step};

fn fail<T>(text: impl Into<String>) -> Result<T, JsonPathError> {
    Err(JsonPathError::Evaluate(text.into()))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

pub(super) fn walk<'a>(
    mut values: Vec<&'a Value>,
    steps: &[Step],
    root: &'a Value,
) -> Result<Vec<&'a Value>, JsonPathError> {
    for step in steps {
        values = one(values, step, root)?;
        if values.len() > MAX_RESULTS {
            return fail(format!("a path may not find more than {MAX_RESULTS} values"));
        }
    }
    Ok(values)
}

fn one<'a>(values: Vec<&'a Value>, step: &Step, root: &'a Value) -> Result<Vec<&'a Value>, JsonPathError> {
    let mut found = Vec::new();
    match step {
        Step::Field(name) => found.extend(
            values
                .into_iter()
                .filter_map(|value| value.as_object()?.get(name)),
        ),
        Step::KeyOrPath(key, path) => {
            for value in values {
                match value.as_object().and_then(|map| map.get(key)) {
                    Some(value) => found.push(value),
                    None if path.is_empty() => {}
                    None => found.extend(walk(vec![value], path, root)?),
                }
            }
        }
        Step::Wildcard => {
            for value in values {
                children(value, &mut found);
            }
        }
        Step::Recursive => {
            for value in values {
                descend(value, &mut found)?;
            }
        }
        Step::Slice(slice) => {
            for value in values {
                match value {
                    Value::Array(items) => cut(items, *slice, &mut found)?,
                    Value::Null => {}
                    Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                        return fail(format!("{} is not array or slice", type_name(value)));
                    }
                }
            }
        }
        Step::Union(branches) => {
            for branch in branches {
                found.extend(walk(values.clone(), branch, root)?);
            }
        }
        Step::Filter(conditions) => {
            for value in values {
                let Value::Array(items) = value else {
                    return fail(format!(
                        "{} is not array or slice and cannot be filtered",
                        type_name(value)
                    ));
                };
                for item in items {
                    let mut holds = true;
                    for condition in conditions {
                        holds = holds && test(item, condition)?;
                    }
                    if holds {
                        found.push(item);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn children<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => found.extend(items),
        Value::Object(map) => found.extend(map.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every list and map in a value that is not empty, itself included.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), JsonPathError> {
    let mut below = Vec::new();
    children(value, &mut below);
    if below.is_empty() {
        return Ok(());
    }
    if found.len() > MAX_RESULTS {
        return fail(format!("a path may not find more than {MAX_RESULTS} values"));
    }
    found.push(value);
    for child in below {
        descend(child, found)?;
    }
    Ok(())
}

fn cut<'a>(items: &'a [Value], slice: Slice, found: &mut Vec<&'a Value>) -> Result<(), JsonPathError> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let start = from_end(slice.start.unwrap_or(0));
    let end = if slice.single {
        start + 1
    } else {
        slice.end.map_or(length, from_end)
    };
    if start == end {
        return Ok(());
    }
    let out = |index: i64| {
        fail(format!(
            "array index out of bounds: index {index}, length {length}"
        ))
    };
    if start < 0 || start >= length {
        // All of an empty list is nothing.
        return if slice.start.is_none() && end == 0 {
            Ok(())
        } else {
            out(start)
        };
    }
    if end < 0 || end > length {
        return out(end - 1);
    }
    if start > end {
        return fail(format!(
            "starting index {start} is greater than ending index {end}"
        ));
    }
    let step = match slice.step {
        None => 1,
        Some(step) if step > 0 => usize::try_from(step).unwrap_or(usize::MAX),
        Some(_) => return fail("step must be > 0"),
    };
    let (start, end) = (
        usize::try_from(start).unwrap_or_default(),
        usize::try_from(end).unwrap_or_default(),
    );
    found.extend(items[start..end].iter().step_by(step));
    Ok(())
}

fn test(item: &Value, condition: &Condition) -> Result<bool, JsonPathError> {
    let Some((comparison, right)) = &condition.right else {
        return Ok(match &condition.left {
            Operand::Literal(_) => true,
            Operand::Path(steps) => walk(vec![item], steps, item).is_ok_and(|found| !found.is_empty()),
        });
    };
    let (Some(left), Some(right)) = (value_of(item, &condition.left)?, value_of(item, right)?) else {
        return Ok(false);
    };
    let order = compare(left, right)?;
    Ok(match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}

fn value_of<'a>(item: &'a Value, operand: &'a Operand) -> Result<Option<&'a Value>, JsonPathError> {
    match operand {
        Operand::Literal(value) => Ok(Some(value)),
        Operand::Path(steps) => match walk(vec![item], steps, item)?.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => fail("can only compare one element at a time"),
        },
    }
}

fn compare(left: &Value, right: &Value) -> Result<Ordering, JsonPathError> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (_, _) => left.as_f64().partial_cmp(&right.as_f64()),
        },
        (_, _) => None,
    };
    match order {
        Some(order) => Ok(order),
        None => fail("incompatible types for comparison"),
    }
}
