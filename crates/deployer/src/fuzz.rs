//! Bodies of fuzz tests: each takes any bytes and must not panic.

use api::entry::Entry;
use kubeio::ObjectKey;
use serde_json::Value;

use crate::plan;

/// A Description from a parent that lies: whatever it asks for, planning and reporting hold.
pub fn fuzz_description(bytes: &[u8]) {
    let Ok(description) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let (asked, _) = plan::asked(&description);
    for asked in &asked {
        let Entry::Object(object) = &asked.entry else {
            continue;
        };
        let desired = &plan::prepare(object.clone(), &ObjectKey::of(&description));
        let mut live = desired.object.clone();
        if let Some(map) = live.as_object_mut() {
            map.insert("spec".to_owned(), description["spec"].clone());
        }
        plan::step(desired, Some(&live), |_| false);
        assert!(
            !plan::drifted(&desired.object, &desired.object),
            "an object does not differ from itself"
        );
    }
    plan::leftovers(&description, plan::recorded(&description), &plan::ids(&asked));
}
