//! Checking an expression against the schema of what it will see: names, fields, functions and the types of values, as
//! far as they are sure. What is not sure is left to the evaluation.

use serde_json::Value;

use super::value::type_named;
use super::{Expr, Macro, Op, Scope, signatures};
use crate::schema::{Additional, Kind, Schema};

/// What is known of a value.
#[derive(Debug, Clone)]
pub(super) enum Type<'a> {
    /// Nothing.
    Dyn,
    /// A type without parts: `bool`, `int`, `timestamp`…
    Plain(&'static str),
    List(Box<Type<'a>>),
    /// Any keys, with values of a type.
    Map(Box<Type<'a>>),
    /// The fields of a schema. The root of an object has `apiVersion`, `kind` and `metadata` besides.
    Object(&'a Schema, bool),
}

impl<'a> Type<'a> {
    /// The type of what a schema allows.
    fn of(schema: &'a Schema, is_root: bool) -> Self {
        let format = || schema.rules.as_ref().map_or("", |rules| rules.format.as_str());
        match schema.kind {
            Kind::Any | Kind::IntOrString => Self::Dyn,
            Kind::Boolean => Self::Plain("bool"),
            Kind::Integer => Self::Plain("int"),
            Kind::Number => Self::Plain("double"),
            Kind::String => match format() {
                "date" | "date-time" | "datetime" => Self::Plain("timestamp"),
                "duration" => Self::Plain("duration"),
                // bytes to Kubernetes, and a text here
                "byte" => Self::Dyn,
                _ => Self::Plain("string"),
            },
            Kind::Array => Self::List(Box::new(
                schema.item().map_or(Self::Dyn, |item| Self::of(item, false)),
            )),
            Kind::Object => match &schema.additional {
                Additional::Values(values) => Self::Map(Box::new(Self::of(values, false))),
                Additional::Any => Self::Dyn,
                Additional::Unset | Additional::Forbidden if schema.preserve_unknown => Self::Dyn,
                Additional::Unset | Additional::Forbidden => {
                    Self::Object(schema, is_root || schema.embedded_resource)
                }
            },
        }
    }

    /// The type of a list's items, or of a map's keys.
    pub(super) fn item(&self) -> Self {
        match self {
            Self::List(item) => (**item).clone(),
            Self::Map(_) => Self::Plain("string"),
            Self::Dyn | Self::Plain(_) | Self::Object(_, _) => Self::Dyn,
        }
    }

    /// Whether it may turn out to be what a word of a signature says.
    pub(super) fn may_be(&self, word: &str) -> bool {
        match self {
            Self::Dyn => true,
            _ if word == "any" => true,
            Self::Plain(name) => *name == word,
            Self::List(_) => word == "list",
            Self::Map(_) | Self::Object(_, _) => word == "map",
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Plain("int" | "uint" | "double"))
    }

    /// Whether values of the two may be compared with `==`.
    fn may_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Plain("null_type"), _) | (_, Self::Plain("null_type")) => true,
            (Self::Plain(left), Self::Plain(right)) => left == right,
            (Self::List(left), Self::List(right)) | (Self::Map(left), Self::Map(right)) => {
                left.may_equal(right)
            }
            (Self::Map(_) | Self::Object(_, _), Self::Map(_) | Self::Object(_, _)) => true,
            (_, _) => false,
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Plain("timestamp") => "google.protobuf.Timestamp".to_owned(),
            Self::Plain("duration") => "google.protobuf.Duration".to_owned(),
            Self::Plain(name) => (*name).to_owned(),
            Self::List(item) => format!("list({})", item.show()),
            Self::Map(value) => format!("map(string, {})", value.show()),
            Self::Object(_, _) => "object".to_owned(),
        }
    }
}

/// What is wrong with an expression that sees a scope and is to give a value of a type.
pub(super) fn problem(root: &Expr, scope: &Scope<'_>, wanted: &'static str) -> Option<String> {
    let of = Type::of(scope.schema, scope.is_root);
    let sure = scope.variables.iter().map(|name| (*name, of.clone()));
    let optional = scope.optional.iter().map(|name| (*name, Type::Plain("optional")));
    let mut checker = Checker {
        names: sure.chain(optional).collect(),
    };
    match checker.expr(root) {
        Err(problem) => Some(problem),
        Ok(found) if found.may_be(wanted) => None,
        Ok(_) => Some(format!("must evaluate to a {wanted}")),
    }
}

struct Checker<'a> {
    names: Vec<(&'a str, Type<'a>)>,
}

type Found<'a> = Result<Type<'a>, String>;

fn no_overload<'a>(name: &str, types: &[Type<'_>]) -> Found<'a> {
    let types: Vec<String> = types.iter().map(Type::show).collect();
    Err(format!(
        "found no matching overload for '{name}' applied to '({})'",
        types.join(", ")
    ))
}

impl<'a> Checker<'a> {
    fn expr(&mut self, expr: &'a Expr) -> Found<'a> {
        match expr {
            Expr::Literal(value) => Ok(literal(value)),
            Expr::Ident(name) => self.named(name),
            Expr::Select(of, field) => self.select(of, field),
            Expr::Has(of, field) => self.select(of, field).map(|_| Type::Plain("bool")),
            Expr::OptionalSelect(of, field) => self.select(of, field).map(|_| Type::Plain("optional")),
            Expr::OptionalIndex(of, index) => self.index(of, index).map(|_| Type::Plain("optional")),
            Expr::Index(of, index) => self.index(of, index),
            Expr::Call(on, name, arguments) => self.call(on.as_deref(), name, arguments),
            Expr::Macro(on, which, variables, bodies) => self.expand(on, *which, variables, bodies),
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(of) => self.not(of),
            Expr::Negate(of) => self.negate(of),
            Expr::And(left, right) => self.junction("_&&_", left, right),
            Expr::Or(left, right) => self.junction("_||_", left, right),
            Expr::Binary(op, left, right) => self.binary(*op, left, right),
            Expr::If(test, left, right) => self.choice(test, left, right),
        }
    }

    fn named(&self, name: &str) -> Found<'a> {
        let known = self.names.iter().rev().find(|(known, _)| *known == name);
        match known {
            Some((_, kind)) => Ok(kind.clone()),
            None if type_named(name).is_some() => Ok(Type::Plain("type")),
            None => Err(format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn list(&mut self, items: &'a [Expr]) -> Found<'a> {
        let mut inner: Option<Type<'a>> = None;
        for item in items {
            let found = self.expr(item)?;
            inner = Some(match inner {
                None => found,
                Some(inner) if inner.may_equal(&found) => inner,
                Some(_) => Type::Dyn,
            });
        }
        Ok(Type::List(Box::new(inner.unwrap_or(Type::Dyn))))
    }

    fn map(&mut self, entries: &'a [(Expr, Expr)]) -> Found<'a> {
        for (key, value) in entries {
            self.expr(key)?;
            self.expr(value)?;
        }
        Ok(Type::Map(Box::new(Type::Dyn)))
    }

    fn not(&mut self, of: &'a Expr) -> Found<'a> {
        let found = self.expr(of)?;
        if found.may_be("bool") {
            Ok(Type::Plain("bool"))
        } else {
            no_overload("!_", &[found])
        }
    }

    fn negate(&mut self, of: &'a Expr) -> Found<'a> {
        let found = self.expr(of)?;
        if matches!(found, Type::Dyn) || found.is_number() {
            Ok(found)
        } else {
            no_overload("-_", &[found])
        }
    }

    fn binary(&mut self, op: Op, left: &'a Expr, right: &'a Expr) -> Found<'a> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        binary(op, left, right)
    }

    fn choice(&mut self, test: &'a Expr, left: &'a Expr, right: &'a Expr) -> Found<'a> {
        let test = self.expr(test)?;
        if !test.may_be("bool") {
            return no_overload("_?_:_", &[test]);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        if left.may_equal(&right) {
            Ok(left)
        } else {
            Ok(Type::Dyn)
        }
    }

    fn junction(&mut self, name: &str, left: &'a Expr, right: &'a Expr) -> Found<'a> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        if left.may_be("bool") && right.may_be("bool") {
            Ok(Type::Plain("bool"))
        } else {
            no_overload(name, &[left, right])
        }
    }

    fn select(&mut self, of: &'a Expr, field: &str) -> Found<'a> {
        let of = self.expr(of)?;
        selected(of, field)
    }

    fn index(&mut self, of: &'a Expr, index: &'a Expr) -> Found<'a> {
        let (of, index) = (self.expr(of)?, self.expr(index)?);
        match &of {
            Type::List(item) if index.may_be("int") || index.may_be("double") => Ok((**item).clone()),
            Type::Map(value) if index.may_be("string") => Ok((**value).clone()),
            Type::Dyn | Type::Plain("optional") => Ok(Type::Dyn),
            Type::List(_) | Type::Map(_) | Type::Plain(_) | Type::Object(_, _) => {
                no_overload("_[_]", &[of, index])
            }
        }
    }

    fn call(&mut self, on: Option<&'a Expr>, name: &str, arguments: &'a [Expr]) -> Found<'a> {
        if signatures::MISSING.contains(&name) {
            return Ok(Type::Dyn);
        }
        let mut types = Vec::new();
        for expr in on.into_iter().chain(arguments) {
            types.push(self.expr(expr)?);
        }
        called(name, on.is_some(), &types)
    }

    fn expand(
        &mut self,
        on: &'a Expr,
        which: Macro,
        variables: &'a [String],
        bodies: &'a [Expr],
    ) -> Found<'a> {
        let of = self.expr(on)?;
        self.fold(of, which, variables, bodies)
    }

    fn fold(&mut self, of: Type<'a>, which: Macro, variables: &'a [String], bodies: &'a [Expr]) -> Found<'a> {
        if matches!(of, Type::Plain(name) if name != "optional") {
            return Err(format!(
                "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                of.show()
            ));
        }
        let depth = self.names.len();
        let types = match (&of, variables) {
            (Type::Plain(_) | Type::Dyn, _) => vec![Type::Dyn, Type::Dyn],
            (_, [_]) => vec![of.item()],
            (Type::List(item), _) => vec![Type::Plain("int"), (**item).clone()],
            (Type::Map(value), _) => vec![Type::Plain("string"), (**value).clone()],
            (Type::Object(_, _), _) => vec![Type::Plain("string"), Type::Dyn],
        };
        for (name, kind) in variables.iter().zip(types) {
            self.names.push((name, kind));
        }
        let mut last = Type::Dyn;
        for body in bodies {
            last = self.expr(body)?;
        }
        self.names.truncate(depth);
        match which {
            Macro::All | Macro::Exists | Macro::ExistsOne => {
                if last.may_be("bool") {
                    Ok(Type::Plain("bool"))
                } else {
                    no_overload("_&&_", &[Type::Plain("bool"), last])
                }
            }
            Macro::Filter => Ok(match of {
                Type::List(_) => of,
                Type::Map(_) => Type::List(Box::new(Type::Plain("string"))),
                Type::Dyn | Type::Plain(_) | Type::Object(_, _) => Type::List(Box::new(Type::Dyn)),
            }),
            Macro::SortBy => match of {
                Type::List(_) | Type::Dyn => Ok(of),
                Type::Plain(_) | Type::Map(_) | Type::Object(_, _) => no_overload("sortBy", &[of]),
            },
            Macro::Map => Ok(Type::List(Box::new(last))),
            Macro::OptMap | Macro::OptFlatMap => Ok(Type::Plain("optional")),
        }
    }
}

fn literal<'a>(value: &Value) -> Type<'a> {
    Type::Plain(match value {
        Value::Null => "null_type",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => return Type::Dyn,
    })
}

fn selected<'a>(of: Type<'a>, field: &str) -> Found<'a> {
    match of {
        Type::Dyn | Type::Plain("optional") => Ok(Type::Dyn),
        Type::Map(value) => Ok(*value),
        Type::Object(schema, is_root) => match (schema.properties.get(field), field) {
            (_, "apiVersion" | "kind") if is_root => Ok(Type::Plain("string")),
            (_, "metadata") if is_root => Ok(Type::Dyn),
            (Some(link), _) => Ok(Type::of(linked(link), false)),
            (None, _) => Err(format!("undefined field '{field}'")),
        },
        other @ (Type::Plain(_) | Type::List(_)) => Err(format!(
            "type '{}' does not support field selection",
            other.show()
        )),
    }
}

/// What a function gives for values of these types.
fn called<'a>(name: &str, is_method: bool, types: &[Type<'a>]) -> Found<'a> {
    let mut known = signatures::of(name).peekable();
    if known.peek().is_none() {
        return Err(format!("undeclared reference to '{name}' (in container '')"));
    }
    let mut fitting = known.filter(|signature| signature.fits(is_method, types));
    let Some(first) = fitting.next() else {
        return no_overload(name, types);
    };
    // several forms fit what is not sure
    let gives = first.gives(types);
    if fitting.all(|other| other.gives(types).may_equal(&gives)) {
        Ok(gives)
    } else {
        Ok(Type::Dyn)
    }
}

fn linked(link: &crate::schema::Link) -> &Schema {
    link
}

fn binary<'a>(op: Op, left: Type<'a>, right: Type<'a>) -> Found<'a> {
    let sure = !matches!(left, Type::Dyn) && !matches!(right, Type::Dyn);
    let is = |kind: &Type<'_>, names: &[&str]| matches!(kind, Type::Plain(name) if names.contains(name));
    let name = match op {
        Op::Equal => "_==_",
        Op::NotEqual => "_!=_",
        Op::Less => "_<_",
        Op::LessOrEqual => "_<=_",
        Op::Greater => "_>_",
        Op::GreaterOrEqual => "_>=_",
        Op::In => "@in",
        Op::Add => "_+_",
        Op::Subtract => "_-_",
        Op::Multiply => "_*_",
        Op::Divide => "_/_",
        Op::Remainder => "_%_",
    };
    match op {
        Op::Equal | Op::NotEqual => {
            if left.may_equal(&right) {
                return Ok(Type::Plain("bool"));
            }
        }
        Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => {
            let ordered = ["string", "bool", "timestamp", "duration"];
            let good =
                (left.is_number() && right.is_number()) || (is(&left, &ordered) && left.may_equal(&right));
            if !sure || good {
                return Ok(Type::Plain("bool"));
            }
        }
        Op::In => {
            let good = match &right {
                Type::List(item) => item.may_equal(&left),
                Type::Map(_) | Type::Object(_, _) => left.may_be("string"),
                Type::Dyn => true,
                Type::Plain(_) => false,
            };
            if good {
                return Ok(Type::Plain("bool"));
            }
        }
        Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Remainder => {
            if !sure {
                return Ok(Type::Dyn);
            }
            if left.is_number() && right.is_number() && left.may_equal(&right) {
                return Ok(left);
            }
            let time = ["timestamp", "duration"];
            match (op, &left, &right) {
                (Op::Add, Type::Plain("string"), Type::Plain("string")) => return Ok(left),
                (Op::Add, Type::List(one), Type::List(other)) if one.may_equal(other) => return Ok(left),
                (Op::Subtract, Type::Plain("timestamp"), Type::Plain("timestamp")) => {
                    return Ok(Type::Plain("duration"));
                }
                (Op::Add | Op::Subtract, one, Type::Plain("duration")) if is(one, &time) => return Ok(left),
                (Op::Add, Type::Plain("duration"), Type::Plain("timestamp")) => return Ok(right),
                (_, _, _) => {}
            }
        }
    }
    no_overload(name, &[left, right])
}
