//! Bringing raw scores to a scale of 0 to 100.

/// The best score.
pub const MAX_SCORE: i64 = 100;

/// Scales so that the largest becomes 0 and 0 becomes 100; all zero becomes 100.
pub fn normalize_reversed(raw: &[i64]) -> Vec<i64> {
    let max = raw.iter().copied().max().unwrap_or(0);
    if max <= 0 {
        return vec![MAX_SCORE; raw.len()];
    }
    raw.iter().map(|score| MAX_SCORE - scale(*score, max)).collect()
}

fn scale(score: i64, max: i64) -> i64 {
    let scaled = i128::from(MAX_SCORE) * i128::from(score) / i128::from(max);
    i64::try_from(scaled).expect("a score is at most the largest, so the scaled one is at most 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales() {
        for (row, raw, expected) in [
            ("N1", [1, 2, 3, 4], [25, 50, 75, 100]),
            ("N3", [1_000, 10, 20, 30], [100, 1, 2, 3]),
            ("N5", [1, 1, 1, 1], [100; 4]),
            ("N6", [1_000, 1, 1, 1], [100, 0, 0, 0]),
        ] {
            let max = raw.into_iter().max().unwrap();
            assert_eq!(raw.map(|score| scale(score, max)), expected, "{row}");
        }
    }

    #[test]
    fn normalizes() {
        for (row, raw, expected) in [
            ("N2", &[1, 2, 3, 4][..], &[75, 50, 25, 0][..]),
            ("N4", &[1_000, 10, 20, 30], &[0, 99, 98, 97]),
            ("N7", &[0, 1, 1, 1], &[100, 0, 0, 0]),
            ("all zero", &[0, 0], &[100, 100]),
            ("none", &[], &[]),
        ] {
            assert_eq!(normalize_reversed(raw), expected, "{row}");
        }
    }
}
