//! What only the bytes of a JSON document show: keys that come twice, and how deep it nests. One pass without
//! recursion, so that hostile nesting costs nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// How many duplicates are reported at most.
const MAX_REPORTS: usize = 100;
/// Below this many keys a list is searched, above it a set.
const FEW_KEYS: usize = 16;

/// Why bytes could not be scanned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RawError {
    /// It is not JSON; a parser says more.
    #[error("invalid JSON at byte {at}")]
    Syntax {
        /// Where.
        at: usize,
    },
    /// It nests deeper than allowed.
    #[error("exceeded max depth")]
    TooDeep,
}

enum Frame<'a> {
    Object {
        few: Vec<Cow<'a, str>>,
        many: BTreeSet<Cow<'a, str>>,
        key: Cow<'a, str>,
    },
    Array {
        index: usize,
    },
}

impl<'a> Frame<'a> {
    fn object() -> Self {
        Frame::Object {
            few: Vec::new(),
            many: BTreeSet::new(),
            key: Cow::Borrowed(""),
        }
    }
}

/// The paths (`spec.containers[0].image`) of object keys that come more than once, each path once, in order of
/// appearance, at most 100.
///
/// # Errors
/// [`RawError`] for bytes that are not JSON (not every fault is found) or nest deeper than `max_depth`.
pub fn duplicate_fields(json: &[u8], max_depth: usize) -> Result<Vec<String>, RawError> {
    let mut found: Vec<String> = Vec::new();
    walk(json, max_depth, &mut |stack| {
        if found.len() < MAX_REPORTS {
            let path = path(stack);
            if !found.contains(&path) {
                found.push(path);
            }
        }
    })?;
    Ok(found)
}

/// How deep objects and lists nest: 0 for a scalar.
///
/// # Errors
/// [`RawError::Syntax`] for unbalanced brackets or an unfinished text.
pub fn nesting_depth(json: &[u8]) -> Result<usize, RawError> {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = string_end(json, at)?;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.checked_sub(1).ok_or(RawError::Syntax { at })?,
            _ => {}
        }
        at += 1;
    }
    if depth == 0 {
        Ok(deepest)
    } else {
        Err(RawError::Syntax { at })
    }
}

fn path(stack: &[Frame<'_>]) -> String {
    let mut path = String::new();
    for frame in stack {
        match frame {
            Frame::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Frame::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// The byte behind a text's closing quote.
fn string_end(json: &[u8], start: usize) -> Result<usize, RawError> {
    let mut at = start + 1;
    loop {
        match json.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(RawError::Syntax { at: json.len() }),
        }
    }
}

fn text(json: &[u8], start: usize, end: usize) -> Result<Cow<'_, str>, RawError> {
    let raw = &json[start..end];
    if raw.contains(&b'\\') {
        serde_json::from_slice(raw)
            .map(Cow::Owned)
            .map_err(|_| RawError::Syntax { at: start })
    } else {
        std::str::from_utf8(&raw[1..raw.len() - 1])
            .map(Cow::Borrowed)
            .map_err(|_| RawError::Syntax { at: start })
    }
}

fn walk(json: &[u8], max_depth: usize, on_duplicate: &mut dyn FnMut(&[Frame<'_>])) -> Result<(), RawError> {
    let mut stack: Vec<Frame<'_>> = Vec::new();
    // Whether the next text is a key.
    let mut key_next = false;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let end = string_end(json, at)?;
                if key_next {
                    key_next = false;
                    let name = text(json, at, end)?;
                    let Some(Frame::Object { few, many, key }) = stack.last_mut() else {
                        return Err(RawError::Syntax { at });
                    };
                    let new = if many.is_empty() && few.len() < FEW_KEYS {
                        let new = !few.contains(&name);
                        if new {
                            few.push(name.clone());
                        }
                        new
                    } else {
                        many.extend(few.drain(..));
                        many.insert(name.clone())
                    };
                    *key = name;
                    if !new {
                        on_duplicate(&stack);
                    }
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                if stack.len() >= max_depth {
                    return Err(RawError::TooDeep);
                }
                key_next = byte == b'{';
                stack.push(if key_next {
                    Frame::object()
                } else {
                    Frame::Array { index: 0 }
                });
            }
            b'}' | b']' => {
                key_next = false;
                if stack.pop().is_none() {
                    return Err(RawError::Syntax { at });
                }
            }
            b',' => match stack.last_mut() {
                Some(Frame::Object { .. }) => key_next = true,
                Some(Frame::Array { index }) => *index += 1,
                None => return Err(RawError::Syntax { at }),
            },
            _ => {}
        }
        at += 1;
    }
    if stack.is_empty() {
        Ok(())
    } else {
        Err(RawError::Syntax { at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_keys_that_come_twice() {
        for (json, want) in [
            (r#"{"a":1,"b":{"a":2}}"#, &[] as &[&str]),
            (r#"{"a":1,"a":1,"a":1}"#, &["a"]),
            (
                r#"{"spec":{"c":[{"x":"}"},{"x":1,"y":[{}],"x":2}]}}"#,
                &["spec.c[1].x"],
            ),
            (r#"{"\u0061":1,"a":{"b":1,"b":"\"{"}}"#, &["a", "a.b"]),
        ] {
            assert_eq!(
                duplicate_fields(json.as_bytes(), 100).expect(json),
                want,
                "{json}"
            );
        }
        let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":0", n % 39)).collect();
        let json = format!("{{{}}}", many.join(","));
        assert_eq!(duplicate_fields(json.as_bytes(), 9), Ok(vec!["k0".to_owned()]));
    }

    #[test]
    fn stops_at_the_allowed_depth() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(duplicate_fields(deep.as_bytes(), 100), Err(RawError::TooDeep));
        assert_eq!(nesting_depth(br#"{"a":[{"b":"[[["}]}"#), Ok(3));
        assert!(nesting_depth(b"]").is_err() && nesting_depth(b"[\"").is_err());
    }
}
