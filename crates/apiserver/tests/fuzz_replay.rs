//! The fuzz bodies over their committed corpora, whole and mutated.

use std::collections::BTreeSet;

use testkit::replay;

const ROUNDS: usize = 1_000;

#[test]
fn requests() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/request"),
        ROUNDS,
        apiserver::fuzz::fuzz_request,
    );
}

#[test]
fn bodies() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/body"),
        ROUNDS,
        apiserver::fuzz::fuzz_body,
    );
}

#[test]
fn accept_headers() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/accept"),
        ROUNDS,
        apiserver::fuzz::fuzz_accept,
    );
}

#[test]
fn impersonation() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/impersonation"),
        ROUNDS,
        apiserver::fuzz::fuzz_impersonation,
    );
}

#[test]
fn options() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/options"),
        ROUNDS,
        apiserver::fuzz::fuzz_options,
    );
}

#[test]
fn trust() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/trust"),
        ROUNDS,
        apiserver::fuzz::fuzz_trust,
    );
}

const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/object");

#[test]
fn objects() {
    replay(OBJECTS, 400, apiserver::fuzz::fuzz_object);
}

/// Whatever the type of what an object's rules look at.
#[test]
fn any_place_of_an_object_may_hold_anything() {
    for entry in std::fs::read_dir(OBJECTS).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let object = text.split("---\n").next().unwrap();
        let pointers = object.lines().filter_map(|line| line.split(' ').next());
        let places: BTreeSet<&str> = pointers
            .flat_map(|pointer| {
                pointer
                    .match_indices('/')
                    .map(|(end, _)| &pointer[..end])
                    .chain([pointer])
            })
            .filter(|pointer| !pointer.is_empty())
            .collect();
        for place in places {
            // As the object, and as its edit.
            for (marker, odd) in [("", "x"), ("", "[[]]"), ("---\n", "x")] {
                apiserver::fuzz::fuzz_object(format!("{object}{marker}{place} {odd}\n").as_bytes());
            }
        }
    }
}
