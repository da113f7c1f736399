//! From what a person types to a resource of the hub: templates live in the shadow group, the fleet's own kinds
//! where they are.

use std::io::Write;

use kubeio::{Discovered, Discovery, ListOptions};
use machinery::{ApiResource, Gvk, meta};
use serde_json::Value;

use crate::{Error, Hub};

/// The group that mirrors templates.
pub(crate) const SHADOW: &str = "shadow";
const OWN_SUFFIX: &str = ".clusternet.io";

/// A type as typed, or one named object of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The type: plural, singular, kind or short name, optionally with `.GROUP`; or a category such as `all`.
    pub kind: String,
    /// The object's name.
    pub name: Option<String>,
}

impl Target {
    /// From `TYPE`, `TYPE NAME…` or `TYPE/NAME…`, where `TYPE` may be several with commas between.
    ///
    /// # Errors
    /// [`Error::Usage`] for other forms.
    pub fn parse(words: &[String]) -> Result<Vec<Self>, Error> {
        let Some((first, names)) = words.split_first() else {
            return Err(Error::Usage(
                "say which type: TYPE, TYPE NAME or TYPE/NAME".into(),
            ));
        };
        if first.contains('/') {
            return words.iter().map(|word| Self::one(word)).collect();
        }
        let mut targets = Vec::new();
        for kind in first.split(',') {
            if kind.is_empty() {
                return Err(Error::Usage(format!(
                    "{first:?} has an empty place where a type is meant: write TYPE,TYPE"
                )));
            }
            let target = |name: Option<&String>| Self {
                kind: kind.to_owned(),
                name: name.cloned(),
            };
            if names.is_empty() {
                targets.push(target(None));
            }
            for name in names {
                if name.is_empty() || name.contains('/') {
                    return Err(Error::Usage(format!(
                        "{name:?} is no name of an object of type {kind}"
                    )));
                }
                targets.push(target(Some(name)));
            }
        }
        Ok(targets)
    }

    fn one(word: &str) -> Result<Self, Error> {
        match word.split_once('/') {
            Some((kind, name))
                if !kind.is_empty() && !kind.contains(',') && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    kind: kind.to_owned(),
                    name: Some(name.to_owned()),
                })
            }
            _ => Err(Error::Usage(format!("{word:?} is not TYPE/NAME"))),
        }
    }
}

/// Which objects of the types that were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Which {
    /// Those named.
    #[default]
    Named,
    /// Those with labels (`--selector`).
    Labelled(String),
    /// All (`--all`).
    All,
}

/// What a command is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    targets: Vec<Target>,
    which: Which,
}

impl Selection {
    /// Objects for a command that changes them. `doing` ends the question for what is missing.
    ///
    /// # Errors
    /// [`Error::Usage`] for objects that are neither named nor selected, or both.
    pub fn parse(words: &[String], which: Which, doing: &str) -> Result<Self, Error> {
        let targets = Target::parse(words)?;
        let named = targets.iter().find(|target| target.name.is_some());
        let nameless = targets.iter().find(|target| target.name.is_none());
        match (&which, named, nameless) {
            (Which::Named, _, Some(target)) => Err(Error::Usage(format!(
                "say which of the {} to {doing}: by name, with --selector, or --all",
                target.kind
            ))),
            (Which::Labelled(_) | Which::All, Some(target), _) => Err(Error::Usage(format!(
                "{} {:?} is named: --selector and --all are for types alone",
                target.kind,
                target.name.as_deref().unwrap_or_default()
            ))),
            _ => Ok(Self { targets, which }),
        }
    }
}

/// The resources that commands address: the shadow group's and the fleet's own.
fn candidates(discovery: &Discovery) -> impl Iterator<Item = &Discovered> {
    discovery.resources.iter().filter(|candidate| {
        let group = candidate.resource.group.as_ref();
        group == SHADOW || group.ends_with(OWN_SUFFIX)
    })
}

/// A type that commands address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Type {
    /// How it is addressed.
    pub(crate) resource: ApiResource,
    /// How it is called where several are printed, such as `deployment.apps`.
    pub(crate) title: String,
}

/// The types that a word means: one by its name, or those of a category. It is looked up among everything that the hub
/// serves, because the shadow group names no short names (kubectl would warn of them) and no categories; what is found
/// there is then addressed as a template.
pub(crate) fn types(discovery: &Discovery, word: &str) -> Result<Vec<Type>, Error> {
    let (name, group) = word
        .split_once('.')
        .map_or((word, None), |(name, group)| (name, Some(group)));
    let name = name.to_lowercase();
    let fits = |candidate: &&Discovered| {
        let resource = &candidate.resource;
        let by_name = resource.plural == name
            || resource.kind.to_lowercase() == name
            || candidate.short_names.contains(&name);
        by_name && group.is_none_or(|group| resource.group == group)
    };
    let found = discovery.resources.iter().find(fits);
    if let Some(one) = found.and_then(|found| addressed(discovery, &found.resource)) {
        return Ok(vec![one]);
    }
    let mut members: Vec<Type> = Vec::new();
    let in_category = |found: &&Discovered| found.categories.iter().any(|category| category == word);
    for found in discovery.resources.iter().filter(in_category) {
        let member = addressed(discovery, &found.resource);
        members.extend(member.filter(|member| members.iter().all(|other| other.resource != member.resource)));
    }
    if members.is_empty() {
        return Err(unknown(discovery, word.to_owned()));
    }
    Ok(members)
}

/// How a kind is addressed, if it is one that commands are about.
fn addressed(discovery: &Discovery, kind: &ApiResource) -> Option<Type> {
    let same = |resource: &ApiResource| resource.plural == kind.plural && resource.kind == kind.kind;
    let mut all = candidates(discovery).map(|candidate| &candidate.resource);
    let resource = all.find(|resource| same(resource))?;
    // A template is called after what it is a template of.
    let mut everything = discovery.resources.iter().map(|found| &found.resource);
    let original = everything.find(|other| same(other) && other.group != SHADOW);
    let group = &original.unwrap_or(resource).group;
    let dot = if group.is_empty() { "" } else { "." };
    Some(Type {
        resource: resource.clone(),
        title: format!("{}{dot}{group}", kind.kind.to_lowercase()),
    })
}

fn unknown(discovery: &Discovery, word: String) -> Error {
    if discovery
        .resources
        .iter()
        .any(|found| found.resource.group == SHADOW)
    {
        Error::UnknownType(word)
    } else {
        Error::NoTemplates
    }
}

/// The resource of an object's kind.
pub(crate) fn by_kind(discovery: &Discovery, kind: &Gvk) -> Result<ApiResource, Error> {
    let own = kind.group.ends_with(OWN_SUFFIX);
    candidates(discovery)
        .map(|candidate| &candidate.resource)
        .find(|resource| {
            resource.kind == kind.kind
                && if own {
                    resource.group == kind.group && resource.version == kind.version
                } else {
                    resource.group == SHADOW
                }
        })
        .cloned()
        .ok_or_else(|| unknown(discovery, kind.to_string()))
}

/// One object of the hub, by name.
pub(crate) struct Named {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Named {
    /// The objects that are selected, in order: nothing is done for any of them if one makes no sense.
    /// That a selection found none is said.
    pub(crate) async fn find(
        hub: &Hub,
        discovery: &Discovery,
        selection: &Selection,
        out: &mut (dyn Write + Send),
    ) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for target in &selection.targets {
            for Type { resource, .. } in types(discovery, &target.kind)? {
                match &target.name {
                    Some(name) => found.push(Self {
                        namespace: hub.scope.of(&resource, "")?.map(ToOwned::to_owned),
                        resource,
                        name: name.clone(),
                    }),
                    None => found.extend(Self::list(hub, resource, &selection.which).await?),
                }
            }
        }
        if found.is_empty() && !selection.targets.is_empty() {
            writeln!(out, "No resources found")?;
        }
        Ok(found)
    }

    async fn list(hub: &Hub, resource: ApiResource, which: &Which) -> Result<Vec<Self>, Error> {
        let selector = match which {
            Which::Labelled(selector) => selector.as_str(),
            Which::Named | Which::All => "",
        };
        let listed = hub
            .client
            .list_all(
                &resource,
                hub.scope.listed(&resource),
                &ListOptions::labels(selector),
            )
            .await
            .map_err(Error::hub(format!("{} cannot be read", resource.plural)))?;
        let named = |object: &Value| Self {
            resource: resource.clone(),
            namespace: resource.namespaced.then(|| meta::namespace(object).to_owned()),
            name: meta::name(object).to_owned(),
        };
        Ok(listed.items.iter().map(named).collect())
    }

    /// `kind/name`, as messages call it.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.resource.kind.to_lowercase(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovered(resource: ApiResource, short: &str) -> Discovered {
        Discovered {
            resource,
            verbs: vec!["get".into()],
            short_names: vec![short.into()],
            categories: if short.is_empty() {
                Vec::new()
            } else {
                vec!["all".into()]
            },
            subresources: Vec::new(),
        }
    }

    fn discovery() -> Discovery {
        Discovery {
            resources: vec![
                discovered(ApiResource::namespaced("", "v1", "pods", "Pod"), "po"),
                discovered(ApiResource::namespaced("", "v1", "services", "Service"), "svc"),
                discovered(
                    ApiResource::namespaced("apps", "v1", "deployments", "Deployment"),
                    "deploy",
                ),
                discovered(
                    ApiResource::namespaced("apps", "v1beta1", "deployments", "Deployment"),
                    "deploy",
                ),
                discovered(
                    ApiResource::namespaced(SHADOW, "v1alpha1", "services", "Service"),
                    "",
                ),
                discovered(
                    ApiResource::namespaced(SHADOW, "v1alpha1", "deployments", "Deployment"),
                    "",
                ),
                Discovered {
                    categories: Vec::new(),
                    ..discovered(api::apps::SUBSCRIPTIONS, "subs")
                },
            ],
            failed: Vec::new(),
        }
    }

    #[test]
    fn finds_templates_in_the_shadow_group_and_own_kinds_where_they_are() {
        let found = |word: &str| types(&discovery(), word).expect(word);
        for word in ["deploy", "Deployment", "deployments", "deployments.apps"] {
            let found = found(word);
            assert_eq!((found.len(), found[0].title.as_str()), (1, "deployment.apps"));
            assert_eq!(found[0].resource.group, SHADOW);
        }
        assert_eq!(found("subs")[0].resource, api::apps::SUBSCRIPTIONS);
        assert_eq!(found("subs")[0].title, "subscription.apps.clusternet.io");
        let all = found("all");
        let titles: Vec<&str> = all.iter().map(|found| found.title.as_str()).collect();
        assert_eq!(
            titles,
            ["service", "deployment.apps"],
            "pods are no templates here"
        );
        for word in ["pods", "none"] {
            assert!(types(&discovery(), word).is_err(), "{word}");
        }
        let kind = Gvk::new("apps/v1", "Deployment");
        assert_eq!(by_kind(&discovery(), &kind).expect("known").group, SHADOW);
        let own = Gvk::new("apps.clusternet.io/v1alpha1", "Subscription");
        assert_eq!(
            by_kind(&discovery(), &own).expect("known"),
            api::apps::SUBSCRIPTIONS
        );
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ')
            .filter(|word| !word.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    }

    #[test]
    fn reads_targets() {
        for (line, expected) in [
            ("deploy", "deploy"),
            ("deploy a b", "deploy/a deploy/b"),
            ("deploy/a svc/b", "deploy/a svc/b"),
            ("deploy,svc", "deploy svc"),
            ("deploy,svc a b", "deploy/a deploy/b svc/a svc/b"),
        ] {
            let found: Vec<String> = Target::parse(&words(line))
                .expect(line)
                .into_iter()
                .map(|Target { kind, name }| name.map_or(kind.clone(), |name| format!("{kind}/{name}")))
                .collect();
            assert_eq!(found.join(" "), expected);
        }
        for line in [
            "",
            "deploy/a b",
            "deploy/",
            "/a",
            "deploy/a/b",
            "deploy,",
            ",deploy",
            "deploy,,svc",
            "deploy,svc/a",
            "deploy a/b",
        ] {
            assert!(Target::parse(&words(line)).is_err(), "{line:?}");
        }
    }

    #[test]
    fn what_is_changed_is_named_or_selected_and_not_both() {
        let labelled = || Which::Labelled("a=b".into());
        for (line, which, fine) in [
            ("deploy a", Which::Named, true),
            ("deploy/a svc/b", Which::Named, true),
            ("deploy", Which::Named, false),
            ("deploy", Which::All, true),
            ("deploy,svc", labelled(), true),
            ("deploy a", Which::All, false),
            ("deploy/a", labelled(), false),
            ("", Which::All, false),
        ] {
            let parsed = Selection::parse(&words(line), which.clone(), "delete");
            assert_eq!(parsed.is_ok(), fine, "{line:?} {which:?}: {parsed:?}");
        }
    }
}
