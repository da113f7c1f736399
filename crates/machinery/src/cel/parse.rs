//! The grammar of expressions.

use super::lex::{Token, tokens};
use super::value::type_named;
use super::{CelError, Expr, Macro, Op, signatures};

/// How deep brackets may nest.
const MAX_NESTING: usize = 48;
/// How deep the tree of an expression may be: all that walk over it call themselves.
const MAX_DEPTH: usize = 250;
/// How long an expression may be, in bytes.
const MAX_LENGTH: usize = 32 * 1024;

fn syntax<T>(text: impl Into<String>) -> Result<T, CelError> {
    Err(CelError::Syntax(text.into()))
}

pub(super) fn program(text: &str) -> Result<Expr, CelError> {
    if text.len() > MAX_LENGTH {
        return syntax(format!("an expression may not be longer than {MAX_LENGTH} bytes"));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        nesting: 0,
    };
    let whole = parser.expr()?;
    match parser.tokens.get(parser.at) {
        None => Ok(whole.expr),
        Some(token) => syntax(format!("unexpected {token:?}")),
    }
}

/// An expression, and how deep its tree is.
struct Tree {
    expr: Expr,
    depth: usize,
}

type Parsed = Result<Tree, CelError>;
type Join = fn(Box<Expr>, Box<Expr>) -> Expr;

impl Tree {
    /// An expression without parts.
    fn leaf(expr: Expr) -> Self {
        Self { expr, depth: 1 }
    }

    /// An expression over parts, the deepest of which is so deep.
    fn over(depth: usize, expr: Expr) -> Parsed {
        if depth >= MAX_DEPTH {
            return syntax(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        Ok(Self {
            expr,
            depth: depth + 1,
        })
    }

    fn join(self, other: Self, join: Join) -> Parsed {
        Self::over(
            self.depth.max(other.depth),
            join(Box::new(self.expr), Box::new(other.expr)),
        )
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    nesting: usize,
}

impl Parser {
    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Sign(have)) if *have == sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), CelError> {
        if self.sign(sign) {
            Ok(())
        } else {
            syntax(format!("expected '{sign}'"))
        }
    }

    fn word(&mut self) -> Result<String, CelError> {
        match self.tokens.get(self.at) {
            Some(Token::Ident(word)) => {
                self.at += 1;
                Ok(word.clone())
            }
            Some(Token::Literal(_) | Token::Sign(_)) | None => syntax("expected a name"),
        }
    }

    fn expr(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return syntax(format!(
                "an expression may not nest deeper than {MAX_NESTING} levels"
            ));
        }
        let test = self.or()?;
        let tree = if self.sign("?") {
            let left = self.or()?;
            self.expect(":")?;
            let right = self.expr()?;
            let depth = test.depth.max(left.depth).max(right.depth);
            let [test, left, right] = [test, left, right].map(|part| Box::new(part.expr));
            Tree::over(depth, Expr::If(test, left, right))?
        } else {
            test
        };
        self.nesting -= 1;
        Ok(tree)
    }

    /// A chain of one level's operators, from the left.
    fn chain(
        &mut self,
        next: fn(&mut Self) -> Parsed,
        mut operator: impl FnMut(&mut Self) -> Option<Join>,
    ) -> Parsed {
        let mut left = next(self)?;
        while let Some(join) = operator(self) {
            let right = next(self)?;
            left = left.join(right, join)?;
        }
        Ok(left)
    }

    /// A chain of an operator for which brackets make no difference, as a tree that is as flat as can be.
    fn balanced(&mut self, next: fn(&mut Self) -> Parsed, sign: &str, join: Join) -> Parsed {
        let mut level = vec![next(self)?];
        while self.sign(sign) {
            level.push(next(self)?);
        }
        loop {
            let mut rest = level.into_iter();
            let Some(first) = rest.next() else {
                return syntax("unexpected end");
            };
            let Some(second) = rest.next() else {
                return Ok(first);
            };
            let mut above = vec![first.join(second, join)?];
            while let Some(left) = rest.next() {
                above.push(match rest.next() {
                    Some(right) => left.join(right, join)?,
                    None => left,
                });
            }
            level = above;
        }
    }

    fn or(&mut self) -> Parsed {
        self.balanced(Self::and, "||", Expr::Or)
    }

    fn and(&mut self) -> Parsed {
        self.balanced(Self::relation, "&&", Expr::And)
    }

    fn relation(&mut self) -> Parsed {
        self.chain(Self::sum, |parser| {
            if matches!(parser.tokens.get(parser.at), Some(Token::Ident(word)) if word == "in") {
                parser.at += 1;
                return Some(|left, right| Expr::Binary(Op::In, left, right));
            }
            if parser.sign("==") {
                return Some(|left, right| Expr::Binary(Op::Equal, left, right));
            }
            if parser.sign("!=") {
                return Some(|left, right| Expr::Binary(Op::NotEqual, left, right));
            }
            if parser.sign("<=") {
                return Some(|left, right| Expr::Binary(Op::LessOrEqual, left, right));
            }
            if parser.sign(">=") {
                return Some(|left, right| Expr::Binary(Op::GreaterOrEqual, left, right));
            }
            if parser.sign("<") {
                return Some(|left, right| Expr::Binary(Op::Less, left, right));
            }
            if parser.sign(">") {
                return Some(|left, right| Expr::Binary(Op::Greater, left, right));
            }
            None
        })
    }

    fn sum(&mut self) -> Parsed {
        self.chain(Self::product, |parser| {
            if parser.sign("+") {
                return Some(|left, right| Expr::Binary(Op::Add, left, right));
            }
            if parser.sign("-") {
                return Some(|left, right| Expr::Binary(Op::Subtract, left, right));
            }
            None
        })
    }

    fn product(&mut self) -> Parsed {
        self.chain(Self::unary, |parser| {
            if parser.sign("*") {
                return Some(|left, right| Expr::Binary(Op::Multiply, left, right));
            }
            if parser.sign("/") {
                return Some(|left, right| Expr::Binary(Op::Divide, left, right));
            }
            if parser.sign("%") {
                return Some(|left, right| Expr::Binary(Op::Remainder, left, right));
            }
            None
        })
    }

    fn unary(&mut self) -> Parsed {
        let mut signs = Vec::new();
        loop {
            if self.sign("!") {
                signs.push('!');
            } else if self.sign("-") {
                signs.push('-');
            } else {
                break;
            }
        }
        let mut tree = self.member()?;
        while let Some(sign) = signs.pop() {
            let of = Box::new(tree.expr);
            let expr = match sign {
                '!' => Expr::Not(of),
                _ => Expr::Negate(of),
            };
            tree = Tree::over(tree.depth, expr)?;
        }
        Ok(tree)
    }

    fn member(&mut self) -> Parsed {
        let mut tree = self.primary()?;
        loop {
            if self.sign(".") {
                let optional = self.sign("?");
                let name = self.word()?;
                tree = if optional {
                    let of = Box::new(tree.expr);
                    Tree::over(tree.depth, Expr::OptionalSelect(of, unescape(&name)))?
                } else if self.sign("(") {
                    let (arguments, depth) = self.arguments(")")?;
                    let depth = depth.max(tree.depth);
                    Tree::over(depth, call(Some(tree.expr), name, arguments)?)?
                } else {
                    Tree::over(tree.depth, select(tree.expr, &name))?
                };
            } else if self.sign("[") {
                let optional = self.sign("?");
                let index = self.expr()?;
                self.expect("]")?;
                tree = tree.join(
                    index,
                    if optional {
                        Expr::OptionalIndex
                    } else {
                        Expr::Index
                    },
                )?;
            } else {
                return Ok(tree);
            }
        }
    }

    /// Expressions up to a bracket, and how deep the deepest is.
    fn arguments(&mut self, close: &str) -> Result<(Vec<Expr>, usize), CelError> {
        let (mut arguments, mut depth) = (Vec::new(), 0);
        while !self.sign(close) {
            let argument = self.expr()?;
            depth = depth.max(argument.depth);
            arguments.push(argument.expr);
            if !self.sign(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok((arguments, depth))
    }

    fn primary(&mut self) -> Parsed {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Literal(value)) => Ok(Tree::leaf(Expr::Literal(value))),
            Some(Token::Ident(name)) => {
                if self.sign("(") {
                    let (arguments, depth) = self.arguments(")")?;
                    Tree::over(depth, call(None, name, arguments)?)
                } else {
                    Ok(Tree::leaf(Expr::Ident(name)))
                }
            }
            Some(Token::Sign("(")) => {
                let tree = self.expr()?;
                self.expect(")")?;
                Ok(tree)
            }
            Some(Token::Sign("[")) => {
                let (items, depth) = self.arguments("]")?;
                Tree::over(depth, Expr::List(items))
            }
            Some(Token::Sign("{")) => self.entries(),
            Some(Token::Sign(sign)) => syntax(format!("unexpected '{sign}'")),
            None => syntax("unexpected end"),
        }
    }

    fn entries(&mut self) -> Parsed {
        let (mut entries, mut depth) = (Vec::new(), 0);
        while !self.sign("}") {
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push((key.expr, value.expr));
            if !self.sign(",") {
                self.expect("}")?;
                break;
            }
        }
        Tree::over(depth, Expr::Map(entries))
    }
}

/// `a.b`: a field, or a type whose name has dots.
fn select(of: Expr, name: &str) -> Expr {
    /// `a.b` as one name.
    fn dotted(expr: &Expr) -> Option<String> {
        if let Expr::Ident(name) = expr {
            return Some(name.clone());
        }
        let Expr::Select(of, field) = expr else {
            return None;
        };
        Some(format!("{}.{field}", dotted(of)?))
    }
    if name.starts_with(|first: char| first.is_ascii_uppercase())
        && let Some(known) = dotted(&of).and_then(|of| type_named(&format!("{of}.{name}")))
    {
        return Expr::Ident(known.to_owned());
    }
    Expr::Select(Box::new(of), unescape(name))
}

/// A call; the macros are told apart here.
fn call(on: Option<Expr>, name: String, mut arguments: Vec<Expr>) -> Result<Expr, CelError> {
    if name == "has" && on.is_none() {
        return match arguments.pop() {
            Some(Expr::Select(of, field)) if arguments.is_empty() => Ok(Expr::Has(of, field)),
            Some(_) | None => syntax("invalid argument to has() macro"),
        };
    }
    if let Some(Expr::Ident(space)) = &on
        && signatures::is_spaced(space, &name)
    {
        return Ok(Expr::Call(None, format!("{space}.{name}"), arguments));
    }
    let (which, most) = match name.as_str() {
        "all" => (Macro::All, 3),
        "exists" => (Macro::Exists, 3),
        "exists_one" | "existsOne" => (Macro::ExistsOne, 3),
        "filter" => (Macro::Filter, 2),
        "map" => (Macro::Map, 3),
        "sortBy" => (Macro::SortBy, 2),
        "optMap" => (Macro::OptMap, 2),
        "optFlatMap" => (Macro::OptFlatMap, 2),
        _ => return Ok(Expr::Call(on.map(Box::new), name, arguments)),
    };
    let Some(on) = on.filter(|_| (2..=most).contains(&arguments.len())) else {
        return syntax(format!("wrong number of arguments of {name}"));
    };
    // `map` may have a filter in between, the others a second variable
    let named = if which == Macro::Map {
        1
    } else {
        arguments.len() - 1
    };
    let bodies = arguments.split_off(named);
    let mut variables = Vec::new();
    for argument in arguments {
        let Expr::Ident(variable) = argument else {
            return syntax(format!("argument of {name} must be a simple name"));
        };
        variables.push(variable);
    }
    Ok(Expr::Macro(Box::new(on), which, variables, bodies))
}

/// Field names that are no identifiers are spelled with `__dot__`, `__dash__`, `__slash__`, `__underscores__`, and
/// keywords as `__namespace__`.
fn unescape(name: &str) -> String {
    const KEYWORDS: [&str; 26] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
        "int",
        "uint",
        "double",
        "bool",
        "string",
    ];
    if !name.contains("__") {
        return name.to_owned();
    }
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(keyword) = inner.filter(|inner| KEYWORDS.contains(inner)) {
        return keyword.to_owned();
    }
    name.replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace("__underscores__", "__")
}
