//! The options of creates, updates and patches.

use machinery::ApiError;
use serde_json::Value;

use super::{dry_run, verdict};
use crate::problems::Problems;
use crate::query::Query;

/// A field manager's name may have so many bytes.
const MANAGER_LIMIT: usize = 128;

/// What becomes of fields that the schema does not know and of those given twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing.
    Ignore,
    /// The client is warned.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// How a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// It creates (`CreateOptions`).
    Create,
    /// It replaces (`UpdateOptions`).
    Update,
    /// It changes parts (`PatchOptions`).
    Patch,
    /// It applies one manager's fields (`PatchOptions`, too).
    Apply,
}

impl Writes {
    /// How a verb with a body of a content type writes, if it does.
    pub fn of(verb: &str, content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match verb {
            "create" => Some(Self::Create),
            "update" => Some(Self::Update),
            "patch" if essence.eq_ignore_ascii_case("application/apply-patch+yaml") => Some(Self::Apply),
            "patch" => Some(Self::Patch),
            _ => None,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// `CreateOptions`, `UpdateOptions` and `PatchOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Who manages what is written; empty to go by the user agent.
    pub manager: String,
    /// Whether it is only tried.
    pub dry_run: bool,
    /// What becomes of unknown and repeated fields.
    pub validation: FieldValidation,
    /// Whether an apply takes fields from their managers.
    pub force: bool,
}

impl WriteOptions {
    /// From a query.
    ///
    /// # Errors
    /// 422 for values that are not known, and for what does not go with such a write.
    pub fn of_query(writes: Writes, query: &Query) -> Result<Self, ApiError> {
        let mut problems = Problems::default();
        let manager = query.get("fieldManager").unwrap_or_default();
        let force = query.flag("force");
        match writes {
            Writes::Apply if manager.is_empty() => {
                problems.required("fieldManager", "is required for apply patch");
            }
            Writes::Patch if force.is_some() => {
                problems.forbidden("force", "may not be specified for non-apply patch");
            }
            Writes::Create | Writes::Update | Writes::Patch | Writes::Apply => {}
        }
        check_manager(manager, &mut problems);
        let dry_run = dry_run(query.all("dryRun"), &mut problems);
        let validation = match query.get("fieldValidation").unwrap_or_default() {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                problems.unsupported("fieldValidation", &Value::from(other), &supported);
                FieldValidation::default()
            }
        };
        verdict(writes.kind(), problems)?;
        Ok(Self {
            manager: manager.to_owned(),
            dry_run,
            validation,
            force: force == Some(true),
        })
    }
}

fn check_manager(manager: &str, problems: &mut Problems) {
    if manager.len() > MANAGER_LIMIT {
        problems.too_long("fieldManager", "may not be more than 128 bytes");
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let code = u32::from(c);
        let why = format!("invalid character U+{code:04X} (at position {position})");
        problems.invalid("fieldManager", &Value::from(manager), why);
    }
}

/// Whether a character can be seen (Go's `unicode.IsPrint`): a letter, mark, number, sign, or the ASCII space.
fn is_printable(c: char) -> bool {
    // Rust's debug form escapes the others, besides quotes and the backslash; a mark only where nothing is before it.
    c == ' ' || c.is_ascii_graphic() || !c.is_ascii() && !format!("a{c}").escape_debug().any(|c| c == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_seen_is_printable() {
        for c in [' ', 'a', '\\', '"', '\'', '~', 'é', '你', '\u{301}', '€', '🦀'] {
            assert!(is_printable(c), "{c:?}");
        }
        for c in [
            '\0', '\n', '\u{7f}', '\u{a0}', '\u{200b}', '\u{2028}', '\u{e000}', '\u{feff}',
        ] {
            assert!(!is_printable(c), "{c:?}");
        }
    }
}
