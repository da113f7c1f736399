//! Reads what the tables need out of Go modules: `generated.proto` files, struct tags and group names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// One message of a `generated.proto`.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Its fields in the order of the file.
    pub(super) fields: Vec<ProtoField>,
}

/// One field of a message.
#[derive(Debug, Clone)]
pub(super) struct ProtoField {
    /// The field's number.
    pub(super) number: u32,
    /// Its name in the proto file.
    pub(super) name: String,
    /// Scalar name, message of the same package, or `.full.name`.
    pub(super) kind: String,
    /// Whether it may stand many times.
    pub(super) repeated: bool,
    /// Whether it is a map from strings to `kind`.
    pub(super) map: bool,
}

/// What a Go struct's tag says about one field.
#[derive(Debug, Clone)]
pub(super) struct Tag {
    /// The name in JSON; empty for an inlined struct.
    pub(super) json: String,
    /// A pointer: its zero value differs from its absence.
    pub(super) pointer: bool,
    /// Left out of JSON when empty.
    pub(super) omitempty: bool,
    /// Left out of JSON when zero, structs too.
    pub(super) omitzero: bool,
}

/// A Go struct: its tagged fields by protobuf number, and whether it is a kind of its own.
#[derive(Debug, Default)]
pub(super) struct Struct {
    /// Tags by protobuf field number.
    pub(super) tags: BTreeMap<u32, Tag>,
    /// Whether it embeds `TypeMeta`.
    pub(super) is_kind: bool,
    /// The struct it is another name of: package as imported, name.
    pub(super) same_as: Option<(String, String)>,
}

/// The folder of a module's source in the module cache, downloaded if it is not there.
pub(super) fn module(name_at_version: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", name_at_version])
        .current_dir(std::env::temp_dir())
        .output()
        .context("running go mod download: is Go installed?")?;
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("go mod download's answer")?;
    match answer["Dir"].as_str() {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => bail!("go mod download {name_at_version}: {}", answer["Error"]),
    }
}

/// Every `generated.proto` under a folder.
pub(super) fn proto_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.file_name().is_some_and(|name| name == "generated.proto") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A proto file's package and messages.
pub(super) fn read_proto(text: &str) -> anyhow::Result<(String, BTreeMap<String, Message>)> {
    let mut package = String::new();
    let mut messages = BTreeMap::new();
    let mut current: Option<(String, Message)> = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix("package ") {
            name.trim_end_matches(';').clone_into(&mut package);
        } else if let Some(name) = line.strip_prefix("message ") {
            current = Some((name.trim_end_matches('{').trim().to_owned(), Message::default()));
        } else if line == "}" {
            messages.extend(current.take());
        } else if let (Some((_, message)), true) = (&mut current, line.ends_with(';')) {
            message
                .fields
                .push(proto_field(line).with_context(|| format!("field {line:?}"))?);
        }
    }
    Ok((package, messages))
}

fn proto_field(line: &str) -> Option<ProtoField> {
    let (left, number) = line.trim_end_matches(';').split_once(" = ")?;
    let number = number.trim().parse().ok()?;
    let (map, left) = match left.strip_prefix("map<string, ") {
        Some(rest) => (true, rest.replacen('>', "", 1)),
        None => (false, left.to_owned()),
    };
    let words: Vec<&str> = left.split_whitespace().collect();
    let (repeated, kind, name) = match words[..] {
        ["repeated", kind, name] => (true, kind, name),
        ["optional" | "required", kind, name] => (false, kind, name),
        [kind, name] if map => (false, kind, name),
        _ => return None,
    };
    Some(ProtoField {
        number,
        name: name.to_owned(),
        kind: kind.to_owned(),
        repeated,
        map,
    })
}

/// The structs of a Go package and the API group it registers, if it says one.
pub(super) fn read_go(folder: &Path) -> anyhow::Result<(BTreeMap<String, Struct>, Option<String>)> {
    let mut structs = BTreeMap::new();
    let mut group = None;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let skipped = name.starts_with("zz_") || name.starts_with("generated.") || name.ends_with("_test.go");
        if skipped || !name.ends_with(".go") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        read_structs(&text, &mut structs);
        for line in text.lines() {
            let line = line.trim().trim_start_matches("const ");
            let value = line
                .strip_prefix("GroupName")
                .map(|rest| rest.trim_start_matches([' ', '=']));
            let name = value
                .and_then(|value| value.strip_prefix('"'))
                .and_then(|rest| rest.split('"').next());
            if let Some(name) = name {
                group = Some(name.to_owned());
            }
        }
    }
    Ok((structs, group))
}

fn read_structs(text: &str, structs: &mut BTreeMap<String, Struct>) {
    let mut current: Option<(String, Struct)> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("type ").filter(|_| line.ends_with("struct {")) {
            let name = rest.split_whitespace().next().unwrap_or_default();
            current = Some((name.to_owned(), Struct::default()));
        } else if let Some((name, same_as)) = renamed(line).filter(|_| current.is_none()) {
            structs.insert(
                name,
                Struct {
                    same_as: Some(same_as),
                    ..Struct::default()
                },
            );
        } else if line == "}" {
            structs.extend(current.take());
        } else if let (Some((_, found)), false) = (&mut current, line.starts_with("//")) {
            read_field(line, found);
        }
    }
}

/// `type NAME PACKAGE.NAME` or `type NAME = PACKAGE.NAME`.
fn renamed(line: &str) -> Option<(String, (String, String))> {
    let words: Vec<&str> = line
        .strip_prefix("type ")?
        .split_whitespace()
        .filter(|word| *word != "=")
        .collect();
    let [name, target] = words[..] else { return None };
    let (package, target) = target.split_once('.')?;
    Some((name.to_owned(), (package.to_owned(), target.to_owned())))
}

fn read_field(line: &str, found: &mut Struct) {
    let Some((declared, tags)) = line.split_once('`') else {
        return;
    };
    let value = |name: &str| {
        let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
        tags[start..].split('"').next()
    };
    let json = value("json").unwrap_or_default();
    let words: Vec<&str> = declared.split_whitespace().collect();
    let go_type = words.last().copied().unwrap_or_default();
    let Some(protobuf) = value("protobuf") else {
        found.is_kind |= go_type.ends_with("TypeMeta");
        return;
    };
    let Some(number) = protobuf.split(',').nth(1).and_then(|number| number.parse().ok()) else {
        return;
    };
    let mut parts = json.split(',');
    let json_name = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.collect();
    found.tags.insert(
        number,
        Tag {
            json: json_name.to_owned(),
            pointer: go_type.starts_with('*'),
            omitempty: options.contains(&"omitempty"),
            omitzero: options.contains(&"omitzero"),
        },
    );
}
