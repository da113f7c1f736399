use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Wall time. A simulation's clock is driven by its paused runtime.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, as the system (or the simulation) believes it to be; it may jump backwards.
    fn now(&self) -> Timestamp;
}

/// A source of random bytes. A simulation's is seeded.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills the whole buffer.
    fn fill(&self, buffer: &mut [u8]);
}

/// Wall time and randomness, handed to everything that needs them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

/// The characters that Kubernetes uses for generated suffixes (`k8s.io/apimachinery/pkg/util/rand`).
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Env {
    /// The operating system's time and randomness.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            random: Arc::new(OsRandom),
        }
    }

    /// Wall time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A uniformly random number.
    pub fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random (version 4) UUID in its canonical text form, as Kubernetes gives to `metadata.uid`.
    pub fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(nibble), 16).expect("a nibble is a hex digit"));
            }
        }
        text
    }

    /// `length` random characters of the alphabet that Kubernetes uses after `generateName`.
    pub fn suffix(&self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.random.fill(&mut bytes);
        bytes
            .iter()
            .map(|byte| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]))
            .collect()
    }
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the system"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The operating system's random number generator.
#[derive(Debug, Clone, Copy)]
pub struct OsRandom;

impl Random for OsRandom {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the system"
    )]
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system has randomness");
    }
}
