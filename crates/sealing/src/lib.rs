//! Encrypts objects to the key of whoever applies them, and decrypts them there.
//!
//! HPKE (RFC 9180) in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. Which object it is goes along in
//! clear, and is authenticated: a content opens as the object that it was sealed as, or not at all. Sealing is random,
//! so a [`Fingerprints`] tells its maker, and nobody else, whether something that was sealed has the same content still.
//! No file, no client, no clock; of the randomness only that of each sealing is the provider's.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use api::entry::Sealed;
use api::feed::Feed;
use api::secret;
use aws_lc_rs::{agreement, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_256 as HPKE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke as _, HpkePrivateKey, HpkePublicKey};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// What both ends agree on beside the keys.
const INFO: &[u8] = b"apps.tombolo.io/v1alpha1 Sealed";
/// Bytes of a key, of either kind.
const KEY: usize = 32;
/// The halves of a pair in a Secret.
const PUBLIC: &str = "publicKey";
const PRIVATE: &str = "privateKey";
/// Hexadecimal digits of a key's id.
const ID: usize = 16;

/// Why something is not sealed or opened. Nothing of the content is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text or bytes that are no key.
    #[error("it is no key: {KEY} bytes of X25519, in base64, are wanted")]
    Key,
    /// No key pair is made.
    #[error("no key pair can be made: {0}")]
    Generate(String),
    /// It is not encrypted.
    #[error("it cannot be encrypted to key {key}: {why}")]
    Seal {
        /// The id of the recipient's key.
        key: String,
        /// What the provider says.
        why: String,
    },
    /// Another's.
    #[error("it is encrypted to key {sealed}, and the key here is {own}: it comes anew for this one")]
    OtherKey {
        /// The id of the key that it is encrypted to.
        sealed: String,
        /// The id of the key that is here.
        own: String,
    },
    /// There is no key to open anything with.
    #[error("it is encrypted, and there is no key here")]
    NoKey,
    /// It was changed on its way, or was sealed as another object.
    #[error("it does not decrypt: it was changed on its way")]
    Broken,
}

/// The public half of a recipient's key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; KEY]);

impl PublicKey {
    /// The id of the key: the first digits of its SHA-256.
    pub fn id(&self) -> String {
        let digits: String = Sha256::digest(self.0)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        digits[..ID].to_owned()
    }

    /// Encrypts the JSON of an object; `fingerprints` are its maker's own.
    ///
    /// # Errors
    /// [`Error::Seal`].
    pub fn seal(&self, object: &Feed, json: &[u8], fingerprints: &Fingerprints) -> Result<Sealed, Error> {
        let recipient = HpkePublicKey(self.0.to_vec());
        let (enc, ciphertext) = HPKE
            .seal(INFO, &identity(object), json, &recipient)
            .map_err(|error| Error::Seal {
                key: self.id(),
                why: error.to_string(),
            })?;
        let mut sealed = Sealed {
            object: object.clone(),
            key: self.id(),
            fingerprint: String::new(),
            enc: enc.0,
            ciphertext,
        };
        sealed.fingerprint = fingerprints.of(&sealed, json);
        Ok(sealed)
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bytes = STANDARD.decode(text).map_err(|_| Error::Key)?;
        bytes.try_into().map(Self).map_err(|_| Error::Key)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

/// A recipient's key. It does not show its private half.
pub struct KeyPair {
    public: PublicKey,
    private: HpkePrivateKey,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public.id())
    }
}

impl KeyPair {
    /// A new one, whose private half are these random bytes.
    ///
    /// # Errors
    /// [`Error::Generate`].
    pub fn from_random(private: [u8; KEY]) -> Result<Self, Error> {
        let made = |error: aws_lc_rs::error::Unspecified| Error::Generate(error.to_string());
        let key = agreement::PrivateKey::from_private_key(&agreement::X25519, &private)
            .map_err(|error| Error::Generate(error.to_string()))?;
        let public = key.compute_public_key().map_err(made)?;
        Self::from_parts(public.as_ref(), private.to_vec())
    }

    /// One that was kept in a Secret.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn from_secret(object: &Value) -> Result<Self, Error> {
        let bytes = |key: &str| secret::bytes(object, key).unwrap_or_default();
        Self::from_parts(&bytes(PUBLIC), bytes(PRIVATE))
    }

    /// Both halves as the data of a Secret, which is the place to keep them.
    pub fn to_secret_data(&self) -> Map<String, Value> {
        let data = [
            (PUBLIC, secret::encode(self.public.0)),
            (PRIVATE, secret::encode(self.private.secret_bytes())),
        ];
        data.into_iter()
            .map(|(key, value)| (key.to_owned(), Value::String(value)))
            .collect()
    }

    fn from_parts(public: &[u8], private: Vec<u8>) -> Result<Self, Error> {
        if private.len() != KEY {
            return Err(Error::Key);
        }
        Ok(Self {
            public: PublicKey(public.try_into().map_err(|_| Error::Key)?),
            private: HpkePrivateKey::from(private),
        })
    }

    /// The half that others may know.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The JSON of the object that was sealed.
    ///
    /// # Errors
    /// [`Error::OtherKey`] or [`Error::Broken`].
    pub fn open(&self, sealed: &Sealed) -> Result<Vec<u8>, Error> {
        if sealed.key != self.public.id() {
            return Err(Error::OtherKey {
                sealed: sealed.key.clone(),
                own: self.public.id(),
            });
        }
        let enc = EncapsulatedSecret(sealed.enc.clone());
        HPKE.open(
            &enc,
            INFO,
            &identity(&sealed.object),
            &sealed.ciphertext,
            &self.private,
        )
        .map_err(|_| Error::Broken)
    }
}

/// The keys of a recipient: the one that it tells, and the one before, to which something may still be on its way.
#[derive(Debug, Default)]
pub struct KeyRing(Mutex<Vec<Arc<KeyPair>>>);

impl KeyRing {
    /// A ring with one key.
    pub fn of(pair: KeyPair) -> Self {
        Self(Mutex::new(vec![Arc::new(pair)]))
    }

    /// Makes a key the one that is told, if it is another.
    pub fn put(&self, pair: KeyPair) {
        let mut pairs = self.0.lock().expect("no holder panics");
        if pairs.first().is_none_or(|first| first.public != pair.public) {
            pairs.insert(0, Arc::new(pair));
            pairs.truncate(2);
        }
    }

    /// The key that is told.
    pub fn public(&self) -> Option<PublicKey> {
        let pairs = self.0.lock().expect("no holder panics");
        pairs.first().map(|pair| pair.public.clone())
    }

    /// The JSON of the object that was sealed to one of the keys.
    ///
    /// # Errors
    /// As [`KeyPair::open`], and [`Error::NoKey`].
    pub fn open(&self, sealed: &Sealed) -> Result<Vec<u8>, Error> {
        let pairs = self.0.lock().expect("no holder panics").clone();
        let named = pairs.iter().find(|pair| pair.public.id() == sealed.key);
        named.or(pairs.first()).ok_or(Error::NoKey)?.open(sealed)
    }
}

/// Tells its maker whether something that was sealed is still what it was, and has the same content.
pub struct Fingerprints(hmac::Key);

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprints")
    }
}

impl Fingerprints {
    /// With a key of at least 32 random bytes.
    ///
    /// # Errors
    /// [`Error::Key`] for fewer.
    pub fn new(key: &[u8]) -> Result<Self, Error> {
        if key.len() < KEY {
            return Err(Error::Key);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    /// Whether something sealed has this content, and is as it was made.
    pub fn holds(&self, sealed: &Sealed, json: &[u8]) -> bool {
        self.of(sealed, json) == sealed.fingerprint
    }

    fn of(&self, sealed: &Sealed, json: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [
            sealed.key.as_bytes(),
            &identity(&sealed.object),
            &sealed.enc,
            &sealed.ciphertext,
            json,
        ] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        STANDARD.encode(context.sign())
    }
}

/// Which object it is, as authenticated.
fn identity(object: &Feed) -> Vec<u8> {
    object.to_value().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JSON: &[u8] = br#"{"kind":"Secret"}"#;

    fn pair(random: u8) -> KeyPair {
        KeyPair::from_random([random; KEY]).unwrap()
    }

    /// The same, out of a Secret.
    fn kept(pair: &KeyPair) -> KeyPair {
        KeyPair::from_secret(&json!({"data": pair.to_secret_data()})).unwrap()
    }

    fn feed(name: &str) -> Feed {
        Feed {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn only_its_recipient_reads_it_and_only_as_it_was_sealed() {
        let (ours, other) = (pair(1), pair(2));
        let fingerprints = Fingerprints::new(&[7; 32]).unwrap();
        let sealed = ours.public().seal(&feed("a"), JSON, &fingerprints).unwrap();
        let changed = |change: fn(&mut Sealed)| {
            let mut sealed = sealed.clone();
            change(&mut sealed);
            sealed
        };
        assert!(!sealed.ciphertext.windows(JSON.len()).any(|part| part == JSON));
        for (case, by, sealed, expected) in [
            ("as it is", &ours, sealed.clone(), Ok(JSON.to_vec())),
            (
                "by another",
                &other,
                sealed.clone(),
                Err(Error::OtherKey {
                    sealed: ours.public().id(),
                    own: other.public().id(),
                }),
            ),
            (
                "as another object",
                &ours,
                changed(|it| it.object = feed("b")),
                Err(Error::Broken),
            ),
            (
                "changed",
                &ours,
                changed(|it| it.ciphertext[0] ^= 1),
                Err(Error::Broken),
            ),
            (
                "cut",
                &ours,
                changed(|it| it.ciphertext.clear()),
                Err(Error::Broken),
            ),
            (
                "of no key",
                &ours,
                changed(|it| it.enc.clear()),
                Err(Error::Broken),
            ),
        ] {
            assert_eq!(by.open(&sealed), expected, "{case}");
            assert_eq!(
                fingerprints.holds(&sealed, JSON),
                ["as it is", "by another"].contains(&case),
                "{case}"
            );
        }
        assert!(!fingerprints.holds(&sealed, b"{}"));
        assert!(!Fingerprints::new(&[8; 32]).unwrap().holds(&sealed, JSON));
    }

    #[test]
    fn a_ring_opens_with_the_key_before_too() {
        let ring = KeyRing::default();
        let fingerprints = Fingerprints::new(&[9; 32]).unwrap();
        let mut sealed = Vec::new();
        for round in 1..=3 {
            let pair = pair(round);
            sealed.push(pair.public().seal(&feed("a"), JSON, &fingerprints).unwrap());
            if sealed.len() == 1 {
                assert_eq!(ring.open(&sealed[0]), Err(Error::NoKey));
            }
            let again = kept(&pair);
            ring.put(pair);
            ring.put(again);
        }
        assert!(matches!(ring.open(&sealed[0]), Err(Error::OtherKey { .. })));
        assert_eq!(ring.open(&sealed[1]).unwrap(), JSON);
        assert_eq!(ring.open(&sealed[2]).unwrap(), JSON);
        assert_eq!(ring.public().unwrap().id(), sealed[2].key);
    }

    #[test]
    fn keys_survive_being_kept() {
        let pair = pair(1);
        let again = kept(&pair);
        let told: PublicKey = pair.public().to_string().parse().unwrap();
        assert_eq!(&told, pair.public());
        let fingerprints = Fingerprints::new(&[7; 32]).unwrap();
        let sealed = told.seal(&feed("a"), JSON, &fingerprints).unwrap();
        assert_eq!(again.open(&sealed).unwrap(), JSON);
        let shown = format!("{pair:?} {fingerprints:?} {told:?}");
        assert!(shown.len() < 100 && shown.contains(&told.id()), "{shown}");
        for text in ["", "?", "AAAA"] {
            assert_eq!(text.parse::<PublicKey>(), Err(Error::Key), "{text}");
        }
        assert!(KeyPair::from_parts(&pair.public().0, vec![1]).is_err() && Fingerprints::new(&[1]).is_err());
    }

    #[test]
    fn the_same_randomness_gives_the_same_key_and_it_opens() {
        let pair = || KeyPair::from_random([7; KEY]).unwrap();
        assert_eq!(pair().to_secret_data(), pair().to_secret_data());
        let fingerprints = Fingerprints::new(&[9; 32]).unwrap();
        let sealed = pair().public().seal(&feed("a"), JSON, &fingerprints).unwrap();
        assert_eq!(pair().open(&sealed).unwrap(), JSON);
    }
}
