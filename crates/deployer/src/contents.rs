//! The contents of what only stands for an object in a Description.
//!
//! A payload is taken for what its digest says and for nothing else, wherever it comes from. Some are kept in memory:
//! a Description is looked at more often than it changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use api::entry::{Digest, Entry, Reference};
use api::feed::Feed;
use api::payloads::{self, PAYLOADS};
use futures::future::BoxFuture;
use kubeio::{Client, ObjectKey};
use runtime::Chain;
use sealing::KeyRing;
use serde_json::Value;

/// What is kept in memory, in bytes.
const KEPT: usize = 16 << 20;
/// The largest payload that is asked for: no object is larger.
pub const LARGEST: u64 = 8 << 20;

/// Why the content of an object cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Its payload does not come.
    Payload(String),
    /// What is sealed does not open.
    Sealed(sealing::Error),
    /// What came is not what the Description says.
    Wrong(String),
}

impl Obstacle {
    /// One CamelCase word for a condition.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Payload(_) => "PayloadUnavailable",
            Self::Sealed(_) => "NotOpened",
            Self::Wrong(_) => "PayloadWrong",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payload(why) => write!(f, "its content cannot be got: {why}"),
            Self::Sealed(why) => write!(f, "its content cannot be read: {why}"),
            Self::Wrong(why) => write!(f, "its content is not what the Description says: {why}"),
        }
    }
}

/// Where payloads come from.
pub trait Source: Send + Sync {
    /// The bytes of a payload that a Description refers to. They are checked by whoever asks.
    ///
    /// # Errors
    /// Why they cannot be had, for people.
    fn fetch<'a>(
        &'a self,
        description: &'a ObjectKey,
        reference: &'a Reference,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Gets contents. Clones share what is kept.
#[derive(Clone)]
pub struct Contents {
    source: Arc<dyn Source>,
    keys: Arc<KeyRing>,
    kept: Arc<Mutex<Kept>>,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

impl Contents {
    /// From a source, and with keys for what is sealed.
    pub fn new(source: Arc<dyn Source>, keys: Arc<KeyRing>) -> Self {
        Self {
            source,
            keys,
            kept: Arc::default(),
        }
    }

    /// The object that an entry of a Description is, or stands for.
    ///
    /// # Errors
    /// [`Obstacle`].
    pub async fn object(&self, description: &ObjectKey, entry: Entry) -> Result<Value, Obstacle> {
        match entry {
            Entry::Object(object) => Ok(object),
            Entry::Reference(reference) => self.payload(description, &reference).await,
            Entry::Sealed(sealed) => {
                let bytes = self.keys.open(&sealed).map_err(Obstacle::Sealed)?;
                read(&bytes, &sealed.object)
            }
        }
    }

    async fn payload(&self, description: &ObjectKey, reference: &Reference) -> Result<Value, Obstacle> {
        let known = self.kept.lock().expect("no holder panics").get(&reference.digest);
        if let Some(bytes) = known {
            return read(&bytes, &reference.object);
        }
        if reference.size > LARGEST {
            let why = format!("{} bytes are too many (limit {LARGEST})", reference.size);
            return Err(Obstacle::Wrong(why));
        }
        let fetched = self.source.fetch(description, reference).await;
        let bytes = fetched.map_err(Obstacle::Payload)?;
        let found = Digest::of(&bytes);
        if found != reference.digest {
            return Err(Obstacle::Wrong(format!(
                "{} is asked for, and {found} came",
                reference.digest
            )));
        }
        let object = read(&bytes, &reference.object)?;
        self.kept
            .lock()
            .expect("no holder panics")
            .put(found, Arc::from(bytes));
        Ok(object)
    }
}

/// The object that some bytes are, if it is the one that is asked for.
fn read(bytes: &[u8], asked: &Feed) -> Result<Value, Obstacle> {
    // Of a Secret nothing is repeated, not even what is wrong with it.
    let object: Value =
        serde_json::from_slice(bytes).map_err(|_| Obstacle::Wrong("it is no JSON".to_owned()))?;
    let found = Feed::of_object(&object);
    if found == *asked {
        Ok(object)
    } else {
        Err(Obstacle::Wrong(format!("it is {found} in {}", found.api_version)))
    }
}

/// The payloads that were used last.
#[derive(Default)]
struct Kept {
    payloads: BTreeMap<Digest, (u64, Arc<[u8]>)>,
    bytes: usize,
    uses: u64,
}

impl Kept {
    fn get(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.uses += 1;
        let (used, bytes) = self.payloads.get_mut(digest)?;
        *used = self.uses;
        Some(Arc::clone(bytes))
    }

    fn put(&mut self, digest: Digest, bytes: Arc<[u8]>) {
        self.uses += 1;
        self.bytes += bytes.len();
        if let Some((_, old)) = self.payloads.insert(digest, (self.uses, bytes)) {
            self.bytes -= old.len();
        }
        while self.bytes > KEPT {
            let oldest = self.payloads.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) else {
                return;
            };
            if let Some((_, gone)) = self.payloads.remove(&oldest) {
                self.bytes -= gone.len();
            }
        }
    }
}

/// Reads payloads where they are kept.
#[derive(Debug, Clone)]
pub struct Store(pub Client);

impl Source for Store {
    fn fetch<'a>(
        &'a self,
        _: &'a ObjectKey,
        reference: &'a Reference,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            for index in 0..payloads::count(reference.size) {
                let name = payloads::name(&reference.digest, index);
                let piece = self.0.get(&PAYLOADS, Some(payloads::NAMESPACE), &name).await;
                let piece = piece.map_err(|error| Chain(&error).to_string())?;
                let data = payloads::data(&piece)
                    .ok_or_else(|| format!("Payload {name}: spec.data is no base64 text"))?;
                bytes.extend(data);
            }
            Ok(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed(Mutex<Vec<Result<Vec<u8>, String>>>);

    impl Source for Fixed {
        fn fetch<'a>(&'a self, _: &'a ObjectKey, _: &'a Reference) -> BoxFuture<'a, Result<Vec<u8>, String>> {
            let answer = self
                .0
                .lock()
                .unwrap()
                .pop()
                .unwrap_or_else(|| Err("asked again".to_owned()));
            Box::pin(async move { answer })
        }
    }

    fn map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    }

    fn reference(bytes: &[u8], size: u64) -> Entry {
        Entry::Reference(Reference {
            digest: Digest::of(bytes),
            size,
            object: Feed::of_object(&map("a")),
        })
    }

    #[tokio::test]
    async fn a_payload_is_what_its_digest_says_or_nothing() {
        let key = ObjectKey::new("ns", "d");
        let (good, other) = (
            map("a").to_string().into_bytes(),
            map("b").to_string().into_bytes(),
        );
        for (case, entry, answer, expected) in [
            ("good", reference(&good, 9), Ok(good.clone()), None),
            (
                "nothing",
                reference(&good, 9),
                Err("the hub is away".to_owned()),
                Some("cannot be got: the hub is away"),
            ),
            ("another", reference(&good, 9), Ok(other.clone()), Some("came")),
            (
                "another object",
                reference(&other, 9),
                Ok(other.clone()),
                Some("it is ConfigMap b"),
            ),
            (
                "no object",
                reference(b"x", 1),
                Ok(b"x".to_vec()),
                Some("it is no JSON"),
            ),
            (
                "too large",
                reference(&good, LARGEST + 1),
                Ok(good.clone()),
                Some("too many"),
            ),
        ] {
            let contents = Contents::new(Arc::new(Fixed(Mutex::new(vec![answer]))), Arc::default());
            let found = contents.object(&key, entry.clone()).await;
            match expected {
                None => {
                    assert_eq!(found, Ok(map("a")), "{case}");
                    assert_eq!(contents.object(&key, entry).await, Ok(map("a")), "it is kept");
                }
                Some(words) => {
                    let why = found.unwrap_err().to_string();
                    assert!(why.contains(words), "{case}: {why}");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_is_sealed_opens_with_the_right_key_only() {
        let key = ObjectKey::new("ns", "d");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "aHVudGVyMg=="}});
        let fingerprints = sealing::Fingerprints::new(&[7; 32]).unwrap();
        let pair = sealing::KeyPair::from_random([1; 32]).unwrap();
        let sealed = |json: &str| {
            let sealed = pair
                .public()
                .seal(&Feed::of_object(&secret), json.as_bytes(), &fingerprints);
            Entry::Sealed(sealed.unwrap())
        };
        let (good, wrong) = (sealed(&secret.to_string()), sealed("hunter2"));
        let contents = |ring: KeyRing| Contents::new(Arc::new(Fixed(Mutex::default())), Arc::new(ring));
        let none = contents(KeyRing::default())
            .object(&key, good.clone())
            .await
            .unwrap_err();
        let other = sealing::KeyPair::from_random([2; 32]).unwrap();
        let other = contents(KeyRing::of(other))
            .object(&key, good.clone())
            .await
            .unwrap_err();
        let ours = contents(KeyRing::of(pair));
        assert_eq!(ours.object(&key, good).await, Ok(secret));
        let wrong = ours.object(&key, wrong).await.unwrap_err();
        for (why, word) in [
            (&none, "NotOpened"),
            (&other, "NotOpened"),
            (&wrong, "PayloadWrong"),
        ] {
            assert_eq!(why.word(), word);
            assert!(!format!("{why} {why:?}").contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let mut kept = Kept::default();
        let digest = |index: usize| Digest::of(&index.to_be_bytes());
        for index in 0..40 {
            kept.put(digest(index), vec![0; 1 << 20].into());
            kept.get(&digest(0));
            assert!(kept.bytes <= KEPT);
        }
        assert!(kept.get(&digest(0)).is_some() && kept.get(&digest(39)).is_some());
        assert!(kept.get(&digest(1)).is_none());
        assert_eq!(kept.payloads.len(), 16);
    }
}
