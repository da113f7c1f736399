//! The table by which `codec` reads and writes Kubernetes protobuf: one line a message.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, bail};

use super::go;

/// Modules that hold the `generated.proto` files, with the version whose facts the table states.
const MODULES: [&str; 4] = [
    "k8s.io/apimachinery@v0.34.0",
    "k8s.io/api@v0.34.0",
    "k8s.io/apiextensions-apiserver@v0.34.0",
    "k8s.io/kube-aggregator@v0.34.0",
];

/// Messages whose JSON form is not an object of their fields; `codec` knows them by name.
const SPECIAL: [&str; 18] = [
    "api.resource/Quantity",
    "api.resource/QuantityValue",
    "util.intstr/IntOrString",
    "meta.v1/Time",
    "meta.v1/MicroTime",
    "meta.v1/Duration",
    "meta.v1/FieldsV1",
    "meta.v1/Verbs",
    "pkg.runtime/RawExtension",
    "pkg.runtime/TypeMeta",
    "pkg.runtime/Unknown",
    "authentication.v1/ExtraValue",
    "authorization.v1/ExtraValue",
    "certificates.v1/ExtraValue",
    "apiextensions.v1/JSON",
    "apiextensions.v1/JSONSchemaPropsOrArray",
    "apiextensions.v1/JSONSchemaPropsOrBool",
    "apiextensions.v1/JSONSchemaPropsOrStringArray",
];

const HEAD: &str = "\
# Kubernetes protobuf messages. Written by `cargo xtask codegen protobuf` out of the generated.proto files and struct
# tags of the Go modules k8s.io/{apimachinery,api,apiextensions-apiserver,kube-aggregator} v0.34.0: do not edit.
# `= PACKAGE APIVERSION`, then a line for each message: NAME (`*` after it: a kind), then NUMBER:JSONNAME:TYPE.
# TYPE: s string, b bytes, t bool, i int32, l int64, d double, else a message as NAME or PACKAGE/NAME; before it
# `[` repeated, `{` map from strings; after it `?` zero differs from absent, `!` zero is shown, `z` empty is left out,
# `^` the fields stand in the parent's JSON object.
";

/// Makes the table's text.
pub(super) fn table() -> anyhow::Result<String> {
    let mut packages = BTreeMap::new();
    for module in MODULES {
        let root = go::module(module)?;
        for file in go::proto_files(&root)? {
            let text = std::fs::read_to_string(&file)?;
            let (package, messages) = go::read_proto(&text).with_context(|| file.display().to_string())?;
            if package.contains("testapigroup") {
                continue;
            }
            let folder = file.parent().context("a proto file stands in a folder")?;
            let (structs, group) = go::read_go(folder)?;
            packages.insert(short(&package), (package, messages, structs, group));
        }
    }
    let mut out = String::from(HEAD);
    for (alias, (package, messages, structs, group)) in &packages {
        if messages.is_empty() {
            continue;
        }
        let version = package.rsplit('.').next().unwrap_or_default();
        let api_version = match group.as_deref() {
            Some("") => version.to_owned(),
            Some(group) if version.starts_with('v') => format!("{group}/{version}"),
            _ => "-".to_owned(),
        };
        writeln!(out, "= {alias} {api_version}")?;
        for (name, message) in messages {
            let go = structs.get(name).map(|found| match &found.same_as {
                Some((package, target)) => {
                    let group = alias.split('.').next().unwrap_or_default();
                    let home = if package == "metav1" {
                        "meta.v1".to_owned()
                    } else {
                        format!("{group}.{package}")
                    };
                    packages
                        .get(&home)
                        .and_then(|(_, _, structs, _)| structs.get(target))
                        .unwrap_or(found)
                }
                None => found,
            });
            let line = line(alias, name, message, go);
            writeln!(out, "{}", line.with_context(|| format!("{package}.{name}"))?)?;
        }
    }
    Ok(out)
}

fn line(package: &str, name: &str, message: &go::Message, go: Option<&go::Struct>) -> anyhow::Result<String> {
    let mut out = name.to_owned();
    if go.is_some_and(|go| go.is_kind) {
        out.push('*');
    }
    let full = format!("{package}/{name}");
    // older versions of a group have the same special types
    let special = SPECIAL.contains(&full.as_str()) || SPECIAL.iter().any(|s| older(s, &full));
    let mut fields = message.fields.clone();
    fields.sort_by_key(|field| field.number);
    for field in fields {
        let tag = go.and_then(|go| go.tags.get(&field.number));
        let (json, flags) = match tag {
            _ if special => (field.name.clone(), String::new()),
            Some(tag) if tag.json.is_empty() => (String::new(), "^".to_owned()),
            Some(tag) if tag.json == "-" => bail!("field {} is not in JSON", field.name),
            Some(tag) => (tag.json.clone(), flags(tag)),
            None if matches!(name, "Timestamp") => (field.name.clone(), String::new()),
            None => bail!("field {} has no struct tag", field.name),
        };
        let prefix = match (field.repeated, field.map) {
            (true, _) => "[",
            (false, true) => "{",
            (false, false) => "",
        };
        write!(
            out,
            " {}:{json}:{prefix}{}{flags}",
            field.number,
            type_code(&field.kind)
        )?;
    }
    Ok(out)
}

fn older(special: &str, full: &str) -> bool {
    let group = |name: &str| name.split(['.', '/']).next().map(str::to_owned);
    let last = |name: &str| name.rsplit('/').next().map(str::to_owned);
    group(special) == group(full) && last(special) == last(full)
}

fn flags(tag: &go::Tag) -> String {
    let mut flags = String::new();
    if tag.pointer {
        flags.push('?');
    } else if !tag.omitempty && !tag.omitzero {
        flags.push('!');
    }
    if tag.omitzero {
        flags.push('z');
    }
    flags
}

fn type_code(kind: &str) -> String {
    match kind {
        "string" => "s".to_owned(),
        "bytes" => "b".to_owned(),
        "bool" => "t".to_owned(),
        "int32" => "i".to_owned(),
        "int64" => "l".to_owned(),
        "double" => "d".to_owned(),
        message => match message.strip_prefix('.').and_then(|full| full.rsplit_once('.')) {
            Some((package, name)) => format!("{}/{name}", short(package)),
            None => message.to_owned(),
        },
    }
}

/// The last two words of a package's name.
fn short(package: &str) -> String {
    let words: Vec<&str> = package.rsplit('.').take(2).collect();
    words.into_iter().rev().collect::<Vec<_>>().join(".")
}
