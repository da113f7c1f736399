//! What differs between two objects, field by field. What a Secret holds is never repeated.

use std::collections::BTreeSet;

use machinery::meta;
use serde_json::{Map, Value, json};

use crate::apply::LAST_APPLIED;

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Where, such as `spec.template.spec.containers[web].image`.
    pub(super) path: String,
    /// What was there, what is there.
    pub(super) change: Change,
}

/// What becomes of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// Its values, `None` where there is none.
    Shown(Option<Value>, Option<Value>),
    /// Nobody is to see them: `added`, `removed` or `changed`.
    Hidden(&'static str),
}

impl Field {
    /// For machines.
    pub(super) fn to_value(&self) -> Value {
        match &self.change {
            Change::Shown(old, new) => json!({"path": self.path, "old": old, "new": new}),
            Change::Hidden(verdict) => json!({"path": self.path, "hidden": verdict}),
        }
    }

    /// For people, in one line.
    pub(super) fn to_line(&self) -> String {
        match &self.change {
            Change::Hidden(verdict) => format!("{}: {verdict}, its value is not shown", self.path),
            Change::Shown(old, new) => {
                let (old, new) = (text(old.as_ref()), text(new.as_ref()));
                let (old, new) = shortened(&old, &new);
                format!("{}: {old} -> {new}", self.path)
            }
        }
    }
}

/// What differs between two objects, in the order of their fields' names. What was applied last is a matter of whoever
/// applies.
pub(super) fn diff(old: &Value, new: &Value) -> Vec<Field> {
    let is_secret = |object: &Value| meta::kind(object) == "Secret" && meta::api_version(object) == "v1";
    let mut walk = Walk {
        is_secret: is_secret(old) || is_secret(new),
        fields: Vec::new(),
    };
    walk.values(&mut Vec::new(), Some(old), Some(new));
    walk.fields
}

struct Walk {
    is_secret: bool,
    fields: Vec<Field>,
}

/// A step into an object, or into a list.
#[derive(Clone, PartialEq)]
enum Step {
    Key(String),
    Item(String),
}

impl Walk {
    fn values(&mut self, path: &mut Vec<Step>, old: Option<&Value>, new: Option<&Value>) {
        if old == new || is_last_applied(path) {
            return;
        }
        let hidden = self.is_secret
            && matches!(path.first(), Some(Step::Key(key)) if key == "data" || key == "stringData");
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.maps(path, old, new),
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.lists(path, old, new),
            // Which keys come and go is no secret.
            (Some(Value::Object(old)), None) if hidden => self.maps(path, old, &Map::new()),
            (None, Some(Value::Object(new))) if hidden => self.maps(path, &Map::new(), new),
            // Annotations that come with the first one, and go with the last.
            (Some(Value::Object(old)), None) if is_annotations(path) => self.maps(path, old, &Map::new()),
            (None, Some(Value::Object(new))) if is_annotations(path) => self.maps(path, &Map::new(), new),
            (old, new) => {
                let change = match (old, new) {
                    (None, _) if hidden => Change::Hidden("added"),
                    (_, None) if hidden => Change::Hidden("removed"),
                    _ if hidden => Change::Hidden("changed"),
                    (old, new) => Change::Shown(old.cloned(), new.cloned()),
                };
                self.fields.push(Field {
                    path: written(path),
                    change,
                });
            }
        }
    }

    fn maps(&mut self, path: &mut Vec<Step>, old: &Map<String, Value>, new: &Map<String, Value>) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            path.push(Step::Key(key.clone()));
            self.values(path, old.get(key), new.get(key));
            path.pop();
        }
    }

    /// Items with names are told apart by them, so that one that is put in front changes no other.
    fn lists(&mut self, path: &mut Vec<Step>, old: &[Value], new: &[Value]) {
        if let (Some(old_names), Some(new_names)) = (names(old), names(new)) {
            let place = |names: &[&str], name: &str| names.iter().position(|it| *it == name);
            let gone = old_names.iter().filter(|name| place(&new_names, name).is_none());
            for name in gone.chain(&new_names) {
                let old = place(&old_names, name).map(|index| &old[index]);
                let new = place(&new_names, name).map(|index| &new[index]);
                path.push(Step::Item((*name).to_owned()));
                self.values(path, old, new);
                path.pop();
            }
            let kept = |names: &[&str], others: &[&str]| -> Vec<String> {
                let kept = names.iter().filter(|name| others.contains(name));
                kept.map(|name| (*name).to_owned()).collect()
            };
            let (before, after) = (kept(&old_names, &new_names), kept(&new_names, &old_names));
            if before != after {
                self.fields.push(Field {
                    path: format!("{} (order)", written(path)),
                    change: Change::Shown(Some(json!(before)), Some(json!(after))),
                });
            }
            return;
        }
        for index in 0..old.len().max(new.len()) {
            path.push(Step::Item(index.to_string()));
            self.values(path, old.get(index), new.get(index));
            path.pop();
        }
    }
}

fn is_annotations(path: &[Step]) -> bool {
    matches!(path, [Step::Key(a), Step::Key(b)] if a == "metadata" && b == "annotations")
}

fn is_last_applied(path: &[Step]) -> bool {
    matches!(path, [head @ .., Step::Key(key)] if is_annotations(head) && key == LAST_APPLIED)
}

/// The names of a list's items, if all have one of their own.
fn names(list: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> = list
        .iter()
        .map(|item| item.as_object()?.get("name")?.as_str())
        .collect::<Option<_>>()?;
    let different: BTreeSet<&&str> = names.iter().collect();
    (different.len() == names.len()).then_some(names)
}

fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if key.contains(['.', '[', ' ']) || key.is_empty() => {
                text.push_str(&format!("[{key:?}]"));
            }
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Item(item) => text.push_str(&format!("[{item}]")),
        }
    }
    text
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => "(none)".to_owned(),
        // As it is written, unless that would take lines or be taken for something else.
        Some(Value::String(text)) if is_plain(text) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && serde_json::from_str::<Value>(text).is_err()
}

/// As much of a value as a line shows.
const LIMIT: usize = 48;
/// As much of it as stands before the first difference.
const LEAD: usize = 12;

/// Both texts, the long ones cut so that the first difference is seen.
fn shortened(old: &str, new: &str) -> (String, String) {
    let common = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let is_long = |text: &str| text.chars().count() > LIMIT;
    let skip = if (is_long(old) || is_long(new)) && common > LEAD {
        common - LEAD
    } else {
        0
    };
    let cut = |text: &str| {
        let mut shown: String = text.chars().skip(skip).take(LIMIT).collect();
        if skip > 0 {
            shown.insert(0, '…');
        }
        if text.chars().count() > skip + LIMIT {
            shown.push('…');
        }
        shown
    };
    (cut(old), cut(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(old: &Value, new: &Value) -> Vec<String> {
        diff(old, new).iter().map(Field::to_line).collect()
    }

    #[test]
    fn tells_field_by_field_what_differs() {
        for (old, new, expected) in [
            (json!({"a": 1}), json!({"a": 1}), &[] as &[&str]),
            (
                json!({"a": 1, "b": {"c": "x"}, "gone": true}),
                json!({"a": 2, "b": {"c": "y", "d": ""}}),
                &[
                    "a: 1 -> 2",
                    "b.c: x -> y",
                    "b.d: (none) -> \"\"",
                    "gone: true -> (none)",
                ],
            ),
            (
                json!({"labels": {"app.kubernetes.io/name": "a"}}),
                json!({"labels": {"app.kubernetes.io/name": "b"}}),
                &["labels[\"app.kubernetes.io/name\"]: a -> b"],
            ),
            (
                json!({"on": true, "n": 1}),
                json!({"on": "true", "n": "1"}),
                &["n: 1 -> \"1\"", "on: true -> \"true\""],
            ),
            (
                json!({"list": [1, 2, 3]}),
                json!({"list": [1, 4]}),
                &["list[1]: 2 -> 4", "list[2]: 3 -> (none)"],
            ),
            (
                json!({"containers": [{"name": "web", "image": "a"}]}),
                json!({"containers": [{"name": "proxy"}, {"name": "web", "image": "b"}]}),
                &[
                    "containers[proxy]: (none) -> {\"name\":\"proxy\"}",
                    "containers[web].image: a -> b",
                ],
            ),
            (
                json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
                json!({"containers": [{"name": "b"}, {"name": "a"}]}),
                &[
                    "containers[c]: {\"name\":\"c\"} -> (none)",
                    "containers (order): [\"a\",\"b\"] -> [\"b\",\"a\"]",
                ],
            ),
            (
                json!({"ports": [{"name": "a", "port": 1}, {"port": 2}]}),
                json!({"ports": [{"name": "a", "port": 1}, {"port": 3}]}),
                &["ports[1].port: 2 -> 3"],
            ),
            (
                json!({"metadata": {}}),
                json!({"metadata": {"annotations": {LAST_APPLIED: "{}", "note": "n"}}}),
                &["metadata.annotations.note: (none) -> n"],
            ),
            (
                json!({"metadata": {}}),
                json!({"metadata": {"annotations": {LAST_APPLIED: "{}"}}}),
                &[],
            ),
        ] {
            assert_eq!(lines(&old, &new), expected, "{old} {new}");
        }
    }

    #[test]
    fn what_a_secret_holds_is_never_shown() {
        let secret = |rest: Value| {
            let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s",
                "annotations": {LAST_APPLIED: format!("{rest}")}}});
            machinery::patch::merge_patch(&mut secret, &rest);
            secret
        };
        let same = secret(json!({"type": "Opaque", "data": {"a": "c2VjcmV0", "b": "c2VjcmV0"}}));
        for (other, expected) in [
            (
                json!({"type": "TLS", "data": {"a": "c2VjcmV0Mg==", "c": "c2VjcmV0"}}),
                &[
                    "data.a: changed, its value is not shown",
                    "data.b: removed, its value is not shown",
                    "data.c: added, its value is not shown",
                    "type: Opaque -> TLS",
                ] as &[&str],
            ),
            (
                json!({"type": "Opaque", "stringData": {"a": "secret"}}),
                &[
                    "data.a: removed, its value is not shown",
                    "data.b: removed, its value is not shown",
                    "stringData.a: added, its value is not shown",
                ],
            ),
            (
                json!({"type": "Opaque", "data": "c2VjcmV0"}),
                &["data: changed, its value is not shown"],
            ),
        ] {
            let other = secret(other);
            assert_eq!(lines(&same, &other), expected);
            let fields = diff(&same, &other);
            let all: Vec<Value> = fields.iter().map(Field::to_value).collect();
            assert!(!json!(all).to_string().contains("c2VjcmV0"), "{all:?}");
        }
    }

    #[test]
    fn long_values_are_cut_where_they_differ() {
        let long = |end: &str| format!("{}{end}", "x".repeat(100));
        let line = &lines(&json!({"a": long("old")}), &json!({"a": long("new")}))[0];
        assert_eq!(line, "a: …xxxxxxxxxxxxold -> …xxxxxxxxxxxxnew");
        let line = &lines(&json!({"a": "b"}), &json!({"a": long("")}))[0];
        assert_eq!(*line, format!("a: b -> {}…", "x".repeat(48)));
        let line = &lines(&json!({"a": "one\n"}), &json!({"a": "one\ntwo\n"}))[0];
        assert_eq!(line, "a: \"one\\n\" -> \"one\\ntwo\\n\"");
    }
}
