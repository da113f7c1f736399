use super::table::Table;
use super::*;

#[test]
fn every_kind_has_a_message() {
    let kinds: Vec<_> = Table::get().all_kinds().collect();
    assert!(kinds.len() > 300, "{}", kinds.len());
    for (version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Status"), ("policy/v1", "DeleteOptions")] {
        assert!(supports(version, kind), "{version} {kind}");
    }
    assert!(!supports("apps.clusternet.io/v1alpha1", "Subscription"));
    assert!(!supports("meta.k8s.io/v1", "Table"));
}
