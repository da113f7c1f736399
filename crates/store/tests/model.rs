//! Random operations against a naive model that remembers every state there ever was.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::disk::SimDisk;
use common::small;
use proptest::prelude::*;
use source::conformance::draft;
use source::{
    Change, Error, Event, EventKind, Expect, Key, ListRequest, Object, ObjectSource, Resource, Revision,
    WatchRequest, Write,
};
use store::{Mode, Options, Store};

const WINDOW: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    Write {
        resource: usize,
        namespace: usize,
        name: usize,
        expect: usize,
        delete: bool,
        length: usize,
    },
    /// The machine ends and starts again.
    Crash,
    /// The store is closed and opened.
    Reopen,
    /// A list, paged by `limit`, as of `back` revisions ago.
    List {
        resource: usize,
        namespace: Option<usize>,
        back: u64,
        limit: usize,
        odd: bool,
    },
    /// A watch from `back` revisions ago.
    Watch {
        resource: usize,
        namespace: Option<usize>,
        back: u64,
    },
}

const RESOURCES: [&str; 3] = ["pods", "nodes", "apps/deployments"];
const NAMESPACES: [&str; 3] = ["", "a", "a-b"];

type State = BTreeMap<Key, Entry>;

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    revision: Revision,
    content: String,
}

/// Every state there ever was, by revision.
#[derive(Debug)]
struct Model {
    states: BTreeMap<Revision, State>,
    /// What changed at each revision.
    changes: Vec<(Revision, EventKind, Key)>,
}

impl Model {
    fn new() -> Self {
        Self {
            states: BTreeMap::from([(Revision(1), State::new())]),
            changes: Vec::new(),
        }
    }

    fn newest(&self) -> (Revision, &State) {
        let (revision, state) = self.states.last_key_value().expect("there is a first state");
        (*revision, state)
    }

    fn at(&self, revision: Revision) -> &State {
        let (_, state) = self
            .states
            .range(..=revision)
            .next_back()
            .expect("there is a first state");
        state
    }

    fn write(
        &mut self,
        key: &Key,
        expect: Expect,
        content: Option<String>,
    ) -> Result<Revision, &'static str> {
        let (revision, state) = self.newest();
        let found = state.get(key);
        match (expect, found) {
            (Expect::Absent, Some(_)) => return Err("AlreadyExists"),
            (Expect::Present | Expect::Revision(_), None) => return Err("NotFound"),
            (Expect::Revision(wanted), Some(found)) if found.revision != wanted => return Err("Conflict"),
            (Expect::Absent | Expect::Present | Expect::Any | Expect::Revision(_), _) => {}
        }
        let next = Revision(revision.0 + 1);
        let mut state = state.clone();
        let kind = match (content, found.is_some()) {
            (None, false) => return Err("NotFound"),
            (None, true) => {
                state.remove(key);
                EventKind::Deleted
            }
            (Some(content), exists) => {
                let entry = Entry {
                    revision: next,
                    content,
                };
                state.insert(key.clone(), entry);
                if exists {
                    EventKind::Modified
                } else {
                    EventKind::Added
                }
            }
        };
        self.states.insert(next, state);
        self.changes.push((next, kind, key.clone()));
        Ok(next)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let write = (
        0..3_usize,
        0..3_usize,
        0..4_usize,
        0..5_usize,
        any::<bool>(),
        0..300_usize,
    )
        .prop_map(
            |(resource, namespace, name, expect, delete, length)| Step::Write {
                resource,
                namespace,
                name,
                expect,
                delete,
                length,
            },
        );
    let namespace = || proptest::option::of(0..3_usize);
    let list = (0..3_usize, namespace(), 0..20_u64, 0..4_usize, any::<bool>()).prop_map(
        |(resource, namespace, back, limit, odd)| Step::List {
            resource,
            namespace,
            back,
            limit,
            odd,
        },
    );
    let watch = (0..3_usize, namespace(), 0..20_u64).prop_map(|(resource, namespace, back)| Step::Watch {
        resource,
        namespace,
        back,
    });
    prop_oneof![
        20 => write,
        1 => Just(Step::Crash),
        1 => Just(Step::Reopen),
        4 => list,
        4 => watch,
    ]
}

struct Run {
    disk: SimDisk,
    store: Arc<Store>,
    model: Model,
}

fn open(disk: &SimDisk) -> Arc<Store> {
    let options = Options {
        window_events: WINDOW,
        ..small()
    };
    common::open(disk, options, Mode::Inline).unwrap()
}

fn describe(error: &Error) -> &'static str {
    match error {
        Error::AlreadyExists(_) => "AlreadyExists",
        Error::NotFound(_) => "NotFound",
        Error::Conflict { .. } => "Conflict",
        Error::Expired { .. } => "Expired",
        Error::Future { .. } => "Future",
        Error::Full => "Full",
        Error::TooLarge { .. } => "TooLarge",
        Error::Closed(_) => "Closed",
    }
}

fn entry(object: &Object) -> (Key, Entry) {
    let json = std::str::from_utf8(&object.json).unwrap();
    let digits = object.revision.to_string();
    assert!(json[object.splice..].starts_with(&format!("{digits}\"")));
    let content = json
        .split_once(r#""content":""#)
        .unwrap()
        .1
        .trim_end_matches("\"}");
    let entry = Entry {
        revision: object.revision,
        content: content.to_owned(),
    };
    (object.key.clone(), entry)
}

impl Run {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Write {
                resource,
                namespace,
                name,
                expect,
                delete,
                length,
            } => {
                let resource = Resource::from(RESOURCES[*resource]);
                let key = Key::new(&resource, NAMESPACES[*namespace], &format!("x{name}"));
                self.write(&key, *expect, *delete, *length).await;
            }
            Step::Crash => {
                self.disk.restart();
                self.store = open(&self.disk);
            }
            Step::Reopen => {
                self.store.close().await;
                self.disk.kill();
                self.store = open(&self.disk);
            }
            Step::List {
                resource,
                namespace,
                back,
                limit,
                odd,
            } => {
                let resource = Resource::from(RESOURCES[*resource]);
                let namespace = namespace.map(|index| NAMESPACES[index]);
                self.list(&resource, namespace, *back, *limit, *odd).await;
            }
            Step::Watch {
                resource,
                namespace,
                back,
            } => {
                let resource = Resource::from(RESOURCES[*resource]);
                let namespace = namespace.map(|index| NAMESPACES[index]);
                self.watch(&resource, namespace, *back).await;
            }
        }
        assert_eq!(self.store.revision(), self.model.newest().0);
    }

    async fn write(&mut self, key: &Key, expect: usize, delete: bool, length: usize) {
        let found = self.model.newest().1.get(key).map(|entry| entry.revision);
        let expect = match expect {
            0 => Expect::Absent,
            1 => Expect::Present,
            2 => Expect::Revision(found.unwrap_or(Revision(3))),
            3 => Expect::Revision(Revision(self.model.newest().0.0 / 2)),
            _ => Expect::Any,
        };
        let content = "x".repeat(length);
        let write = Write {
            key: key.clone(),
            expect,
            change: if delete {
                Change::Delete
            } else {
                Change::Put(draft(&key.name, "l", &content))
            },
        };
        let found = self.store.write(write).await;
        let expected = self.model.write(key, expect, (!delete).then_some(content));
        match (found, expected) {
            (Ok(object), Ok(revision)) => assert_eq!(object.revision, revision),
            (Err(error), Err(expected)) => assert_eq!(describe(&error), expected),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
        let (key, now) = (key, self.model.newest().1.get(key));
        let found = self.store.get(key).await.unwrap();
        assert_eq!(found.as_deref().map(|object| entry(object).1).as_ref(), now);
    }

    /// The oldest revision that must be known: the window's, unless a restart has forgotten it.
    fn oldest_surely_known(&self) -> Revision {
        self.store.oldest()
    }

    async fn list(&self, resource: &Resource, namespace: Option<&str>, back: u64, limit: usize, odd: bool) {
        let newest = self.model.newest().0;
        let at = Revision(newest.0.saturating_sub(back).max(1));
        let filter = |object: &Object| !odd || object.revision.0 % 2 == 1;
        let mut found: Vec<(Key, Entry)> = Vec::new();
        loop {
            let after = found
                .last()
                .map(|(key, _)| (key.namespace.clone(), key.name.clone()));
            let request = ListRequest {
                resource,
                namespace,
                filter: &filter,
                at: Some(at),
                after: after
                    .as_ref()
                    .map(|(namespace, name)| (namespace.as_str(), name.as_str())),
                limit,
            };
            let page = match self.store.list(&request).await {
                Ok(page) => page,
                Err(error) => {
                    assert_eq!(describe(&error), "Expired");
                    assert!(at < self.oldest_surely_known());
                    return;
                }
            };
            assert_eq!(page.revision, at);
            assert!(limit == 0 || page.objects.len() <= limit);
            found.extend(page.objects.iter().map(|object| entry(object)));
            if !page.more {
                assert_eq!(page.remaining, Some(0));
                break;
            }
        }
        let expected: Vec<(Key, Entry)> = self
            .model
            .at(at)
            .iter()
            .filter(|(key, _)| key.resource == *resource)
            .filter(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace))
            .filter(|(_, entry)| !odd || entry.revision.0 % 2 == 1)
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        assert_eq!(found, expected, "at {at}");
    }

    async fn watch(&self, resource: &Resource, namespace: Option<&str>, back: u64) {
        let newest = self.model.newest().0;
        let after = Revision(newest.0.saturating_sub(back).max(1));
        let request = WatchRequest {
            resource,
            namespace,
            after,
        };
        let mut watch = match self.store.watch(&request).await {
            Ok(watch) => watch,
            Err(error) => {
                assert_eq!(describe(&error), "Expired");
                assert!(after < self.oldest_surely_known());
                return;
            }
        };
        let expected: Vec<_> = self
            .model
            .changes
            .iter()
            .filter(|(revision, _, key)| *revision > after && key.resource == *resource)
            .filter(|(_, _, key)| namespace.is_none_or(|namespace| key.namespace == namespace))
            .collect();
        let mut events: Vec<Arc<Event>> = Vec::new();
        while events.len() < expected.len() {
            events.extend(watch.next().await.unwrap());
        }
        assert_eq!(events.len(), expected.len());
        for (event, (revision, kind, key)) in events.iter().zip(expected) {
            assert_eq!((event.revision(), event.kind), (*revision, *kind));
            assert_eq!(event.object.key, *key);
            let before = self.model.at(Revision(revision.0 - 1)).get(key);
            let previous = event.previous.as_deref().map(|object| entry(object).1);
            assert_eq!(previous.as_ref(), before);
            if let Some(now) = self.model.at(*revision).get(key) {
                assert_eq!(entry(&event.object).1, *now);
            }
        }
        if namespace.is_none() {
            assert_eq!(watch.seen(), newest);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(seed: u64, steps in proptest::collection::vec(step(), 1..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let disk = SimDisk::new(seed);
            let store = open(&disk);
            let mut run = Run { disk, store, model: Model::new() };
            for step in &steps {
                run.step(step).await;
            }
        });
    }
}
