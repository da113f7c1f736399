//! Answers of the parent, kept for a few seconds. Keys are hashes: they are made of tokens and of users' extra values,
//! which hold credentials.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// How long an answer holds, as Kubernetes' own delegation has it.
const KEPT: Duration = Duration::from_secs(10);
/// How many answers are kept.
const SIZE: usize = 4_096;

type Key = [u8; 32];

/// The key of some parts.
pub(super) fn key(parts: &[&[u8]]) -> Key {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A bounded cache whose entries expire.
pub(super) struct Cache<V>(Mutex<BTreeMap<Key, (Instant, V)>>);

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> Cache<V> {
    pub(super) fn get(&self, key: &Key) -> Option<V> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, value) = entries.get(key)?;
        (since.elapsed() < KEPT).then(|| value.clone())
    }

    pub(super) fn put(&self, key: Key, value: V) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= SIZE {
            entries.retain(|_, (since, _)| since.elapsed() < KEPT);
            if entries.len() >= SIZE {
                entries.clear();
            }
        }
        entries.insert(key, (Instant::now(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn forgets_after_a_while_and_stays_bounded() {
        let cache = Cache::default();
        cache.put(key(&[b"a"]), 1);
        assert_eq!(cache.get(&key(&[b"a"])), Some(1));
        tokio::time::advance(KEPT).await;
        assert_eq!(cache.get(&key(&[b"a"])), None);
        for number in 0..10_000_u32 {
            cache.put(key(&[&number.to_be_bytes()]), 1);
        }
        assert!(cache.0.lock().unwrap().len() <= SIZE);
        assert_ne!(key(&[b"a", b"bc"]), key(&[b"ab", b"c"]));
    }
}
