//! Parameters of the verbs, and how they are written into a URL.

use serde_json::{Value, json};
use std::time::Duration;

/// What a list selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Label selector, empty for everything.
    pub label_selector: String,
    /// Field selector, empty for everything.
    pub field_selector: String,
    /// Page size, 0 for no pages.
    pub limit: u32,
    /// Token of the next page.
    pub continue_token: String,
    /// The revision asked for, empty for the newest.
    pub resource_version: String,
}

impl ListOptions {
    /// Everything that matches a label selector.
    pub fn labels(selector: impl Into<String>) -> Self {
        Self {
            label_selector: selector.into(),
            ..Self::default()
        }
    }

    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("labelSelector", &self.label_selector);
        query.add("fieldSelector", &self.field_selector);
        query.add("continue", &self.continue_token);
        query.add("resourceVersion", &self.resource_version);
        if self.limit > 0 {
            query.add("limit", &self.limit.to_string());
        }
        query
    }
}

/// What a watch selects and from where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Label selector, empty for everything.
    pub label_selector: String,
    /// Field selector, empty for everything.
    pub field_selector: String,
    /// Changes after this revision; empty starts with the present objects.
    pub resource_version: String,
    /// How long the server keeps the stream; the client gives up a little later. Zero is the server's choice.
    pub timeout: Duration,
    /// What the server is to send.
    pub form: Form,
}

/// In which form objects are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    #[default]
    Objects,
    /// As rows of a `meta.k8s.io/v1 Table`, with the objects' metadata; servers that know no tables send objects.
    Tables,
}

impl Form {
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Self::Objects => "application/json",
            Self::Tables => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        }
    }
}

impl WatchOptions {
    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("labelSelector", &self.label_selector);
        query.add("fieldSelector", &self.field_selector);
        query.add("resourceVersion", &self.resource_version);
        if !self.timeout.is_zero() {
            query.add("timeoutSeconds", &self.timeout.as_secs().to_string());
        }
        query
    }
}

/// What becomes of the objects that a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// Conditions and manner of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// What becomes of dependents; the resource's default if `None`.
    pub propagation: Option<Propagation>,
    /// Only if the object has this UID.
    pub uid: Option<String>,
    /// Only if the object has this revision.
    pub resource_version: Option<String>,
    /// Grace period; the resource's default if `None`.
    pub grace_period_seconds: Option<u32>,
    /// Whether it is only tried.
    pub dry_run: DryRun,
}

/// Whether a change is made, or only tried by the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DryRun {
    /// It is made.
    #[default]
    No,
    /// It is tried: all checks, no change.
    All,
}

impl DeleteOptions {
    /// Dependents go after the object.
    pub fn background() -> Self {
        Self {
            propagation: Some(Propagation::Background),
            ..Self::default()
        }
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = json!(match propagation {
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
                Propagation::Orphan => "Orphan",
            });
        }
        if self.dry_run == DryRun::All {
            body["dryRun"] = json!(["All"]);
        }
        if let Some(uid) = &self.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &self.resource_version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(seconds) = self.grace_period_seconds {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        body
    }
}

/// The four ways to change a part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge patch (built-in kinds only).
    Strategic,
    /// Server-side apply.
    Apply {
        /// The field manager.
        manager: String,
        /// Take fields over from other managers.
        force: bool,
    },
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        if let Self::Apply { manager, force } = self {
            query.add("fieldManager", manager);
            query.add("force", if *force { "true" } else { "false" });
        }
        query
    }
}

/// A query string under construction.
#[derive(Debug, Default)]
pub(crate) struct Query(String);

impl Query {
    /// Adds a parameter unless it is empty.
    pub(crate) fn add(&mut self, key: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        escape(value, "", &mut self.0);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name as one segment of a path. Names are plain by rule; hostile ones must not leave their segment.
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    escape(name, ":@$&+,;=!*'()", &mut text);
    // A dot segment would be taken as a way up.
    if matches!(text.as_str(), "." | "..") {
        text = text.replace('.', "%2E");
    }
    text
}

fn escape(text: &str, also_plain: &str, into: &mut String) {
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || also_plain.as_bytes().contains(&byte);
        if plain {
            into.push(char::from(byte));
        } else {
            into.push('%');
            for nibble in [byte >> 4, byte & 15] {
                into.push(
                    char::from_digit(u32::from(nibble), 16)
                        .expect("a nibble is a hex digit")
                        .to_ascii_uppercase(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_would_leave_its_place() {
        let options = ListOptions {
            label_selector: "a in (b,c),!d".into(),
            limit: 5,
            ..ListOptions::default()
        };
        assert_eq!(
            options.query().as_str(),
            "?labelSelector=a%20in%20%28b%2Cc%29%2C%21d&limit=5"
        );
        for (name, expected) in [
            ("clusternet:system", "clusternet:system"),
            ("a/b?c", "a%2Fb%3Fc"),
            ("..", "%2E%2E"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(segment(name), expected);
        }
    }
}
