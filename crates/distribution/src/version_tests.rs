//! Versions, kept and read again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;

fn subscription(uid: &str, feeds: &[&str]) -> Value {
    let feeds: Vec<Value> = feeds.iter().map(|name| feed(name)).collect();
    json!({"metadata": {"namespace": "default", "name": "app", "uid": uid}, "spec": {"feeds": feeds}})
}

fn feed(name: &str) -> Value {
    match name.strip_prefix("chart-") {
        Some(name) => {
            json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart", "namespace": "foo", "name": name})
        }
        None => json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "foo", "name": name}),
    }
}

fn template(name: &str, text: &str) -> Value {
    match name.strip_prefix("chart-") {
        Some(name) => json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart",
            "metadata": {"namespace": "foo", "name": name, "labels": {"mine": "x", "uid-1": "Base"}, "generation": 7},
            "spec": {"version": text}, "status": {"phase": "Found"},
        }),
        None => json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Manifest",
            "metadata": {"name": format!("x.{name}"), "labels": {"uid-1": "Base"}, "resourceVersion": "9"},
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": text}},
        }),
    }
}

fn globalization(name: &str, age: u32, value: &str) -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Globalization",
        "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z")},
        "spec": {"overridePolicy": "ApplyNow", "feed": feed("a"),
            "overrides": [{"name": "x", "type": "MergePatch", "value": value}]},
    }))
}

/// Of the feeds, with the text in each template.
fn version(subscription: &Value, text: &str, globalizations: &[Arc<Value>]) -> Version {
    let template = |feed: &Feed| {
        let chart = if feed.is_chart() { "chart-" } else { "" };
        Some(Arc::new(template(&format!("{chart}{}", feed.name), text)))
    };
    Version::of(subscription, &template, globalizations).unwrap()
}

/// Secrets by their names.
#[derive(Default)]
struct Kept(RefCell<BTreeMap<String, Arc<Value>>>);

impl Kept {
    fn get(&self, name: &str) -> Option<Arc<Value>> {
        self.0.borrow().get(name).cloned()
    }

    /// Keeps a version; answers how many Secrets were new.
    fn keep(&self, subscription: &Value, version: &Version) -> usize {
        let secrets = version.secrets("reserved", subscription, &|name| self.get(name).is_some());
        let secrets = secrets.unwrap();
        for secret in &secrets {
            let name = meta::name(secret).to_owned();
            assert!(
                self.0
                    .borrow_mut()
                    .insert(name, Arc::new(secret.clone()))
                    .is_none()
            );
        }
        secrets.len()
    }
}

#[test]
fn what_is_kept_is_what_is_read() {
    let subscription = subscription("u", &["a", "chart-b", "a"]);
    let globalizations = [
        globalization("late", 9, "{data: {y: 1}}"),
        globalization("early", 1, "{data: {y: 2}}"),
    ];
    let kept = Kept::default();
    let one = version(&subscription, "1", &globalizations);
    assert_eq!(
        kept.keep(&subscription, &one),
        5,
        "two templates, two policies, the index"
    );
    assert_eq!(kept.keep(&subscription, &one), 0);
    let read = Version::load(one.name(), &subscription, &|name| kept.get(name)).unwrap();
    assert_eq!(read, one);
    let names: Vec<&str> = read.globalizations().iter().map(|it| meta::name(it)).collect();
    assert_eq!(names, ["early", "late"], "in the order in which they are applied");
    let index = Index::load(one.name(), &subscription, &|name| kept.get(name)).unwrap();
    let named: BTreeSet<String> = index.secret_names(one.name()).collect();
    assert!(named.iter().eq(kept.0.borrow().keys()), "{named:?}");
    // What did not change is shared.
    let changed = globalization("late", 9, "{data: {y: 3}}");
    let two = version(&subscription, "1", &[changed, Arc::clone(&globalizations[1])]);
    assert_ne!(two.name(), one.name());
    assert_eq!(kept.keep(&subscription, &two), 2, "a policy and the index");
}

#[test]
fn a_version_is_its_content_and_nothing_else() {
    let app = subscription("u", &["a", "chart-b"]);
    let policy = globalization("g", 1, "{}");
    let name = |subscription: &Value, text: &str, policies: &[Arc<Value>]| {
        version(subscription, text, policies).name().to_owned()
    };
    let base = name(&app, "1", &[Arc::clone(&policy)]);
    let mut placed = app.clone();
    placed["spec"]["subscribers"] = json!([{"clusterAffinity": {}}]);
    placed["metadata"]["resourceVersion"] = json!("8");
    assert_eq!(name(&placed, "1", &[Arc::clone(&policy)]), base, "where it goes");
    let mut again = Value::clone(&policy);
    again["metadata"]["creationTimestamp"] = json!("2027-01-01T00:00:00Z");
    again["metadata"]["uid"] = json!("other");
    again["spec"]["overridePolicy"] = json!("ApplyLater");
    assert_eq!(
        name(&app, "1", &[Arc::new(again)]),
        base,
        "the same policy, made again"
    );
    let mut elsewhere = Value::clone(&policy);
    elsewhere["spec"]["feed"]["name"] = json!("of-somebody-else");
    assert_eq!(
        name(&app, "1", &[Arc::clone(&policy), Arc::new(elsewhere)]),
        base,
        "a policy of another feed"
    );
    for (what, other) in [
        ("a template", name(&app, "2", &[Arc::clone(&policy)])),
        (
            "the feeds' order",
            name(&subscription("u", &["chart-b", "a"]), "1", &[Arc::clone(&policy)]),
        ),
        (
            "one feed less",
            name(&subscription("u", &["a"]), "1", &[Arc::clone(&policy)]),
        ),
        ("no policy", name(&app, "1", &[])),
        (
            "another Subscription",
            name(&subscription("v", &["a", "chart-b"]), "1", &[policy]),
        ),
    ] {
        assert_ne!(other, base, "{what}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let app = subscription("u", &["a", "b"]);
    let problem = Version::of(&app, &|_| None, &[]).unwrap_err();
    assert_eq!(
        problem,
        "ConfigMap foo/a in v1 does not exist; ConfigMap foo/b in v1 does not exist"
    );
}

#[test]
fn nothing_false_is_read() {
    let app = subscription("u", &["a"]);
    let one = version(&app, "1", &[]);
    let kept = Kept::default();
    kept.keep(&app, &one);
    let missing = |name: &str| Unreadable::Missing(secret_name(name));
    let get = |name: &str| kept.get(name);
    assert_eq!(Version::load("no-such", &app, &get), Err(missing("no-such")));
    let own = secret_name(one.name());
    assert_eq!(
        Version::load(one.name(), &subscription("v", &["a"]), &get),
        Err(Unreadable::Forged(own.clone())),
        "another Subscription's is not given out"
    );
    for (what, data) in [
        ("other content", secret::encode(pack(&json!({"feeds": []})))),
        ("no gzip", secret::encode("x")),
        ("no base64", "?".to_owned()),
    ] {
        let mut forged = Value::clone(&kept.get(&own).unwrap());
        forged["data"] = json!({KEY: data});
        let forged = Arc::new(forged);
        let get = |name: &str| {
            if name == own {
                Some(Arc::clone(&forged))
            } else {
                kept.get(name)
            }
        };
        assert_eq!(
            Version::load(one.name(), &app, &get),
            Err(Unreadable::Forged(own.clone())),
            "{what}"
        );
    }
    let piece = kept.0.borrow().keys().find(|it| **it != own).unwrap().clone();
    kept.0.borrow_mut().remove(&piece);
    assert_eq!(
        Version::load(one.name(), &app, &|name| kept.get(name)),
        Err(Unreadable::Missing(piece))
    );
}

#[test]
fn what_no_secret_can_hold_is_said() {
    let app = subscription("u", &["a"]);
    // Text that does not compress: hashes of numbers.
    let text: String = (0..80_000_u32).map(|n| digest("x", &json!(n))).collect();
    let too_large = version(&app, &text, &[]).secrets("reserved", &app, &|_| false);
    let said = too_large.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        said.starts_with("the template of ConfigMap foo/a has ") && said.contains("(limit 1000000)"),
        "{said}"
    );
}
