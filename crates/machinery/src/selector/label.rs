//! Label selectors, as text (`a=b,c in (d),!e`) and as `metav1.LabelSelector`.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{SelectorError, label_parse};
use crate::names;

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelOp {
    /// `key=value`
    Equals,
    /// `key==value`, the same.
    DoubleEquals,
    /// `key!=value`: also true where the key is absent.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`: also true where the key is absent.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`: both are integers.
    GreaterThan,
    /// `key<1`: both are integers.
    LessThan,
}

impl LabelOp {
    /// The word that Kubernetes has for it in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Exists => "exists",
            Self::DoesNotExist => "!",
            Self::GreaterThan => "gt",
            Self::LessThan => "lt",
        }
    }
}

/// One term of a label selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelRequirement {
    key: String,
    op: LabelOp,
    values: BTreeSet<String>,
}

impl LabelRequirement {
    /// A checked term.
    ///
    /// # Errors
    /// [`SelectorError::Requirement`] for a bad key, a bad value or a number of values that the operator does not
    /// take; every problem is listed.
    pub fn new(
        key: &str,
        op: LabelOp,
        values: impl IntoIterator<Item = String>,
    ) -> Result<Self, SelectorError> {
        let values: Vec<String> = values.into_iter().collect();
        let mut problems = Vec::new();
        if let Err(problem) = names::validate_label_key(key) {
            problems.push(format!("key: Invalid value: {key:?}: {problem}"));
        }
        let shown = || serde_json::to_string(&values).unwrap_or_default();
        let wrong_count = match op {
            LabelOp::In | LabelOp::NotIn => values
                .is_empty()
                .then_some("for 'in', 'notin' operators, values set can't be empty"),
            LabelOp::Equals | LabelOp::DoubleEquals | LabelOp::NotEquals => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            LabelOp::Exists | LabelOp::DoesNotExist => {
                (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
            }
            LabelOp::GreaterThan | LabelOp::LessThan => {
                (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        if let Some(problem) = wrong_count {
            problems.push(format!("values: Invalid value: {}: {problem}", shown()));
        }
        for (index, value) in values.iter().enumerate() {
            if matches!(op, LabelOp::GreaterThan | LabelOp::LessThan) && value.parse::<i64>().is_err() {
                problems.push(format!(
                    "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ));
            }
            if let Err(problem) = names::validate_label_value(value) {
                problems.push(format!(
                    "values[{index}][{key}]: Invalid value: {value:?}: {problem}"
                ));
            }
        }
        match problems.as_slice() {
            [] => Ok(Self {
                key: key.to_owned(),
                op,
                values: values.into_iter().collect(),
            }),
            [one] => Err(SelectorError::Requirement(one.clone())),
            many => Err(SelectorError::Requirement(format!("[{}]", many.join(", ")))),
        }
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn op(&self) -> LabelOp {
        self.op
    }

    /// The values, in order.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// Whether a label's value (`None`: no such label) fulfils it.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.op {
            LabelOp::Equals | LabelOp::DoubleEquals | LabelOp::In => {
                value.is_some_and(|value| self.values.contains(value))
            }
            LabelOp::NotEquals | LabelOp::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            LabelOp::Exists => value.is_some(),
            LabelOp::DoesNotExist => value.is_none(),
            LabelOp::GreaterThan => self.compare(value, |have, want| have > want),
            LabelOp::LessThan => self.compare(value, |have, want| have < want),
        }
    }

    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let have = value.and_then(|value| value.parse().ok());
        let want = self.values.first().and_then(|value| value.parse().ok());
        match (have, want) {
            (Some(have), Some(want)) => holds(have, want),
            (None, _) | (_, None) => false,
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = || self.values.first().map_or("", String::as_str);
        let all = || {
            let list: Vec<&str> = self.values().collect();
            list.join(",")
        };
        match self.op {
            LabelOp::Equals => write!(f, "{}={}", self.key, one()),
            LabelOp::DoubleEquals => write!(f, "{}=={}", self.key, one()),
            LabelOp::NotEquals => write!(f, "{}!={}", self.key, one()),
            LabelOp::In => write!(f, "{} in ({})", self.key, all()),
            LabelOp::NotIn => write!(f, "{} notin ({})", self.key, all()),
            LabelOp::Exists => f.write_str(&self.key),
            LabelOp::DoesNotExist => write!(f, "!{}", self.key),
            LabelOp::GreaterThan => write!(f, "{}>{}", self.key, one()),
            LabelOp::LessThan => write!(f, "{}<{}", self.key, one()),
        }
    }
}

/// Terms that must all hold. No terms: everything; and there is one that selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LabelSelector {
    nothing: bool,
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self {
            nothing: true,
            requirements: Vec::new(),
        }
    }

    /// All of these terms; they are sorted by key.
    pub fn of(requirements: impl IntoIterator<Item = LabelRequirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self {
            nothing: false,
            requirements,
        }
    }

    /// Reads the text form, as in `?labelSelector=` and `kubectl -l`.
    ///
    /// # Errors
    /// [`SelectorError`] in Kubernetes' words.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        label_parse::parse(text).map(Self::of)
    }

    /// Reads a `metav1.LabelSelector`. `null` selects nothing, `{}` everything.
    ///
    /// # Errors
    /// [`SelectorError::Requirement`] for an unknown operator or a bad key or value.
    pub fn from_value(value: &Value) -> Result<Self, SelectorError> {
        if value.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        if let Some(labels) = value["matchLabels"].as_object() {
            for (key, value) in labels {
                let value = value.as_str().unwrap_or_default().to_owned();
                requirements.push(LabelRequirement::new(key, LabelOp::Equals, [value])?);
            }
        }
        let expressions = value["matchExpressions"].as_array().map(Vec::as_slice);
        for expression in expressions.unwrap_or_default() {
            requirements.push(from_expression(expression, "label", set_operator)?);
        }
        Ok(Self::of(requirements))
    }

    /// Reads the node-affinity form: `matchExpressions` whose operators also include `Gt` and `Lt`.
    ///
    /// # Errors
    /// [`SelectorError::Requirement`] for an unknown operator or a bad key or value.
    pub fn from_node_selector_term(expressions: &[Value]) -> Result<Self, SelectorError> {
        let operator = |word: &str| match word {
            "Gt" => Some(LabelOp::GreaterThan),
            "Lt" => Some(LabelOp::LessThan),
            other => set_operator(other),
        };
        let requirements = expressions
            .iter()
            .map(|expression| from_expression(expression, "node", operator))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(requirements))
    }

    /// The terms, sorted by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// The selector without the terms about a key, and whether there were any.
    #[must_use]
    pub fn without(&self, key: &str) -> (Self, bool) {
        let mut rest = self.clone();
        rest.requirements.retain(|requirement| requirement.key != key);
        let found = rest.requirements.len() < self.requirements.len();
        (rest, found)
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether labels, given as a lookup, are selected.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether labels, given as a JSON object of texts (or null), are selected.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

/// The operators that every form of an expression knows.
fn set_operator(word: &str) -> Option<LabelOp> {
    match word {
        "In" => Some(LabelOp::In),
        "NotIn" => Some(LabelOp::NotIn),
        "Exists" => Some(LabelOp::Exists),
        "DoesNotExist" => Some(LabelOp::DoesNotExist),
        _ => None,
    }
}

/// Reads one entry of `matchExpressions`; `what` is the selector's name in the complaint.
fn from_expression(
    expression: &Value,
    what: &str,
    operator: impl Fn(&str) -> Option<LabelOp>,
) -> Result<LabelRequirement, SelectorError> {
    let word = expression["operator"].as_str().unwrap_or_default();
    let op = operator(word).ok_or_else(|| {
        SelectorError::Requirement(format!("{word:?} is not a valid {what} selector operator"))
    })?;
    let values = expression["values"].as_array().map(Vec::as_slice);
    let values = values
        .unwrap_or_default()
        .iter()
        .map(|value| value.as_str().unwrap_or_default().to_owned());
    LabelRequirement::new(expression["key"].as_str().unwrap_or_default(), op, values)
}
