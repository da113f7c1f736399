//! An application that does not fit into one object and has a Secret that is nobody's business on the way.

use serde_json::Value;

use crate::Kubectl;

/// What the Secret holds.
const VALUE: &str = "correct-horse-battery";
/// The same in base64, as Secrets have it.
const ENCODED: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";
/// The bytes of each of three ConfigMaps.
const SIZE: usize = 900 << 10;
const LETTERS: [&str; 3] = ["a", "b", "c"];

/// The templates, as a file. They are too large for `apply`, which keeps what it applied in an annotation.
pub fn templates() -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: vault}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: \
         key, namespace: vault}}\nstringData: {{password: {VALUE}}}\n"
    );
    for letter in LETTERS {
        text.push_str(&format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {letter}, namespace: vault}}\ndata: {{x: {}}}\n",
            letter.repeat(SIZE)
        ));
    }
    text
}

/// The Subscription `vault` of all that, for every cluster.
pub fn subscription() -> String {
    let mut text = String::from(
        "apiVersion: apps.clusternet.io/v1alpha1\nkind: Subscription\nmetadata: {name: vault, namespace: default}\nspec:\n  \
         subscribers:\n  - clusterAffinity: {}\n  feeds:\n  - {apiVersion: v1, kind: Namespace, name: vault}\n  - \
         {apiVersion: v1, kind: Secret, namespace: vault, name: key}\n",
    );
    for letter in LETTERS {
        text.push_str(&format!(
            "  - {{apiVersion: v1, kind: ConfigMap, namespace: vault, name: {letter}}}\n"
        ));
    }
    text
}

/// Whether a cluster has it all.
///
/// # Errors
/// What is missing.
pub fn arrived(member: &Kubectl) -> Result<(), String> {
    let secret = member.json("-n vault secret key")?;
    if secret["data"]["password"] != ENCODED {
        return Err("the Secret holds something else".to_owned());
    }
    for letter in LETTERS {
        let map = member.json(&format!("-n vault configmap {letter}"))?;
        let size = map["data"]["x"].as_str().map(str::len);
        if size != Some(SIZE) {
            return Err(format!("ConfigMap {letter} has {size:?} bytes"));
        }
    }
    Ok(())
}

/// Checks that the parent has small Descriptions, and the Secret's content in none of what is made of its template.
///
/// # Panics
/// When it is otherwise.
pub fn check_hidden(parent: &Kubectl) {
    let shown = parent.run("get descriptions -A -o yaml");
    assert!(shown.len() < 256 << 10, "{}", shown.len());
    let entries = parent.run(
        "get desc -A -o 'go-template={{range .items}}{{range .spec.raw}}{{base64decode .}}{{\"\\n\"}}{{end}}{{end}}'",
    );
    let kinds = entries.lines().filter_map(|line| {
        let entry: Value = serde_json::from_str(line).ok()?;
        Some(entry["kind"].as_str()?.to_owned())
    });
    let kinds: Vec<String> = kinds.collect();
    for kind in ["Sealed", "PayloadReference"] {
        assert!(kinds.iter().any(|it| it == kind), "{kinds:?}");
    }
    let payloads = parent.run("get payloads.apps.tombolo.io -A -o yaml");
    let events = parent.run("get events -A -o yaml");
    for text in [&shown, &entries, &payloads, &events] {
        assert!(!text.contains(VALUE) && !text.contains(ENCODED));
    }
}
