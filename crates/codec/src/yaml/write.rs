//! Writes JSON values as block YAML: keys in natural order, lines of text folded past column 80.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::scalar::{self, Scalar};

/// Columns after which a line is folded at its next space.
const WIDTH: usize = 80;
/// Columns that one level is indented by.
const STEP: usize = 2;
/// The longest key, in bytes, that stands on one line with its value.
const SIMPLE_KEY: usize = 128;

/// Writes one document.
pub(super) fn document(value: &Value) -> String {
    let mut writer = Writer {
        out: String::new(),
        column: 0,
    };
    writer.node(value, 0, Place::Root);
    writer.fresh_line();
    writer.out
}

/// Where a node stands: it decides whether its first line begins on the current one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// After `key:`; the indentation given is that of the key.
    Value,
    /// After `- `, `? ` or `: `; the indentation given is that of the indicator.
    Indicator,
}

struct Writer {
    out: String,
    column: usize,
}

impl Writer {
    fn push(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn push_str(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn line_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn fresh_line(&mut self) {
        if self.column > 0 {
            self.line_break();
        }
    }

    /// Begins a line at an indentation, unless only the indicators of this very node stand there.
    fn indent(&mut self, to: usize) {
        while self.column < to {
            self.push(' ');
        }
    }

    fn node(&mut self, value: &Value, indent: usize, place: Place) {
        match value {
            Value::Object(map) if !map.is_empty() => self.mapping(map, indent, place),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent, place),
            Value::Object(_) => self.inline("{}", place),
            Value::Array(_) => self.inline("[]", place),
            Value::Null => self.inline("null", place),
            Value::Bool(true) => self.inline("true", place),
            Value::Bool(false) => self.inline("false", place),
            Value::Number(number) => self.inline(&number_text(number), place),
            Value::String(text) => {
                self.gap(place);
                self.text(text, indent + STEP);
            }
        }
    }

    /// The space between an indicator and what follows it on the line.
    fn gap(&mut self, place: Place) {
        if place != Place::Root {
            self.push(' ');
        }
    }

    fn inline(&mut self, text: &str, place: Place) {
        self.gap(place);
        self.push_str(text);
    }

    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, place: Place) {
        let indent = match place {
            Place::Root => indent,
            Place::Value => {
                self.fresh_line();
                indent + STEP
            }
            Place::Indicator => indent + STEP,
        };
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_by(|a, b| natural(a.0, b.0));
        for (i, (key, value)) in entries.into_iter().enumerate() {
            if i > 0 {
                self.fresh_line();
            }
            self.indent(indent);
            let analysis = Analysis::of(key);
            if key.len() <= SIMPLE_KEY && !analysis.multiline {
                self.simple_key(key, &analysis);
                self.push(':');
                self.node(value, indent, Place::Value);
            } else {
                self.push_str("? ");
                self.text(key, indent + STEP);
                self.fresh_line();
                self.indent(indent);
                self.push(':');
                self.node(value, indent, Place::Indicator);
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, place: Place) {
        let indent = match place {
            Place::Root => indent,
            Place::Value => {
                // a list stands under its key without a step of its own
                self.fresh_line();
                indent
            }
            Place::Indicator => indent + STEP,
        };
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.fresh_line();
            }
            self.indent(indent);
            self.push('-');
            self.node(item, indent, Place::Indicator);
        }
    }

    fn simple_key(&mut self, key: &str, analysis: &Analysis) {
        match style(key, analysis, true) {
            Style::Plain => self.folded(key, None),
            Style::Single => self.single(key, None),
            Style::Double | Style::Literal => self.double(key, None),
        }
    }

    fn text(&mut self, text: &str, indent: usize) {
        match style(text, &Analysis::of(text), false) {
            Style::Plain => self.folded(text, Some(indent)),
            Style::Single => self.single(text, Some(indent)),
            Style::Double => self.double(text, Some(indent)),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn fold(&mut self, indent: usize) {
        self.line_break();
        self.indent(indent);
    }

    fn folded(&mut self, text: &str, fold_to: Option<usize>) {
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                match fold_to {
                    Some(indent) if !after_space && self.column > WIDTH && chars.peek() != Some(&' ') => {
                        self.fold(indent)
                    }
                    _ => self.push(c),
                }
                after_space = true;
            } else {
                self.push(c);
                after_space = false;
            }
        }
    }

    fn single(&mut self, text: &str, fold_to: Option<usize>) {
        self.push('\'');
        let mut after_space = false;
        let mut first = true;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                let inner = !first && chars.peek().is_some_and(|next| *next != ' ');
                match fold_to {
                    Some(indent) if !after_space && self.column > WIDTH && inner => self.fold(indent),
                    _ => self.push(c),
                }
                after_space = true;
            } else {
                if c == '\'' {
                    self.push(c);
                }
                self.push(c);
                after_space = false;
            }
            first = false;
        }
        self.push('\'');
    }

    fn double(&mut self, text: &str, fold_to: Option<usize>) {
        self.push('"');
        let mut after_space = false;
        let mut first = true;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                match (fold_to, chars.peek()) {
                    (Some(indent), Some(next)) if !after_space && self.column > WIDTH && !first => {
                        let spaced = *next == ' ';
                        self.fold(indent);
                        if spaced {
                            self.push('\\');
                        }
                    }
                    _ => self.push(c),
                }
                after_space = true;
            } else {
                match escape(c) {
                    Some(escaped) => self.push_str(&escaped),
                    None => self.push(c),
                }
                after_space = false;
            }
            first = false;
        }
        self.push('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.push('|');
        if text.starts_with([' ', '\n']) {
            self.push('2');
        }
        match text.strip_suffix('\n') {
            None => self.push('-'),
            Some(rest) if rest.is_empty() || rest.ends_with('\n') => self.push('+'),
            Some(_) => {}
        }
        self.line_break();
        for line in text.split_inclusive('\n') {
            let (line, broken) = match line.strip_suffix('\n') {
                Some(line) => (line, true),
                None => (line, false),
            };
            if !line.is_empty() {
                self.indent(indent);
                self.push_str(line);
            }
            if broken {
                self.line_break();
            }
        }
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => {
            let whole = format!("{value}");
            let fits = value.fract() == 0.0 && (whole.parse::<i64>().is_ok() || whole.parse::<u64>().is_ok());
            if fits && whole != "-0" {
                whole
            } else {
                scalar::go_float(value)
            }
        }
        _ => number.to_string(),
    }
}

fn escape(c: char) -> Option<String> {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c if printable(c) => return None,
        c => {
            let code = u32::from(c);
            return Some(match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    };
    Some(format!("\\{short}"))
}

fn printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Which forms a text may take in block context.
struct Analysis {
    plain: bool,
    single: bool,
    literal: bool,
    multiline: bool,
}

impl Analysis {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut space_break, mut break_space) = (false, false, false);
        let (mut multiline, mut before) = (false, None);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let blank_before = before.is_none_or(|b| matches!(b, ' ' | '\t' | '\n'));
            let blank_after = chars.peek().is_none_or(|n| matches!(n, ' ' | '\t' | '\n'));
            indicators |= match c {
                '#' => blank_before,
                ':' => blank_after,
                '-' | '?' => before.is_none() && blank_after,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    before.is_none()
                }
                _ => false,
            };
            special |= !printable(c) || matches!(c, '\u{2028}' | '\u{2029}');
            multiline |= matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
            space_break |= c == '\n' && before == Some(' ');
            break_space |= c == ' ' && before == Some('\n');
            before = Some(c);
        }
        let edges = [text.chars().next(), text.chars().next_back()];
        let open = edges.iter().flatten().any(|c| matches!(c, ' ' | '\n'));
        let broken = special || space_break;
        Self {
            plain: !(indicators || open || multiline || break_space || broken),
            single: !(break_space || broken),
            literal: !broken && !text.is_empty() && !text.ends_with(' '),
            multiline,
        }
    }
}

fn style(text: &str, analysis: &Analysis, simple_key: bool) -> Style {
    if text.contains('\n') {
        return if analysis.literal && !simple_key {
            Style::Literal
        } else {
            Style::Double
        };
    }
    if scalar::resolve(text) != Scalar::Text || scalar::is_base_60(text) {
        return Style::Double;
    }
    match (analysis.plain, analysis.single) {
        (true, _) => Style::Plain,
        (false, true) => Style::Single,
        (false, false) => Style::Double,
    }
}

/// The order of keys: runs of digits as numbers, letters after everything else.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // zeros count only within a number: there a preceding digit keeps its weight
    let within = (a[at] == '0' || b[at] == '0')
        && a[..at]
            .iter()
            .rev()
            .take_while(|c| c.is_numeric())
            .any(|c| *c != '0');
    let run = |text: &[char]| {
        let digits = text[at..].iter().take_while(|c| c.is_ascii_digit());
        let mut value = u128::from(within);
        let mut length = 0usize;
        for digit in digits {
            value = value
                .saturating_mul(10)
                .saturating_add(u128::from(u32::from(*digit) - u32::from('0')));
            length += 1;
        }
        (value, length)
    };
    run(&a).cmp(&run(&b)).then_with(|| a[at].cmp(&b[at]))
}
