use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use smol_str::SmolStr;

use crate::head::{Head, PackedHead};

/// A resource in storage: `pods` for the core group, else `apps/deployments`. One per group and plural, whatever
/// version is served. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(SmolStr);

impl Resource {
    /// The resource of a group (empty for core) and a plural name.
    pub fn new(group: &str, plural: &str) -> Self {
        if group.is_empty() {
            Self(SmolStr::new(plural))
        } else {
            Self(smol_str::format_smolstr!("{group}/{plural}"))
        }
    }

    /// Its text form, unique.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Resource {
    /// From the text form that [`Resource::as_str`] gives.
    fn from(text: &str) -> Self {
        Self(SmolStr::new(text))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What names one object. The order is (resource, namespace, name).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its resource.
    pub resource: Resource,
    /// Its namespace, empty for cluster-scoped objects.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
}

impl Key {
    /// A key from its parts.
    pub fn new(resource: &Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource: resource.clone(),
            namespace: SmolStr::new(namespace),
            name: SmolStr::new(name),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} \"{}\"", self.resource, self.name)
        } else {
            write!(f, "{} \"{}/{}\"", self.resource, self.namespace, self.name)
        }
    }
}

/// A point in a source's history. Within an incarnation it only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// Its decimal digits, without allocating.
    pub fn digits(self, buffer: &mut [u8; 20]) -> &[u8] {
        let mut value = self.0;
        let mut start = buffer.len();
        loop {
            start -= 1;
            buffer[start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return &buffer[start..];
            }
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A version to be stored: JSON without a revision, and where to splice it in.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The object's JSON. At `splice` there is an empty string literal's inside: the bytes read
    /// `"resourceVersion":""` and `splice` points between the two quotes.
    pub json: Bytes,
    /// Offset in `json` where the revision's digits go.
    pub splice: usize,
    /// The parsed head.
    pub head: Head,
}

/// One version of an object.
#[derive(Debug)]
pub struct Object {
    /// What names it.
    pub key: Key,
    /// The revision of the write that made this version.
    pub revision: Revision,
    /// Its JSON, `metadata.resourceVersion` included.
    pub json: Bytes,
    /// Offset in `json` of the first digit of `metadata.resourceVersion`.
    pub splice: usize,
    /// What is known of it without parsing.
    pub head: PackedHead,
    /// Encodings made on demand and shared by all readers, by form (the reader numbers the forms).
    pub forms: Forms,
}

impl Object {
    /// A version made of a draft.
    pub fn new(key: Key, revision: Revision, draft: &Draft) -> Self {
        let mut digits = [0; 20];
        let digits = revision.digits(&mut digits);
        let (front, back) = draft.json.split_at(draft.splice);
        Self::assemble(key, revision, [front, digits, back], &draft.head.pack())
    }

    /// The same object with another revision, which is what the event of its removal carries.
    pub fn at(&self, revision: Revision) -> Self {
        let (mut old, mut new) = ([0; 20], [0; 20]);
        let (old, new) = (self.revision.digits(&mut old), revision.digits(&mut new));
        let (front, back) = (&self.json[..self.splice], &self.json[self.splice + old.len()..]);
        Self::assemble(
            self.key.clone(),
            revision,
            [front, new, back],
            self.head.as_bytes(),
        )
    }

    /// The version whose JSON is in three parts, the middle one being the revision, with a whole packed head: all in
    /// one piece of memory that is just large enough.
    pub fn assemble(key: Key, revision: Revision, json: [&[u8]; 3], head: &[u8]) -> Self {
        let [front, digits, back] = json;
        let length = front.len() + digits.len() + back.len();
        let mut bytes = Vec::with_capacity(length + head.len());
        for part in [front, digits, back, head] {
            bytes.extend_from_slice(part);
        }
        let bytes = Bytes::from(bytes);
        Self {
            key,
            revision,
            splice: front.len(),
            head: PackedHead::new(bytes.slice(length..)),
            json: bytes.slice(..length),
            forms: Forms::default(),
        }
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It is new.
    Added,
    /// It has a new version.
    Modified,
    /// It is gone; the event's object is its last version with the deletion's revision spliced in.
    Deleted,
}

/// One change.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The new version (for [`EventKind::Deleted`], see there).
    pub object: Arc<Object>,
    /// The version before, `None` for [`EventKind::Added`].
    pub previous: Option<Arc<Object>>,
    /// Watch frames made on demand and shared by all watchers, by form.
    pub forms: Forms,
}

impl Event {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.object.revision
    }
}

/// A few encodings of one immutable thing, each made at most once. Most things are never asked for in another form:
/// those cost two words.
#[derive(Debug, Default)]
pub struct Forms(OnceLock<Box<[OnceLock<Bytes>; Forms::COUNT]>>);

impl Forms {
    /// How many forms there is room for.
    pub const COUNT: usize = 4;

    /// The encoding numbered `form` (below [`Forms::COUNT`]), made by `encode` on first use.
    pub fn get_or_encode(&self, form: usize, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.0.get_or_init(Box::default)[form].get_or_init(encode).clone()
    }
}
