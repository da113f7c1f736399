//! The options of lists, watches and collective deletes.

use machinery::ApiError;
use machinery::selector::{FieldSelector, LabelSelector};
use serde_json::Value;

use super::verdict;
use crate::problems::Problems;
use crate::query::Query;

/// How a revision is meant (`resourceVersionMatch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The state at that revision.
    Exact,
    /// The state at that revision or any later one.
    NotOlderThan,
}

/// `ListOptions`.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// Which labels objects must have.
    pub labels: LabelSelector,
    /// Which fields objects must have.
    pub fields: FieldSelector,
    /// Whether bookmarks are wanted.
    pub bookmarks: bool,
    /// The revision asked for, empty for none.
    pub revision: String,
    /// How it is meant.
    pub rule: Option<Match>,
    /// Seconds after which a watch ends.
    pub timeout: Option<i64>,
    /// How many objects a page may have; 0 and less for all.
    pub limit: i64,
    /// Where the list goes on, empty for its beginning.
    pub token: String,
    /// Whether a watch begins with what is there.
    pub initial: Option<bool>,
}

impl ListOptions {
    /// From a query; `watch` says whether it is a watch's.
    ///
    /// # Errors
    /// 400 for a number or a selector that cannot be read, 422 for options that do not go together.
    pub fn of_query(watch: bool, query: &Query) -> Result<Self, ApiError> {
        let text = |field| query.get(field).unwrap_or_default();
        let timeout = query.number("timeoutSeconds")?;
        let limit = query.number("limit")?.unwrap_or(0);
        let labels = match text("labelSelector") {
            "" => LabelSelector::everything(),
            text => LabelSelector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?,
        };
        let fields = match text("fieldSelector") {
            "" => FieldSelector::everything(),
            text => FieldSelector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?,
        };
        let mut options = Self {
            labels,
            fields,
            bookmarks: query.is_on("allowWatchBookmarks"),
            revision: text("resourceVersion").to_owned(),
            rule: None,
            timeout,
            limit,
            token: text("continue").to_owned(),
            initial: query.flag("sendInitialEvents"),
        };
        let mut problems = Problems::default();
        options.rule = if watch {
            options.check_watch(text("resourceVersionMatch"), &mut problems)
        } else {
            options.check_list(text("resourceVersionMatch"), &mut problems)
        };
        verdict("ListOptions", problems)?;
        let undecided = options.initial.is_none() && options.rule.is_none();
        if watch && undecided && matches!(options.revision.as_str(), "" | "0") {
            // Kubernetes' default since 1.34 (feature WatchList).
            options.initial = Some(true);
            options.rule = Some(Match::NotOlderThan);
        }
        Ok(options)
    }

    fn check_list(&self, rule: &str, problems: &mut Problems) -> Option<Match> {
        const RULE: &str = "resourceVersionMatch";
        if !rule.is_empty() && self.revision.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            problems.forbidden(RULE, why);
        }
        self.check_token(rule, problems);
        let found = match rule {
            "" => None,
            "Exact" => Some(Match::Exact),
            "NotOlderThan" => Some(Match::NotOlderThan),
            other => {
                problems.unsupported(RULE, &Value::from(other), &["Exact", "NotOlderThan", ""]);
                None
            }
        };
        if found == Some(Match::Exact) && self.revision == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            problems.forbidden(RULE, why);
        }
        if self.initial.is_some() {
            problems.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        found
    }

    fn check_watch(&self, rule: &str, problems: &mut Problems) -> Option<Match> {
        const RULE: &str = "resourceVersionMatch";
        if self.initial.is_some() && rule != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            problems.forbidden(RULE, why);
        }
        if !rule.is_empty() && self.initial.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            problems.forbidden(RULE, why);
        }
        let found = match rule {
            "" => None,
            "NotOlderThan" => Some(Match::NotOlderThan),
            other => {
                problems.unsupported(RULE, &Value::from(other), &["NotOlderThan"]);
                None
            }
        };
        self.check_token(rule, problems);
        found
    }

    fn check_token(&self, rule: &str, problems: &mut Problems) {
        if !rule.is_empty() && !self.token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            problems.forbidden("resourceVersionMatch", why);
        }
    }
}
