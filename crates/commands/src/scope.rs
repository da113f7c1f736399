//! Which namespaces a command means.

use machinery::ApiResource;

use crate::Error;

/// What the command line says about namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// Nothing: the context's is meant.
    #[default]
    Usual,
    /// `--namespace`: this one, and objects that say another are refused.
    Given(String),
    /// `--all-namespaces`.
    All,
}

/// The namespaces that a command means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    said: Namespaces,
    usual: String,
}

impl Scope {
    /// `usual` is the context's namespace.
    pub(crate) fn new(said: Namespaces, usual: String) -> Self {
        Self { said, usual }
    }

    /// The namespace of one object, which may itself name one.
    pub(crate) fn of<'a>(&'a self, resource: &ApiResource, own: &'a str) -> Result<Option<&'a str>, Error> {
        if !resource.namespaced {
            return Ok(None);
        }
        match &self.said {
            Namespaces::Given(given) if !own.is_empty() && own != given => Err(Error::Usage(format!(
                "the object's namespace {own:?} is not the given one, {given:?}"
            ))),
            Namespaces::Usual | Namespaces::Given(_) | Namespaces::All if !own.is_empty() => Ok(Some(own)),
            Namespaces::Usual => Ok(Some(&self.usual)),
            Namespaces::Given(given) => Ok(Some(given)),
            Namespaces::All => Err(Error::Usage(format!(
                "one of the {} by its name is in one namespace: say which with --namespace instead of --all-namespaces",
                resource.plural
            ))),
        }
    }

    /// The namespace in which objects are listed; `None` for all.
    pub(crate) fn listed(&self, resource: &ApiResource) -> Option<&str> {
        match &self.said {
            _ if !resource.namespaced => None,
            Namespaces::Usual => Some(&self.usual),
            Namespaces::Given(given) => Some(given),
            Namespaces::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_says_a_default_and_a_flag_insists() {
        let namespaced = ApiResource::namespaced("shadow", "v1alpha1", "deployments", "Deployment");
        let cluster = ApiResource::cluster("shadow", "v1alpha1", "namespaces", "Namespace");
        let given = || Namespaces::Given("a".into());
        for (said, own, one, listed) in [
            (Namespaces::Usual, "", Ok("shop"), Some("shop")),
            (Namespaces::Usual, "b", Ok("b"), Some("shop")),
            (given(), "", Ok("a"), Some("a")),
            (given(), "a", Ok("a"), Some("a")),
            (given(), "b", Err("not the given one"), Some("a")),
            (Namespaces::All, "", Err("--namespace"), None),
            (Namespaces::All, "b", Ok("b"), None),
        ] {
            let scope = Scope::new(said, "shop".into());
            match (scope.of(&namespaced, own), one) {
                (Ok(found), Ok(one)) => assert_eq!(found, Some(one)),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{scope:?} {own:?}: {found:?}"),
            }
            assert_eq!(scope.listed(&namespaced), listed, "{scope:?}");
            assert_eq!(scope.of(&cluster, "").expect("it has none"), None);
            assert_eq!(scope.listed(&cluster), None);
        }
    }
}
