//! Bringing raw scores to a scale of 0 to 100.

/// The best score.
pub const MAX_SCORE: i64 = 100;

/// Scales so that the largest becomes 100, rounding down; all zero stays zero.
pub fn normalize(raw: &[i64]) -> Vec<i64> {
    let max = raw.iter().copied().max().unwrap_or(0);
    if max <= 0 {
        return vec![0; raw.len()];
    }
    raw.iter().map(|score| scale(*score, max)).collect()
}

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
    fn normalizes() {
        let table: [(&str, Vec<i64>, &[i64]); 7] = [
            ("N1", normalize(&[1, 2, 3, 4]), &[25, 50, 75, 100]),
            ("N2", normalize_reversed(&[1, 2, 3, 4]), &[75, 50, 25, 0]),
            ("N3", normalize(&[1_000, 10, 20, 30]), &[100, 1, 2, 3]),
            ("N4", normalize_reversed(&[1_000, 10, 20, 30]), &[0, 99, 98, 97]),
            ("N5", normalize(&[1, 1, 1, 1]), &[100, 100, 100, 100]),
            ("N6", normalize(&[1_000, 1, 1, 1]), &[100, 0, 0, 0]),
            ("N7", normalize_reversed(&[0, 1, 1, 1]), &[100, 0, 0, 0]),
        ];
        for (row, got, expected) in table {
            assert_eq!(got, expected, "{row}");
        }
        assert_eq!(normalize_reversed(&[0, 0]), [100, 100]);
        assert_eq!(normalize(&[]), [] as [i64; 0]);
    }
}
