//! Whether a user may do something: RBAC over the roles and bindings of the source, its reviews' vocabulary, and the
//! rules by which rights may be handed on. Knows nothing of HTTP. The entry types are [`Authorizer`] and [`Rbac`].

mod escalation;
#[cfg(test)]
pub(crate) mod fake;
mod follow;
mod index;
mod rbac;
mod rules;

use futures::future::BoxFuture;
use machinery::{ApiError, Reason};
use smol_str::SmolStr;

use crate::request_info::RequestInfo;
use crate::user::UserInfo;

pub use escalation::{check_binding, check_role};

pub use rbac::Rbac;
pub use rules::{Rule, RuleKind};

/// What somebody wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb; for paths that are no resources the lower-case method.
    pub verb: SmolStr,
    /// What to.
    pub target: Target,
}

/// What an action is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Objects.
    Resource {
        /// The API group, empty for core.
        group: SmolStr,
        /// The version, which no rule looks at.
        version: SmolStr,
        /// The plural.
        resource: SmolStr,
        /// The subresource, empty for none.
        subresource: SmolStr,
        /// The namespace, empty for all.
        namespace: SmolStr,
        /// The object's name, empty for any.
        name: SmolStr,
    },
    /// A path that is no resource.
    Path(String),
}

impl Default for Target {
    fn default() -> Self {
        Self::Path(String::new())
    }
}

impl Attributes {
    /// What a request wants to do.
    pub fn of_request(info: &RequestInfo) -> Self {
        let target = if info.is_resource_request {
            Target::Resource {
                group: info.group.clone(),
                version: info.version.clone(),
                resource: info.resource.clone(),
                subresource: info.subresource.clone(),
                namespace: info.namespace.clone(),
                name: if info.name.is_empty() {
                    info.selected.clone()
                } else {
                    info.name.clone()
                },
            }
        } else {
            Target::Path(info.path.clone())
        };
        Self {
            verb: info.verb.clone(),
            target,
        }
    }

    /// An action on one resource.
    pub fn resource(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            verb: SmolStr::new(verb),
            target: Target::Resource {
                group: SmolStr::new(group),
                version: SmolStr::default(),
                resource: SmolStr::new(resource),
                subresource: SmolStr::new(subresource),
                namespace: SmolStr::new(namespace),
                name: SmolStr::new(name),
            },
        }
    }

    /// An action on a path that is no resource.
    pub fn path(verb: &str, path: &str) -> Self {
        Self {
            verb: SmolStr::new(verb),
            target: Target::Path(path.to_owned()),
        }
    }

    /// The namespace, empty for cluster scope.
    pub fn namespace(&self) -> &str {
        match &self.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        }
    }

    /// The 403 that says in Kubernetes' words that a user may not.
    pub fn forbidden(&self, user: &UserInfo, reason: &str) -> ApiError {
        let verb = &self.verb;
        // Kubernetes quotes as Go does; for names without control characters that is what Debug does.
        let who = format!("User {:?}", user.name);
        let because = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        match &self.target {
            Target::Path(path) => ApiError::new(
                Reason::Forbidden,
                format!("forbidden: {who} cannot {verb} path {path:?}{because}"),
            ),
            Target::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..
            } => {
                let full = if subresource.is_empty() {
                    resource.to_string()
                } else {
                    format!("{resource}/{subresource}")
                };
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {:?}", namespace.as_str())
                };
                forbidden(
                    group,
                    resource,
                    name,
                    &format!(
                        "{who} cannot {verb} resource {full:?} in API group {:?} {scope}{because}",
                        group.as_str()
                    ),
                )
            }
        }
    }
}

/// 403 about an object, in Kubernetes' words.
pub(crate) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
    let qualified = if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    };
    let message = if name.is_empty() {
        format!("{qualified} is forbidden: {why}")
    } else {
        format!("{qualified} {name:?} is forbidden: {why}")
    };
    ApiError::new(Reason::Forbidden, message).about(group, resource, name)
}

/// An authorizer's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the action is allowed.
    pub verdict: Verdict,
    /// Why, as `SubjectAccessReview.status.reason` says it; may be empty.
    pub reason: String,
    /// What went wrong on the way, such as a binding to a role that is not there; may be empty.
    pub problem: String,
}

/// Whether an action is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Allowed,
    /// Nothing allows it.
    NoOpinion,
    /// It is explicitly denied.
    Denied,
}

impl Decision {
    /// Allowed, for a reason.
    pub fn allowed(reason: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Allowed,
            reason: reason.into(),
            problem: String::new(),
        }
    }

    /// Not allowed by anything.
    pub fn no_opinion() -> Self {
        Self {
            verdict: Verdict::NoOpinion,
            reason: String::new(),
            problem: String::new(),
        }
    }

    /// Whether the action is allowed.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }
}

/// Which rights are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Decides what users may do.
pub trait Authorizer: Send + Sync + std::fmt::Debug {
    /// Whether a user may do something.
    ///
    /// # Errors
    /// 500 or 503 if that cannot be found out.
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> BoxFuture<'a, Result<Decision, ApiError>>;

    /// Every rule that holds for a user in a namespace (empty: cluster-wide ones only).
    ///
    /// # Errors
    /// As [`Authorizer::authorize`].
    fn rules<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Rule>, ApiError>>;

    /// The rules of a role, `None` if it is not there.
    ///
    /// # Errors
    /// As [`Authorizer::authorize`].
    fn role<'a>(
        &'a self,
        role: &'a RoleRef,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<Rule>>, ApiError>>;
}

/// Ends in 403 unless a user may do something.
///
/// # Errors
/// 403 in Kubernetes' words; the authorizer's own errors.
pub async fn require(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    attributes: &Attributes,
) -> Result<(), ApiError> {
    let decision = authorizer.authorize(user, attributes).await?;
    if decision.is_allowed() {
        return Ok(());
    }
    let reason = if decision.reason.is_empty() {
        &decision.problem
    } else {
        &decision.reason
    };
    Err(attributes.forbidden(user, reason))
}

/// Allows everything: for sources that guard themselves, and tests.
#[derive(Debug, Clone, Copy)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize<'a>(
        &'a self,
        _: &'a UserInfo,
        _: &'a Attributes,
    ) -> BoxFuture<'a, Result<Decision, ApiError>> {
        Box::pin(async { Ok(Decision::allowed("everything is allowed here")) })
    }

    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Result<Vec<Rule>, ApiError>> {
        Box::pin(async { Ok(Rule::everything()) })
    }

    fn role<'a>(&'a self, _: &'a RoleRef, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<Rule>>, ApiError>> {
        Box::pin(async { Ok(Some(Vec::new())) })
    }
}

#[cfg(test)]
mod tests;
