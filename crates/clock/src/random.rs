//! Seeded randomness: for simulations and their faults, never for secrets.

use std::sync::{Mutex, PoisonError};

use crate::Random;

/// Steele, Lea and Flood's generator: small, and good enough to choose faults.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one of several parts that share a seed: what the others draw makes no difference to it.
    pub fn named(seed: u64, name: &str) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut generator = Self(seed ^ hash);
        // Neighbouring seeds and names must not look alike.
        generator.0 = generator.next();
        generator
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so it is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below the bound (0 for a bound of 0).
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// True half of the time.
    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 0
    }
}

/// [`Random`] from a seed.
#[derive(Debug)]
pub struct SeededRandom(Mutex<SplitMix>);

impl SeededRandom {
    /// The randomness of one named part of a simulation.
    pub fn named(seed: u64, name: &str) -> Self {
        Self(Mutex::new(SplitMix::named(seed, name)))
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&generator.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, name: &str) -> [u8; 20] {
        let mut bytes = [0; 20];
        SeededRandom::named(seed, name).fill(&mut bytes);
        bytes
    }

    #[test]
    fn seed_and_name_decide_everything() {
        assert_eq!(bytes(1, "a"), bytes(1, "a"));
        assert_ne!(bytes(1, "a"), bytes(1, "b"));
        assert_ne!(bytes(1, "a"), bytes(2, "a"));
    }
}
