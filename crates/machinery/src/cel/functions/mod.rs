//! The functions of expressions, on values that are there. A method's receiver is its first value.

mod network;
mod texts;
mod times;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use super::CelError;
use super::meter::Meter;
use super::text::Semver;
use super::value::{Val, order, same};
use crate::quantity::{Format, Quantity};
use network::{formats, network};
use texts::texts;
use times::times;

pub(super) use network::FORMATS;

/// What a function makes; `None` if it takes other values.
type Made<'a> = Result<Option<Val<'a>>, CelError>;

fn fail<T>(text: impl Into<String>) -> Result<T, CelError> {
    Err(CelError::Evaluate(text.into()))
}

/// Calls a function. What it makes is paid for before it is made, where that may be more than what it takes.
pub(super) fn call<'a>(name: &str, values: &[Val<'a>], meter: &mut Meter<'_>) -> Result<Val<'a>, CelError> {
    for library in [common, texts, lists, network, versions] {
        if let Some(made) = library(name, values, meter)? {
            return Ok(made);
        }
    }
    for library in [times, numbers, formats, optionals] {
        if let Some(made) = library(name, values)? {
            return Ok(made);
        }
    }
    let kinds: Vec<&str> = values.iter().map(Val::kind).collect();
    fail(format!("no such overload: {name}({})", kinds.join(", ")))
}

fn common<'a>(name: &str, values: &[Val<'a>], meter: &mut Meter<'_>) -> Made<'a> {
    let made = match (name, values) {
        ("size", [Val::Text(text)]) => Some(Val::size(text.chars().count())),
        ("size", [of]) => of.len().map(Val::size),
        ("dyn", [value]) => Some(value.clone()),
        ("type", [value]) => Some(Val::Type(value.kind())),
        ("bool", [Val::Bool(truth)]) => Some(Val::Bool(*truth)),
        ("bool", [Val::Text(text)]) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Some(Val::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Some(Val::Bool(false)),
            _ => return fail("type conversion error from 'string' to 'bool'"),
        },
        ("int", [Val::Text(text)]) => match text.parse() {
            Ok(whole) => Some(Val::Int(whole)),
            Err(_) => return fail("type conversion error from 'string' to 'int'"),
        },
        ("int", [Val::Duration(duration)]) => match i64::try_from(duration.as_nanos()) {
            Ok(nanos) => Some(Val::Int(nanos)),
            Err(_) => return fail("integer overflow"),
        },
        ("int", [Val::Timestamp(time)]) => Some(Val::Int(time.as_second())),
        ("int" | "uint", [Val::Double(float)]) => {
            let limit = if name == "int" { 9.3e18 } else { 1.9e19 };
            if !float.is_finite() || float.abs() >= limit || (name == "uint" && *float < 0.0) {
                return fail("integer overflow");
            }
            Some(if name == "int" {
                Val::Int(*float as i64)
            } else {
                Val::Uint(*float as u64)
            })
        }
        ("int", [Val::Int(_) | Val::Uint(_)]) => match values[0].whole() {
            Some(whole) => Some(Val::Int(whole)),
            None => return fail("integer overflow"),
        },
        ("uint", [Val::Uint(whole)]) => Some(Val::Uint(*whole)),
        ("uint", [Val::Int(whole)]) => match u64::try_from(*whole) {
            Ok(whole) => Some(Val::Uint(whole)),
            Err(_) => return fail("unsigned integer overflow"),
        },
        ("uint", [Val::Text(text)]) => match text.parse() {
            Ok(whole) => Some(Val::Uint(whole)),
            Err(_) => return fail("type conversion error from 'string' to 'uint'"),
        },
        ("double", [Val::Text(text)]) => match text.parse() {
            Ok(float) => Some(Val::Double(float)),
            Err(_) => return fail("type conversion error from 'string' to 'double'"),
        },
        ("double", [number]) => number.float().map(Val::Double),
        ("string", [value]) => Some(Val::text(meter.show(value)?)),
        _ => None,
    };
    Ok(made)
}

fn lists<'a>(name: &str, values: &[Val<'a>], meter: &mut Meter<'_>) -> Made<'a> {
    if let ("lists.range", [Val::Int(size)]) = (name, values) {
        meter.step(usize::try_from(*size).unwrap_or(0))?;
        return Ok(Some(Val::list((0..*size).map(Val::Int).collect())));
    }
    let Some((items, rest)) = values
        .split_first()
        .and_then(|(first, rest)| Some((first.items()?, rest)))
    else {
        return Ok(None);
    };
    let is = |other: &Val<'a>| {
        let other = other.clone();
        move |item: &Val<'a>| same(item, &other)
    };
    let at = |found: Option<usize>| found.map_or(Val::Int(-1), Val::size);
    let made = match (name, rest) {
        ("isSorted", []) => Val::Bool(items.windows(2).all(|pair| {
            pair.first()
                .zip(pair.last())
                .is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_le))
        })),
        ("min" | "max", []) => {
            let wanted = if name == "min" {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            let mut best: Option<&Val<'a>> = None;
            for item in &items {
                match best.map(|best| order(item, best)) {
                    None => best = Some(item),
                    Some(Some(found)) if found == wanted => best = Some(item),
                    Some(Some(_)) => {}
                    Some(None) => return Ok(None),
                }
            }
            match best {
                Some(best) => best.clone(),
                None => return fail(format!("{name} called on empty list")),
            }
        }
        ("sum", []) => match sum(&items) {
            Some(sum) => sum,
            None => return Ok(None),
        },
        ("indexOf", [other]) => at(items.iter().position(is(other))),
        ("lastIndexOf", [other]) => at(items.iter().rposition(is(other))),
        ("join", []) => Val::text(joined(&items, "", meter)?),
        ("join", [Val::Text(between)]) => Val::text(joined(&items, between, meter)?),
        ("flatten", []) => Val::list(flattened(items, 1)),
        ("flatten", [Val::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => Val::list(flattened(items, depth)),
            Err(_) => return fail("level must be non-negative"),
        },
        ("slice", [Val::Int(start), Val::Int(end)]) => Val::list(slice(items, *start, *end)?),
        ("reverse", []) => Val::list(items.into_iter().rev().collect()),
        ("distinct", []) => {
            let mut distinct: Vec<Val<'a>> = Vec::new();
            for item in items {
                if !distinct.iter().any(|known| same(known, &item)) {
                    distinct.push(item);
                }
            }
            Val::list(distinct)
        }
        ("sort", []) => sorted(items.clone(), items, meter)?,
        ("optional.unwrap" | "unwrapOpt", []) => {
            let mut given = Vec::new();
            for item in items {
                let Val::Optional(value) = item else {
                    return Ok(None);
                };
                given.extend(value.map(|value| (*value).clone()));
            }
            Val::list(given)
        }
        ("sets.contains", [other]) => match other.items() {
            Some(others) => Val::Bool(others.iter().all(|other| items.iter().any(is(other)))),
            None => return Ok(None),
        },
        ("sets.intersects", [other]) => match other.items() {
            Some(others) => Val::Bool(others.iter().any(|other| items.iter().any(is(other)))),
            None => return Ok(None),
        },
        ("sets.equivalent", [other]) => match other.items() {
            Some(others) => Val::Bool(
                others.iter().all(|other| items.iter().any(is(other)))
                    && items.iter().all(|item| others.iter().any(is(item))),
            ),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(made))
}

fn joined(items: &[Val<'_>], between: &str, meter: &mut Meter<'_>) -> Result<String, CelError> {
    let gaps = items.len().saturating_sub(1).saturating_mul(between.len());
    meter.room(
        items
            .iter()
            .fold(gaps, |sum, item| sum.saturating_add(item.shown())),
    )?;
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        match item.as_text() {
            Some(text) => out.push_str(text),
            None => out.push_str(&item.show()),
        }
    }
    Ok(out)
}

/// The items of lists in a list, and those of lists in them, down to a depth.
fn flattened(items: Vec<Val<'_>>, depth: usize) -> Vec<Val<'_>> {
    let mut flat = Vec::new();
    for item in items {
        let inner = if depth > 0 { item.items() } else { None };
        match inner {
            Some(inner) => flat.extend(flattened(inner, depth - 1)),
            None => flat.push(item),
        }
    }
    flat
}

fn slice(items: Vec<Val<'_>>, start: i64, end: i64) -> Result<Vec<Val<'_>>, CelError> {
    let cannot = |why: String| fail(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return cannot("negative indexes not supported".to_owned());
    };
    if from > to {
        return cannot("start index must be less than or equal to end index".to_owned());
    }
    if items.len() < to {
        return cannot(format!("list is length {}", items.len()));
    }
    Ok(items.into_iter().take(to).skip(from).collect())
}

/// The items in the order of their keys, which must be of one type that has an order.
pub(super) fn sorted<'a>(
    items: Vec<Val<'a>>,
    keys: Vec<Val<'a>>,
    meter: &mut Meter<'_>,
) -> Result<Val<'a>, CelError> {
    const ORDERED: [&str; 7] = [
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
    ];
    let rounds = keys.len().checked_ilog2().unwrap_or(0) as usize + 1;
    for key in &keys {
        meter.step(key.weight(meter.left()).saturating_mul(rounds))?;
    }
    if let Some(first) = keys.first() {
        if !ORDERED.contains(&first.kind()) {
            return fail("list elements must be comparable");
        }
        if keys.iter().any(|key| key.kind() != first.kind()) {
            return fail("list elements must have the same type");
        }
    }
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(left, _), (right, _)| match (left, right) {
        (Val::Double(left), Val::Double(right)) => left.total_cmp(right),
        (left, right) => order(left, right).unwrap_or(Ordering::Equal),
    });
    Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn sum<'a>(items: &[Val<'a>]) -> Option<Val<'a>> {
    let Some((first, rest)) = items.split_first() else {
        return Some(Val::Int(0));
    };
    rest.iter()
        .try_fold(first.clone(), |sum, item| match (&sum, item) {
            (Val::Int(left), Val::Int(right)) => left.checked_add(*right).map(Val::Int),
            (Val::Uint(left), Val::Uint(right)) => left.checked_add(*right).map(Val::Uint),
            (Val::Duration(left), Val::Duration(right)) => left.checked_add(*right).map(Val::Duration),
            (left, right) => Some(Val::Double(left.float()? + right.float()?)),
        })
}

fn numbers<'a>(name: &str, values: &[Val<'a>]) -> Made<'a> {
    let made = match (name, values) {
        ("isQuantity", [Val::Text(text)]) => Val::Bool(Quantity::parse(text).is_ok()),
        ("quantity", [Val::Text(text)]) => match Quantity::parse(text) {
            Ok(quantity) => Val::Quantity(quantity),
            Err(error) => return fail(error.to_string()),
        },
        (_, [Val::Quantity(quantity)]) => match name {
            "sign" => Val::Int(quantity.signum().into()),
            "isInteger" => Val::Bool(as_integer(quantity).is_some()),
            "asInteger" => match as_integer(quantity) {
                Some(whole) => Val::Int(whole),
                None => return fail("cannot convert value to integer"),
            },
            "asApproximateFloat" => Val::Double(quantity.as_f64()),
            _ => return Ok(None),
        },
        ("add" | "sub", [left, Val::Int(whole)]) => {
            let right = Val::Quantity(Quantity::from_units(*whole, Format::DecimalSi));
            return numbers(name, &[left.clone(), right]);
        }
        ("add" | "sub", [Val::Quantity(left), Val::Quantity(right)]) => {
            let made = if name == "add" {
                left.checked_add(right)
            } else {
                left.checked_sub(right)
            };
            match made {
                Some(quantity) => Val::Quantity(quantity),
                None => return fail("quantity overflow"),
            }
        }
        (_, [Val::Quantity(left), Val::Quantity(right)]) => match compared(name, left.cmp(right)) {
            Some(made) => made,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(made))
}

fn as_integer(quantity: &Quantity) -> Option<i64> {
    let whole = i64::try_from(quantity.value()).ok()?;
    (Quantity::from_units(whole, Format::DecimalSi).cmp(quantity) == Ordering::Equal).then_some(whole)
}

fn compared<'a>(name: &str, order: Ordering) -> Option<Val<'a>> {
    match name {
        "isLessThan" => Some(Val::Bool(order.is_lt())),
        "isGreaterThan" => Some(Val::Bool(order.is_gt())),
        "compareTo" => Some(Val::Int(order as i64)),
        _ => None,
    }
}

fn versions<'a>(name: &str, values: &[Val<'a>], meter: &mut Meter<'_>) -> Made<'a> {
    let mut read = |text: &str, lenient: bool| {
        meter.step(text.len() / 8)?;
        Ok::<_, CelError>(Semver::parse(&if lenient {
            Semver::completed(text)
        } else {
            Cow::Borrowed(text)
        }))
    };
    let made = match (name, values) {
        ("isSemver", [Val::Text(text)]) => Val::Bool(read(text, false)?.is_some()),
        ("isSemver", [Val::Text(text), Val::Bool(lenient)]) => Val::Bool(read(text, *lenient)?.is_some()),
        ("semver", [Val::Text(text)] | [Val::Text(text), Val::Bool(_)]) => {
            let lenient = matches!(values.last(), Some(Val::Bool(true)));
            match read(text, lenient)? {
                Some(version) => Val::Semver(Rc::new(version)),
                None => return fail(format!("'{}' is no semantic version", values[0].brief())),
            }
        }
        ("major", [Val::Semver(version)]) => Val::Int(version.numbers[0]),
        ("minor", [Val::Semver(version)]) => Val::Int(version.numbers[1]),
        ("patch", [Val::Semver(version)]) => Val::Int(version.numbers[2]),
        (_, [Val::Semver(left), Val::Semver(right)]) => match compared(name, left.order(right)) {
            Some(made) => made,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(made))
}

fn optionals<'a>(name: &str, values: &[Val<'a>]) -> Made<'a> {
    let is_zero = |value: &Val<'a>| {
        matches!(value, Val::Null | Val::Bool(false) | Val::Optional(None))
            || value.float() == Some(0.0)
            || value.as_text() == Some("")
            || value.len() == Some(0)
    };
    let made = match (name, values) {
        ("optional.none", []) => Val::Optional(None),
        ("optional.of", [value]) => Val::some(value.clone()),
        ("optional.ofNonZeroValue", [value]) if is_zero(value) => Val::Optional(None),
        ("optional.ofNonZeroValue", [value]) => Val::some(value.clone()),
        ("first", [list]) if list.is_list() => Val::Optional(list.at(&Val::Int(0)).map(Rc::new)),
        ("last", [list]) if list.is_list() => {
            let last = list.len().and_then(|size| size.checked_sub(1));
            Val::Optional(last.and_then(|last| list.at(&Val::size(last))).map(Rc::new))
        }
        ("hasValue", [Val::Optional(value)]) => Val::Bool(value.is_some()),
        ("value", [Val::Optional(Some(value))]) => (**value).clone(),
        ("value", [Val::Optional(None)]) => return fail("optional.none() dereference"),
        ("or", [Val::Optional(value), other @ Val::Optional(_)]) => match value {
            Some(_) => values[0].clone(),
            None => other.clone(),
        },
        ("orValue", [Val::Optional(value), other]) => match value {
            Some(value) => (**value).clone(),
            None => other.clone(),
        },
        _ => return Ok(None),
    };
    Ok(Some(made))
}
