//! The Common Expression Language, as far as validation rules of custom resources use it: literals, operators, field
//! selection, `has`, the macros over lists and maps, optional values, and Kubernetes' functions of texts, lists, times,
//! quantities, URLs, addresses, versions and named formats. Not known: time zones by name, bytes.
//!
//! [`Program::parse`] reads an expression, [`Program::problem`] checks it against a schema as far as types are sure,
//! [`Program::evaluate`] runs it.

mod check;
mod eval;
mod functions;
mod lex;
mod meter;
mod parse;
mod signatures;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::sync::Arc;

use serde_json::Value;

use crate::schema::Schema;
pub use meter::Budget;
use meter::Patterns;
pub use text::duration;

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    /// It does not follow the grammar, or is too long or nested too deep.
    #[error("Syntax error: {0}")]
    Syntax(String),
    /// It cannot be evaluated on these values.
    #[error("{0}")]
    Evaluate(String),
    /// It calls a function that Kubernetes has and this does not.
    #[error("no such function: {0}")]
    Missing(String),
    /// It takes too long.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
    /// All evaluations for one object together take too long.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
}

impl CelError {
    /// Whether it ends the whole evaluation, whatever stands beside the part that failed.
    fn is_final(&self) -> bool {
        matches!(self, Self::TooExpensive | Self::OutOfBudget)
    }
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Program {
    root: Expr,
    /// Of the patterns that it states.
    patterns: Arc<Patterns>,
}

#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Literal(Value),
    Ident(String),
    /// `a.b`
    Select(Box<Expr>, String),
    /// `has(a.b)`
    Has(Box<Expr>, String),
    /// `a.?b`
    OptionalSelect(Box<Expr>, String),
    /// `a[b]`
    Index(Box<Expr>, Box<Expr>),
    /// `a[?b]`
    OptionalIndex(Box<Expr>, Box<Expr>),
    /// `f(x)` or `a.f(x)`
    Call(Option<Box<Expr>>, String, Vec<Expr>),
    /// `list.all(x, …)` and the like, with their variables and what is asked of each item.
    Macro(Box<Expr>, Macro, Vec<String>, Vec<Expr>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    SortBy,
    OptMap,
    OptFlatMap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// What a variable is.
#[derive(Debug, Clone, Copy)]
pub enum Given<'a> {
    /// A value.
    Value(&'a Value),
    /// A value that may be missing: an optional one in expressions.
    Optional(Option<&'a Value>),
}

/// What an expression will see.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The shape of its variables.
    pub schema: &'a Schema,
    /// Whether they are whole objects, with `apiVersion`, `kind` and `metadata`.
    pub is_root: bool,
    /// The names of its variables.
    pub variables: &'a [&'static str],
    /// The names of those that are optional.
    pub optional: &'a [&'static str],
}

impl Program {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`CelError::Syntax`]
    pub fn parse(text: &str) -> Result<Self, CelError> {
        let root = parse::program(text)?;
        let mut patterns = Patterns::new();
        any_part(&root, &mut |part| {
            if let Expr::Call(on, name, arguments) = part
                && matches!(name.as_str(), "matches" | "find" | "findAll")
                && let Some(Expr::Literal(Value::String(text))) = arguments.get(usize::from(on.is_none()))
            {
                patterns.entry(text.clone()).or_default();
            }
            false
        });
        Ok(Self {
            root,
            patterns: Arc::new(patterns),
        })
    }

    /// What is surely wrong with it, in the words of a compiler, where it is to give a value of a type such as `bool`.
    pub fn problem(&self, scope: &Scope<'_>, wanted: &'static str) -> Option<String> {
        check::problem(&self.root, scope, wanted)
    }

    /// Evaluates it with these variables, whose shape is the schema's. What it costs is taken from the budget.
    ///
    /// # Errors
    /// [`CelError::Evaluate`], [`CelError::Missing`], [`CelError::TooExpensive`] and [`CelError::OutOfBudget`]
    pub fn evaluate(
        &self,
        variables: &[(&str, Given<'_>)],
        schema: Option<&Schema>,
        budget: &mut Budget,
    ) -> Result<Value, CelError> {
        eval::evaluate(self, variables, schema, budget)
    }

    /// Whether it speaks of a variable.
    pub fn mentions(&self, variable: &str) -> bool {
        any_part(
            &self.root,
            &mut |part| matches!(part, Expr::Ident(name) if name == variable),
        )
    }
}

/// Whether something holds for an expression or any in it.
fn any_part(expr: &Expr, holds: &mut dyn FnMut(&Expr) -> bool) -> bool {
    if holds(expr) {
        return true;
    }
    match expr {
        Expr::Literal(_) | Expr::Ident(_) => false,
        Expr::Select(of, _)
        | Expr::OptionalSelect(of, _)
        | Expr::Has(of, _)
        | Expr::Not(of)
        | Expr::Negate(of) => any_part(of, holds),
        Expr::Index(left, right)
        | Expr::OptionalIndex(left, right)
        | Expr::And(left, right)
        | Expr::Or(left, right)
        | Expr::Binary(_, left, right) => any_part(left, holds) || any_part(right, holds),
        Expr::Call(on, _, arguments) => {
            on.as_ref().is_some_and(|on| any_part(on, holds))
                || arguments.iter().any(|argument| any_part(argument, holds))
        }
        Expr::Macro(on, _, _, bodies) => {
            any_part(on, holds) || bodies.iter().any(|body| any_part(body, holds))
        }
        Expr::List(items) => items.iter().any(|item| any_part(item, holds)),
        Expr::Map(entries) => entries
            .iter()
            .any(|(key, value)| any_part(key, holds) || any_part(value, holds)),
        Expr::If(test, left, right) => {
            any_part(test, holds) || any_part(left, holds) || any_part(right, holds)
        }
    }
}
