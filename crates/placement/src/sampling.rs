//! How many clusters are looked at when there are very many.

/// Below this many candidates all are looked at.
const FEW: usize = 100;

/// How many of `candidates` are filtered and scored; `percentage` 0 means that the number decides.
pub fn sample_size(candidates: usize, percentage: u8) -> usize {
    if candidates < FEW || percentage >= 100 {
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
        for (candidates, percentage, expected) in [
            (99, 1, 99),
            (1_000, 0, 420),
            (1_000, 100, 1_000),
            (1_000, 20, 200),
            (150, 20, 100),
            (6_000, 0, 300),
        ] {
            assert_eq!(
                sample_size(candidates, percentage),
                expected,
                "{candidates} at {percentage} %"
            );
        }
    }
}
