//! Signing and checking of JSON Web Tokens. The algorithm is the key's, never the token's.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clock::Env;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Claims, LEGACY_ISSUER};
use crate::pki::PkiError;

/// A longer token is refused without a look. Real ones have about 1 KiB.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// How many verified tokens are remembered in each of two generations.
const CACHE_SIZE: usize = 2_048;

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is longer than any real token.
    #[error("the token has {0} bytes, the limit is {MAX_TOKEN_BYTES}")]
    TooLong(usize),
    /// It was issued by somebody else.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is not signed by a known key with that key's algorithm.
    #[error("the token's signature is not valid")]
    Signature,
    /// It does not say what a token must.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// It is not valid any more.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet")]
    NotYet,
    /// It is for somebody else.
    #[error("the token is for the audiences {found:?}, not for {wanted:?}")]
    Audience {
        /// Whom it is for.
        found: Vec<String>,
        /// Who asks.
        wanted: Vec<String>,
    },
    /// What it is bound to is gone or was replaced.
    #[error("the token is bound to {0}, which is gone")]
    Gone(String),
}

struct VerifyingKey {
    algorithm: Algorithm,
    key: DecodingKey,
    jwk: Value,
}

/// The keys of a token issuer: signs with one, accepts those of several.
pub struct TokenKeys {
    issuer: String,
    audiences: Vec<String>,
    algorithm: Algorithm,
    signing: EncodingKey,
    signing_id: String,
    /// By key id.
    verifying: BTreeMap<String, VerifyingKey>,
    verified: Mutex<Generations>,
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKeys")
            .field("issuer", &self.issuer)
            .field("audiences", &self.audiences)
            .field("signing_id", &self.signing_id)
            .finish_non_exhaustive()
    }
}

/// Two generations of a cache: when the young one is full it becomes the old one, and the old one is dropped.
#[derive(Default)]
struct Generations {
    young: BTreeMap<[u8; 32], Arc<Claims>>,
    old: BTreeMap<[u8; 32], Arc<Claims>>,
}

impl Generations {
    fn get(&mut self, hash: &[u8; 32]) -> Option<Arc<Claims>> {
        if let Some(claims) = self.young.get(hash) {
            return Some(claims.clone());
        }
        let claims = self.old.remove(hash)?;
        self.insert(*hash, claims.clone());
        Some(claims)
    }

    fn insert(&mut self, hash: [u8; 32], claims: Arc<Claims>) {
        if self.young.len() >= CACHE_SIZE {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, claims);
    }
}

impl TokenKeys {
    /// Signs and accepts with the key of a PEM: P-256 (ES256), RSA (RS256) or Ed25519 (EdDSA).
    ///
    /// # Errors
    /// [`PkiError::Pem`] for a key that is none of these.
    pub fn from_pem(pem: &str, issuer: &str, audiences: &[String]) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(pem).map_err(|error| unusable(error.to_string()))?;
        Self::from_key(&key, issuer, audiences)
    }

    /// Signs and accepts with an Ed25519 key made from `env`'s randomness. Its signatures are deterministic too,
    /// so a seeded simulation issues the same tokens each time.
    ///
    /// # Errors
    /// [`PkiError::Pem`] if the cryptography library refuses the key.
    pub fn seeded(env: &Env, issuer: &str, audiences: &[String]) -> Result<Self, PkiError> {
        // RFC 8410: a PKCS #8 version 1 envelope around the 32 bytes of an Ed25519 seed.
        let mut der = vec![
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
        ];
        let mut seed = [0; 32];
        env.random.fill(&mut seed);
        der.extend_from_slice(&seed);
        let key = KeyPair::try_from(der.as_slice()).map_err(|error| unusable(error.to_string()))?;
        Self::from_key(&key, issuer, audiences)
    }

    fn from_key(key: &KeyPair, issuer: &str, audiences: &[String]) -> Result<Self, PkiError> {
        let der = key.serialized_der();
        let (algorithm, signing) = if key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
            (Algorithm::ES256, EncodingKey::from_ec_der(&pkcs8_of_sec1(der)))
        } else if key.is_compatible(&rcgen::PKCS_RSA_SHA256) {
            let inner = pkcs1_of_pkcs8(der).unwrap_or(der);
            (Algorithm::RS256, EncodingKey::from_rsa_der(inner))
        } else if key.is_compatible(&rcgen::PKCS_ED25519) {
            (Algorithm::EdDSA, EncodingKey::from_ed_der(der))
        } else {
            return Err(unusable(
                "only P-256, RSA and Ed25519 keys are supported".to_owned(),
            ));
        };
        let (id, verifying) = verifying_key(algorithm, key.public_key_raw(), &key.subject_public_key_info());
        Ok(Self {
            issuer: issuer.to_owned(),
            audiences: audiences.to_vec(),
            algorithm,
            signing,
            signing_id: id.clone(),
            verifying: BTreeMap::from([(id, verifying)]),
            verified: Mutex::default(),
        })
    }

    /// The issuer that tokens name.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The audiences that the API server itself answers to; new tokens are for these unless they say otherwise.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs a token.
    ///
    /// # Errors
    /// [`TokenError::Signature`] if the cryptography library refuses.
    pub fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        let mut header = Header::new(self.algorithm);
        // As Kubernetes' tokens: the algorithm and the key, no type.
        header.typ = None;
        header.kid = Some(self.signing_id.clone());
        jsonwebtoken::encode(&header, &claims.to_value(&self.issuer), &self.signing)
            .map_err(|_| TokenError::Signature)
    }

    /// What a token says, if it is signed by one of our keys and valid at `now` (seconds since the epoch).
    ///
    /// # Errors
    /// A [`TokenError`] that says what is wrong; [`TokenError::Issuer`] if it is not ours to judge.
    pub fn verify(&self, token: &str, now: i64) -> Result<Arc<Claims>, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong(token.len()));
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let known = self.cache(|cache| cache.get(&hash));
        let claims = match known {
            Some(claims) => claims,
            None => {
                let claims = Arc::new(self.check(token)?);
                self.cache(|cache| cache.insert(hash, claims.clone()));
                claims
            }
        };
        if claims.expires.is_some_and(|expires| now >= expires) {
            return Err(TokenError::Expired);
        }
        if now < claims.not_before {
            return Err(TokenError::NotYet);
        }
        Ok(claims)
    }

    fn cache<T>(&self, use_it: impl FnOnce(&mut Generations) -> T) -> T {
        use_it(&mut self.verified.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.cache(|cache| cache.young.len() + cache.old.len())
    }

    fn check(&self, token: &str) -> Result<Claims, TokenError> {
        // The payload first, unchecked, and only for its issuer: a token of another issuer is not an attack.
        let unchecked = unverified_issuer(token).ok_or(TokenError::Malformed("it is no JSON Web Token"))?;
        if unchecked != self.issuer && unchecked != LEGACY_ISSUER {
            return Err(TokenError::Issuer);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Signature)?;
        let candidates: Vec<&VerifyingKey> = match &header.kid {
            Some(id) => self.verifying.get(id).into_iter().collect(),
            None => self.verifying.values().collect(),
        };
        for candidate in candidates {
            let mut validation = Validation::new(candidate.algorithm);
            // Times and audiences are checked by us, against our clock.
            validation.required_spec_claims.clear();
            validation.validate_exp = false;
            validation.validate_nbf = false;
            validation.validate_aud = false;
            if let Ok(data) = jsonwebtoken::decode::<Value>(token, &candidate.key, &validation) {
                return Claims::from_value(&data.claims, &self.issuer);
            }
        }
        Err(TokenError::Signature)
    }

    /// The public keys (`/openid/v1/jwks`).
    pub fn jwks(&self) -> Value {
        let keys: Vec<&Value> = self.verifying.values().map(|key| &key.jwk).collect();
        json!({ "keys": keys })
    }

    /// `/.well-known/openid-configuration`.
    pub fn openid_configuration(&self, jwks_uri: &str) -> Value {
        json!({
            "issuer": self.issuer, "jwks_uri": jwks_uri, "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [algorithm_name(self.algorithm)],
        })
    }
}

fn algorithm_name(algorithm: Algorithm) -> Value {
    serde_json::to_value(algorithm).unwrap_or(Value::Null)
}

fn unverified_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let payload: Value = serde_json::from_slice(&payload).ok()?;
    Some(payload["iss"].as_str()?.to_owned())
}

fn verifying_key(algorithm: Algorithm, raw: &[u8], spki: &[u8]) -> (String, VerifyingKey) {
    let id = URL_SAFE_NO_PAD.encode(Sha256::digest(spki));
    let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let mut jwk = json!({"use": "sig", "kid": id, "alg": algorithm_name(algorithm)});
    let key = if algorithm == Algorithm::RS256 {
        if let Some((modulus, exponent)) = rsa_components(raw) {
            jwk["kty"] = json!("RSA");
            jwk["n"] = json!(encoded(modulus));
            jwk["e"] = json!(encoded(exponent));
        }
        DecodingKey::from_rsa_der(raw)
    } else if algorithm == Algorithm::EdDSA {
        jwk["kty"] = json!("OKP");
        jwk["crv"] = json!("Ed25519");
        jwk["x"] = json!(encoded(raw));
        DecodingKey::from_ed_der(raw)
    } else {
        // `from_key` chooses among three algorithms; this is ES256.
        jwk["kty"] = json!("EC");
        jwk["crv"] = json!("P-256");
        // SEC 1: an uncompressed point is 0x04, x, y.
        if raw.len() == 65 {
            jwk["x"] = json!(encoded(&raw[1..33]));
            jwk["y"] = json!(encoded(&raw[33..]));
        }
        DecodingKey::from_ec_der(raw)
    };
    (id, VerifyingKey { algorithm, key, jwk })
}

/// The content of a DER element with an expected tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count > 4 || rest.len() < count {
            return None;
        }
        let length = rest[..count]
            .iter()
            .fold(0_usize, |sum, byte| sum * 256 + usize::from(*byte));
        (length, &rest[count..])
    };
    (rest.len() >= length).then(|| rest.split_at(length))
}

/// Modulus and exponent of a PKCS #1 `RSAPublicKey`, without leading zeros.
fn rsa_components(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = element(der, 0x30)?;
    let (modulus, rest) = element(sequence, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    Some((modulus.strip_prefix(&[0]).unwrap_or(modulus), exponent))
}

/// The `RSAPrivateKey` inside a PKCS #8 envelope.
fn pkcs1_of_pkcs8(der: &[u8]) -> Option<&[u8]> {
    let (sequence, _) = element(der, 0x30)?;
    let (_version, rest) = element(sequence, 0x02)?;
    let (_algorithm, rest) = element(rest, 0x30)?;
    Some(element(rest, 0x04)?.0)
}

/// A P-256 key in a PKCS #8 envelope, as the signer wants it: openssl writes the bare SEC 1 form.
fn pkcs8_of_sec1(der: &[u8]) -> Cow<'_, [u8]> {
    let is_sec1 = || {
        let (sequence, _) = element(der, 0x30)?;
        let (_version, rest) = element(sequence, 0x02)?;
        element(rest, 0x04)
    };
    if is_sec1().is_none() {
        return Cow::Borrowed(der);
    }
    // RFC 5208: version 0, then id-ecPublicKey with prime256v1.
    const HEAD: [u8; 24] = [
        0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
        0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let content = [HEAD.as_slice(), &wrapped(0x04, der)].concat();
    Cow::Owned(wrapped(0x30, &content))
}

/// A DER element.
fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut der = vec![tag];
    if let Ok(short) = u8::try_from(length)
        && short < 0x80
    {
        der.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        der.push(0x80 | u8::try_from(digits.len()).expect("a length has at most eight bytes"));
        der.extend_from_slice(digits);
    }
    der.extend_from_slice(content);
    der
}

fn unusable(why: String) -> PkiError {
    PkiError::Pem {
        what: "a service-account key",
        why,
    }
}
