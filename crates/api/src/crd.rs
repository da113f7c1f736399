//! Generates CustomResourceDefinitions from the types.

use machinery::ApiResource;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// What a quantity looks like as text (`k8s.io/apimachinery`, `resource.Quantity`).
const QUANTITY: &str = "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$";

/// Lists of Kubernetes' own types that are replaced as a whole.
const ATOMIC_LISTS: &[&str] = &[
    "matchExpressions",
    "matchFields",
    "matchLabelKeys",
    "mismatchLabelKeys",
    "namespaces",
    "nodeSelectorTerms",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingIgnoredDuringExecution",
];

/// A column of `kubectl get`.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) priority: u32,
}

/// The usual column: text, always shown.
pub(crate) const fn text(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        path,
        kind: "string",
        priority: 0,
    }
}

/// A column that only `-o wide` shows.
pub(crate) const fn wide(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        path,
        kind: "string",
        priority: 100,
    }
}

/// The column of the age, under a name.
pub(crate) const fn age(name: &'static str) -> Column {
    Column {
        name,
        path: ".metadata.creationTimestamp",
        kind: "date",
        priority: 0,
    }
}

/// What is said about a kind beside its type.
pub(crate) struct Definition {
    pub(crate) resource: ApiResource,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) status: bool,
    pub(crate) columns: &'static [Column],
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Definition {
    pub(crate) fn crd(&self) -> Value {
        let Self {
            resource,
            short_names,
            categories,
            status,
            columns,
            schema,
        } = self;
        let mut generator = SchemaSettings::draft07()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator();
        let mut schema = schema(&mut generator).to_value();
        tidy(&mut schema, "");
        // A real API server takes nothing more about metadata, not even a description.
        schema["properties"]["metadata"] = json!({"type": "object"});
        let columns: Vec<Value> = columns.iter().map(column).collect();
        let mut names = json!({
            "kind": resource.kind,
            "listKind": format!("{}List", resource.kind),
            "plural": resource.plural,
            "singular": resource.kind.to_lowercase(),
        });
        for (field, list) in [("shortNames", short_names), ("categories", categories)] {
            if !list.is_empty() {
                names[field] = json!(list);
            }
        }
        let mut version = json!({
            "name": resource.version,
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": schema},
        });
        if *status {
            version["subresources"] = json!({"status": {}});
        }
        if !columns.is_empty() {
            version["additionalPrinterColumns"] = Value::Array(columns);
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
            "spec": {
                "group": resource.group,
                "names": names,
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [version],
            },
        })
    }
}

fn column(column: &Column) -> Value {
    let Column {
        name,
        path,
        kind,
        priority,
    } = column;
    let mut value = json!({"name": name, "jsonPath": path, "type": kind});
    if *priority > 0 {
        value["priority"] = json!(priority);
    }
    value
}

/// The schema of `metadata`: the API server knows it.
pub(crate) fn metadata(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object"})
}

/// The schema of an embedded value of any form.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Bytes: base64 in JSON.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "format": "byte"})
}

/// A list of bytes.
pub(crate) fn bytes_list(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "array", "items": {"type": "string", "format": "byte"}})
}

/// Turns a JSON schema into a structural one, as Kubernetes takes it; `name` is the property that it describes.
fn tidy(schema: &mut Value, name: &str) {
    let Some(map) = schema.as_object_mut() else {
        // `true` allows anything.
        *schema = json!({"x-kubernetes-preserve-unknown-fields": true});
        return;
    };
    drop_null(map);
    enumerate(map);
    for field in ["$schema", "title", "nullable", "definitions"] {
        map.remove(field);
    }
    if map.get("additionalProperties").is_some_and(Value::is_boolean) {
        map.remove("additionalProperties");
    }
    // Only what controls a number's size; Kubernetes has no `double` here.
    if map
        .get("format")
        .is_some_and(|format| format == "double" || format == "float")
    {
        map.remove("format");
    }
    let int_or_string = map.get("x-kubernetes-int-or-string") == Some(&json!(true));
    if int_or_string && !map.contains_key("pattern") {
        map.insert(
            "anyOf".to_owned(),
            json!([{"type": "integer"}, {"type": "string"}]),
        );
        map.insert("pattern".to_owned(), json!(QUANTITY));
        map.remove("description");
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, schema) in properties.iter_mut() {
            tidy(schema, name);
        }
        let has = |name: &str| properties.contains_key(name);
        let selector =
            properties.len() == 2 && has("matchExpressions") && (has("matchLabels") || has("matchFields"));
        if selector || (properties.len() == 1 && has("nodeSelectorTerms")) {
            map.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        }
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(field) {
            tidy(inner, "");
        }
    }
    let is_list = map.get("type").is_some_and(|kind| kind == "array");
    if is_list && ATOMIC_LISTS.contains(&name) {
        map.insert("x-kubernetes-list-type".to_owned(), json!("atomic"));
    }
    if name == "matchExpressions" || name == "matchFields" {
        map["items"]["properties"]["values"]["x-kubernetes-list-type"] = json!("atomic");
    }
    if let Some(required) = map.get_mut("required").and_then(Value::as_array_mut) {
        required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
}

/// An optional value may be left out; it is not `null`.
fn drop_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            map.remove("anyOf");
            for (key, value) in only {
                // What is said at the field wins over what is said at its type.
                map.entry(key).or_insert(value);
            }
        }
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
}

/// `oneOf` constants (an enum with documented variants) become `enum`.
fn enumerate(map: &mut Map<String, Value>) {
    let Some(choices) = map.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let mut values = Vec::new();
    for choice in choices {
        match (&choice["const"], &choice["enum"]) {
            (Value::String(value), _) => values.push(json!(value)),
            (_, Value::Array(several)) => values.extend(several.iter().cloned()),
            _ => return,
        }
    }
    map.remove("oneOf");
    map.insert("type".to_owned(), json!("string"));
    map.insert("enum".to_owned(), Value::Array(values));
}
