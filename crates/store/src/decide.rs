//! What one write does to one object: the pure rule.

use std::sync::Arc;

use source::{Change, Error, Event, EventKind, Expect, Forms, Key, Object, Revision, Write};

/// The change that a write makes at a revision, given the newest version of its object.
pub(crate) fn decide(
    write: Write,
    previous: Option<Arc<Object>>,
    revision: Revision,
) -> Result<Event, Error> {
    let Write { key, expect, change } = write;
    check(&key, expect, previous.as_deref())?;
    let (kind, object) = match (change, &previous) {
        (Change::Put(draft), _) => {
            let object = Object::new(key, revision, &draft);
            let kind = match previous {
                Some(_) => EventKind::Modified,
                None => EventKind::Added,
            };
            (kind, object)
        }
        (Change::Delete, Some(last)) => (EventKind::Deleted, last.at(revision)),
        (Change::Delete, None) => return Err(Error::NotFound(key)),
    };
    Ok(Event {
        kind,
        object: Arc::new(object),
        previous,
        forms: Forms::default(),
    })
}

fn check(key: &Key, expect: Expect, previous: Option<&Object>) -> Result<(), Error> {
    match (expect, previous) {
        (Expect::Any, _) | (Expect::Absent, None) | (Expect::Present, Some(_)) => Ok(()),
        (Expect::Absent, Some(_)) => Err(Error::AlreadyExists(key.clone())),
        (Expect::Present | Expect::Revision(_), None) => Err(Error::NotFound(key.clone())),
        (Expect::Revision(revision), Some(found)) if found.revision == revision => Ok(()),
        (Expect::Revision(_), Some(found)) => Err(Error::Conflict {
            key: key.clone(),
            found: found.revision,
        }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use source::{Draft, Head, Resource};

    use super::*;

    fn key() -> Key {
        Key::new(&Resource::new("", "pods"), "default", "web")
    }

    fn put() -> Change {
        Change::Put(Draft {
            json: Bytes::from_static(br#"{"resourceVersion":""}"#),
            splice: 20,
            head: Head::default(),
        })
    }

    fn at(revision: u64) -> Option<Arc<Object>> {
        let write = Write {
            key: key(),
            expect: Expect::Any,
            change: put(),
        };
        decide(write, None, Revision(revision))
            .ok()
            .map(|event| event.object)
    }

    /// Decides at revision 10 and says what came out.
    fn check(expect: Expect, change: Change, previous: Option<Arc<Object>>) -> String {
        let write = Write {
            key: key(),
            expect,
            change,
        };
        match decide(write, previous, Revision(10)) {
            Ok(event) => {
                let json = std::str::from_utf8(&event.object.json).unwrap().to_owned();
                format!("{:?} {json}", event.kind)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_expectation_against_every_state() {
        let added = r#"Added {"resourceVersion":"10"}"#;
        let modified = r#"Modified {"resourceVersion":"10"}"#;
        let deleted = r#"Deleted {"resourceVersion":"10"}"#;
        let missing = r#"pods "default/web" not found"#;
        let taken = r#"pods "default/web" already exists"#;
        let conflict = r#"pods "default/web" was changed: it is at revision 9"#;
        let nine = Expect::Revision(Revision(9));
        let eight = Expect::Revision(Revision(8));
        for (expect, absent, present) in [
            (Expect::Any, added, modified),
            (Expect::Absent, added, taken),
            (Expect::Present, missing, modified),
            (nine, missing, modified),
            (eight, missing, conflict),
        ] {
            assert_eq!(check(expect, put(), None), absent, "put {expect:?} without");
            assert_eq!(check(expect, put(), at(9)), present, "put {expect:?} with");
        }
        for (expect, absent, present) in [
            (Expect::Any, missing, deleted),
            (Expect::Absent, missing, taken),
            (Expect::Present, missing, deleted),
            (nine, missing, deleted),
            (eight, missing, conflict),
        ] {
            assert_eq!(
                check(expect, Change::Delete, None),
                absent,
                "delete {expect:?} without"
            );
            assert_eq!(
                check(expect, Change::Delete, at(9)),
                present,
                "delete {expect:?} with"
            );
        }
    }
}
