//! How tables of rules are checked: each object with the fields that it is refused for, and part of why.

use serde_json::Value;

use crate::problems::Problems;

/// The fields that an object is refused for, each with part of the reason.
type Refusals = Vec<(&'static str, &'static str)>;

/// Checks objects in themselves.
pub(super) fn check(validate: fn(&Value, &mut Problems), table: Vec<(Value, Refusals)>) {
    for (object, want) in table {
        let mut problems = Problems::default();
        validate(&object, &mut problems);
        compare(&object, problems, &want);
    }
}

/// Checks new versions of objects.
pub(super) fn check_change(
    validate: fn(&Value, &Value, &mut Problems),
    table: Vec<(&Value, Value, Refusals)>,
) {
    for (old, new, want) in table {
        let mut problems = Problems::default();
        validate(&new, old, &mut problems);
        compare(&new, problems, &want);
    }
}

fn compare(object: &Value, problems: Problems, want: &[(&str, &str)]) {
    let causes = problems.into_causes();
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    let wanted: Vec<&str> = want.iter().map(|(field, _)| *field).collect();
    assert_eq!(fields, wanted, "{object}: {causes:?}");
    for (cause, (_, why)) in causes.iter().zip(want) {
        assert!(cause.message.contains(why), "{object}: {}", cause.message);
    }
}
