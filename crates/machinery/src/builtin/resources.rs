//! The built-in resources.

use std::sync::LazyLock;

/// What `cargo xtask codegen resources` wrote; its head explains the form.
const TEXT: &str = include_str!("resources.txt");

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| read(TEXT));

/// A built-in resource of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The group, empty for core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The name in URLs.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Names that people may type instead.
    pub short_names: Vec<&'static str>,
    /// Groups of resources, like `all`, that it belongs to.
    pub categories: Vec<&'static str>,
    /// What can be done with it, sorted.
    pub verbs: Vec<&'static str>,
    /// Its subresources, sorted by name.
    pub subresources: Vec<Subresource>,
}

/// A subresource: `status`, `scale`, `log`, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The last word of its URL.
    pub name: &'static str,
    /// The group of its kind.
    pub group: &'static str,
    /// The version of its kind.
    pub version: &'static str,
    /// The kind of what is read or written there.
    pub kind: &'static str,
    /// What can be done with it, sorted.
    pub verbs: Vec<&'static str>,
}

impl Resource {
    /// The `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        crate::resource::join_api_version(self.group, self.version)
    }

    /// A subresource by name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }
}

/// All built-in resources, in the order in which discovery lists them.
#[must_use]
pub fn resources() -> &'static [Resource] {
    &RESOURCES
}

/// One resource by group, version and plural name.
#[must_use]
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    resources()
        .iter()
        .find(|found| found.group == group && found.version == version && found.plural == plural)
}

/// The resource whose objects have a kind.
#[must_use]
pub fn resource_of_kind(gvk: &crate::Gvk) -> Option<&'static Resource> {
    resources()
        .iter()
        .find(|found| found.group == gvk.group && found.version == gvk.version && found.kind == gvk.kind)
}

/// The built-in groups with their versions, in the order of discovery; core has the empty group.
#[must_use]
pub fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<(&str, &str)> = resources()
        .iter()
        .map(|found| (found.group, found.version))
        .collect();
    found.dedup();
    found
}

fn read(text: &'static str) -> Vec<Resource> {
    let (mut group, mut version) = ("", "");
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("= ") {
            (group, version) = head.split_once('/').unwrap_or(("", head));
            continue;
        }
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (plural, singular, kind, scope) = (word(), word(), word(), word());
        let (short_names, categories, verb_letters) = (list(word()), list(word()), word());
        let subresources = words.map(|word| subresource(word, group, version)).collect();
        found.push(Resource {
            group,
            version,
            plural,
            singular,
            kind,
            namespaced: scope == "n",
            short_names,
            categories,
            verbs: verbs(verb_letters),
            subresources,
        });
    }
    found
}

fn subresource(text: &'static str, group: &'static str, version: &'static str) -> Subresource {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let (name, full, letters) = (part(), part(), part());
    let (group, version, kind) = match full.rsplit_once('/') {
        Some((home, kind)) => {
            let (group, version) = home.split_once('/').unwrap_or(("", home));
            (group, version, kind)
        }
        None => (group, version, full),
    };
    Subresource {
        name,
        group,
        version,
        kind,
        verbs: verbs(letters),
    }
}

fn list(text: &'static str) -> Vec<&'static str> {
    if text == "-" {
        Vec::new()
    } else {
        text.split(',').collect()
    }
}

fn verbs(letters: &str) -> Vec<&'static str> {
    letters
        .chars()
        .map(|letter| match letter {
            'c' => "create",
            'd' => "delete",
            'x' => "deletecollection",
            'g' => "get",
            'l' => "list",
            'p' => "patch",
            'u' => "update",
            _ => "watch",
        })
        .collect()
}
