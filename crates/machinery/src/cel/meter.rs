//! What evaluating may cost: steps, which stand for time and memory, and the size of texts.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::CelError;
use super::value::Val;
use crate::schema::Pattern;

/// How many steps one evaluation may take.
const MAX_STEPS: usize = 1_000_000;
/// How many steps all evaluations for one object may take together.
const MAX_STEPS_IN_ALL: usize = 10 * MAX_STEPS;
/// The longest text that an expression may make, in bytes.
const MAX_TEXT: usize = 4 << 20;
/// What compiling a pattern costs that only the data know, in steps.
const COMPILING: usize = 5_000;
/// How many such patterns are kept.
const MAX_PATTERNS: usize = 32;

/// A pattern, or what is wrong with it.
type Compiled = Result<Arc<Pattern>, String>;

/// The patterns that an expression itself states, each compiled when it is first asked for.
pub(super) type Patterns = BTreeMap<String, OnceLock<Compiled>>;

/// What the evaluations for one object may still cost together, and the patterns they have in common.
#[derive(Debug)]
pub struct Budget {
    left: usize,
    patterns: BTreeMap<String, Compiled>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: MAX_STEPS_IN_ALL,
            patterns: BTreeMap::new(),
        }
    }
}

impl Budget {
    /// Whether nothing is left of it. An evaluation that takes too long takes all of it.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// What one evaluation may still cost.
pub(super) struct Meter<'b> {
    left: usize,
    budget: &'b mut Budget,
    stated: &'b Patterns,
}

impl<'b> Meter<'b> {
    pub(super) fn new(budget: &'b mut Budget, stated: &'b Patterns) -> Self {
        Self {
            left: MAX_STEPS,
            budget,
            stated,
        }
    }

    /// How many steps are left.
    pub(super) fn left(&self) -> usize {
        self.left.min(self.budget.left)
    }

    pub(super) fn step(&mut self, cost: usize) -> Result<(), CelError> {
        match (self.left.checked_sub(cost), self.budget.left.checked_sub(cost)) {
            (Some(left), Some(in_all)) => {
                self.left = left;
                self.budget.left = in_all;
                Ok(())
            }
            (left, _) => {
                // nothing that follows makes up for this
                self.left = 0;
                self.budget.left = 0;
                Err(if left.is_none() {
                    CelError::TooExpensive
                } else {
                    CelError::OutOfBudget
                })
            }
        }
    }

    /// Charges for looking at all of a value, and tells its weight.
    pub(super) fn weigh(&mut self, value: &Val<'_>) -> Result<usize, CelError> {
        let weight = value.weight(self.left());
        self.step(weight)?;
        Ok(weight)
    }

    /// Charges for a text of so many bytes that is about to be made.
    pub(super) fn room(&mut self, bytes: usize) -> Result<(), CelError> {
        self.fits(bytes)?;
        self.step(bytes / 64)
    }

    /// Whether a text may be so many bytes long.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), CelError> {
        if bytes > MAX_TEXT {
            return Err(CelError::Evaluate(format!(
                "a text may not be longer than {MAX_TEXT} bytes"
            )));
        }
        Ok(())
    }

    /// A value as text.
    pub(super) fn show(&mut self, value: &Val<'_>) -> Result<String, CelError> {
        self.room(value.shown())?;
        Ok(value.show())
    }

    /// A pattern that will be looked for in a text.
    pub(super) fn pattern(&mut self, pattern: &str, text: &str) -> Result<Arc<Pattern>, CelError> {
        self.step((text.len() / 64 + 1).saturating_mul(pattern.len() / 4 + 1))?;
        let compile = || Pattern::new(pattern).map(Arc::new);
        let compiled = if let Some(stated) = self.stated.get(pattern) {
            stated.get_or_init(compile).clone()
        } else if let Some(known) = self.budget.patterns.get(pattern) {
            known.clone()
        } else {
            self.step(COMPILING)?;
            let compiled = compile();
            if self.budget.patterns.len() >= MAX_PATTERNS {
                self.budget.patterns.clear();
            }
            self.budget.patterns.insert(pattern.to_owned(), compiled.clone());
            compiled
        };
        compiled.map_err(|problem| CelError::Evaluate(format!("bad pattern: {problem}")))
    }
}
