//! From what a person types to a resource of the hub: templates live in the shadow group, the fleet's own kinds
//! where they are.

use kubeio::{Discovered, Discovery};
use machinery::{ApiResource, Gvk};

use crate::Error;

/// The group that mirrors templates.
pub(crate) const SHADOW: &str = "shadow";
const OWN_SUFFIX: &str = ".clusternet.io";

/// What a command is about: a type, or one named object of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The type as typed: plural, singular, kind or short name, optionally with `.GROUP`.
    pub kind: String,
    /// The object's name.
    pub name: Option<String>,
}

impl Target {
    /// From `TYPE`, `TYPE NAME…` or `TYPE/NAME…`.
    ///
    /// # Errors
    /// [`Error::Usage`] for other forms.
    pub fn parse(words: &[String]) -> Result<Vec<Self>, Error> {
        let Some((first, rest)) = words.split_first() else {
            return Err(Error::Usage(
                "say which type: TYPE, TYPE NAME or TYPE/NAME".into(),
            ));
        };
        if first.contains('/') {
            return words
                .iter()
                .map(|word| match word.split_once('/') {
                    Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(Self {
                        kind: kind.to_owned(),
                        name: Some(name.to_owned()),
                    }),
                    _ => Err(Error::Usage(format!("{word:?} is not TYPE/NAME"))),
                })
                .collect();
        }
        if rest.is_empty() {
            return Ok(vec![Self {
                kind: first.clone(),
                name: None,
            }]);
        }
        Ok(rest
            .iter()
            .map(|name| Self {
                kind: first.clone(),
                name: Some(name.clone()),
            })
            .collect())
    }
}

/// The resources that commands address: the shadow group's and the fleet's own.
fn candidates(discovery: &Discovery) -> impl Iterator<Item = &Discovered> {
    discovery.resources.iter().filter(|candidate| {
        let group = candidate.resource.group.as_ref();
        group == SHADOW || group.ends_with(OWN_SUFFIX)
    })
}

/// The resource of a typed type. The word is looked up among everything that the hub serves, because the shadow
/// group names no short names (kubectl would warn of them); what is found there is then addressed as a template.
pub(crate) fn by_word(discovery: &Discovery, word: &str) -> Result<ApiResource, Error> {
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
    let found = discovery.resources.iter().find(fits).map(|found| &found.resource);
    let template = |kind: &ApiResource| {
        candidates(discovery)
            .map(|candidate| &candidate.resource)
            .find(|resource| resource.plural == kind.plural && resource.kind == kind.kind)
    };
    found
        .and_then(template)
        .cloned()
        .ok_or_else(|| unknown(discovery, word.to_owned()))
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
    /// The object that a target is. `doing` ends the question for a name that is missing.
    pub(crate) fn find(
        discovery: &Discovery,
        target: &Target,
        given: Option<&str>,
        doing: &str,
    ) -> Result<Self, Error> {
        let resource = by_word(discovery, &target.kind)?;
        let Some(name) = target.name.clone() else {
            return Err(Error::Usage(format!(
                "say which of the {} to {doing}",
                resource.plural
            )));
        };
        let namespace = namespace(&resource, "", given)?.map(ToOwned::to_owned);
        Ok(Self {
            resource,
            namespace,
            name,
        })
    }

    /// All that targets are: nothing is done for any of them if one makes no sense.
    pub(crate) fn find_all(
        discovery: &Discovery,
        targets: &[Target],
        given: Option<&str>,
        doing: &str,
    ) -> Result<Vec<Self>, Error> {
        let find = |target| Self::find(discovery, target, given, doing);
        targets.iter().map(find).collect()
    }

    /// `kind/name`, as messages call it.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.resource.kind.to_lowercase(), self.name)
    }
}

/// The namespace to use for an object of a resource: the object's own, else the given one, else `default`.
pub(crate) fn namespace<'a>(
    resource: &ApiResource,
    own: &'a str,
    given: Option<&'a str>,
) -> Result<Option<&'a str>, Error> {
    if !resource.namespaced {
        return Ok(None);
    }
    match (own, given) {
        ("", given) => Ok(Some(given.unwrap_or("default"))),
        (own, Some(given)) if own != given => Err(Error::Usage(format!(
            "the object's namespace {own:?} is not the given one, {given:?}"
        ))),
        (own, _) => Ok(Some(own)),
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
            categories: Vec::new(),
            subresources: Vec::new(),
        }
    }

    fn discovery() -> Discovery {
        Discovery {
            resources: vec![
                discovered(
                    ApiResource::namespaced("apps", "v1", "deployments", "Deployment"),
                    "deploy",
                ),
                discovered(
                    ApiResource::namespaced(SHADOW, "v1alpha1", "deployments", "Deployment"),
                    "",
                ),
                discovered(api::apps::SUBSCRIPTIONS, "subs"),
            ],
            failed: Vec::new(),
        }
    }

    #[test]
    fn finds_templates_in_the_shadow_group_and_own_kinds_where_they_are() {
        for word in ["deploy", "Deployment", "deployments", "deployments.apps"] {
            assert_eq!(by_word(&discovery(), word).expect(word).group, SHADOW);
        }
        assert_eq!(
            by_word(&discovery(), "subs").expect("known"),
            api::apps::SUBSCRIPTIONS
        );
        assert!(by_word(&discovery(), "pods").is_err());
        let kind = Gvk::new("apps/v1", "Deployment");
        assert_eq!(by_kind(&discovery(), &kind).expect("known").group, SHADOW);
        let own = Gvk::new("apps.clusternet.io/v1alpha1", "Subscription");
        assert_eq!(
            by_kind(&discovery(), &own).expect("known"),
            api::apps::SUBSCRIPTIONS
        );
    }

    #[test]
    fn reads_targets() {
        let parse =
            |line: &str| Target::parse(&line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>());
        assert_eq!(parse("deploy a b").expect("fine").len(), 2);
        assert_eq!(parse("deploy/a svc/b").expect("fine")[1].kind, "svc");
        assert_eq!(parse("deploy").expect("fine")[0].name, None);
        assert!(parse("").is_err());
        assert!(parse("deploy/a b").is_err());
    }

    #[test]
    fn an_object_in_another_namespace_than_the_given_one_is_refused() {
        let resource = ApiResource::namespaced(SHADOW, "v1alpha1", "deployments", "Deployment");
        assert_eq!(namespace(&resource, "", None).expect("fine"), Some("default"));
        assert_eq!(namespace(&resource, "a", Some("a")).expect("fine"), Some("a"));
        assert!(namespace(&resource, "a", Some("b")).is_err());
    }
}
