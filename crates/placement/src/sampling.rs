//! How many clusters are looked at when there are very many.

use crate::model::Strategy;

/// Below this many candidates all are looked at.
const FEW: usize = 100;

/// How many of `candidates` are filtered and scored; `percentage` 0 means that the number decides.
///
/// Replication always looks at all: it binds every feasible one.
pub fn sample_size(candidates: usize, percentage: u8, strategy: Strategy) -> usize {
    if candidates < FEW || percentage >= 100 || strategy == Strategy::Replication {
        return candidates;
    }
    let percentage = match percentage {
        0 => 50_usize.saturating_sub(candidates / 125).max(5),
        given => usize::from(given),
    };
    (candidates * percentage / 100).max(FEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_only_the_many() {
        use Strategy::{Replication, StaticDividing};
        for (candidates, percentage, strategy, expected) in [
            (99, 1, StaticDividing, 99),
            (1_000, 0, Replication, 1_000),
            (1_000, 0, StaticDividing, 420),
            (1_000, 100, StaticDividing, 1_000),
            (1_000, 20, StaticDividing, 200),
            (150, 20, StaticDividing, 100),
            (6_000, 0, StaticDividing, 300),
        ] {
            assert_eq!(
                sample_size(candidates, percentage, strategy),
                expected,
                "{candidates} at {percentage} %"
            );
        }
    }
}
