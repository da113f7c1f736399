//! The grammar of expressions.

use super::lex::{Token, tokens};
use super::{CelError, Expr, Macro, Op, signatures};

/// How deep an expression may nest.
const MAX_DEPTH: usize = 48;
/// How long an expression may be, in bytes.
const MAX_LENGTH: usize = 32 * 1024;
/// How many operators of one kind may follow each other.
const MAX_CHAIN: usize = 256;

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
        depth: 0,
    };
    let expr = parser.expr()?;
    match parser.tokens.get(parser.at) {
        None => Ok(expr),
        Some(token) => syntax(format!("unexpected {token:?}")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
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

    fn expr(&mut self) -> Result<Expr, CelError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return syntax(format!(
                "an expression may not nest deeper than {MAX_DEPTH} levels"
            ));
        }
        let test = self.or()?;
        let expr = if self.sign("?") {
            let left = self.or()?;
            self.expect(":")?;
            let right = self.expr()?;
            Expr::If(Box::new(test), Box::new(left), Box::new(right))
        } else {
            test
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// A chain of one level's operators, from the left.
    fn chain(
        &mut self,
        next: fn(&mut Self) -> Result<Expr, CelError>,
        mut operator: impl FnMut(&mut Self) -> Option<fn(Box<Expr>, Box<Expr>) -> Expr>,
    ) -> Result<Expr, CelError> {
        let mut left = next(self)?;
        for _ in 0..MAX_CHAIN {
            let Some(join) = operator(self) else {
                return Ok(left);
            };
            let right = next(self)?;
            left = join(Box::new(left), Box::new(right));
        }
        syntax(format!("more than {MAX_CHAIN} operators in a row"))
    }

    fn or(&mut self) -> Result<Expr, CelError> {
        self.chain(Self::and, |parser| {
            parser
                .sign("||")
                .then_some(Expr::Or as fn(Box<Expr>, Box<Expr>) -> Expr)
        })
    }

    fn and(&mut self) -> Result<Expr, CelError> {
        self.chain(Self::relation, |parser| {
            parser
                .sign("&&")
                .then_some(Expr::And as fn(Box<Expr>, Box<Expr>) -> Expr)
        })
    }

    fn relation(&mut self) -> Result<Expr, CelError> {
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

    fn sum(&mut self) -> Result<Expr, CelError> {
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

    fn product(&mut self) -> Result<Expr, CelError> {
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

    fn unary(&mut self) -> Result<Expr, CelError> {
        let mut signs = Vec::new();
        while signs.len() < MAX_DEPTH {
            if self.sign("!") {
                signs.push('!');
            } else if self.sign("-") {
                signs.push('-');
            } else {
                break;
            }
        }
        let mut expr = self.member()?;
        while let Some(sign) = signs.pop() {
            expr = match sign {
                '!' => Expr::Not(Box::new(expr)),
                _ => Expr::Negate(Box::new(expr)),
            };
        }
        Ok(expr)
    }

    fn member(&mut self) -> Result<Expr, CelError> {
        let mut expr = self.primary()?;
        for _ in 0..MAX_CHAIN {
            if self.sign(".") {
                if self.sign("?") {
                    let name = self.word()?;
                    expr = Expr::OptionalSelect(Box::new(expr), unescape(&name));
                    continue;
                }
                let name = self.word()?;
                expr = if self.sign("(") {
                    let arguments = self.arguments(")")?;
                    call(Some(expr), name, arguments)?
                } else {
                    Expr::Select(Box::new(expr), unescape(&name))
                };
            } else if self.sign("[") {
                let optional = self.sign("?");
                let index = Box::new(self.expr()?);
                self.expect("]")?;
                expr = if optional {
                    Expr::OptionalIndex(Box::new(expr), index)
                } else {
                    Expr::Index(Box::new(expr), index)
                };
            } else {
                return Ok(expr);
            }
        }
        syntax(format!("more than {MAX_CHAIN} selections in a row"))
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, CelError> {
        let mut arguments = Vec::new();
        while !self.sign(close) {
            arguments.push(self.expr()?);
            if !self.sign(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Expr, CelError> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Literal(value)) => Ok(Expr::Literal(value)),
            Some(Token::Ident(name)) => {
                if self.sign("(") {
                    let arguments = self.arguments(")")?;
                    call(None, name, arguments)
                } else {
                    Ok(Expr::Ident(name))
                }
            }
            Some(Token::Sign("(")) => {
                let expr = self.expr()?;
                self.expect(")")?;
                Ok(expr)
            }
            Some(Token::Sign("[")) => self.arguments("]").map(Expr::List),
            Some(Token::Sign("{")) => self.entries().map(Expr::Map),
            Some(Token::Sign(sign)) => syntax(format!("unexpected '{sign}'")),
            None => syntax("unexpected end"),
        }
    }

    fn entries(&mut self) -> Result<Vec<(Expr, Expr)>, CelError> {
        let mut entries = Vec::new();
        while !self.sign("}") {
            let key = self.expr()?;
            self.expect(":")?;
            entries.push((key, self.expr()?));
            if !self.sign(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }
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
