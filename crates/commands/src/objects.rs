//! Objects from files, folders and standard input.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Error, KubectlWords};

/// Where objects come from (`-f`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Standard input (`-`).
    Input,
    /// A file, or a folder whose `.yaml`, `.yml` and `.json` files are meant.
    Path(PathBuf),
    /// What kubectl makes of `create` and these words, such as `deployment web --image nginx`.
    Generated {
        /// kubectl, as it is started.
        kubectl: String,
        /// The words.
        words: KubectlWords,
    },
}

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        if text == "-" {
            Self::Input
        } else {
            Self::Path(text.into())
        }
    }
}

/// Reads all objects, in order; `List` objects are taken apart.
///
/// # Errors
/// [`Error::Read`] and [`Error::Parse`], naming the file.
pub fn read(sources: &[Source]) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for source in sources {
        match source {
            Source::Generated { kubectl, words } => {
                let text = crate::member::generate(kubectl, words)?;
                objects.extend(parse("kubectl's answer", &String::from_utf8_lossy(&text))?);
            }
            Source::Input => {
                let mut text = String::new();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .map_err(|source| Error::Read {
                        path: "standard input".into(),
                        source,
                    })?;
                objects.extend(parse("standard input", &text)?);
            }
            Source::Path(path) => {
                for file in files(path)? {
                    let text = std::fs::read_to_string(&file).map_err(|source| Error::Read {
                        path: file.clone(),
                        source,
                    })?;
                    objects.extend(parse(&file.display().to_string(), &text)?);
                }
            }
        }
    }
    Ok(objects)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let is_manifest = file
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json");
        if is_manifest && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The objects of a text with any number of documents.
pub(crate) fn parse(path: &str, text: &str) -> Result<Vec<Value>, Error> {
    let failed = |problem: String| Error::Parse {
        path: path.to_owned(),
        problem,
    };
    let documents = codec::yaml::parse(text).map_err(|error| failed(error.to_string()))?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        if document.is_null() {
            continue;
        }
        let is_list = document["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        let items = if is_list {
            document["items"].as_array().cloned()
        } else {
            None
        };
        for object in items.unwrap_or_else(|| vec![document]) {
            for field in ["apiVersion", "kind"] {
                if object[field].as_str().is_none_or(str::is_empty) {
                    return Err(failed(format!("document {} has no {field}", index + 1)));
                }
            }
            objects.push(object);
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_documents_and_lists_apart() {
        let text = "apiVersion: v1\nkind: A\n---\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n";
        let kinds: Vec<String> = parse("x", text)
            .expect("it parses")
            .iter()
            .map(|object| object["kind"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds, ["A", "B"]);
    }

    #[test]
    fn names_the_file_and_the_document_without_a_kind() {
        let error = parse("web.yaml", "apiVersion: v1\nkind: A\n---\na: 1\n").expect_err("no kind");
        assert_eq!(error.to_string(), "web.yaml: document 2 has no apiVersion");
    }
}
