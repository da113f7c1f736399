//! Evaluating expressions over JSON values. Whole and other numbers are compared and computed as numbers.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::{CelError, Expr, Macro, Op};
use crate::schema::Pattern;

/// How many steps one evaluation may take.
const MAX_STEPS: usize = 1_000_000;

type Outcome = Result<Value, CelError>;

fn fail<T>(text: impl Into<String>) -> Result<T, CelError> {
    Err(CelError::Evaluate(text.into()))
}

pub(super) fn evaluate(expr: &Expr, variables: &[(&str, &Value)]) -> Outcome {
    let mut machine = Machine {
        variables,
        locals: Vec::new(),
        steps: 0,
    };
    machine.eval(expr)
}

struct Machine<'a> {
    variables: &'a [(&'a str, &'a Value)],
    locals: Vec<(&'a str, Value)>,
    steps: usize,
}

impl<'a> Machine<'a> {
    fn step(&mut self, cost: usize) -> Result<(), CelError> {
        self.steps = self.steps.saturating_add(cost);
        if self.steps > MAX_STEPS {
            return Err(CelError::TooExpensive);
        }
        Ok(())
    }

    /// A value that is only looked at, without a copy where there is one to look at.
    fn peek(&self, expr: &Expr) -> Option<&Value> {
        match expr {
            Expr::Ident(name) => {
                let local = self.locals.iter().rev().find(|(local, _)| local == name);
                match local {
                    Some((_, value)) => Some(value),
                    None => self
                        .variables
                        .iter()
                        .find(|(variable, _)| variable == name)
                        .map(|(_, value)| *value),
                }
            }
            Expr::Select(of, field) => self.peek(of)?.as_object()?.get(field),
            Expr::Literal(_)
            | Expr::Has(_, _)
            | Expr::Index(_, _)
            | Expr::Call(_, _, _)
            | Expr::Macro(_, _, _, _)
            | Expr::List(_)
            | Expr::Map(_)
            | Expr::Not(_)
            | Expr::Negate(_)
            | Expr::And(_, _)
            | Expr::Or(_, _)
            | Expr::Binary(_, _, _)
            | Expr::If(_, _, _) => None,
        }
    }

    fn eval(&mut self, expr: &'a Expr) -> Outcome {
        self.step(1)?;
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Ident(name) => match self.peek(expr) {
                Some(value) => Ok(value.clone()),
                None => fail(format!("undeclared reference to '{name}'")),
            },
            Expr::Select(of, field) => {
                if let Some(value) = self.peek(expr) {
                    let value = value.clone();
                    return Ok(value);
                }
                match self.eval(of)? {
                    Value::Object(mut map) => map
                        .remove(field)
                        .map_or_else(|| fail(format!("no such key: {field}")), Ok),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                        fail(format!("no such key: {field}"))
                    }
                }
            }
            Expr::Has(of, field) => {
                if let Some(value) = self.peek(of) {
                    return Ok(Value::Bool(value.get(field).is_some()));
                }
                let value = self.eval(of)?;
                Ok(Value::Bool(value.get(field).is_some()))
            }
            Expr::Index(of, index) => {
                let index = self.eval(index)?;
                let of = self.eval(of)?;
                let found = match (&of, &index) {
                    (Value::Array(items), Value::Number(_)) => whole(&index)
                        .and_then(|index| usize::try_from(index).ok())
                        .and_then(|index| items.get(index)),
                    (Value::Object(map), Value::String(key)) => map.get(key),
                    (_, _) => None,
                };
                found
                    .cloned()
                    .map_or_else(|| fail(format!("no such key: {index}")), Ok)
            }
            Expr::Call(on, name, arguments) => self.call(on.as_deref(), name, arguments),
            Expr::Macro(on, which, variable, bodies) => self.fold(on, *which, variable, bodies),
            Expr::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.push(self.eval(item)?);
                }
                Ok(Value::Array(list))
            }
            Expr::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    let key = text_of(&self.eval(key)?);
                    map.insert(key, self.eval(value)?);
                }
                Ok(Value::Object(map))
            }
            Expr::Not(of) => Ok(Value::Bool(!self.truth(of)?)),
            Expr::Negate(of) => match self.eval(of)? {
                Value::Number(number) => match number.as_i64() {
                    Some(number) => number
                        .checked_neg()
                        .map_or_else(|| fail("integer overflow"), |n| Ok(Value::from(n))),
                    None => Ok(Value::from(-number.as_f64().unwrap_or_default())),
                },
                other @ (Value::Null
                | Value::Bool(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_)) => fail(format!("no such overload: -{}", kind(&other))),
            },
            Expr::And(left, right) => self.both(left, right, false),
            Expr::Or(left, right) => self.both(left, right, true),
            Expr::Binary(op, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                binary(*op, &left, &right)
            }
            Expr::If(test, left, right) => {
                if self.truth(test)? {
                    self.eval(left)
                } else {
                    self.eval(right)
                }
            }
        }
    }

    fn truth(&mut self, expr: &'a Expr) -> Result<bool, CelError> {
        match self.eval(expr)? {
            Value::Bool(truth) => Ok(truth),
            other @ (Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)) => fail(format!("no such overload: {} is no bool", kind(&other))),
        }
    }

    /// `&&` and `||`: a side that decides makes up for an error on the other.
    fn both(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> Outcome {
        let first = self.truth(left);
        if first == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        let second = self.truth(right);
        match (first, second) {
            (_, Ok(second)) if second == decides => Ok(Value::Bool(decides)),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(_)) => Ok(Value::Bool(!decides)),
        }
    }

    fn fold(&mut self, on: &'a Expr, which: Macro, variable: &'a str, bodies: &'a [Expr]) -> Outcome {
        let items = match self.eval(on)? {
            Value::Array(items) => items,
            Value::Object(map) => map.into_iter().map(|(key, _)| Value::String(key)).collect(),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                return fail(format!("no such overload: {} is no list or map", kind(&other)));
            }
        };
        let (mut list, mut count) = (Vec::new(), 0_usize);
        let mut trouble = None;
        let mut decided = None;
        for item in items {
            self.step(1)?;
            self.locals.push((variable, item));
            let result = match (which, bodies) {
                (Macro::Map, [map]) => self.eval(map).map(|value| {
                    list.push(value);
                    true
                }),
                (Macro::Map, [filter, map, ..]) => self.truth(filter).and_then(|keep| {
                    if keep {
                        list.push(self.eval(map)?);
                    }
                    Ok(keep)
                }),
                (_, [body, ..]) => self.truth(body),
                (_, []) => fail("a macro without a body"),
            };
            let item = self.locals.pop().map(|(_, item)| item).unwrap_or_default();
            match (which, result) {
                (_, Err(CelError::TooExpensive)) => return Err(CelError::TooExpensive),
                (Macro::All, Ok(false)) => decided = Some(false),
                (Macro::Exists, Ok(true)) => decided = Some(true),
                (Macro::ExistsOne, Ok(true)) => count += 1,
                (Macro::Filter, Ok(true)) => list.push(item),
                (Macro::Map | Macro::Filter | Macro::ExistsOne, Err(error)) => return Err(error),
                (Macro::All | Macro::Exists, Err(error)) => trouble = Some(error),
                (_, Ok(_)) => {}
            }
            if decided.is_some() {
                break;
            }
        }
        match (which, decided, trouble) {
            (Macro::All | Macro::Exists, Some(truth), _) => Ok(Value::Bool(truth)),
            (Macro::All | Macro::Exists, None, Some(error)) => Err(error),
            (Macro::All, None, None) => Ok(Value::Bool(true)),
            (Macro::Exists, None, None) => Ok(Value::Bool(false)),
            (Macro::ExistsOne, _, _) => Ok(Value::Bool(count == 1)),
            (Macro::Filter | Macro::Map, _, _) => Ok(Value::Array(list)),
        }
    }

    fn call(&mut self, on: Option<&'a Expr>, name: &str, arguments: &'a [Expr]) -> Outcome {
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for expr in on.into_iter().chain(arguments) {
            values.push(self.eval(expr)?);
        }
        let cost: usize = values
            .iter()
            .map(|value| value.as_str().map_or(1, str::len))
            .sum();
        self.step(cost / 16)?;
        function(name, on.is_some(), &values)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        value
            .as_f64()
            .filter(|float| float.fract() == 0.0 && float.abs() < 9e15)
            .map(|float| float as i64)
    })
}

fn text_of(value: &Value) -> String {
    crate::jsonpath::to_text(value)
}

/// Equal where `1` and `1.0` are the same number.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        (left, right) => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (_, _) => left.as_f64().partial_cmp(&right.as_f64()),
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (_, _) => None,
    }
}

fn binary(op: Op, left: &Value, right: &Value) -> Outcome {
    let none = || format!("no such overload: {} and {}", kind(left), kind(right));
    let compare = |holds: fn(Ordering) -> bool| match order(left, right) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None => fail(none()),
    };
    match op {
        Op::Equal => Ok(Value::Bool(same(left, right))),
        Op::NotEqual => Ok(Value::Bool(!same(left, right))),
        Op::Less => compare(Ordering::is_lt),
        Op::LessOrEqual => compare(Ordering::is_le),
        Op::Greater => compare(Ordering::is_gt),
        Op::GreaterOrEqual => compare(Ordering::is_ge),
        Op::In => match (left, right) {
            (left, Value::Array(items)) => Ok(Value::Bool(items.iter().any(|item| same(item, left)))),
            (Value::String(key), Value::Object(map)) => Ok(Value::Bool(map.contains_key(key))),
            (_, _) => fail(none()),
        },
        Op::Add => match (left, right) {
            (Value::String(left), Value::String(right)) => Ok(Value::String(format!("{left}{right}"))),
            (Value::Array(left), Value::Array(right)) => {
                Ok(Value::Array(left.iter().chain(right).cloned().collect()))
            }
            (_, _) => arithmetic(left, right, i64::checked_add, |left, right| left + right)
                .map_or_else(|| fail(none()), Ok),
        },
        Op::Subtract => arithmetic(left, right, i64::checked_sub, |left, right| left - right)
            .map_or_else(|| fail(none()), Ok),
        Op::Multiply => arithmetic(left, right, i64::checked_mul, |left, right| left * right)
            .map_or_else(|| fail(none()), Ok),
        Op::Divide => arithmetic(left, right, i64::checked_div, |left, right| left / right)
            .map_or_else(|| fail("division by zero"), Ok),
        Op::Remainder => arithmetic(left, right, i64::checked_rem, |left, right| left % right)
            .map_or_else(|| fail("modulus by zero"), Ok),
    }
}

fn arithmetic(
    left: &Value,
    right: &Value,
    whole: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Option<Value> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => whole(left, right).map(Value::from),
        (_, _) => Some(Value::from(float(left.as_f64()?, right.as_f64()?))),
    }
}

fn position(found: Option<usize>, text: &str) -> Value {
    match found {
        Some(at) => Value::from(text[..at].chars().count()),
        None => Value::from(-1),
    }
}

fn function(name: &str, method: bool, values: &[Value]) -> Outcome {
    let known = match values {
        [Value::String(text)] => text_function(name, text),
        [Value::String(text), Value::String(other)] => texts_function(name, text, other)?,
        [Value::Array(items)] if method || name == "size" => list_function(name, items),
        [Value::Array(items), Value::String(between)] if name == "join" => {
            let parts: Vec<String> = items.iter().map(text_of).collect();
            Some(Value::String(parts.join(between)))
        }
        [Value::Object(map)] if name == "size" => Some(Value::from(map.len())),
        [Value::String(text), Value::String(from), Value::String(to)] if name == "replace" => {
            Some(Value::String(text.replace(from.as_str(), to)))
        }
        [Value::String(text), Value::Number(_), ..] if name == "substring" => {
            let limit = text.chars().count();
            let index = |value: &Value| {
                whole(value)
                    .and_then(|at| usize::try_from(at).ok())
                    .filter(|&at| at <= limit)
            };
            let end = values.get(2).map_or(Some(limit), index);
            match (index(&values[1]), end) {
                (Some(start), Some(end)) if start <= end => Some(Value::String(
                    text.chars().skip(start).take(end - start).collect(),
                )),
                (_, _) => return fail("index out of range"),
            }
        }
        [value] => convert(name, value),
        [Value::Array(items), item] if name == "indexOf" => Some(
            items
                .iter()
                .position(|other| same(other, item))
                .map_or(Value::from(-1), Value::from),
        ),
        _ => None,
    };
    known.map_or_else(|| fail(format!("no such function: {name}")), Ok)
}

fn text_function(name: &str, text: &str) -> Option<Value> {
    match name {
        "size" => Some(Value::from(text.chars().count())),
        "lowerAscii" => Some(Value::String(text.to_ascii_lowercase())),
        "upperAscii" => Some(Value::String(text.to_ascii_uppercase())),
        "trim" => Some(Value::from(text.trim())),
        "int" => text.parse::<i64>().ok().map(Value::from),
        "double" => text.parse::<f64>().ok().map(Value::from),
        "bool" => text.parse::<bool>().ok().map(Value::from),
        "string" | "dyn" => Some(Value::from(text)),
        "type" => Some(Value::from("string")),
        _ => None,
    }
}

fn texts_function(name: &str, text: &str, other: &str) -> Result<Option<Value>, CelError> {
    Ok(match name {
        "startsWith" => Some(Value::Bool(text.starts_with(other))),
        "endsWith" => Some(Value::Bool(text.ends_with(other))),
        "contains" => Some(Value::Bool(text.contains(other))),
        "matches" => match Pattern::new(other) {
            Ok(pattern) => Some(Value::Bool(pattern.is_match(text))),
            Err(problem) => return fail(format!("bad pattern: {problem}")),
        },
        "split" => Some(text.split(other).map(Value::from).collect()),
        "indexOf" => Some(position(text.find(other), text)),
        "lastIndexOf" => Some(position(text.rfind(other), text)),
        _ => None,
    })
}

fn list_function(name: &str, items: &[Value]) -> Option<Value> {
    let best = |wanted: Ordering| {
        items.iter().try_fold(items.first()?, |best, item| {
            Some(if order(item, best)? == wanted { item } else { best })
        })
    };
    match name {
        "size" => Some(Value::from(items.len())),
        "isSorted" => {
            Some(Value::Bool(items.windows(2).all(|pair| {
                order(&pair[0], &pair[1]).is_some_and(Ordering::is_le)
            })))
        }
        "min" => best(Ordering::Less).cloned(),
        "max" => best(Ordering::Greater).cloned(),
        "sum" => items.iter().try_fold(Value::from(0), |sum, item| {
            arithmetic(&sum, item, i64::checked_add, |left, right| left + right)
        }),
        "join" => Some(Value::String(items.iter().map(text_of).collect())),
        _ => None,
    }
}

fn convert(name: &str, value: &Value) -> Option<Value> {
    match name {
        "int" => match value.as_f64() {
            Some(float) if value.is_f64() => Some(Value::from(float.trunc() as i64)),
            Some(_) | None => value.as_i64().map(Value::from),
        },
        "double" => value.as_f64().map(Value::from),
        "string" => Some(Value::String(text_of(value))),
        "dyn" => Some(value.clone()),
        "type" => Some(Value::from(kind(value))),
        _ => None,
    }
}
