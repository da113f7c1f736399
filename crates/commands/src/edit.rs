//! `edit`: templates in a person's editor.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use machinery::meta;
use serde_json::Value;

use crate::resolve::Named;
use crate::{Error, Hub, Selection};

/// Opens each template in an editor, one after the other, and stores what comes out of it. `editor` is a shell command
/// that takes a file's name as its last word.
///
/// # Errors
/// [`Error`] if one is not there or is not taken; what was typed is kept, and the error names the file.
pub async fn edit(
    hub: &Hub,
    selection: &Selection,
    editor: &str,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    for object in Named::find(hub, &discovery, selection, out).await? {
        let title = object.title();
        let (resource, namespace, name) = (&object.resource, object.namespace.as_deref(), &object.name);
        let live = hub
            .client
            .get(resource, namespace, name)
            .await
            .map_err(Error::hub(format!("{title} cannot be read")))?;
        let Some(edited) = ask(editor, &live)? else {
            writeln!(out, "{title} unchanged")?;
            continue;
        };
        // It names the version that was read, so that nobody's change in the meantime is lost.
        let stored = hub
            .client
            .replace(resource, namespace, name, &edited.object)
            .await;
        if let Err(source) = stored {
            let doing = format!(
                "{title} cannot be stored; what you typed is in {}",
                edited.keep()?
            );
            return Err(Error::Hub { doing, source });
        }
        writeln!(out, "{title} edited")?;
    }
    Ok(())
}

/// What came out of an editor.
struct Edited {
    object: Value,
    file: tempfile::NamedTempFile,
}

impl Edited {
    fn keep(self) -> Result<String, Error> {
        let (_, path) = self.file.keep().map_err(|error| Error::Output(error.error))?;
        Ok(path.display().to_string())
    }
}

/// Lets a person edit an object; `None` if nothing was changed.
fn ask(editor: &str, live: &Value) -> Result<Option<Edited>, Error> {
    let mut shown = live.clone();
    meta::ensure_metadata(&mut shown).remove("managedFields");
    let before = codec::yaml::to_string(&shown);
    let mut file = tempfile::Builder::new()
        .prefix("tombolo-edit-")
        .suffix(".yaml")
        .tempfile()?;
    file.write_all(before.as_bytes())?;
    file.flush()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path());
    let status = command.stdin(Stdio::inherit()).status()?;
    match outcome(editor, status, file.path(), &before) {
        Ok(None) => Ok(None),
        Ok(Some(object)) => Ok(Some(Edited { object, file })),
        Err(error) => {
            let typed = std::fs::read_to_string(file.path());
            if typed.is_ok_and(|text| text == before) {
                return Err(error);
            }
            let (_, path) = file.keep().map_err(|error| Error::Output(error.error))?;
            let what = format!("{error}; what you typed is in {}", path.display());
            Err(Error::Missing(what))
        }
    }
}

/// What an editor left behind.
fn outcome(
    editor: &str,
    status: std::process::ExitStatus,
    file: &Path,
    before: &str,
) -> Result<Option<Value>, Error> {
    if !status.success() {
        return Err(Error::Missing(format!(
            "the editor {editor:?} failed ({status}); nothing is stored"
        )));
    }
    let after = std::fs::read_to_string(file).map_err(|source| Error::Read {
        path: file.to_owned(),
        source,
    })?;
    if after == before || after.trim().is_empty() {
        return Ok(None);
    }
    let mut objects = crate::objects::parse(&file.display().to_string(), &after)?;
    match objects.len() {
        1 => Ok(Some(objects.remove(0))),
        several => Err(Error::Missing(format!(
            "one object was asked for, {several} came"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_editor_changes_what_it_is_shown() {
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": []},
            "data": {"colour": "red"}});
        let blue = ask("sed -i s/red/blue/", &live)
            .expect("an editor")
            .expect("a change");
        assert_eq!(
            blue.object,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"colour": "blue"}})
        );
        assert!(ask("true", &live).expect("an editor").is_none());
        assert!(ask("truncate -s 0", &live).expect("an editor").is_none());
        let complaint = ask("false", &live).err().expect("the editor failed").to_string();
        assert!(!complaint.contains("what you typed"), "{complaint}");
    }

    #[test]
    fn what_was_typed_is_kept() {
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        for editor in [
            "f() { echo '# mine' >> \"$1\"; false; }; f",
            "f() { echo '--- # mine\n{kind: Other}' >> \"$1\"; }; f",
            "f() { echo '{ # mine' >> \"$1\"; }; f",
        ] {
            let complaint = ask(editor, &live).err().expect("it cannot be stored").to_string();
            let (_, path) = complaint.rsplit_once("what you typed is in ").expect(&complaint);
            let kept = std::fs::read_to_string(path).expect("the file is there");
            assert!(kept.contains("# mine"), "{kept}");
            std::fs::remove_file(path).expect("it was ours");
        }
    }
}
