//! Builds JSON values from YAML events.

use std::collections::BTreeMap;

use base64::Engine as _;
use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Number, Value};

use super::scalar::{self, Scalar};
use super::{Duplicates, Error};

/// The most text, in bytes, that aliases may add to a document.
const ALIASED_BYTES: usize = 64 << 20;

/// Reads up to `most` documents.
pub(super) fn documents(text: &str, duplicates: Duplicates, most: usize) -> Result<Vec<Value>, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    options.block_scalar_eof_without_line_feed = true;
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        duplicates,
        anchors: BTreeMap::new(),
        nodes: 0,
        aliased: Size::default(),
    };
    let mut found = Vec::new();
    while found.len() < most {
        let Some((event, span)) = reader.next()? else {
            break;
        };
        if matches!(event, Event::StreamEnd) {
            break;
        }
        if !matches!(
            event,
            Event::StreamStart | Event::DocumentEnd | Event::DocumentStart(..)
        ) {
            found.push(reader.node(event, span)?.0);
            reader.anchors.clear();
        }
    }
    Ok(found)
}

/// How much a value holds.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    duplicates: Duplicates,
    anchors: BTreeMap<usize, (Value, Size)>,
    nodes: usize,
    aliased: Size,
}

/// A mapping's key as it was read.
enum KeyNode {
    Name(String),
    Merge,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Error> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok(next)) => Ok(Some(next)),
            Some(Err(error)) => {
                let at = error.marker();
                Err(Error {
                    line: at.line().max(1),
                    column: at.col() + 1,
                    message: error.info(),
                })
            }
        }
    }

    fn inner(&mut self) -> Result<(Event<'a>, Span), Error> {
        match self.next()? {
            Some(next) => Ok(next),
            None => Err(Error {
                line: 1,
                column: 1,
                message: "the text ends within a node".to_owned(),
            }),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<(Value, Size), Error> {
        self.nodes = self.nodes.saturating_add(1);
        let (value, size, anchor) = if let Event::Scalar(text, style, anchor, tag) = event {
            let value = scalar_value(&text, style, tag.as_deref()).map_err(|message| fault(span, message))?;
            let size = Size {
                nodes: 1,
                bytes: text.len(),
            };
            (value, size, anchor)
        } else if let Event::SequenceStart(_, anchor, _) = event {
            let (value, size) = self.sequence()?;
            (value, size, anchor)
        } else if let Event::MappingStart(_, anchor, _) = event {
            let (value, size) = self.mapping()?;
            (value, size, anchor)
        } else if let Event::Alias(id) = event {
            return self.alias(id, span);
        } else {
            return Err(fault(span, "a node was expected".to_owned()));
        };
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok((value, size))
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(Value, Size), Error> {
        let Some((value, size)) = self.anchors.get(&id) else {
            return Err(fault(span, "the anchor's value contains itself".to_owned()));
        };
        self.aliased.add(*size);
        self.nodes = self.nodes.saturating_add(size.nodes);
        if excessive(self.aliased.nodes, self.nodes) || self.aliased.bytes > ALIASED_BYTES {
            return Err(fault(span, "document contains excessive aliasing".to_owned()));
        }
        Ok((value.clone(), *size))
    }

    fn sequence(&mut self) -> Result<(Value, Size), Error> {
        let mut items = Vec::new();
        let mut total = Size { nodes: 1, bytes: 0 };
        loop {
            let (event, span) = self.inner()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok((Value::Array(items), total));
            }
            let (value, size) = self.node(event, span)?;
            total.add(size);
            items.push(value);
        }
    }

    fn mapping(&mut self) -> Result<(Value, Size), Error> {
        let mut entries = Map::new();
        // names written out in this mapping, as opposed to merged into it
        let mut written = std::collections::BTreeSet::new();
        let mut total = Size { nodes: 1, bytes: 0 };
        loop {
            let (event, span) = self.inner()?;
            if matches!(event, Event::MappingEnd) {
                return Ok((Value::Object(entries), total));
            }
            let key = self.key(event, span)?;
            let (event, value_span) = self.inner()?;
            let (value, size) = self.node(event, value_span)?;
            total.add(size);
            match key {
                KeyNode::Merge => merge(&mut entries, value).map_err(|message| fault(value_span, message))?,
                KeyNode::Name(name) => {
                    total.add(Size {
                        nodes: 1,
                        bytes: name.len(),
                    });
                    if self.duplicates == Duplicates::Refuse && !written.insert(name.clone()) {
                        return Err(fault(span, format!("key {name:?} already set in map")));
                    }
                    entries.insert(name, value);
                }
            }
        }
    }

    fn key(&mut self, event: Event<'a>, span: Span) -> Result<KeyNode, Error> {
        let mut float = None;
        if let Event::Scalar(text, style, _, tag) = &event {
            let may_merge = tag.as_deref().is_none_or(|tag| core_tag(tag) == Some("merge"));
            if text == "<<" && *style == ScalarStyle::Plain && may_merge {
                return Ok(KeyNode::Merge);
            }
            // a float keeps its own spelling rules as a key, so it is looked at before it becomes a JSON number
            float = float_key(text, *style, tag.as_deref());
        }
        let (value, _) = self.node(event, span)?;
        if let Some(name) = float {
            return Ok(KeyNode::Name(name));
        }
        match value {
            Value::String(name) => Ok(KeyNode::Name(name)),
            Value::Bool(value) => Ok(KeyNode::Name(value.to_string())),
            Value::Number(number) => Ok(KeyNode::Name(match (number.is_f64(), number.as_f64()) {
                (true, Some(value)) => scalar::go_float(value),
                _ => number.to_string(),
            })),
            Value::Null => Err(fault(span, "unsupported map key of type null".to_owned())),
            Value::Array(_) | Value::Object(_) => {
                Err(fault(span, "invalid map key: not a scalar".to_owned()))
            }
        }
    }
}

fn float_key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<String> {
    if style != ScalarStyle::Plain || tag.is_some() {
        return None;
    }
    if let Scalar::Float(value) = scalar::resolve(text) {
        return value.is_finite().then(|| scalar::go_float(value));
    }
    None
}

fn fault(span: Span, message: String) -> Error {
    Error {
        line: span.start.line().max(1),
        column: span.start.col() + 1,
        message,
    }
}

/// Whether too large a share of the decoded nodes came out of aliases; small documents may do as they like.
fn excessive(aliased: usize, all: usize) -> bool {
    const SMALL: f64 = 400_000.0;
    const LARGE: f64 = 4_000_000.0;
    if aliased <= 100 || all <= 1_000 {
        return false;
    }
    let (aliased, all) = (as_f64(aliased), as_f64(all));
    let slope = ((all - SMALL) / (LARGE - SMALL)).clamp(0.0, 1.0);
    aliased / all > 0.99 - slope * (0.99 - 0.10)
}

fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Sets the entries of a merged mapping, or of several (the first of them wins).
fn merge(into: &mut Map<String, Value>, value: Value) -> Result<(), String> {
    const WRONG: &str = "map merge requires map or sequence of maps as the value";
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                into.insert(name, value);
            }
            Ok(())
        }
        Value::Array(items) => {
            if !items.iter().all(Value::is_object) {
                return Err(WRONG.to_owned());
            }
            items.into_iter().rev().try_for_each(|item| merge(into, item))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(WRONG.to_owned()),
    }
}

/// The name after `tag:yaml.org,2002:`, if the tag is one of those.
fn core_tag(tag: &Tag) -> Option<&str> {
    if tag.handle() == "tag:yaml.org,2002:" {
        return Some(tag.suffix());
    }
    tag.core_suffix().or_else(|| {
        tag.suffix()
            .strip_prefix("tag:yaml.org,2002:")
            .filter(|_| tag.handle().is_empty())
    })
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let string = || Ok(Value::String(text.to_owned()));
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain {
            resolved(scalar::resolve(text), text)
        } else {
            string()
        };
    };
    let wrong = |found: Scalar, wanted: &str| {
        Err(format!(
            "cannot decode !!{} `{text}` as a !!{wanted}",
            name_of(found)
        ))
    };
    let found = scalar::resolve(text);
    match (core_tag(tag), found) {
        (Some("null"), Scalar::Null)
        | (Some("bool"), Scalar::Bool(_))
        | (Some("int"), Scalar::Int(_) | Scalar::Large(_))
        | (Some("float"), Scalar::Float(_) | Scalar::Int(_) | Scalar::Large(_)) => resolved(found, text),
        (Some("timestamp"), Scalar::Timestamp) => string(),
        (Some(wanted @ ("null" | "bool" | "int" | "float" | "timestamp")), found) => wrong(found, wanted),
        (Some("binary"), _) => {
            let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            match base64::engine::general_purpose::STANDARD.decode(compact) {
                Ok(bytes) => Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned())),
                Err(_) => Err("!!binary value contains invalid base64 data".to_owned()),
            }
        }
        (_, _) => string(),
    }
}

fn name_of(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) | Scalar::Large(_) => "int",
        Scalar::Float(_) => "float",
        Scalar::Timestamp => "timestamp",
        Scalar::Text => "str",
    }
}

fn resolved(scalar: Scalar, text: &str) -> Result<Value, String> {
    match scalar {
        Scalar::Null => Ok(Value::Null),
        Scalar::Bool(value) => Ok(Value::Bool(value)),
        Scalar::Int(value) => Ok(Value::from(value)),
        Scalar::Large(value) => Ok(Value::from(value)),
        Scalar::Float(value) => json_number(value).ok_or_else(|| format!("unsupported value: {text}")),
        Scalar::Timestamp | Scalar::Text => Ok(Value::String(text.to_owned())),
    }
}

/// A float as JSON has it: a whole number in the range of integers is an integer.
fn json_number(value: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < 1e19 {
        if value.abs() <= EXACT {
            return format!("{value:.0}").parse::<i64>().ok().map(Value::from);
        }
        // past 2^53 Go writes the fewest digits that give the float back, filled up with zeros
        let text = format!("{value}");
        if let Ok(whole) = text.parse::<i64>() {
            return Some(Value::from(whole));
        }
        if let Ok(whole) = text.parse::<u64>() {
            return Some(Value::from(whole));
        }
    }
    Number::from_f64(value).map(Value::Number)
}
