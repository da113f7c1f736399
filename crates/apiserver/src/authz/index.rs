//! Roles by name and bindings by subject, so that a decision looks only at what concerns its user. Holds no client.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use super::rules::Rule;
use super::{Attributes, Decision, RoleRef};
use crate::user::{MASTERS, UserInfo};

/// Namespace (empty for cluster-wide) and name.
type Name = (SmolStr, SmolStr);

/// Whom a binding names. A service account is a user of its full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    User(SmolStr),
    Group(SmolStr),
}

#[derive(Debug)]
struct Binding {
    subjects: Vec<Subject>,
    role: RoleRef,
    /// How an answer's reason names it.
    title: String,
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub(super) struct Index {
    roles: BTreeMap<Name, Arc<Vec<Rule>>>,
    bindings: BTreeMap<Name, Arc<Binding>>,
    /// (namespace of the binding, subject) to names of bindings.
    by_subject: BTreeMap<(SmolStr, Subject), Vec<SmolStr>>,
}

impl Index {
    pub(super) fn put_role(&mut self, namespace: &str, name: &str, role: &Value) {
        let name = (SmolStr::new(namespace), SmolStr::new(name));
        self.roles.insert(name, Arc::new(Rule::of_role(role)));
    }

    pub(super) fn remove_role(&mut self, namespace: &str, name: &str) {
        self.roles.remove(&(SmolStr::new(namespace), SmolStr::new(name)));
    }

    pub(super) fn put_binding(&mut self, namespace: &str, name: &str, object: &Value) {
        self.remove_binding(namespace, name);
        let namespace = SmolStr::new(namespace);
        let name = SmolStr::new(name);
        let binding = read_binding(&namespace, &name, object);
        for subject in &binding.subjects {
            let names = self
                .by_subject
                .entry((namespace.clone(), subject.clone()))
                .or_default();
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
        self.bindings.insert((namespace, name), Arc::new(binding));
    }

    pub(super) fn remove_binding(&mut self, namespace: &str, name: &str) {
        let key = (SmolStr::new(namespace), SmolStr::new(name));
        let Some(binding) = self.bindings.remove(&key) else {
            return;
        };
        let (namespace, name) = key;
        for subject in &binding.subjects {
            let at = (namespace.clone(), subject.clone());
            if let Some(names) = self.by_subject.get_mut(&at) {
                names.retain(|other| *other != name);
                if names.is_empty() {
                    self.by_subject.remove(&at);
                }
            }
        }
    }

    /// Removes all cluster-wide or all namespaced roles.
    pub(super) fn clear_roles(&mut self, namespaced: Scope) {
        self.roles
            .retain(|(namespace, _), _| !namespaced.holds(namespace));
    }

    /// Removes all cluster-wide or all namespaced bindings.
    pub(super) fn clear_bindings(&mut self, namespaced: Scope) {
        self.bindings
            .retain(|(namespace, _), _| !namespaced.holds(namespace));
        self.by_subject
            .retain(|(namespace, _), _| !namespaced.holds(namespace));
    }

    pub(super) fn authorize(&self, user: &UserInfo, attributes: &Attributes) -> Decision {
        if user.is_in(MASTERS) {
            return Decision::allowed("");
        }
        let mut problems = Vec::new();
        let mut found = None;
        self.visit(user, attributes.namespace(), &mut |binding, rules| {
            let Some(rules) = rules else {
                problems.push(not_there(&binding.role));
                return true;
            };
            if rules.iter().any(|rule| rule.allows(attributes)) {
                found = Some(binding.title.clone());
            }
            found.is_none()
        });
        match found {
            Some(title) => Decision::allowed(format!("RBAC: allowed by {title} to user {:?}", user.name)),
            None => Decision {
                problem: match problems.as_slice() {
                    [] => String::new(),
                    [one] => format!("RBAC: {one}"),
                    many => format!("RBAC: [{}]", many.join(", ")),
                },
                ..Decision::no_opinion()
            },
        }
    }

    pub(super) fn rules(&self, user: &UserInfo, namespace: &str) -> Vec<Rule> {
        let mut all = Vec::new();
        if user.is_in(MASTERS) {
            all = Rule::everything();
        }
        self.visit(user, namespace, &mut |_, rules| {
            for rule in rules.into_iter().flatten() {
                if !all.contains(rule) {
                    all.push(rule.clone());
                }
            }
            true
        });
        all
    }

    pub(super) fn role(&self, role: &RoleRef, namespace: &str) -> Option<Arc<Vec<Rule>>> {
        let namespace = if role.kind == "ClusterRole" { "" } else { namespace };
        self.roles
            .get(&(SmolStr::new(namespace), SmolStr::new(&role.name)))
            .cloned()
    }

    /// Shows every binding that concerns a user, cluster-wide ones first, until `look` has seen enough.
    fn visit(
        &self,
        user: &UserInfo,
        namespace: &str,
        look: &mut dyn FnMut(&Binding, Option<&[Rule]>) -> bool,
    ) {
        let scopes: &[&str] = if namespace.is_empty() {
            &[""]
        } else {
            &["", namespace]
        };
        for scope in scopes {
            let scope = SmolStr::new(scope);
            let subjects = std::iter::once(Subject::User(SmolStr::new(&user.name))).chain(
                user.groups
                    .iter()
                    .map(|group| Subject::Group(SmolStr::new(group))),
            );
            for subject in subjects {
                let Some(names) = self.by_subject.get(&(scope.clone(), subject)) else {
                    continue;
                };
                for name in names {
                    let Some(binding) = self.bindings.get(&(scope.clone(), name.clone())) else {
                        continue;
                    };
                    let rules = self.role(&binding.role, &scope);
                    if !look(binding, rules.as_deref().map(Vec::as_slice)) {
                        return;
                    }
                }
            }
        }
    }
}

/// Which half of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespaced,
}

impl Scope {
    fn holds(self, namespace: &str) -> bool {
        match self {
            Self::Cluster => namespace.is_empty(),
            Self::Namespaced => !namespace.is_empty(),
        }
    }
}

fn not_there(role: &RoleRef) -> String {
    let plural = if role.kind == "ClusterRole" {
        "clusterrole"
    } else {
        "role"
    };
    format!("{plural}.rbac.authorization.k8s.io {:?} not found", role.name)
}

fn read_binding(namespace: &str, name: &str, object: &Value) -> Binding {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let role = RoleRef {
        kind: text(&object["roleRef"]["kind"]),
        name: text(&object["roleRef"]["name"]),
    };
    let subjects = object["subjects"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let subjects = subjects
        .iter()
        .filter_map(|subject| {
            let name = subject["name"].as_str()?;
            match subject["kind"].as_str()? {
                "User" => Some(Subject::User(SmolStr::new(name))),
                "Group" => Some(Subject::Group(SmolStr::new(name))),
                "ServiceAccount" => {
                    let own = subject["namespace"].as_str().filter(|own| !own.is_empty());
                    let of = own.unwrap_or(namespace);
                    let user = smol_str::format_smolstr!("system:serviceaccount:{of}:{name}");
                    (!of.is_empty()).then_some(Subject::User(user))
                }
                _ => None,
            }
        })
        .collect();
    let title = if namespace.is_empty() {
        format!("ClusterRoleBinding {name:?} of {} {:?}", role.kind, role.name)
    } else {
        let full = format!("{name}/{namespace}");
        format!("RoleBinding {full:?} of {} {:?}", role.kind, role.name)
    };
    Binding {
        subjects,
        role,
        title,
    }
}
