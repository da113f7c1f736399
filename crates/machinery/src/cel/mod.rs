//! The Common Expression Language, as far as validation rules of custom resources use it: literals, operators, field
//! selection, `has`, the macros over lists and maps, and the usual functions of texts and lists. Types are not checked
//! beforehand; optional values, times, durations, URLs, addresses and quantities are not known.

mod eval;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::Value;

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    /// It does not follow the grammar, or is too long or nested too deep.
    #[error("Syntax error: {0}")]
    Syntax(String),
    /// It cannot be evaluated on these values.
    #[error("{0}")]
    Evaluate(String),
    /// It takes too long.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
}

/// A compiled expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    root: Expr,
}

#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Literal(Value),
    Ident(String),
    /// `a.b`
    Select(Box<Expr>, String),
    /// `has(a.b)`
    Has(Box<Expr>, String),
    /// `a[b]`
    Index(Box<Expr>, Box<Expr>),
    /// `f(x)` or `a.f(x)`
    Call(Option<Box<Expr>>, String, Vec<Expr>),
    /// `list.all(x, …)` and the like.
    Macro(Box<Expr>, Macro, String, Vec<Expr>),
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

impl Program {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`CelError::Syntax`]
    pub fn parse(text: &str) -> Result<Self, CelError> {
        parse::program(text).map(|root| Self { root })
    }

    /// Evaluates it with these variables.
    ///
    /// # Errors
    /// [`CelError::Evaluate`] and [`CelError::TooExpensive`]
    pub fn evaluate(&self, variables: &[(&str, &Value)]) -> Result<Value, CelError> {
        eval::evaluate(&self.root, variables)
    }

    /// Whether it speaks of a variable.
    pub fn mentions(&self, variable: &str) -> bool {
        mentions(&self.root, variable)
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    let any = |list: &[Expr]| list.iter().any(|expr| mentions(expr, name));
    match expr {
        Expr::Literal(_) => false,
        Expr::Ident(ident) => ident == name,
        Expr::Select(of, _) | Expr::Has(of, _) | Expr::Not(of) | Expr::Negate(of) => mentions(of, name),
        Expr::Index(left, right)
        | Expr::And(left, right)
        | Expr::Or(left, right)
        | Expr::Binary(_, left, right) => mentions(left, name) || mentions(right, name),
        Expr::Call(on, _, arguments) => on.as_ref().is_some_and(|on| mentions(on, name)) || any(arguments),
        Expr::Macro(on, _, _, bodies) => mentions(on, name) || any(bodies),
        Expr::List(items) => any(items),
        Expr::Map(entries) => entries
            .iter()
            .any(|(key, value)| mentions(key, name) || mentions(value, name)),
        Expr::If(test, left, right) => mentions(test, name) || mentions(left, name) || mentions(right, name),
    }
}
