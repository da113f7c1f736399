//! Evaluating expressions. Whole and other numbers are compared and computed as numbers.

use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::Value;

use super::meter::{Budget, Meter};
use super::value::{Val, order, same, type_named};
use super::{CelError, Expr, Given, Macro, Op, Program, functions, signatures};
use crate::schema::Schema;

/// Functions that do not look into lists and maps.
const DIRECT: [&str; 11] = [
    "size",
    "dyn",
    "type",
    "hasValue",
    "value",
    "or",
    "orValue",
    "optional.of",
    "optional.ofNonZeroValue",
    "first",
    "last",
];

type Outcome<'a> = Result<Val<'a>, CelError>;

fn fail<T>(text: impl Into<String>) -> Result<T, CelError> {
    Err(CelError::Evaluate(text.into()))
}

pub(super) fn evaluate(
    program: &Program,
    variables: &[(&str, Given<'_>)],
    schema: Option<&Schema>,
    budget: &mut Budget,
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
        meter: Meter::new(budget, &program.patterns),
    };
    let made = machine.eval(&program.root)?;
    machine.meter.weigh(&made)?;
    Ok(made.into_json())
}

struct Machine<'a, 'b> {
    names: Vec<(&'a str, Val<'a>)>,
    meter: Meter<'b>,
}

impl<'a> Machine<'a, '_> {
    /// Evaluates an expression. Every way to go deeper is a function of its own, so that deep ones take little stack.
    fn eval(&mut self, expr: &'a Expr) -> Outcome<'a> {
        self.meter.step(1)?;
        match expr {
            Expr::Literal(value) => Ok(Val::of(value, None)),
            Expr::Ident(name) => self.named(name),
            Expr::Select(of, field) => self.select(of, field),
            Expr::OptionalSelect(of, field) => self.optional_select(of, field),
            Expr::Has(of, field) => self.has(of, field),
            Expr::Index(of, index) => self.index(of, index),
            Expr::OptionalIndex(of, index) => self.optional_index(of, index),
            Expr::Call(on, name, arguments) => self.call(on.as_deref(), name, arguments),
            Expr::Macro(on, which, variables, bodies) => self.expand(on, *which, variables, bodies),
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(of) => self.truth(of).map(|truth| Val::Bool(!truth)),
            Expr::Negate(of) => self.negate(of),
            Expr::And(left, right) => self.both(left, right, false),
            Expr::Or(left, right) => self.both(left, right, true),
            Expr::Binary(op, left, right) => self.binary(*op, left, right),
            Expr::If(test, left, right) => match self.truth(test) {
                Ok(true) => self.eval(left),
                Ok(false) => self.eval(right),
                Err(error) => Err(error),
            },
        }
    }

    fn named(&self, name: &str) -> Outcome<'a> {
        if let Some((_, value)) = self.names.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        type_named(name).map_or_else(
            || fail(format!("undeclared reference to '{name}'")),
            |kind| Ok(Val::Type(kind)),
        )
    }

    fn select(&mut self, of: &'a Expr, field: &str) -> Outcome<'a> {
        let of = self.searched(of)?;
        // what is selected of an optional value is one
        if let Val::Optional(of) = of {
            return Ok(optional(of.and_then(|of| of.field(field))));
        }
        of.field(field)
            .map_or_else(|| fail(format!("no such key: {field}")), Ok)
    }

    fn optional_select(&mut self, of: &'a Expr, field: &str) -> Outcome<'a> {
        let of = self.searched(of)?;
        Ok(optional(opened(&of).and_then(|of| of.field(field))))
    }

    fn has(&mut self, of: &'a Expr, field: &str) -> Outcome<'a> {
        let of = self.searched(of)?;
        Ok(Val::Bool(opened(&of).is_some_and(|of| of.field(field).is_some())))
    }

    fn index(&mut self, of: &'a Expr, index: &'a Expr) -> Outcome<'a> {
        let (of, index) = (self.searched(of)?, self.eval(index)?);
        self.meter.weigh(&index)?;
        if let Val::Optional(of) = of {
            return Ok(optional(of.and_then(|of| of.at(&index))));
        }
        of.at(&index)
            .map_or_else(|| fail(format!("no such key: {}", index.brief())), Ok)
    }

    fn optional_index(&mut self, of: &'a Expr, index: &'a Expr) -> Outcome<'a> {
        let (of, index) = (self.searched(of)?, self.eval(index)?);
        self.meter.weigh(&index)?;
        Ok(optional(opened(&of).and_then(|of| of.at(&index))))
    }

    fn negate(&mut self, of: &'a Expr) -> Outcome<'a> {
        let value = self.eval(of)?;
        negated(&value).map_or_else(|| fail(format!("no such overload: -{}", value.kind())), Ok)
    }

    fn binary(&mut self, op: Op, left: &'a Expr, right: &'a Expr) -> Outcome<'a> {
        let (left, right) = (self.eval(left)?, self.eval(right)?);
        self.meter.weigh(&left)?;
        self.meter.weigh(&right)?;
        if let (Op::Add, Some(left), Some(right)) = (op, left.as_text(), right.as_text()) {
            self.meter.room(left.len() + right.len())?;
        }
        binary(op, &left, &right)
    }

    fn expand(
        &mut self,
        on: &'a Expr,
        which: Macro,
        variables: &'a [String],
        bodies: &'a [Expr],
    ) -> Outcome<'a> {
        let on = self.eval(on)?;
        match which {
            Macro::OptMap | Macro::OptFlatMap => self.inside(on, which, variables, bodies),
            Macro::All | Macro::Exists | Macro::ExistsOne | Macro::Filter | Macro::Map | Macro::SortBy => {
                self.fold(&on, which, variables, bodies)
            }
        }
    }

    /// A value in which something will be looked for.
    fn searched(&mut self, of: &'a Expr) -> Outcome<'a> {
        let of = self.eval(of)?;
        self.meter.step(opened(&of).map_or(0, Val::span))?;
        Ok(of)
    }

    fn list(&mut self, items: &'a [Expr]) -> Outcome<'a> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.eval(item)?);
        }
        Ok(Val::list(list))
    }

    fn map(&mut self, entries: &'a [(Expr, Expr)]) -> Outcome<'a> {
        let mut map: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let (key, value) = (self.eval(key)?, self.eval(value)?);
            self.meter.weigh(&key)?;
            self.meter.step(map.len() / 16)?;
            if map.iter().any(|(known, _)| same(known, &key)) {
                return fail(format!("Failed with repeated key: {}", key.brief()));
            }
            map.push((key, value));
        }
        Ok(Val::Map(Rc::new(map)))
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
        on: Val<'a>,
        which: Macro,
        variables: &'a [String],
        bodies: &'a [Expr],
    ) -> Outcome<'a> {
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
            Macro::OptMap
            | Macro::All
            | Macro::Exists
            | Macro::ExistsOne
            | Macro::Filter
            | Macro::Map
            | Macro::SortBy => made.map(Val::some),
        }
    }

    fn fold(
        &mut self,
        on: &Val<'a>,
        which: Macro,
        variables: &'a [String],
        bodies: &'a [Expr],
    ) -> Outcome<'a> {
        let is_map = on.is_map();
        let Some(each) = on.each().filter(|_| !(is_map && which == Macro::SortBy)) else {
            return fail(format!("no such overload: {} is no list or map", on.kind()));
        };
        let (mut list, mut keys, mut count) = (Vec::new(), Vec::new(), 0_usize);
        let mut trouble = None;
        let mut decided = None;
        for (key, value) in each {
            self.meter.step(1)?;
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
                (Macro::SortBy, [by, ..]) => self.eval(by).map(|key| {
                    keys.push(key);
                    list.push(item.clone());
                    true
                }),
                (_, [body, ..]) => self.truth(body),
                (_, []) => fail("a macro without a body"),
            };
            self.names.truncate(depth);
            match (which, result) {
                (_, Err(error)) if error.is_final() => return Err(error),
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
            (Macro::SortBy, _, _) => functions::sorted(list, keys, &mut self.meter),
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
        self.pay(name, &values)?;
        functions::call(name, &values, &mut self.meter)
    }

    /// Charges for what a function looks at.
    fn pay(&mut self, name: &str, values: &[Val<'a>]) -> Result<(), CelError> {
        if DIRECT.contains(&name) {
            let texts = values.iter().filter_map(Val::as_text);
            return self.meter.step(texts.map(|text| text.len() / 64).sum());
        }
        let mut weights = Vec::with_capacity(values.len());
        for value in values {
            weights.push(self.meter.weigh(value)?);
        }
        if name.starts_with("sets.") || name == "distinct" {
            // each with each
            let (first, last) = (weights.first().copied(), weights.last().copied());
            let pairs = first.unwrap_or(0).saturating_mul(last.unwrap_or(0));
            self.meter.step(pairs)?;
        }
        Ok(())
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
            if right.is_map() {
                return Ok(Val::Bool(right.at(left).is_some()));
            }
            match right.each() {
                Some(mut items) => Ok(Val::Bool(items.any(|(_, item)| same(&item, left)))),
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
        (Val::Text(left), Val::Text(right)) => Some(Val::text([&**left, &**right].concat())),
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
