//! Fuzz bodies of what strangers send before anybody knows who they are. Each takes any bytes and must neither panic
//! nor believe them.

use std::sync::OnceLock;

use clock::{Clock, Env, Random};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use serde_json::Value;

use super::bootstrap::BootstrapToken;
use super::{CertificateVerifier, FrontProxyHeaders, take_token};
use crate::pki::Pki;
use crate::tokens::TokenKeys;

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl Random for Fixed {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

fn env() -> Env {
    Env {
        clock: std::sync::Arc::new(Fixed),
        random: std::sync::Arc::new(Fixed),
    }
}

fn keys() -> &'static TokenKeys {
    static KEYS: OnceLock<TokenKeys> = OnceLock::new();
    KEYS.get_or_init(|| TokenKeys::seeded(&env(), "us", &["api".to_owned()]).expect("a seed makes a key"))
}

fn verifier() -> &'static CertificateVerifier {
    static VERIFIER: OnceLock<CertificateVerifier> = OnceLock::new();
    VERIFIER.get_or_init(|| {
        let pki = Pki::ephemeral(&[], &env()).expect("keys can be made");
        CertificateVerifier::new(pki.authority.certificate_pem()).expect("an authority is one")
    })
}

/// A bearer token.
///
/// # Panics
/// If bytes that nobody signed are believed.
pub fn fuzz_token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(
        keys().verify(&text, 1_000).is_err(),
        "a token that nobody signed is believed"
    );
    if let Some(token) = BootstrapToken::parse(&text) {
        let secret: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
        assert!(token.user(&secret, Timestamp::UNIX_EPOCH).is_err());
    }
}

/// A client certificate in DER.
///
/// # Panics
/// If bytes that nobody signed are believed.
pub fn fuzz_certificate(bytes: &[u8]) {
    let chain = [CertificateDer::from(bytes.to_vec())];
    assert!(verifier().user(&chain, Timestamp::UNIX_EPOCH).is_err());
}

/// A request's headers, one on a line.
pub fn fuzz_headers(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(1_000) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let token = take_token(&mut headers);
    assert!(token.is_none_or(|token| !token.is_empty()));
    let user = FrontProxyHeaders::default().take(&mut headers);
    assert!(user.is_none_or(|user| !user.name.is_empty()));
    assert!(
        !headers
            .keys()
            .any(|name| name.as_str().starts_with("x-remote-extra-") && name.as_str().len() > 15)
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Replays the committed corpus, then mutations of it.
    fn replay(name: &str, body: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz/corpus")
            .join(name);
        let mut inputs: Vec<Vec<u8>> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{}", folder.display());
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap()
        };
        for input in &inputs {
            body(input);
            for _ in 0..1_000 {
                let mut bytes = input.clone();
                for _ in 0..=random() % 4 {
                    let at = random() % bytes.len().max(1);
                    match random() % 3 {
                        0 if !bytes.is_empty() => bytes[at] = u8::try_from(random() % 256).unwrap(),
                        1 if !bytes.is_empty() => drop(bytes.remove(at)),
                        _ => bytes.insert(at.min(bytes.len()), u8::try_from(random() % 256).unwrap()),
                    }
                }
                if bytes != *input {
                    body(&bytes);
                }
            }
        }
    }

    #[test]
    fn tokens() {
        replay("token", fuzz_token);
    }

    #[test]
    fn certificates() {
        replay("certificate", fuzz_certificate);
    }

    #[test]
    fn headers() {
        replay("headers", fuzz_headers);
    }
}
