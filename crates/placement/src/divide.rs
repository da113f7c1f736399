//! Splitting replicas over clusters.

/// Splits `desired` by weight: each cluster gets its floor, the rest goes one each to the heaviest.
///
/// Equal weights keep the given order, so callers pass clusters in the order of their keys. With no weight at all
/// nothing is split and the answer is empty.
pub fn by_weight(desired: u32, weights: &[u64]) -> Vec<u32> {
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    if total == 0 {
        return Vec::new();
    }
    let share = |weight: &u64| {
        let share = u128::from(*weight) * u128::from(desired) / total;
        u32::try_from(share).expect("a share is at most the whole")
    };
    let mut shares: Vec<u32> = weights.iter().map(share).collect();
    let rest = desired - shares.iter().sum::<u32>();
    for index in heaviest_first(weights).into_iter().take(rest as usize) {
        shares[index] += 1;
    }
    shares
}

/// Indices by descending weight; equal weights in their given order.
pub fn heaviest_first(weights: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(weights[*index]));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn divides_by_weight() {
        let table: [(&str, u32, &[u64], &[u32]); 5] = [
            ("S1", 5, &[2, 1, 0, 2], &[2, 1, 0, 2]),
            ("S2", 10, &[2, 1, 2], &[4, 2, 4]),
            ("S3", 6, &[2, 1, 0, 2], &[3, 1, 0, 2]),
            ("S4", 5, &[5, 1, 0, 2], &[4, 0, 0, 1]),
            ("no weight", 5, &[0, 0], &[]),
        ];
        for (row, desired, weights, expected) in table {
            assert_eq!(by_weight(desired, weights), expected, "{row}");
        }
        assert_eq!(heaviest_first(&[3, 1, 2]), [0, 2, 1], "S5");
        assert_eq!(heaviest_first(&[1, 2, 3, 4]), [3, 2, 1, 0], "S6");
    }

    proptest! {
        #[test]
        fn loses_no_replica_and_gives_none_to_the_weightless(
            desired in any::<u32>(), weights in proptest::collection::vec(0_u64..1_000, 1..20)
        ) {
            let shares = by_weight(desired, &weights);
            if weights.iter().all(|weight| *weight == 0) {
                prop_assert!(shares.is_empty());
            } else {
                prop_assert_eq!(shares.iter().map(|n| u64::from(*n)).sum::<u64>(), u64::from(desired));
                prop_assert!(shares.iter().zip(&weights).all(|(share, weight)| *weight > 0 || *share == 0));
            }
        }
    }
}
