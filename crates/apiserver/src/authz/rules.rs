//! RBAC's rules: what one matches, and whether some cover others. Pure.
//!
//! The semantics are Kubernetes' (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/>): `*` stands for
//! everything in verbs, groups and resources, `*/scale` for that subresource of every resource; `pods/*` is not a
//! pattern and names nothing. Paths may end in `*`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Attributes, Target};

/// One rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// The verbs that it allows.
    pub verbs: Vec<String>,
    /// In these API groups.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub api_groups: Vec<String>,
    /// On these resources and subresources.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resources: Vec<String>,
    /// With these names; any if empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub resource_names: Vec<String>,
    /// On these paths.
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// Objects.
    Resources,
    /// Paths.
    Paths,
}

impl Rule {
    /// The rules of a Role or ClusterRole. What cannot be read grants nothing.
    pub fn of_role(role: &Value) -> Vec<Self> {
        role["rules"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .filter_map(|rule| Self::deserialize(rule).ok())
            .collect()
    }

    /// The rules that allow everything.
    pub fn everything() -> Vec<Self> {
        let all = || vec!["*".to_owned()];
        vec![
            Self {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                ..Self::default()
            },
            Self {
                verbs: all(),
                non_resource_urls: all(),
                ..Self::default()
            },
        ]
    }

    /// What it is about.
    pub fn kind(&self) -> RuleKind {
        if self.non_resource_urls.is_empty() {
            RuleKind::Resources
        } else {
            RuleKind::Paths
        }
    }

    /// Whether it allows an action.
    pub fn allows(&self, attributes: &Attributes) -> bool {
        if !has(&self.verbs, &attributes.verb) {
            return false;
        }
        match &attributes.target {
            Target::Path(path) => self
                .non_resource_urls
                .iter()
                .any(|pattern| path_matches(pattern, path)),
            Target::Resource {
                group,
                resource,
                subresource,
                name,
                ..
            } => {
                has(&self.api_groups, group)
                    && self
                        .resources
                        .iter()
                        .any(|pattern| resource_matches(pattern, resource, subresource))
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|one| one == name))
            }
        }
    }

    /// The smallest rules that it is made of: one verb on one resource (of one name) or path each.
    fn pieces(&self) -> Vec<Self> {
        let mut pieces = Vec::new();
        for verb in &self.verbs {
            for path in &self.non_resource_urls {
                pieces.push(Self {
                    verbs: vec![verb.clone()],
                    non_resource_urls: vec![path.clone()],
                    ..Self::default()
                });
            }
            for group in &self.api_groups {
                for resource in &self.resources {
                    let piece = Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        pieces.push(piece);
                        continue;
                    }
                    for name in &self.resource_names {
                        pieces.push(Self {
                            resource_names: vec![name.clone()],
                            ..piece.clone()
                        });
                    }
                }
            }
        }
        pieces
    }

    /// Whether it covers a piece: `*` is only covered by `*`.
    fn covers_piece(&self, piece: &Self) -> bool {
        let [verb] = piece.verbs.as_slice() else {
            return false;
        };
        if !has(&self.verbs, verb) {
            return false;
        }
        if let [path] = piece.non_resource_urls.as_slice() {
            return self
                .non_resource_urls
                .iter()
                .any(|pattern| path_matches(pattern, path));
        }
        let ([group], [resource]) = (piece.api_groups.as_slice(), piece.resources.as_slice()) else {
            return false;
        };
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        has(&self.api_groups, group)
            && self
                .resources
                .iter()
                .any(|pattern| pattern == resource || resource_matches(pattern, plural, subresource))
            && (self.resource_names.is_empty()
                || piece
                    .resource_names
                    .first()
                    .is_some_and(|name| self.resource_names.contains(name)))
    }

    /// As Kubernetes shows it in an escalation's refusal.
    pub(super) fn to_compact(&self) -> String {
        let mut parts = Vec::new();
        for (name, values) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ] {
            if !values.is_empty() {
                let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                parts.push(format!("{name}:[{}]", quoted.join(" ")));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }
}

/// What of `wanted` is not covered by `held`: pieces, those that differ only in their verb joined.
pub(super) fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut missing: Vec<Rule> = Vec::new();
    for piece in wanted.iter().flat_map(Rule::pieces) {
        if held.iter().any(|rule| rule.covers_piece(&piece)) {
            continue;
        }
        let alike = missing.iter_mut().find(|other| {
            other.api_groups == piece.api_groups
                && other.resources == piece.resources
                && other.resource_names == piece.resource_names
                && other.non_resource_urls == piece.non_resource_urls
        });
        match alike {
            Some(other) if other.verbs.contains(&piece.verbs[0]) => {}
            Some(other) => other.verbs.extend(piece.verbs),
            None => missing.push(piece),
        }
    }
    missing
}

fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == "*" || value == wanted)
}

fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    if subresource.is_empty() {
        return pattern == resource;
    }
    match pattern.split_once('/') {
        Some((left, right)) => right == subresource && (left == "*" || left == resource),
        None => false,
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        // A pattern covers a narrower pattern too, when grants are compared.
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}
