//! Evaluating expressions. Whole and other numbers are compared and computed as numbers.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::Value;

use super::value::{Val, order, same};
use super::{CelError, Expr, Given, Macro, Op, functions, signatures};
use crate::schema::Schema;

/// How many steps one evaluation may take.
const MAX_STEPS: usize = 1_000_000;

type Outcome<'a> = Result<Val<'a>, CelError>;

fn fail<T>(text: impl Into<String>) -> Result<T, CelError> {
    Err(CelError::Evaluate(text.into()))
}

pub(super) fn evaluate(
    expr: &Expr,
    variables: &[(&str, Given<'_>)],
    schema: Option<&Schema>,
) -> Result<Value, CelError> {
    let names = variables.iter().map(|(name, given)| {
        let value = match given {
            Given::Value(value) => Val::of(value, schema),
            Given::Optional(None) => Val::Optional(None),
            Given::Optional(Some(value)) => Val::some(Val::of(value, schema)),
        };
        (*name, value)
    });
    let mut machine = Machine {
        names: names.collect(),
        steps: 0,
    };
    machine.eval(expr).map(Val::into_json)
}

struct Machine<'a> {
    names: Vec<(&'a str, Val<'a>)>,
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

    fn eval(&mut self, expr: &'a Expr) -> Outcome<'a> {
        self.step(1)?;
        match expr {
            Expr::Literal(value) => Ok(Val::of(value, None)),
            Expr::Ident(name) => {
                let known = self.names.iter().rev().find(|(known, _)| known == name);
                match (known, type_named(name)) {
                    (Some((_, value)), _) => Ok(value.clone()),
                    (None, Some(kind)) => Ok(Val::Type(kind)),
                    (None, None) => fail(format!("undeclared reference to '{name}'")),
                }
            }
            Expr::Select(of, field) => {
                let of = self.eval(of)?;
                // what is selected of an optional value is one
                if let Val::Optional(of) = of {
                    return Ok(optional(of.and_then(|of| of.field(field))));
                }
                of.field(field)
                    .map_or_else(|| fail(format!("no such key: {field}")), Ok)
            }
            Expr::OptionalSelect(of, field) => {
                let of = self.eval(of)?;
                Ok(optional(opened(&of).and_then(|of| of.field(field))))
            }
            Expr::Has(of, field) => {
                let of = self.eval(of)?;
                Ok(Val::Bool(opened(&of).is_some_and(|of| of.field(field).is_some())))
            }
            Expr::Index(of, index) => {
                let (of, index) = (self.eval(of)?, self.eval(index)?);
                if let Val::Optional(of) = of {
                    return Ok(optional(of.and_then(|of| of.at(&index))));
                }
                of.at(&index)
                    .map_or_else(|| fail(format!("no such key: {}", index.show())), Ok)
            }
            Expr::OptionalIndex(of, index) => {
                let (of, index) = (self.eval(of)?, self.eval(index)?);
                Ok(optional(opened(&of).and_then(|of| of.at(&index))))
            }
            Expr::Call(on, name, arguments) => self.call(on.as_deref(), name, arguments),
            Expr::Macro(on, which, variables, bodies) => match which {
                Macro::OptMap | Macro::OptFlatMap => self.inside(on, *which, variables, bodies),
                Macro::All | Macro::Exists | Macro::ExistsOne | Macro::Filter | Macro::Map => {
                    self.fold(on, *which, variables, bodies)
                }
            },
            Expr::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.push(self.eval(item)?);
                }
                Ok(Val::list(list))
            }
            Expr::Map(entries) => {
                let mut map: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let (key, value) = (self.eval(key)?, self.eval(value)?);
                    if map.iter().any(|(known, _)| same(known, &key)) {
                        return fail(format!("Failed with repeated key: {}", key.show()));
                    }
                    map.push((key, value));
                }
                Ok(Val::Map(Rc::new(map)))
            }
            Expr::Not(of) => Ok(Val::Bool(!self.truth(of)?)),
            Expr::Negate(of) => {
                let value = self.eval(of)?;
                negated(&value).map_or_else(|| fail(format!("no such overload: -{}", value.kind())), Ok)
            }
            Expr::And(left, right) => self.both(left, right, false),
            Expr::Or(left, right) => self.both(left, right, true),
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                self.step(left.weight() + right.weight())?;
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
        let value = self.eval(expr)?;
        let Val::Bool(truth) = value else {
            return fail(format!("no such overload: {} is no bool", value.kind()));
        };
        Ok(truth)
    }

    /// `&&` and `||`: a side that decides makes up for an error on the other.
    fn both(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> Outcome<'a> {
        let first = self.truth(left);
        if first == Ok(decides) {
            return Ok(Val::Bool(decides));
        }
        let second = self.truth(right);
        match (first, second) {
            (_, Ok(second)) if second == decides => Ok(Val::Bool(decides)),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(_)) => Ok(Val::Bool(!decides)),
        }
    }

    /// `optMap` and `optFlatMap`.
    fn inside(
        &mut self,
        on: &'a Expr,
        which: Macro,
        variables: &'a [String],
        bodies: &'a [Expr],
    ) -> Outcome<'a> {
        let on = self.eval(on)?;
        let Val::Optional(value) = on else {
            return fail(format!("no such overload: {} is not optional", on.kind()));
        };
        let (Some(value), Some(name), Some(body)) = (value, variables.first(), bodies.first()) else {
            return Ok(Val::Optional(None));
        };
        self.names.push((name, (*value).clone()));
        let made = self.eval(body);
        self.names.pop();
        match which {
            Macro::OptFlatMap => made,
            Macro::OptMap | Macro::All | Macro::Exists | Macro::ExistsOne | Macro::Filter | Macro::Map => {
                made.map(Val::some)
            }
        }
    }

    fn fold(
        &mut self,
        on: &'a Expr,
        which: Macro,
        variables: &'a [String],
        bodies: &'a [Expr],
    ) -> Outcome<'a> {
        let on = self.eval(on)?;
        let items: Vec<(Val<'a>, Val<'a>)> = if let Some(items) = on.items() {
            let numbered = items.into_iter().enumerate();
            numbered.map(|(at, item)| (Val::size(at), item)).collect()
        } else if let Some(entries) = on.entries() {
            entries
        } else {
            return fail(format!("no such overload: {} is no list or map", on.kind()));
        };
        let is_map = on.entries().is_some();
        let (mut list, mut count) = (Vec::new(), 0_usize);
        let mut trouble = None;
        let mut decided = None;
        for (key, value) in items {
            self.step(1)?;
            let item = if is_map { key.clone() } else { value.clone() };
            let depth = self.names.len();
            match variables {
                [one] => self.names.push((one, item.clone())),
                [one, two, ..] => self.names.extend([(one.as_str(), key), (two.as_str(), value)]),
                [] => {}
            }
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
            self.names.truncate(depth);
            match (which, result) {
                (_, Err(CelError::TooExpensive)) => return Err(CelError::TooExpensive),
                (Macro::All, Ok(false)) => decided = Some(false),
                (Macro::Exists, Ok(true)) => decided = Some(true),
                (Macro::ExistsOne, Ok(true)) => count += 1,
                (Macro::Filter, Ok(true)) => list.push(item),
                (Macro::All | Macro::Exists, Err(error)) => trouble = Some(error),
                (_, Err(error)) => return Err(error),
                (_, Ok(_)) => {}
            }
            if decided.is_some() {
                break;
            }
        }
        match (which, decided, trouble) {
            (Macro::All | Macro::Exists, Some(truth), _) => Ok(Val::Bool(truth)),
            (Macro::All | Macro::Exists, None, Some(error)) => Err(error),
            (Macro::All, None, None) => Ok(Val::Bool(true)),
            (Macro::Exists, None, None) => Ok(Val::Bool(false)),
            (Macro::ExistsOne, _, _) => Ok(Val::Bool(count == 1)),
            (Macro::Filter | Macro::Map | Macro::OptMap | Macro::OptFlatMap, _, _) => Ok(Val::list(list)),
        }
    }

    fn call(&mut self, on: Option<&'a Expr>, name: &str, arguments: &'a [Expr]) -> Outcome<'a> {
        if signatures::MISSING.contains(&name) {
            return Err(CelError::Missing(name.to_owned()));
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for expr in on.into_iter().chain(arguments) {
            values.push(self.eval(expr)?);
        }
        let mut cost: usize = values.iter().map(Val::weight).sum();
        if name.starts_with("sets.") {
            cost = values.iter().map(Val::weight).product();
        }
        self.step(cost)?;
        functions::call(name, &values)
    }
}

fn optional(value: Option<Val<'_>>) -> Val<'_> {
    Val::Optional(value.map(Rc::new))
}

/// What is in an optional value, or the value itself.
fn opened<'v, 'a>(value: &'v Val<'a>) -> Option<&'v Val<'a>> {
    let Val::Optional(inner) = value else {
        return Some(value);
    };
    inner.as_deref()
}

fn type_named(name: &str) -> Option<&'static str> {
    [
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "list",
        "map",
        "null_type",
        "type",
    ]
    .into_iter()
    .find(|kind| *kind == name)
}

fn negated<'a>(value: &Val<'a>) -> Option<Val<'a>> {
    if let Val::Int(whole) = value {
        return whole.checked_neg().map(Val::Int);
    }
    let Val::Double(float) = value else { return None };
    Some(Val::Double(-float))
}

fn binary<'a>(op: Op, left: &Val<'a>, right: &Val<'a>) -> Outcome<'a> {
    let none = || format!("no such overload: {} and {}", left.kind(), right.kind());
    let compare = |holds: fn(Ordering) -> bool| match order(left, right) {
        Some(order) => Ok(Val::Bool(holds(order))),
        None => fail(none()),
    };
    match op {
        Op::Equal => Ok(Val::Bool(same(left, right))),
        Op::NotEqual => Ok(Val::Bool(!same(left, right))),
        Op::Less => compare(Ordering::is_lt),
        Op::LessOrEqual => compare(Ordering::is_le),
        Op::Greater => compare(Ordering::is_gt),
        Op::GreaterOrEqual => compare(Ordering::is_ge),
        Op::In => {
            if let Some(items) = right.items() {
                return Ok(Val::Bool(items.iter().any(|item| same(item, left))));
            }
            match right.entries() {
                Some(_) => Ok(Val::Bool(right.at(left).is_some())),
                None => fail(none()),
            }
        }
        Op::Add => added(left, right).map_or_else(|| fail(none()), Ok),
        Op::Subtract => subtracted(left, right).map_or_else(|| fail(none()), Ok),
        Op::Multiply => arithmetic(left, right, i64::checked_mul, |left, right| left * right)
            .map_or_else(|| fail(none()), Ok),
        Op::Divide => arithmetic(left, right, i64::checked_div, |left, right| left / right)
            .map_or_else(|| fail("division by zero"), Ok),
        Op::Remainder => arithmetic(left, right, i64::checked_rem, |left, right| left % right)
            .map_or_else(|| fail("modulus by zero"), Ok),
    }
}

fn added<'a>(left: &Val<'a>, right: &Val<'a>) -> Option<Val<'a>> {
    match (left, right) {
        (Val::Text(left), Val::Text(right)) => Some(Val::Text(Cow::Owned(format!("{left}{right}")))),
        (Val::Duration(left), Val::Duration(right)) => left.checked_add(*right).map(Val::Duration),
        (Val::Timestamp(time), Val::Duration(duration)) | (Val::Duration(duration), Val::Timestamp(time)) => {
            time.checked_add(*duration).ok().map(Val::Timestamp)
        }
        (left, right) => match (left.items(), right.items()) {
            (Some(mut items), Some(more)) => {
                items.extend(more);
                Some(Val::list(items))
            }
            (_, _) => arithmetic(left, right, i64::checked_add, |left, right| left + right),
        },
    }
}

fn subtracted<'a>(left: &Val<'a>, right: &Val<'a>) -> Option<Val<'a>> {
    match (left, right) {
        (Val::Duration(left), Val::Duration(right)) => left.checked_sub(*right).map(Val::Duration),
        (Val::Timestamp(time), Val::Duration(duration)) => {
            time.checked_sub(*duration).ok().map(Val::Timestamp)
        }
        (Val::Timestamp(left), Val::Timestamp(right)) => Some(Val::Duration(left.duration_since(*right))),
        (left, right) => arithmetic(left, right, i64::checked_sub, |left, right| left - right),
    }
}

fn arithmetic<'a>(
    left: &Val<'a>,
    right: &Val<'a>,
    whole: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Option<Val<'a>> {
    if let (Val::Int(left), Val::Int(right)) = (left, right) {
        return whole(*left, *right).map(Val::Int);
    }
    Some(Val::Double(float(left.float()?, right.float()?)))
}
