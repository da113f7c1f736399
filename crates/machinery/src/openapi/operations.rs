//! Paths and what can be done with them.

use serde_json::{Map, Value, json};

use super::{CustomKind, Dialect, custom, path_of};
use crate::builtin::{Library, Resource};
use crate::resource::ALL_VERBS;

/// Types that operations refer to, whatever the resource.
pub(super) const COMMON_TYPES: [&str; 7] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
    DELETE_OPTIONS,
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    PATCH,
    STATUS,
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// A query parameter and its type.
type Parameter = (&'static str, &'static str);

const LIST: [Parameter; 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE: [Parameter; 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const WRITE: [Parameter; 3] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const FORCE: Parameter = ("force", "boolean");

const JSON_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PATCH_TYPES: [&str; 3] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A resource to write the paths of.
pub(super) struct Served {
    group: String,
    version: String,
    /// Group and version of its URLs.
    at: (String, String),
    plural: String,
    kind: String,
    namespaced: bool,
    /// Whether it is custom: JSON only, no strategic patches.
    custom: bool,
    verbs: Vec<&'static str>,
    type_name: String,
    list_type_name: String,
    subresources: Vec<Sub>,
}

struct Sub {
    name: String,
    gvk: (String, String, String),
    verbs: Vec<&'static str>,
    /// The schema's name; `None` for what only connects.
    type_name: Option<String>,
}

impl Served {
    /// A built-in resource.
    pub(super) fn builtin(resource: &Resource) -> Self {
        let type_of = |group: &str, version: &str, kind: &str| {
            let library = Library::get();
            library
                .kind(group, version, kind)
                .map(|index| library.full_name(index))
        };
        let own = |kind: &str| type_of(resource.group, resource.version, kind).unwrap_or_default();
        let subresources = resource.subresources.iter().map(|sub| Sub {
            name: sub.name.to_owned(),
            gvk: (sub.group.to_owned(), sub.version.to_owned(), sub.kind.to_owned()),
            verbs: sub.verbs.clone(),
            type_name: type_of(sub.group, sub.version, sub.kind),
        });
        Self {
            group: resource.group.to_owned(),
            version: resource.version.to_owned(),
            at: (resource.group.to_owned(), resource.version.to_owned()),
            plural: resource.plural.to_owned(),
            kind: resource.kind.to_owned(),
            namespaced: resource.namespaced,
            custom: false,
            verbs: resource.verbs.clone(),
            type_name: own(resource.kind),
            list_type_name: own(&format!("{}List", resource.kind)),
            subresources: subresources.collect(),
        }
    }

    /// A custom resource.
    pub(super) fn custom(kind: &CustomKind<'_>) -> Self {
        let type_name = custom::type_name(kind.group, kind.version, kind.kind);
        let gvk =
            |group: &str, version: &str, kind: &str| (group.to_owned(), version.to_owned(), kind.to_owned());
        let mut subresources = Vec::new();
        let verbs = vec!["get", "patch", "update"];
        if kind.scale {
            let name = "io.k8s.api.autoscaling.v1.Scale".to_owned();
            let gvk = gvk("autoscaling", "v1", "Scale");
            subresources.push(Sub {
                name: "scale".to_owned(),
                gvk,
                verbs: verbs.clone(),
                type_name: Some(name),
            });
        }
        if kind.status {
            let gvk = gvk(kind.group, kind.version, kind.kind);
            subresources.push(Sub {
                name: "status".to_owned(),
                gvk,
                verbs,
                type_name: Some(type_name.clone()),
            });
        }
        Self {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            at: (kind.group.to_owned(), kind.version.to_owned()),
            plural: kind.plural.to_owned(),
            kind: kind.kind.to_owned(),
            namespaced: kind.namespaced,
            custom: true,
            verbs: ALL_VERBS.to_vec(),
            type_name,
            list_type_name: custom::type_name(kind.group, kind.version, kind.list_kind),
            subresources,
        }
    }

    /// The same resource, shown by another group version.
    pub(super) fn shown_at(mut self, group: &str, version: &str) -> Self {
        self.at = (group.to_owned(), version.to_owned());
        self.verbs = ALL_VERBS.to_vec();
        self.subresources.retain(|sub| sub.name == "scale");
        self
    }

    /// The names of the types that its operations refer to.
    pub(super) fn types(&self) -> impl Iterator<Item = &str> {
        let own = [self.type_name.as_str(), self.list_type_name.as_str()];
        own.into_iter().chain(
            self.subresources
                .iter()
                .filter_map(|sub| sub.type_name.as_deref()),
        )
    }
}

/// The group version's own path, which lists its resources.
pub(super) fn group_version(group: &str, version: &str, dialect: Dialect) -> (String, Value) {
    let writer = Writer {
        dialect,
        custom: false,
        tag: tag(group, version),
    };
    let name = camel(group, version);
    let list = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
    let mut operation = writer.operation(
        &format!("get{name}APIResources"),
        &[],
        None,
        &["200"],
        Some(list),
        &[],
    );
    operation.insert("description".to_owned(), json!("get available resources"));
    (
        format!("/{}/", path_of(group, version)),
        json!({"get": operation}),
    )
}

/// Adds all paths of a resource.
pub(super) fn paths(resource: &Served, dialect: Dialect, into: &mut Map<String, Value>) {
    let one = Item {
        resource,
        writer: Writer {
            dialect,
            custom: resource.custom,
            tag: tag(&resource.at.0, &resource.at.1),
        },
    };
    let base = format!("/{}", path_of(&resource.at.0, &resource.at.1));
    let home = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}")
    } else {
        base.clone()
    };
    let mut add = |path: String, mut operations: Map<String, Value>| {
        if !operations.is_empty() {
            operations.insert("parameters".to_owned(), one.writer.path_parameters(&path));
            into.insert(path, Value::Object(operations));
        }
    };
    let plural = &resource.plural;
    if resource.namespaced && resource.verbs.contains(&"list") {
        let list = Map::from_iter([("get".to_owned(), one.list(true))]);
        add(format!("{base}/{plural}"), list);
    }
    add(format!("{home}/{plural}"), one.collection());
    add(format!("{home}/{plural}/{{name}}"), one.item());
    for sub in &resource.subresources {
        add(
            format!("{home}/{plural}/{{name}}/{}", sub.name),
            one.subresource(sub),
        );
    }
}

struct Item<'a> {
    resource: &'a Served,
    writer: Writer,
}

impl Item<'_> {
    fn id(&self, verb: &str, middle: &str, end: &str) -> String {
        let Served {
            at: (group, version),
            kind,
            namespaced,
            ..
        } = self.resource;
        let namespaced = if *namespaced { "Namespaced" } else { "" };
        format!("{verb}{}{middle}{namespaced}{kind}{end}", camel(group, version))
    }

    fn gvk(&self) -> (&str, &str, &str) {
        (&self.resource.group, &self.resource.version, &self.resource.kind)
    }

    fn with_kind(mut operation: Map<String, Value>, action: &str, gvk: (&str, &str, &str)) -> Value {
        operation.insert("x-kubernetes-action".to_owned(), json!(action));
        let gvk = json!({"group": gvk.0, "version": gvk.1, "kind": gvk.2});
        operation.insert("x-kubernetes-group-version-kind".to_owned(), gvk);
        Value::Object(operation)
    }

    fn list(&self, all_namespaces: bool) -> Value {
        let Served {
            at: (group, version),
            kind,
            ..
        } = self.resource;
        let id = if all_namespaces {
            format!("list{}{kind}ForAllNamespaces", camel(group, version))
        } else {
            self.id("list", "", "")
        };
        let list_type = Some(self.resource.list_type_name.as_str());
        let operation = self
            .writer
            .operation(&id, &LIST, None, &["200"], list_type, &self.writer.watched());
        Self::with_kind(operation, "list", self.gvk())
    }

    fn collection(&self) -> Map<String, Value> {
        let has = |verb: &str| self.resource.verbs.contains(&verb);
        let own = self.resource.type_name.as_str();
        let mut operations = Map::new();
        if has("list") {
            operations.insert("get".to_owned(), self.list(false));
        }
        if has("create") {
            operations.insert(
                "post".to_owned(),
                self.create(&self.id("create", "", ""), own, self.gvk()),
            );
        }
        if has("deletecollection") {
            let mut parameters: Vec<Parameter> = LIST
                .into_iter()
                .filter(|(name, _)| !matches!(*name, "watch" | "allowWatchBookmarks"))
                .collect();
            parameters.extend(DELETE);
            parameters.sort_unstable();
            let id = self.id("delete", "Collection", "");
            let body = Some((DELETE_OPTIONS, false));
            let operation = self.writer.operation(
                &id,
                &parameters,
                body,
                &["200"],
                Some(STATUS),
                &self.writer.types(),
            );
            operations.insert(
                "delete".to_owned(),
                Self::with_kind(operation, "deletecollection", self.gvk()),
            );
        }
        operations
    }

    fn item(&self) -> Map<String, Value> {
        let has = |verb: &str| self.resource.verbs.contains(&verb);
        let own = self.resource.type_name.as_str();
        let mut operations = Map::new();
        if has("get") {
            operations.insert(
                "get".to_owned(),
                self.get(&self.id("read", "", ""), own, self.gvk()),
            );
        }
        if has("update") {
            operations.insert(
                "put".to_owned(),
                self.update(&self.id("replace", "", ""), own, self.gvk()),
            );
        }
        if has("patch") {
            operations.insert(
                "patch".to_owned(),
                self.patch(&self.id("patch", "", ""), own, self.gvk()),
            );
        }
        if has("delete") {
            let id = self.id("delete", "", "");
            // some objects answer with themselves, as pods do
            let body = Some((DELETE_OPTIONS, false));
            let codes = ["200", "202"];
            let operation =
                self.writer
                    .operation(&id, &DELETE, body, &codes, Some(STATUS), &self.writer.types());
            operations.insert(
                "delete".to_owned(),
                Self::with_kind(operation, "delete", self.gvk()),
            );
        }
        operations
    }

    fn create(&self, id: &str, type_name: &str, gvk: (&str, &str, &str)) -> Value {
        let codes = ["200", "201", "202"];
        let types = self.writer.types();
        let body = Some((type_name, true));
        Self::with_kind(
            self.writer
                .operation(id, &WRITE, body, &codes, Some(type_name), &types),
            "post",
            gvk,
        )
    }

    fn get(&self, id: &str, type_name: &str, gvk: (&str, &str, &str)) -> Value {
        let types = self.writer.types();
        Self::with_kind(
            self.writer
                .operation(id, &[], None, &["200"], Some(type_name), &types),
            "get",
            gvk,
        )
    }

    fn update(&self, id: &str, type_name: &str, gvk: (&str, &str, &str)) -> Value {
        let types = self.writer.types();
        let body = Some((type_name, true));
        Self::with_kind(
            self.writer
                .operation(id, &WRITE, body, &["200", "201"], Some(type_name), &types),
            "put",
            gvk,
        )
    }

    fn patch(&self, id: &str, type_name: &str, gvk: (&str, &str, &str)) -> Value {
        let [dry_run, manager, validation] = WRITE;
        let parameters = [dry_run, manager, validation, FORCE];
        let types = self.writer.types();
        let body = Some((PATCH, true));
        let operation =
            self.writer
                .operation(id, &parameters, body, &["200", "201"], Some(type_name), &types);
        Self::with_kind(operation, "patch", gvk)
    }

    fn subresource(&self, sub: &Sub) -> Map<String, Value> {
        let gvk = (sub.gvk.0.as_str(), sub.gvk.1.as_str(), sub.gvk.2.as_str());
        let end = capital(&sub.name);
        let mut operations = Map::new();
        for verb in &sub.verbs {
            let (method, word) = match *verb {
                "create" => ("post", "create"),
                "get" => ("get", "read"),
                "update" => ("put", "replace"),
                "patch" => ("patch", "patch"),
                "delete" => ("delete", "delete"),
                _ => continue,
            };
            let operation = match &sub.type_name {
                None => {
                    let id = self.id("connect", &capital(method), &end);
                    Self::with_kind(
                        self.writer.operation(&id, &[], None, &["200"], None, &["*/*"]),
                        "connect",
                        gvk,
                    )
                }
                Some(name) => {
                    let id = self.id(word, "", &end);
                    match *verb {
                        "create" => self.create(&id, name, gvk),
                        "get" => self.get(&id, name, gvk),
                        "update" => self.update(&id, name, gvk),
                        _ => self.patch(&id, name, gvk),
                    }
                }
            };
            operations.insert(method.to_owned(), operation);
        }
        operations
    }
}

/// Writes the parts of an operation in a dialect.
struct Writer {
    dialect: Dialect,
    custom: bool,
    tag: String,
}

impl Writer {
    /// The media types of objects.
    fn types(&self) -> Vec<&'static str> {
        let mut types = JSON_TYPES.to_vec();
        if !self.custom {
            types.push(PROTOBUF);
        }
        types
    }

    /// The media types of lists that can be watched.
    fn watched(&self) -> Vec<&'static str> {
        let mut types = self.types();
        types.push("application/json;stream=watch");
        if !self.custom {
            types.push("application/vnd.kubernetes.protobuf;stream=watch");
        }
        types
    }

    fn query(&self, (name, kind): Parameter) -> Value {
        match self.dialect {
            Dialect::V2 => json!({"in": "query", "name": name, "type": kind, "uniqueItems": true}),
            Dialect::V3 => {
                json!({"in": "query", "name": name, "schema": {"type": kind, "uniqueItems": true}})
            }
        }
    }

    fn path_parameters(&self, path: &str) -> Value {
        let mut parameters = Vec::new();
        for name in ["name", "namespace"] {
            if path.contains(&format!("{{{name}}}")) {
                let mut parameter = self.query((name, "string"));
                parameter["in"] = json!("path");
                parameter["required"] = json!(true);
                parameters.push(parameter);
            }
        }
        parameters.push(self.query(("pretty", "string")));
        Value::Array(parameters)
    }

    fn operation(
        &self,
        id: &str,
        parameters: &[Parameter],
        body: Option<(&str, bool)>,
        codes: &[&str],
        answer: Option<&str>,
        types: &[&'static str],
    ) -> Map<String, Value> {
        let mut operation = Map::new();
        operation.insert("operationId".to_owned(), json!(id));
        operation.insert("tags".to_owned(), json!([self.tag]));
        let mut parameters: Vec<Value> = parameters
            .iter()
            .map(|parameter| self.query(*parameter))
            .collect();
        let types = if types.is_empty() {
            self.types()
        } else {
            types.to_vec()
        };
        let schema = answer.map(|name| self.dialect.reference(name));
        let is_patch = body.is_some_and(|(name, _)| name == PATCH);
        match self.dialect {
            Dialect::V2 => {
                if let Some((name, required)) = body {
                    let mut parameter =
                        json!({"in": "body", "name": "body", "schema": self.dialect.reference(name)});
                    if required {
                        parameter["required"] = json!(true);
                    }
                    parameters.insert(0, parameter);
                }
                let consumes = if is_patch { self.patch_types() } else { vec!["*/*"] };
                operation.insert("consumes".to_owned(), json!(consumes));
                operation.insert("produces".to_owned(), json!(types));
                operation.insert("schemes".to_owned(), json!(["https"]));
            }
            Dialect::V3 => {
                if let Some((name, required)) = body {
                    let consumed = if is_patch { self.patch_types() } else { vec!["*/*"] };
                    let mut request =
                        json!({"content": self.content(&consumed, Some(&self.dialect.reference(name)))});
                    if required {
                        request["required"] = json!(true);
                    }
                    operation.insert("requestBody".to_owned(), request);
                }
            }
        }
        if !parameters.is_empty() {
            operation.insert("parameters".to_owned(), Value::Array(parameters));
        }
        let mut responses = Map::new();
        for code in codes {
            let text = match *code {
                "200" => "OK",
                "201" => "Created",
                _ => "Accepted",
            };
            let mut response = json!({"description": text});
            match (self.dialect, &schema) {
                (Dialect::V2, Some(schema)) => response["schema"] = schema.clone(),
                (Dialect::V2, None) => response["schema"] = json!({"type": "string"}),
                (Dialect::V3, schema) => response["content"] = self.content(&types, schema.as_ref()),
            }
            responses.insert((*code).to_owned(), response);
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        operation.insert("responses".to_owned(), Value::Object(responses));
        operation
    }

    fn patch_types(&self) -> Vec<&'static str> {
        let mut types = PATCH_TYPES.to_vec();
        if !self.custom {
            types.push(STRATEGIC);
        }
        types
    }

    fn content(&self, types: &[&str], schema: Option<&Value>) -> Value {
        let schema = schema.cloned().unwrap_or_else(|| json!({"type": "string"}));
        let content = types
            .iter()
            .map(|name| ((*name).to_owned(), json!({"schema": schema})));
        Value::Object(content.collect())
    }
}

/// `rbac.authorization.k8s.io`, `v1` as `RbacAuthorizationV1`.
fn camel(group: &str, version: &str) -> String {
    let group = if group.is_empty() {
        "core"
    } else {
        group.trim_end_matches(".k8s.io")
    };
    group
        .split(['.', '-'])
        .map(capital)
        .chain([capital(version)])
        .collect()
}

/// `rbac.authorization.k8s.io`, `v1` as `rbacAuthorization_v1`.
fn tag(group: &str, version: &str) -> String {
    let name = camel(group, "");
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    format!(
        "{}{}_{version}",
        first.map(String::from).unwrap_or_default(),
        chars.as_str()
    )
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    match chars.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + chars.as_str(),
        None => String::new(),
    }
}
