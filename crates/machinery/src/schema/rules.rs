//! `x-kubernetes-validations`: rules in CEL, evaluated on every node that has some. A rule that speaks of `oldSelf` is
//! asked only where there is an old value to compare with, unless it takes that as optional.

use serde_json::Value;

use super::former::Former;
use super::place::Place;
use super::{Additional, Schema};
use crate::Cause;
use crate::cel::{Budget, CelError, Given, Program, Scope};

/// One rule. Definitions with rules that cannot be compiled are refused; if one is found all the same, it holds.
#[derive(Debug, Clone)]
pub struct Rule {
    text: String,
    program: Option<Program>,
    message: String,
    message_expression: Option<Program>,
    reason: String,
    field_path: String,
    transition: bool,
    optional_old: bool,
}

impl Rule {
    /// From an entry of `x-kubernetes-validations`.
    pub(super) fn from_value(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let program = Program::parse(&text("rule")).ok();
        Self {
            transition: program
                .as_ref()
                .is_some_and(|program| program.mentions("oldSelf")),
            program,
            message: text("message"),
            message_expression: value["messageExpression"]
                .as_str()
                .and_then(|text| Program::parse(text).ok()),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old: value["optionalOldSelf"].as_bool().unwrap_or_default(),
            text: text("rule"),
        }
    }

    fn check(
        &self,
        here: &Here<'_>,
        schema: &Schema,
        place: &Place<'_>,
        budget: &mut Budget,
    ) -> Option<Cause> {
        let program = self.program.as_ref()?;
        if self.transition && here.old.is_none() && !self.optional_old {
            return None;
        }
        let mut variables = vec![("self", Given::Value(here.value))];
        if self.optional_old {
            variables.push(("oldSelf", Given::Optional(here.old)));
        } else if let Some(old) = here.old {
            variables.push(("oldSelf", Given::Value(old)));
        }
        let detail = match program.evaluate(&variables, Some(schema), budget) {
            Ok(Value::Bool(true)) => return None,
            // Functions that we lack must not make objects impossible to write.
            Err(CelError::Missing(_)) => return None,
            Ok(_) if !self.transition && here.is_unchanged() => return None,
            Ok(_) => self.describe(&variables, schema, budget),
            Err(CelError::TooExpensive) => format!(
                "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                CelError::TooExpensive,
                self.name()
            ),
            Err(error @ CelError::OutOfBudget) => error.to_string(),
            Err(error) => format!("{error} evaluating rule: {}", self.name()),
        };
        let field = if self.field_path.is_empty() {
            place.to_string()
        } else {
            format!("{place}{}", self.field_path)
        };
        let field = field.trim_start_matches('.').to_owned();
        let kind = Value::from(schema.kind.name());
        Some(match self.reason.as_str() {
            "FieldValueForbidden" => Cause::forbidden(&field, &detail),
            "FieldValueRequired" => Cause::required(&field, &detail),
            "FieldValueDuplicate" => Cause::duplicate(&field, &kind),
            _ => Cause::invalid(&field, &kind, &detail),
        })
    }

    /// What messages about the rule itself call it.
    fn name(&self) -> &str {
        if self.message.is_empty() {
            self.text.trim()
        } else {
            self.message.trim()
        }
    }

    fn describe(&self, variables: &[(&str, Given<'_>)], schema: &Schema, budget: &mut Budget) -> String {
        let made = self
            .message_expression
            .as_ref()
            .and_then(|program| program.evaluate(variables, Some(schema), budget).ok())
            .and_then(|value| value.as_str().map(|text| text.trim().to_owned()))
            .filter(|text| !text.is_empty() && !text.contains('\n'));
        match made {
            Some(text) => text,
            None if self.message.is_empty() => format!("failed rule: {}", self.name()),
            None => self.name().to_owned(),
        }
    }
}

/// Where a node's rules stand.
pub(super) struct Site<'a> {
    /// The path of the node.
    pub(super) path: &'a str,
    /// Whether it is the whole object.
    pub(super) is_root: bool,
    /// The nearest node above whose old value cannot be told, if there is one.
    pub(super) uncorrelatable: Option<&'a str>,
}

/// What is wrong with the rules that a node of an `openAPIV3Schema` states.
pub(super) fn problems(rules: &[Value], schema: &Schema, site: &Site<'_>, causes: &mut Vec<Cause>) {
    for (index, rule) in rules.iter().enumerate() {
        let at = |field: &str| format!("{}.x-kubernetes-validations[{index}].{field}", site.path);
        let text = |field: &str| rule[field].as_str().unwrap_or_default();
        let given = |field: &str| rule.get(field).and_then(Value::as_str);
        if text("rule").trim().is_empty() {
            causes.push(Cause::required(&at("rule"), "rule is not specified"));
            continue;
        }
        if let Some(message) = given("message").filter(|message| !message.is_empty()) {
            if message.trim().is_empty() {
                let why = "message must be non-empty if specified";
                causes.push(Cause::invalid(&at("message"), &rule["message"], why));
            } else if message.trim().contains('\n') {
                let why = "message must not contain line breaks";
                causes.push(Cause::invalid(&at("message"), &rule["message"], why));
            }
        } else if text("rule").trim().contains('\n') {
            let why = "message must be specified if rule contains line breaks";
            causes.push(Cause::required(&at("message"), why));
        }
        if given("messageExpression")
            .is_some_and(|expression| !expression.is_empty() && expression.trim().is_empty())
        {
            let why = "messageExpression must be non-empty if specified";
            causes.push(Cause::required(&at("messageExpression"), why));
        }
        compile(rule, schema, site, &at, causes);
    }
}

/// Compiles a rule and its message.
fn compile(
    rule: &Value,
    schema: &Schema,
    site: &Site<'_>,
    at: &dyn Fn(&str) -> String,
    causes: &mut Vec<Cause>,
) {
    let is_optional = rule["optionalOldSelf"] == true;
    let (variables, optional): (&[&str], &[&str]) = if is_optional {
        (&["self"], &["oldSelf"])
    } else {
        (&["self", "oldSelf"], &[])
    };
    let scope = Scope {
        schema,
        is_root: site.is_root,
        variables,
        optional,
    };
    let mut fault = |field: &str, problem: &str| {
        causes.push(Cause::invalid(&at(field), &rule[field], problem));
    };
    let failed = |problem: &str| format!("compilation failed: ERROR: {problem}");
    match Program::parse(rule["rule"].as_str().unwrap_or_default()) {
        Err(error) => fault("rule", &failed(&error.to_string())),
        Ok(program) => {
            if let Some(problem) = program.problem(&scope, "bool") {
                fault("rule", &failed(&problem));
            }
            match site.uncorrelatable {
                Some(above) if program.mentions("oldSelf") => {
                    let why = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
                    );
                    fault("rule", &why);
                }
                Some(_) | None => {}
            }
        }
    }
    let message = rule["messageExpression"].as_str().unwrap_or_default();
    if message.trim().is_empty() {
        return;
    }
    let failed = |problem: &str| format!("messageExpression compilation failed: ERROR: {problem}");
    match Program::parse(message) {
        Err(error) => fault("messageExpression", &failed(&error.to_string())),
        Ok(program) => {
            if let Some(problem) = program.problem(&scope, "string") {
                fault("messageExpression", &failed(&problem));
            }
        }
    }
}

/// A value with rules, and what it was.
struct Here<'a> {
    value: &'a Value,
    /// What stood in its place, if that is known and was not null.
    old: Option<&'a Value>,
    /// The value itself or the nearest above that was known again, as it is and was.
    known: Option<(&'a Value, &'a Value)>,
}

impl<'a> Here<'a> {
    /// What is in it, where something else stood before.
    fn below(&self, value: &'a Value, old: Option<&'a Value>) -> Self {
        let old = old.filter(|old| !old.is_null());
        Here {
            value,
            old,
            known: old.map(|old| (value, old)).or(self.known),
        }
    }

    /// Whether it is surely what it was.
    fn is_unchanged(&self) -> bool {
        self.known.is_some_and(|(new, old)| new == old)
    }
}

/// Evaluates all rules of an object, as far as one budget goes; `old` is what it replaces.
pub(super) fn check(object: &Value, old: Option<&Value>, schema: &Schema, causes: &mut Vec<Cause>) {
    let here = Here {
        value: object,
        old,
        known: old.map(|old| (object, old)),
    };
    check_below(&here, schema, &Place::Root, &mut Budget::default(), causes);
}

fn check_below(
    here: &Here<'_>,
    schema: &Schema,
    place: &Place<'_>,
    budget: &mut Budget,
    causes: &mut Vec<Cause>,
) {
    if here.value.is_null() || !schema.holds().rules {
        return;
    }
    if let Some(rules) = &schema.rules {
        for rule in &rules.validations {
            if budget.is_spent() {
                return;
            }
            causes.extend(rule.check(here, schema, place, budget));
        }
    }
    match here.value {
        Value::Object(map) => {
            for (key, value) in map {
                let (link, place) = match (schema.properties.get(key.as_str()), &schema.additional) {
                    (Some(link), _) => (link, Place::Field(place, key)),
                    (None, Additional::Values(link)) => (link, Place::Key(place, key)),
                    (None, Additional::Unset | Additional::Any | Additional::Forbidden) => continue,
                };
                let mut below = here.below(value, here.old.and_then(|old| old.get(key)));
                if place.is_type() {
                    below.known = None;
                }
                check_below(&below, link, &place, budget, causes);
            }
        }
        Value::Array(items) => {
            let Some(node) = schema.item() else { return };
            let former = Former::new(here.old, schema);
            for (index, item) in items.iter().enumerate() {
                let below = here.below(item, former.of(item));
                check_below(&below, node, &Place::Index(place, index), budget, causes);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Null => {}
    }
}
