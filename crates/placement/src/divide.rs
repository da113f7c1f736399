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

/// Splits `desired` by weight where some clusters can have a certain number at most: what they cannot have goes to the
/// others. `None` if those have no weight.
pub fn by_weight_up_to(desired: u32, weights: &[u64], caps: &[Option<u32>]) -> Option<Vec<u32>> {
    let mut fixed: Vec<Option<u32>> = vec![None; weights.len()];
    loop {
        let taken: u64 = fixed.iter().flatten().map(|share| u64::from(*share)).sum();
        let rest = u32::try_from(u64::from(desired).checked_sub(taken)?).ok()?;
        let open = |(weight, fixed): (&u64, &Option<u32>)| if fixed.is_none() { *weight } else { 0 };
        let open: Vec<u64> = weights.iter().zip(&fixed).map(open).collect();
        let mut shares = by_weight(rest, &open);
        if shares.is_empty() {
            if rest > 0 {
                return None;
            }
            shares = vec![0; weights.len()];
        }
        let mut is_within = true;
        for ((fixed, share), cap) in fixed.iter_mut().zip(&shares).zip(caps) {
            if let Some(cap) = cap.filter(|cap| fixed.is_none() && share > cap) {
                *fixed = Some(cap);
                is_within = false;
            }
        }
        if is_within {
            let of = |(fixed, share): (&Option<u32>, &u32)| fixed.unwrap_or(*share);
            return Some(fixed.iter().zip(&shares).map(of).collect());
        }
    }
}

/// Splits a change in proportion to the room of each cluster, or to what each has if the change takes replicas away.
///
/// Each gets its share rounded towards zero, the rest goes one each to the largest fractions; equal ones keep the given
/// order, so callers pass clusters in the order of their keys. A change that is larger than the whole room fills the
/// room and is short by the rest.
pub fn by_capacity(change: i64, room: &[u32]) -> Vec<i64> {
    let total: i64 = room.iter().map(|room| i64::from(*room)).sum();
    if change.unsigned_abs() >= total.unsigned_abs() {
        return room
            .iter()
            .map(|room| i64::from(*room) * change.signum())
            .collect();
    }
    let (change, total) = (i128::from(change), i128::from(total));
    let exact: Vec<i128> = room.iter().map(|room| i128::from(*room) * change).collect();
    let share = |exact: &i128| i64::try_from(exact / total).expect("a share is at most the whole change");
    let mut shares: Vec<i64> = exact.iter().map(share).collect();
    let rest = change - shares.iter().map(|share| i128::from(*share)).sum::<i128>();
    let mut order: Vec<usize> = (0..room.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse((exact[*index] % total).abs()));
    let rest_count = usize::try_from(rest.abs()).expect("the rest is less than the number of clusters");
    for index in order.into_iter().take(rest_count) {
        shares[index] += if rest > 0 { 1 } else { -1 };
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

    #[test]
    fn divides_by_weight_where_some_can_have_no_more() {
        type Row<'a> = (u32, &'a [u64], &'a [Option<u32>], Option<&'a [u32]>);
        let table: [Row<'_>; 8] = [
            (10, &[1, 1], &[None, None], Some(&[5, 5])),
            (10, &[1, 1], &[None, Some(5)], Some(&[5, 5])),
            (10, &[1, 1], &[None, Some(3)], Some(&[7, 3])),
            (10, &[1, 1, 1], &[None, Some(0), Some(4)], Some(&[6, 0, 4])),
            (10, &[1, 1], &[Some(5), Some(5)], Some(&[5, 5])),
            (10, &[1, 1], &[Some(5), Some(4)], None),
            (10, &[0, 1], &[None, Some(9)], None),
            (0, &[1, 1], &[Some(0), Some(0)], Some(&[0, 0])),
        ];
        for (desired, weights, caps, expected) in table {
            let got = by_weight_up_to(desired, weights, caps);
            assert_eq!(got.as_deref(), expected, "{weights:?} {caps:?}");
        }
    }

    #[test]
    fn divides_by_capacity() {
        let table: [(&str, i64, &[u32], &[i64]); 9] = [
            ("D1", 6, &[3, 6, 9], &[1, 2, 3]),
            ("D2", 2, &[3, 6, 9], &[0, 1, 1]),
            ("D3", 3, &[3, 6, 9], &[1, 1, 1]),
            ("D4", 3, &[0, 0, 0], &[0, 0, 0]),
            ("D5", 6, &[1, 2, 2], &[1, 2, 2]),
            ("D6", -6, &[3, 6, 9], &[-1, -2, -3]),
            ("D7", -2, &[3, 6, 9], &[0, -1, -1]),
            ("no change", 0, &[3, 6], &[0, 0]),
            ("nowhere", 3, &[], &[]),
        ];
        for (row, change, room, expected) in table {
            assert_eq!(by_capacity(change, room), expected, "{row}");
        }
    }

    proptest! {
        #[test]
        fn fills_no_cluster_beyond_its_room(
            change in -5_000_000_000_i64..5_000_000_000, room in proptest::collection::vec(any::<u32>(), 0..20)
        ) {
            let total: i64 = room.iter().map(|room| i64::from(*room)).sum();
            let shares = by_capacity(change, &room);
            prop_assert_eq!(shares.iter().sum::<i64>(), change.clamp(-total, total));
            prop_assert!(shares.iter().zip(&room).all(|(share, room)| share.unsigned_abs() <= u64::from(*room)));
        }

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
