//! Services across clusters: a child's agent copies the EndpointSlices of an exported Service into its dedicated
//! namespace on the parent ([`export`]); there a ServiceImport gathers those of all clusters behind a Service of its
//! own ([`import`]).
//!
//! Here are the names, which both sides derive, and what a parent and a child must be able to do.

pub mod export;
pub mod import;
mod slice;

use api::labels;
use machinery::meta;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// The label by which Kubernetes knows of which Service an EndpointSlice is.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// On copies on the parent: how the Service differs from that of other clusters, for people.
pub const CONFLICT: &str = "services.clusternet.io/conflict";
/// What a derived Service's name begins with.
const DERIVED: &str = "derived-";
/// Characters of a digest in a name.
const DIGEST: usize = 10;
/// The longest name of a Service.
const SERVICE_NAME_LIMIT: usize = 63;
/// The longest name of an EndpointSlice.
const SLICE_NAME_LIMIT: usize = 253;

/// A Service that clusters export. Those of one namespace and name are the same one in all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceId {
    /// The namespace in each cluster.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl ServiceId {
    /// One by its namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The one that an object's labels name.
    pub fn of_labels(object: &Value) -> Option<Self> {
        let label = |key| meta::label(object, key).filter(|value| !value.is_empty());
        let namespace = label(labels::MULTI_CLUSTER_SERVICE_NAMESPACE)?;
        Some(Self::new(namespace, label(labels::MULTI_CLUSTER_SERVICE_NAME)?))
    }

    /// The one whose endpoints a copy on the parent has: what the labels say, if the name by which Kubernetes knows its
    /// Service says the same.
    pub fn of_copy(slice: &Value) -> Option<Self> {
        let by = |maker| meta::label(slice, labels::CREATED_BY) == Some(maker);
        let ours = by(labels::CREATED_BY_AGENT) || by(labels::CREATED_BY_CONTROLLERS);
        let id = Self::of_labels(slice).filter(|_| ours)?;
        (meta::label(slice, SERVICE_NAME) == Some(&id.derived_name())).then_some(id)
    }

    /// The name of the Service that stands for it on the parent, a DNS label: `derived-`, the namespace, a hyphen and
    /// ten characters of base32hex of the SHA-256 of the name. A namespace of more than 44 characters is cut, and
    /// then part of what is hashed.
    pub fn derived_name(&self) -> String {
        const ROOM: usize = SERVICE_NAME_LIMIT - DERIVED.len() - 1 - DIGEST;
        let Self { namespace, name } = self;
        if namespace.len() <= ROOM {
            return format!("{DERIVED}{namespace}-{}", digest(name));
        }
        let stem = cut(namespace, ROOM);
        format!("{DERIVED}{stem}-{}", digest(&format!("{namespace}/{name}")))
    }

    /// The labels of what is made for it, and who made it.
    fn labels(&self, made_by: &str) -> Map<String, Value> {
        let pairs = [
            (labels::MULTI_CLUSTER_SERVICE_NAME, json!(self.name)),
            (labels::MULTI_CLUSTER_SERVICE_NAMESPACE, json!(self.namespace)),
            (labels::CREATED_BY, json!(made_by)),
        ];
        pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Whether an object was made for it by somebody.
    fn is_of(&self, object: &Value, made_by: &str) -> bool {
        meta::label(object, labels::CREATED_BY) == Some(made_by)
            && Self::of_labels(object).as_ref() == Some(self)
    }
}

/// The name of a copy of an EndpointSlice: the namespace that it comes from, a hyphen and its name. One that is too
/// long, or that something else has (`a-b` and `c` make the same name as `a` and `b-c`), gets a digest of both.
fn copy_name(namespace: &str, slice: &str, is_taken: &dyn Fn(&str) -> bool) -> String {
    let plain = format!("{namespace}-{slice}");
    if plain.len() <= SLICE_NAME_LIMIT && !is_taken(&plain) {
        return plain;
    }
    let stem = cut(&plain, SLICE_NAME_LIMIT - 1 - DIGEST);
    let salted = |salt: u32| format!("{stem}-{}", digest(&format!("{namespace}/{slice}/{salt}")));
    let mut salt = 0;
    while is_taken(&salted(salt)) && salt < u32::MAX {
        salt += 1;
    }
    salted(salt)
}

/// The beginning of a name, so that something can follow.
fn cut(name: &str, limit: usize) -> &str {
    let end = (0..=limit.min(name.len()))
        .rev()
        .find(|end| name.is_char_boundary(*end));
    name[..end.unwrap_or(0)].trim_end_matches(['-', '.'])
}

/// The first characters of the lower-case base32hex of a text's SHA-256.
fn digest(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let hash = Sha256::digest(text.as_bytes());
    let bits = hash
        .iter()
        .take(8)
        .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    (1..=DIGEST)
        .map(|character| {
            let five = bits >> (64 - 5 * character) & 31;
            char::from(ALPHABET[usize::try_from(five).expect("below 32")])
        })
        .collect()
}

/// Whether a Kubernetes of this version (`gitVersion`) serves what is needed: 1.21.0-beta.1 and later.
pub fn is_served_by(version: &str) -> bool {
    let number = version.strip_prefix('v').unwrap_or(version);
    let number = number.split('+').next().unwrap_or_default();
    let (release, stage) = number.split_once('-').unwrap_or((number, ""));
    let parts: Vec<u64> = release.split('.').map_while(|part| part.parse().ok()).collect();
    let [major, minor, patch] = parts.as_slice() else {
        return false;
    };
    match [*major, *minor, *patch].cmp(&[1, 21, 0]) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        // What is neither alpha nor beta follows them, also a distribution's own word.
        std::cmp::Ordering::Equal => !stage.starts_with("alpha") && stage != "beta.0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u9_derives_the_name_of_a_service() {
        let long = "n".repeat(63);
        for (namespace, expected) in [
            ("test", "derived-test-sgvukfmp95".to_owned()),
            (&"n".repeat(44), format!("derived-{}-sgvukfmp95", "n".repeat(44))),
            ("", "derived--sgvukfmp95".to_owned()),
        ] {
            let id = ServiceId::new(namespace, "my-service");
            assert_eq!(id.derived_name(), expected, "{namespace}");
        }
        let names = [
            ServiceId::new(&long, "my-service"),
            ServiceId::new(&long, "other"),
            ServiceId::new(&long[1..], "my-service"),
            ServiceId::new("n".repeat(44), "my-service"),
        ]
        .map(|id| id.derived_name());
        for name in &names {
            assert!(machinery::names::is_dns1035_label(name).is_ok(), "{name}");
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "what is cut off still counts");
    }

    #[test]
    fn names_of_copies_are_told_apart() {
        let free = |_: &str| false;
        assert_eq!(copy_name("a", "b-c", &free), "a-b-c");
        let taken = |name: &str| name == "a-b-c";
        let (one, other) = (copy_name("a", "b-c", &taken), copy_name("a-b", "c", &taken));
        assert_ne!(one, other);
        assert!(one.starts_with("a-b-c-") && one.len() == 16, "{one}");
        let both = |name: &str| taken(name) || name == one;
        let next = copy_name("a", "b-c", &both);
        assert!(next != one && !both(&next), "{next}");

        let long = "s".repeat(253);
        let name = copy_name("ns", &long, &free);
        assert_eq!(name.len(), 253);
        assert!(machinery::names::is_dns1123_subdomain(&name).is_ok());
        assert_ne!(copy_name("ns", &long[1..], &free), name);
    }

    #[test]
    fn v2_needs_kubernetes_1_21() {
        for (version, expected) in [
            ("v1.21.0-beta.1", true),
            ("v1.21.0", true),
            ("v1.21.0-rc.0", true),
            ("v1.34.1+k3s1", true),
            ("v1.30.2-eks-1552ad0", true),
            ("v2.0.0-alpha.1", true),
            ("v1.21.0-beta.0", false),
            ("v1.21.0-alpha.3", false),
            ("v1.20.15", false),
            ("v1.9.0", false),
            ("", false),
            ("v1.34", false),
        ] {
            assert_eq!(is_served_by(version), expected, "V2: {version}");
        }
    }
}
