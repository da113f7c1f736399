//! Where two objects differ, leaving some places out.

use serde_json::Value;

/// The JSON pointers (`/spec/replicas`) of the topmost places where two values differ, in order. Places in
/// `ignored` and below are left out; in an ignored pointer `*` stands for any one key or index.
pub fn changed_paths(left: &Value, right: &Value, ignored: &[&str]) -> Vec<String> {
    let ignored: Vec<Vec<String>> = ignored
        .iter()
        .map(|pointer| {
            pointer
                .split('/')
                .skip(1)
                .map(|part| part.replace("~1", "/").replace("~0", "~"))
                .collect()
        })
        .collect();
    let mut walk = Walk {
        ignored,
        path: Vec::new(),
        found: Vec::new(),
    };
    walk.visit(Some(left), Some(right));
    walk.found
}

/// Whether two values are equal but for the ignored places.
pub fn equal_except(left: &Value, right: &Value, ignored: &[&str]) -> bool {
    changed_paths(left, right, ignored).is_empty()
}

struct Walk {
    ignored: Vec<Vec<String>>,
    path: Vec<String>,
    found: Vec<String>,
}

impl Walk {
    fn is_ignored(&self) -> bool {
        self.ignored.iter().any(|pattern| {
            pattern.len() == self.path.len()
                && pattern
                    .iter()
                    .zip(&self.path)
                    .all(|(want, have)| want == "*" || want == have)
        })
    }

    /// Whether some ignored place lies below the current one.
    fn ignores_below(&self) -> bool {
        self.ignored.iter().any(|pattern| {
            pattern.len() > self.path.len()
                && pattern
                    .iter()
                    .zip(&self.path)
                    .all(|(want, have)| want == "*" || want == have)
        })
    }

    fn step(&mut self, key: String, left: Option<&Value>, right: Option<&Value>) {
        self.path.push(key);
        if !self.is_ignored() {
            self.visit(left, right);
        }
        self.path.pop();
    }

    fn visit(&mut self, left: Option<&Value>, right: Option<&Value>) {
        if left == right {
            return;
        }
        let empty = serde_json::Map::new();
        match (left, right) {
            (Some(Value::Object(left)), Some(Value::Object(right))) => {
                let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
                keys.sort_unstable();
                keys.dedup();
                for key in keys {
                    self.step(key.clone(), left.get(key), right.get(key));
                }
            }
            // A map that is missing counts as empty if only ignored places could be in it.
            (Some(Value::Object(map)), None) if self.ignores_below() && !map.is_empty() => {
                self.visit(Some(&Value::Object(map.clone())), Some(&Value::Object(empty)));
            }
            (None, Some(Value::Object(map))) if self.ignores_below() && !map.is_empty() => {
                self.visit(Some(&Value::Object(empty)), Some(&Value::Object(map.clone())));
            }
            (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    self.step(index.to_string(), Some(left), Some(right));
                }
            }
            (_, _) => {
                let pointer = self
                    .path
                    .iter()
                    .map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1")))
                    .collect();
                self.found.push(pointer);
            }
        }
    }
}
