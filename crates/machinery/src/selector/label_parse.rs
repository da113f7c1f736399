//! The grammar of a label selector's text: tokens first, then terms.

use std::collections::BTreeSet;

use super::SelectorError;
use super::label::{LabelOp, LabelRequirement};
use crate::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Bang,
    Open,
    Close,
    Comma,
    End,
}

struct Token<'a> {
    kind: Kind,
    text: &'a str,
}

fn special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    // A zero byte ends the text, as in Kubernetes' own lexer.
    let text = text.split('\0').next().unwrap_or_default();
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let kind = match byte {
            byte if blank(byte) => {
                at += 1;
                continue;
            }
            b'(' => Kind::Open,
            b')' => Kind::Close,
            b',' => Kind::Comma,
            b'>' => Kind::Greater,
            b'<' => Kind::Less,
            b'=' if bytes.get(at + 1) == Some(&b'=') => Kind::DoubleEquals,
            b'=' => Kind::Equals,
            b'!' if bytes.get(at + 1) == Some(&b'=') => Kind::NotEquals,
            b'!' => Kind::Bang,
            _ => {
                while bytes.get(at).is_some_and(|&byte| !special(byte) && !blank(byte)) {
                    at += 1;
                }
                match &text[start..at] {
                    "in" => Kind::In,
                    "notin" => Kind::NotIn,
                    _ => Kind::Word,
                }
            }
        };
        if at == start {
            at += if matches!(kind, Kind::DoubleEquals | Kind::NotEquals) {
                2
            } else {
                1
            };
        }
        tokens.push(Token {
            kind,
            text: &text[start..at],
        });
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

type Lexeme<'a> = (Kind, &'a str);

impl<'a> Parser<'a> {
    fn raw(&self) -> Lexeme<'a> {
        self.tokens
            .get(self.at)
            .map_or((Kind::End, ""), |token| (token.kind, token.text))
    }

    /// The next token where `in` and `notin` are ordinary words.
    fn look(&self) -> Lexeme<'a> {
        match self.raw() {
            (Kind::In | Kind::NotIn, text) => (Kind::Word, text),
            other => other,
        }
    }

    fn take(&mut self) -> Lexeme<'a> {
        let next = self.look();
        self.at += 1;
        next
    }

    fn take_operator(&mut self) -> Lexeme<'a> {
        let next = self.raw();
        self.at += 1;
        next
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let mut next = self.take();
        let absent = next.0 == Kind::Bang;
        if absent {
            next = self.take();
        }
        let (Kind::Word, key) = next else {
            return Err(syntax(format!("found '{}', expected: identifier", next.1)));
        };
        names::validate_label_key(key).map_err(|problem| {
            SelectorError::Requirement(format!("<nil>: Invalid value: {key:?}: {problem}"))
        })?;
        if absent {
            return LabelRequirement::new(key, LabelOp::DoesNotExist, []);
        }
        if matches!(self.look().0, Kind::End | Kind::Comma) {
            return LabelRequirement::new(key, LabelOp::Exists, []);
        }
        let (kind, text) = self.take_operator();
        let op = match kind {
            Kind::In => LabelOp::In,
            Kind::NotIn => LabelOp::NotIn,
            Kind::Equals => LabelOp::Equals,
            Kind::DoubleEquals => LabelOp::DoubleEquals,
            Kind::NotEquals => LabelOp::NotEquals,
            Kind::Greater => LabelOp::GreaterThan,
            Kind::Less => LabelOp::LessThan,
            Kind::Word | Kind::Bang | Kind::Open | Kind::Close | Kind::Comma | Kind::End => {
                return Err(syntax(format!(
                    "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
                )));
            }
        };
        let values = if matches!(op, LabelOp::In | LabelOp::NotIn) {
            self.set()?
        } else {
            BTreeSet::from([self.one()?])
        };
        LabelRequirement::new(key, op, values)
    }

    fn one(&mut self) -> Result<String, SelectorError> {
        if matches!(self.look().0, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        match self.take() {
            (Kind::Word, text) => Ok(text.to_owned()),
            (_, text) => Err(syntax(format!("found '{text}', expected: identifier"))),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let (kind, text) = self.take();
        if kind != Kind::Open {
            return Err(syntax(format!("found '{text}' expected: '('")));
        }
        match self.look() {
            (Kind::Close, _) => {
                self.at += 1;
                Ok(BTreeSet::new())
            }
            (Kind::Word | Kind::Comma, _) => {
                let values = self.words()?;
                match self.take() {
                    (Kind::Close, _) => Ok(values),
                    (_, text) => Err(syntax(format!("found '{text}', expected: ')'"))),
                }
            }
            (_, text) => Err(syntax(format!(
                "found '{text}', expected: ',', ')' or identifier"
            ))),
        }
    }

    /// Words between commas up to the closing bracket, which stays. A missing word is the empty value.
    fn words(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                (Kind::Word, text) => {
                    values.insert(text.to_owned());
                    match self.look() {
                        (Kind::Comma, _) => {}
                        (Kind::Close, _) => return Ok(values),
                        (_, text) => return Err(syntax(format!("found '{text}', expected: ',' or ')'"))),
                    }
                }
                (Kind::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    let next = self.look().0;
                    if next == Kind::Close {
                        values.insert(String::new());
                        return Ok(values);
                    }
                    if next == Kind::Comma {
                        self.at += 1;
                        values.insert(String::new());
                    }
                }
                (_, text) => {
                    return Err(syntax(format!("found '{text}', expected: ',', or identifier")));
                }
            }
        }
    }
}

fn syntax(text: String) -> SelectorError {
    SelectorError::Syntax(text)
}

/// The terms of a selector, in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut requirements = Vec::new();
    loop {
        match parser.look() {
            (Kind::End, _) => return Ok(requirements),
            (Kind::Word | Kind::Bang, _) => {}
            (_, text) => {
                return Err(syntax(format!(
                    "found '{text}', expected: !, identifier, or 'end of string'"
                )));
            }
        }
        let requirement = parser.requirement().map_err(|error| match error {
            SelectorError::Syntax(text) => {
                SelectorError::Syntax(format!("unable to parse requirement: {text}"))
            }
            SelectorError::Requirement(text) => {
                SelectorError::Requirement(format!("unable to parse requirement: {text}"))
            }
        })?;
        requirements.push(requirement);
        match parser.take() {
            (Kind::End, _) => return Ok(requirements),
            (Kind::Comma, _) => match parser.look() {
                (Kind::Word | Kind::Bang, _) => {}
                (_, text) => {
                    return Err(syntax(format!("found '{text}', expected: identifier after ','")));
                }
            },
            (_, text) => {
                return Err(syntax(format!(
                    "found '{text}', expected: ',' or 'end of string'"
                )));
            }
        }
    }
}
