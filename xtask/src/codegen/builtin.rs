//! The tables of built-in types and resources, out of what a kube-apiserver v1.34.0 answered (`../shared/compat`).
//! Facts only: no descriptions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

const TYPES_HEAD: &str = "\
# Types of the built-in API of Kubernetes v1.34. Written by `cargo xtask codegen types` out of ../shared/compat/openapi:
# do not edit. `= ALIAS PACKAGE`, then a line for each type: NAME, `#` an atomic map, `@GROUP/VERSION/KIND` where it is
# a kind; then its fields NAME:TYPE (`*` after the name: required) with `;`-separated facts, or `=TYPE` for what is no
# struct. TYPE: s string, i int32, l int64, t bool, d double, b base64, time, o object, a anything, q quantity,
# n int or string, else a type as NAME or ALIAS/NAME; before it `[` list, `{` map from strings. Facts: E= enum (`~` for
# a space), D= default, L= list type (with the keys of a map), M atomic map, P= patch strategy, K= patch merge key.
";

const RESOURCES_HEAD: &str = "\
# Built-in resources of Kubernetes v1.34 in the order of discovery. Written by `cargo xtask codegen resources` out of
# ../shared/compat/openapi: do not edit. `= GROUP/VERSION`, then a line for each resource: PLURAL SINGULAR KIND SCOPE
# (n namespaced, c cluster) SHORTNAMES CATEGORIES (`-` for none) VERBS, then NAME:[GROUP/VERSION/]KIND:VERBS for each
# subresource. VERBS: c create, d delete, x deletecollection, g get, l list, p patch, u update, w watch.
";

/// A file of recorded answers; an error where the folder is not there.
fn recorded(name: &str) -> anyhow::Result<Value> {
    let path = folder().join(name);
    if !path.exists() {
        bail!(
            "{} is not there: the recorded answers are not part of the project",
            path.display()
        );
    }
    let output = Command::new("gzip")
        .arg("-dc")
        .arg(&path)
        .output()
        .context("running gzip")?;
    serde_json::from_slice(&output.stdout).with_context(|| path.display().to_string())
}

/// Where the recorded answers are, on a machine that has them.
pub(super) fn folder() -> PathBuf {
    super::workspace().join("../shared/compat/openapi")
}

/// Makes the table of types.
pub(super) fn types() -> anyhow::Result<String> {
    let documents = recorded("kubernetes-1.34-openapi-v3.json.gz")?;
    let mut schemas: BTreeMap<&str, &Value> = BTreeMap::new();
    for document in documents.as_object().context("the documents by path")?.values() {
        if let Some(found) = document.pointer("/components/schemas").and_then(Value::as_object) {
            schemas.extend(found.iter().map(|(name, schema)| (name.as_str(), schema)));
        }
    }
    let mut packages: BTreeMap<String, Vec<(&str, &Value)>> = BTreeMap::new();
    for (full, schema) in &schemas {
        let (package, name) = full.rsplit_once('.').context("a type's name has a package")?;
        packages
            .entry(package.to_owned())
            .or_default()
            .push((name, schema));
    }
    let mut out = String::from(TYPES_HEAD);
    for (package, types) in packages {
        writeln!(out, "= {} {package}", alias(&package))?;
        for (name, schema) in types {
            let line = type_line(&package, name, schema).with_context(|| format!("{package}.{name}"))?;
            writeln!(out, "{line}")?;
        }
    }
    Ok(out)
}

fn alias(package: &str) -> String {
    let words: Vec<&str> = package.rsplit('.').take(2).collect();
    words.into_iter().rev().collect::<Vec<_>>().join(".")
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

fn type_line(package: &str, name: &str, schema: &Value) -> anyhow::Result<String> {
    let mut line = name.to_owned();
    if text(schema, "x-kubernetes-map-type") == "atomic" {
        line.push('#');
    }
    for gvk in schema["x-kubernetes-group-version-kind"]
        .as_array()
        .into_iter()
        .flatten()
    {
        write!(
            line,
            "@{}/{}/{}",
            text(gvk, "group"),
            text(gvk, "version"),
            text(gvk, "kind")
        )?;
    }
    let empty = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&empty);
    if fields.is_empty() {
        let code = match name {
            "Quantity" => "q",
            "IntOrString" => "n",
            "RawExtension" => "a",
            _ => &type_code(package, schema)?,
        };
        write!(line, " ={code}")?;
        return Ok(line);
    }
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (field, schema) in fields {
        let mark = if required.contains(&field.as_str()) {
            "*"
        } else {
            ""
        };
        let code = type_code(package, schema).with_context(|| field.clone())?;
        write!(line, " {field}{mark}:{code}")?;
        facts(schema, &mut line)?;
    }
    Ok(line)
}

fn type_code(package: &str, schema: &Value) -> anyhow::Result<String> {
    let reference = schema["$ref"]
        .as_str()
        .or_else(|| schema.pointer("/allOf/0/$ref").and_then(Value::as_str));
    if let Some(reference) = reference {
        let full = reference.rsplit('/').next().unwrap_or_default();
        let (home, name) = full.rsplit_once('.').context("a reference has a package")?;
        return Ok(if home == package {
            name.to_owned()
        } else {
            format!("{}/{name}", alias(home))
        });
    }
    Ok(match (text(schema, "type"), text(schema, "format")) {
        ("string", "") => "s".to_owned(),
        ("string", "byte") => "b".to_owned(),
        ("string", "date-time") => "time".to_owned(),
        ("integer", "int32") => "i".to_owned(),
        ("integer", "int64") => "l".to_owned(),
        ("number", "double") => "d".to_owned(),
        ("boolean", "") => "t".to_owned(),
        ("", "") => "a".to_owned(),
        ("array", "") => format!("[{}", type_code(package, &schema["items"])?),
        ("object", "") if schema["additionalProperties"].is_object() => {
            format!("{{{}", type_code(package, &schema["additionalProperties"])?)
        }
        ("object", "") => "o".to_owned(),
        (kind, format) => bail!("type {kind:?} of format {format:?}"),
    })
}

fn facts(schema: &Value, line: &mut String) -> anyhow::Result<()> {
    let mut innermost = schema;
    while let Some(inner) = innermost
        .get("items")
        .or_else(|| innermost.get("additionalProperties"))
    {
        innermost = inner;
    }
    if let Some(values) = innermost["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| value.replace(' ', "~"))
            .collect();
        if values.iter().any(|value| value.contains([';', ','])) {
            bail!("an enum value has a separator in it");
        }
        write!(line, ";E={}", values.join(","))?;
    }
    match &schema["default"] {
        // what is empty or zero only says that the Go field is no pointer
        Value::String(value) if !value.is_empty() => write!(line, ";D={value}")?,
        Value::Number(value) if value.as_f64() != Some(0.0) => write!(line, ";D={value}")?,
        Value::Bool(true) => write!(line, ";D=true")?,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {}
    }
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match text(schema, "x-kubernetes-list-type") {
        "" => {}
        "map" => write!(line, ";L=map,{}", keys.join(","))?,
        list_type => write!(line, ";L={list_type}")?,
    }
    if text(schema, "x-kubernetes-map-type") == "atomic" {
        line.push_str(";M");
    }
    for (key, letter) in [
        ("x-kubernetes-patch-strategy", 'P'),
        ("x-kubernetes-patch-merge-key", 'K'),
    ] {
        if !text(schema, key).is_empty() {
            write!(line, ";{letter}={}", text(schema, key))?;
        }
    }
    Ok(())
}

/// Makes the table of resources.
pub(super) fn resources() -> anyhow::Result<String> {
    let mut out = String::from(RESOURCES_HEAD);
    for file in [
        "kubernetes-1.34-discovery-api.json.gz",
        "kubernetes-1.34-discovery-apis.json.gz",
    ] {
        let groups = recorded(file)?;
        for group in groups["items"].as_array().context("groups")? {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().context("versions")? {
                writeln!(out, "= {name}/{}", text(version, "version"))?;
                for resource in version["resources"].as_array().into_iter().flatten() {
                    writeln!(out, "{}", resource_line(resource)?)?;
                }
            }
        }
    }
    Ok(out)
}

fn resource_line(resource: &Value) -> anyhow::Result<String> {
    let list = |key: &str| {
        let words: Vec<&str> = resource[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if words.is_empty() {
            "-".to_owned()
        } else {
            words.join(",")
        }
    };
    let scope = if text(resource, "scope") == "Namespaced" {
        "n"
    } else {
        "c"
    };
    let mut line = format!(
        "{} {} {} {scope} {} {} {}",
        text(resource, "resource"),
        text(resource, "singularResource"),
        kind(resource),
        list("shortNames"),
        list("categories"),
        verbs(resource)?,
    );
    for subresource in resource["subresources"].as_array().into_iter().flatten() {
        write!(
            line,
            " {}:{}:{}",
            text(subresource, "subresource"),
            kind(subresource),
            verbs(subresource)?
        )?;
    }
    Ok(line)
}

/// The response's kind, with its group and version where they differ from the resource's.
fn kind(resource: &Value) -> String {
    let kind = &resource["responseKind"];
    match (text(kind, "group"), text(kind, "version")) {
        ("", "") => text(kind, "kind").to_owned(),
        (group, version) => format!("{group}/{version}/{}", text(kind, "kind")),
    }
}

fn verbs(resource: &Value) -> anyhow::Result<String> {
    resource["verbs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|verb| match verb.as_str().unwrap_or_default() {
            "create" => Ok('c'),
            "delete" => Ok('d'),
            "deletecollection" => Ok('x'),
            "get" => Ok('g'),
            "list" => Ok('l'),
            "patch" => Ok('p'),
            "update" => Ok('u'),
            "watch" => Ok('w'),
            other => bail!("the verb {other:?} has no letter"),
        })
        .collect()
}
