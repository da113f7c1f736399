//! The suite that every object source passes: run [`check`] from its tests.
//!
//! It panics on the first broken promise, as tests do.

mod objects;
mod watches;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Change, Draft, Error, Event, EventKind, Expect, Head, Key, ListRequest, Object, ObjectSource, Page,
    Resource, Revision, Watch, WatchRequest, Write,
};

/// What a source for one case must be like.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// How many events it keeps.
    pub window_events: usize,
}

/// Longer than any correct answer takes, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs every case, each against a new and empty source from `factory`.
///
/// # Panics
/// If the source breaks the contract.
pub async fn check<F, R>(factory: F)
where
    F: Fn(Setup) -> R,
    R: Future<Output = Arc<dyn ObjectSource>>,
{
    let wide = Setup {
        window_events: 10_000,
    };
    objects::writes_meet_their_expectations(&*factory(wide).await).await;
    objects::objects_carry_their_revision(&*factory(wide).await).await;
    objects::revisions_grow_by_every_change_and_by_nothing_else(&*factory(wide).await).await;
    objects::lists_are_ordered_filtered_and_scoped(&*factory(wide).await).await;
    objects::pages_read_at_the_first_pages_revision(&*factory(wide).await).await;
    watches::watches_tell_every_change_once_in_order(&*factory(wide).await).await;
    watches::watches_resume_from_any_revision(&*factory(wide).await).await;
    watches::watches_wake_up(factory(wide).await).await;
    watches::watches_see_quiet_resources_advance(&*factory(wide).await).await;
    objects::the_future_is_refused(&*factory(wide).await).await;
    watches::a_list_then_a_watch_misses_nothing(factory(wide).await).await;
    objects::concurrent_writers_agree(factory(wide).await).await;
    let narrow = Setup { window_events: 8 };
    watches::what_is_too_old_is_expired(&*factory(narrow).await).await;
}

/// A draft of an object with a name, a label `n` and some content.
pub fn draft(name: &str, label: &str, content: &str) -> Draft {
    let front = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":""#);
    let splice = front.len();
    let json = format!(r#"{front}","labels":{{"n":"{label}"}}}},"content":"{content}"}}"#);
    Draft {
        json: Bytes::from(json),
        splice,
        head: Head {
            uid: format!("uid-of-{name}").into(),
            labels: [("n".into(), label.into())].into(),
            ..Head::default()
        },
    }
}

fn pods() -> Resource {
    Resource::new("", "pods")
}

fn pod(namespace: &str, name: &str) -> Key {
    Key::new(&pods(), namespace, name)
}

async fn put(
    source: &dyn ObjectSource,
    key: &Key,
    expect: Expect,
    content: &str,
) -> Result<Arc<Object>, Error> {
    let write = Write {
        key: key.clone(),
        expect,
        change: Change::Put(draft(&key.name, content, content)),
    };
    source.write(write).await
}

async fn create(source: &dyn ObjectSource, key: &Key, content: &str) -> Arc<Object> {
    put(source, key, Expect::Absent, content)
        .await
        .expect("the key is free")
}

async fn update(source: &dyn ObjectSource, key: &Key, content: &str) -> Arc<Object> {
    put(source, key, Expect::Present, content)
        .await
        .expect("the object is there")
}

async fn delete(source: &dyn ObjectSource, key: &Key, expect: Expect) -> Result<Arc<Object>, Error> {
    let write = Write {
        key: key.clone(),
        expect,
        change: Change::Delete,
    };
    source.write(write).await
}

async fn get(source: &dyn ObjectSource, key: &Key) -> Option<Arc<Object>> {
    source.get(key).await.expect("a get does not fail")
}

/// A list of everything, to be narrowed.
fn everything(resource: &Resource) -> ListRequest<'_> {
    ListRequest {
        resource,
        namespace: None,
        filter: &|_| true,
        at: None,
        after: None,
        limit: 0,
    }
}

fn names(page: &Page) -> Vec<String> {
    let name = |object: &Arc<Object>| format!("{}/{}", object.key.namespace, object.key.name);
    page.objects.iter().map(name).collect()
}

async fn list(source: &dyn ObjectSource, request: ListRequest<'_>) -> Page {
    source.list(&request).await.expect("a list does not fail")
}

async fn watch(
    source: &dyn ObjectSource,
    namespace: Option<&str>,
    after: Revision,
) -> Result<Box<dyn Watch>, Error> {
    let resource = pods();
    let request = WatchRequest {
        resource: &resource,
        namespace,
        after,
    };
    source.watch(&request).await
}

async fn next(watch: &mut Box<dyn Watch>) -> Vec<Arc<Event>> {
    tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("the watch answers")
        .expect("the watch goes on")
}

/// The next `count` events.
async fn collect(watch: &mut Box<dyn Watch>, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        let more = next(watch).await;
        assert!(!more.is_empty(), "an answer holds at least one event");
        events.extend(more);
    }
    assert_eq!(events.len(), count, "no more events than changes");
    events
}

fn tell(event: &Event) -> String {
    let key = &event.object.key;
    format!(
        "{:?} {}/{} {}",
        event.kind,
        key.namespace,
        key.name,
        event.revision()
    )
}

/// The JSON must be the draft's with the revision's digits at `splice`.
fn assert_spliced(object: &Object, draft: &Draft) {
    let digits = object.revision.to_string();
    let mut expected = draft.json.to_vec();
    expected.splice(draft.splice..draft.splice, digits.bytes());
    assert_eq!(object.splice, draft.splice);
    assert_eq!(object.json, expected);
    assert_eq!(object.head.unpack(), draft.head);
}
