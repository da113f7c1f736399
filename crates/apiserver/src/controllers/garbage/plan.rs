//! What becomes of an object whose owners are in certain states. Pure.

/// How one owner of an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there.
    Solid,
    /// It is not there, or another object has its name.
    Gone,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// Its kind is not served here: nobody can tell.
    Unknown,
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// Nothing now; look again later.
    Undecided,
    /// It has an owner left: make it forget these.
    Forget(Vec<String>),
    /// It has no owner left: delete it, with this propagation policy.
    Delete(&'static str),
}

/// Whether somebody depends on the object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dependents {
    /// Nobody.
    None,
    /// Somebody.
    Some,
}

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// Judges an object that is not being deleted: the states of its owners by uid, its finalizers, its dependents.
pub(super) fn judge(owners: &[(String, Owner)], finalizers: &[&str], dependents: Dependents) -> Verdict {
    let has = |wanted: Owner| owners.iter().any(|(_, state)| *state == wanted);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if has(Owner::Solid) {
        let lost: Vec<String> = owners
            .iter()
            .filter(|(_, state)| matches!(state, Owner::Gone | Owner::Waiting))
            .map(|(uid, _)| uid.clone())
            .collect();
        return if lost.is_empty() {
            Verdict::Keep
        } else {
            Verdict::Forget(lost)
        };
    }
    if has(Owner::Unknown) {
        return Verdict::Undecided;
    }
    if has(Owner::Waiting) && dependents == Dependents::Some {
        return Verdict::Delete("Foreground");
    }
    Verdict::Delete(if finalizers.contains(&ORPHAN) {
        "Orphan"
    } else if finalizers.contains(&FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    })
}

#[cfg(test)]
mod tests {
    use super::Owner::{Gone, Solid, Unknown, Waiting};
    use super::*;

    #[test]
    fn judges_by_what_is_left_of_the_owners() {
        let check = |owners: &[Owner], finalizers: &[&str], dependents: Dependents, want: Verdict| {
            let owners: Vec<(String, Owner)> = owners
                .iter()
                .enumerate()
                .map(|(index, owner)| (index.to_string(), *owner))
                .collect();
            assert_eq!(judge(&owners, finalizers, dependents), want, "{owners:?}");
        };
        let none = Dependents::None;
        check(&[], &[], none, Verdict::Keep);
        check(&[Solid], &[], none, Verdict::Keep);
        check(&[Solid, Unknown], &[], none, Verdict::Keep);
        check(&[Gone], &[], none, Verdict::Delete("Background"));
        check(
            &[Gone, Gone],
            &[],
            Dependents::Some,
            Verdict::Delete("Background"),
        );
        check(&[Gone], &[ORPHAN], none, Verdict::Delete("Orphan"));
        check(&[Gone], &[FOREGROUND], none, Verdict::Delete("Foreground"));
        check(&[Gone, Solid], &[], none, Verdict::Forget(vec!["0".into()]));
        check(&[Solid, Waiting], &[], none, Verdict::Forget(vec!["1".into()]));
        check(&[Unknown], &[], none, Verdict::Undecided);
        check(&[Gone, Unknown], &[], none, Verdict::Undecided);
        check(&[Waiting], &[], none, Verdict::Delete("Background"));
        check(
            &[Waiting, Gone],
            &[],
            Dependents::Some,
            Verdict::Delete("Foreground"),
        );
    }
}
