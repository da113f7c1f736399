//! The suite that every object source passes: run [`check`] from its tests.
//!
//! It panics on the first broken promise, as tests do.

use std::collections::BTreeMap;
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
    writes_meet_their_expectations(&*factory(wide).await).await;
    objects_carry_their_revision(&*factory(wide).await).await;
    revisions_grow_by_every_change_and_by_nothing_else(&*factory(wide).await).await;
    lists_are_ordered_filtered_and_scoped(&*factory(wide).await).await;
    pages_read_at_the_first_pages_revision(&*factory(wide).await).await;
    watches_tell_every_change_once_in_order(&*factory(wide).await).await;
    watches_resume_from_any_revision(&*factory(wide).await).await;
    watches_wake_up(factory(wide).await).await;
    watches_see_quiet_resources_advance(&*factory(wide).await).await;
    the_future_is_refused(&*factory(wide).await).await;
    a_list_then_a_watch_misses_nothing(factory(wide).await).await;
    concurrent_writers_agree(factory(wide).await).await;
    let narrow = Setup { window_events: 8 };
    what_is_too_old_is_expired(&*factory(narrow).await).await;
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

async fn writes_meet_their_expectations(source: &dyn ObjectSource) {
    let key = pod("a", "x");
    let missing =
        |result: Result<Arc<Object>, Error>| matches!(result, Err(Error::NotFound(found)) if found == key);
    assert!(missing(put(source, &key, Expect::Present, "1").await));
    assert!(missing(
        put(source, &key, Expect::Revision(Revision(1)), "1").await
    ));
    assert!(missing(delete(source, &key, Expect::Any).await));
    assert!(get(source, &key).await.is_none());
    let first = create(source, &key, "1").await;
    let again = put(source, &key, Expect::Absent, "2").await;
    assert!(matches!(again, Err(Error::AlreadyExists(found)) if found == key));
    let second = put(source, &key, Expect::Revision(first.revision), "2")
        .await
        .expect("it is at this revision");
    for result in [
        put(source, &key, Expect::Revision(first.revision), "3").await,
        delete(source, &key, Expect::Revision(first.revision)).await,
    ] {
        assert!(matches!(result, Err(Error::Conflict { found, .. }) if found == second.revision));
    }
    let third = put(source, &key, Expect::Any, "3").await.expect("anything goes");
    let newest = get(source, &key).await.expect("it is there");
    assert_eq!(newest.revision, third.revision);
    assert_eq!(newest.json, third.json);
    delete(source, &key, Expect::Revision(third.revision))
        .await
        .expect("it is at this revision");
    assert!(get(source, &key).await.is_none());
    assert!(missing(delete(source, &key, Expect::Present).await));
}

/// The JSON must be the draft's with the revision's digits at `splice`.
fn assert_spliced(object: &Object, draft: &Draft) {
    let digits = object.revision.to_string();
    let mut expected = draft.json.to_vec();
    expected.splice(draft.splice..draft.splice, digits.bytes());
    assert_eq!(object.splice, draft.splice);
    assert_eq!(object.json, expected);
    assert_eq!(object.head, draft.head);
}

async fn objects_carry_their_revision(source: &dyn ObjectSource) {
    // Enough writes to make the number of digits grow.
    for index in 0..120 {
        let key = pod("a", &format!("x{index}"));
        let object = create(source, &key, "c").await;
        assert_spliced(&object, &draft(&key.name, "c", "c"));
        assert_eq!(object.key, key);
        let read = get(source, &key).await.expect("it is there");
        assert_spliced(&read, &draft(&key.name, "c", "c"));
        let gone = delete(source, &key, Expect::Present).await.expect("it is there");
        assert!(gone.revision > object.revision, "a removal has its own revision");
        assert_spliced(&gone, &draft(&key.name, "c", "c"));
    }
}

async fn revisions_grow_by_every_change_and_by_nothing_else(source: &dyn ObjectSource) {
    let start = source.revision();
    assert!(start > Revision(0), "0 means \"any\" to clients");
    let key = pod("a", "x");
    let created = create(source, &key, "1").await.revision;
    assert!(created > start);
    assert_eq!(source.revision(), created);
    put(source, &key, Expect::Absent, "2")
        .await
        .expect_err("it is taken");
    assert_eq!(source.revision(), created, "a refusal changes nothing");
    let other = Key::new(&Resource::new("apps", "deployments"), "a", "x");
    let elsewhere = create(source, &other, "1").await.revision;
    assert!(elsewhere > created, "all resources share one counter");
    let gone = delete(source, &key, Expect::Any)
        .await
        .expect("it is there")
        .revision;
    assert!(gone > elsewhere);
    assert_eq!(list(source, everything(&pods())).await.revision, gone);
}

async fn lists_are_ordered_filtered_and_scoped(source: &dyn ObjectSource) {
    let resource = pods();
    assert_eq!(names(&list(source, everything(&resource)).await), [""; 0]);
    for (namespace, name, content) in [
        ("b", "y", "1"),
        ("a", "z", "2"),
        ("b", "x", "2"),
        ("a-b", "w", "1"),
        ("", "v", "2"),
    ] {
        create(source, &pod(namespace, name), content).await;
    }
    create(source, &Key::new(&Resource::new("", "nodes"), "", "n"), "1").await;
    let all = list(source, everything(&resource)).await;
    assert_eq!(names(&all), ["/v", "a/z", "a-b/w", "b/x", "b/y"]);
    assert!(!all.more);
    let scoped = ListRequest {
        namespace: Some("b"),
        ..everything(&resource)
    };
    assert_eq!(names(&list(source, scoped).await), ["b/x", "b/y"]);
    let nowhere = ListRequest {
        namespace: Some("c"),
        ..everything(&resource)
    };
    assert_eq!(names(&list(source, nowhere).await), [""; 0]);
    let filter = |object: &Object| object.head.label("n") == Some("2");
    let limited = ListRequest {
        filter: &filter,
        limit: 2,
        ..everything(&resource)
    };
    let first = list(source, limited).await;
    assert_eq!(
        names(&first),
        ["/v", "a/z"],
        "what is filtered out does not count"
    );
    assert!(first.more);
    let rest = ListRequest {
        filter: &filter,
        limit: 1,
        after: Some(("a", "z")),
        ..everything(&resource)
    };
    let rest = list(source, rest).await;
    assert_eq!(names(&rest), ["b/x"]);
    assert!(!rest.more, "only what the filter lets through is left");
}

async fn pages_read_at_the_first_pages_revision(source: &dyn ObjectSource) {
    let resource = pods();
    for index in 0..10 {
        create(source, &pod("a", &format!("x{index}")), "old").await;
    }
    let first = ListRequest {
        limit: 3,
        ..everything(&resource)
    };
    let first = list(source, first).await;
    assert_eq!(names(&first), ["a/x0", "a/x1", "a/x2"]);
    assert!(first.more);
    assert!(first.remaining.is_none_or(|remaining| remaining == 7));
    // Changed, removed, removed and made again, new: none of it is part of that revision.
    update(source, &pod("a", "x4"), "new").await;
    delete(source, &pod("a", "x5"), Expect::Any)
        .await
        .expect("it is there");
    delete(source, &pod("a", "x6"), Expect::Any)
        .await
        .expect("it is there");
    create(source, &pod("a", "x6"), "new").await;
    create(source, &pod("a", "x55"), "new").await;
    update(source, &pod("a", "x4"), "newer").await;
    let mut found = names(&first);
    let mut after = ("a".to_owned(), "x2".to_owned());
    loop {
        let request = ListRequest {
            at: Some(first.revision),
            after: Some((&after.0, &after.1)),
            limit: 3,
            ..everything(&resource)
        };
        let page = list(source, request).await;
        assert_eq!(page.revision, first.revision);
        for object in &page.objects {
            assert!(object.revision <= first.revision);
            assert_eq!(object.head.label("n"), Some("old"));
        }
        found.extend(names(&page));
        if !page.more {
            break;
        }
        let last = &page
            .objects
            .last()
            .expect("a page that is not the last has objects")
            .key;
        after = (last.namespace.to_string(), last.name.to_string());
    }
    let expected: Vec<_> = (0..10).map(|index| format!("a/x{index}")).collect();
    assert_eq!(found, expected);
    let now = names(&list(source, everything(&resource)).await);
    assert_eq!(now.len(), 10);
    assert!(now.contains(&"a/x55".to_owned()) && !now.contains(&"a/x5".to_owned()));
}

async fn watches_tell_every_change_once_in_order(source: &dyn ObjectSource) {
    let start = source.revision();
    let mut all = watch(source, None, start).await.expect("now can be watched from");
    let mut scoped = watch(source, Some("b"), start)
        .await
        .expect("now can be watched from");
    let (a, b) = (pod("a", "x"), pod("b", "x"));
    let first = create(source, &a, "1").await;
    let second = create(source, &b, "1").await;
    create(source, &Key::new(&Resource::new("", "nodes"), "", "n"), "1").await;
    let third = update(source, &a, "2").await;
    let fourth = delete(source, &b, Expect::Any).await.expect("it is there");
    let events = collect(&mut all, 4).await;
    let told: Vec<_> = events.iter().map(|event| tell(event)).collect();
    let expected = [
        format!("Added a/x {}", first.revision),
        format!("Added b/x {}", second.revision),
        format!("Modified a/x {}", third.revision),
        format!("Deleted b/x {}", fourth.revision),
    ];
    assert_eq!(told, expected);
    assert!(events[0].previous.is_none());
    assert_eq!(
        events[2].previous.as_ref().map(|object| object.revision),
        Some(first.revision)
    );
    assert_eq!(
        events[3].previous.as_ref().map(|object| object.revision),
        Some(second.revision)
    );
    assert_spliced(&events[3].object, &draft("x", "1", "1"));
    let told: Vec<_> = collect(&mut scoped, 2)
        .await
        .iter()
        .map(|event| tell(event))
        .collect();
    assert_eq!(told, [&*expected[1], &*expected[3]]);
    assert_eq!(all.seen(), source.revision());
}

async fn watches_resume_from_any_revision(source: &dyn ObjectSource) {
    let start = source.revision();
    let mut expected = Vec::new();
    for index in 0..5 {
        let key = pod("a", &format!("x{index}"));
        let object = create(source, &key, "1").await;
        expected.push((object.revision, EventKind::Added));
        let object = update(source, &key, "2").await;
        expected.push((object.revision, EventKind::Modified));
    }
    for resume in 0..expected.len() {
        let after = resume.checked_sub(1).map_or(start, |index| expected[index].0);
        let mut watch = watch(source, None, after).await.expect("nothing is expired");
        let events = collect(&mut watch, expected.len() - resume).await;
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.revision(), event.kind))
            .collect();
        assert_eq!(found, expected[resume..]);
    }
}

async fn watches_wake_up(source: Arc<dyn ObjectSource>) {
    let start = source.revision();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut watch = watch(&*source, None, start)
            .await
            .expect("now can be watched from");
        waiting.push(tokio::spawn(async move { collect(&mut watch, 30).await.len() }));
    }
    for index in 0..30 {
        create(&*source, &pod("a", &format!("x{index}")), "1").await;
        tokio::task::yield_now().await;
    }
    for watch in waiting {
        assert_eq!(watch.await.expect("the watch goes on"), 30);
    }
}

async fn watches_see_quiet_resources_advance(source: &dyn ObjectSource) {
    let mut quiet = watch(source, None, source.revision())
        .await
        .expect("now can be watched from");
    let nodes = Resource::new("", "nodes");
    for index in 0..5 {
        create(source, &Key::new(&nodes, "", &format!("n{index}")), "1").await;
    }
    assert_eq!(
        quiet.seen(),
        source.revision(),
        "nothing happened to pods until now"
    );
    let object = create(source, &pod("a", "x"), "1").await;
    assert!(quiet.seen() < object.revision, "this event is not seen yet");
    collect(&mut quiet, 1).await;
    assert_eq!(quiet.seen(), object.revision);
}

async fn the_future_is_refused(source: &dyn ObjectSource) {
    let newest = source.revision();
    let future = Revision(newest.0 + 1);
    let resource = pods();
    let request = ListRequest {
        at: Some(future),
        ..everything(&resource)
    };
    let is_future = |error: &Error| matches!(error, Error::Future { asked, newest: found } if *asked == future && *found == newest);
    let error = source.list(&request).await.expect_err("it is not reached");
    assert!(is_future(&error), "{error}");
    match watch(source, None, future).await {
        Ok(_) => panic!("a revision that is not reached can be watched from"),
        Err(error) => assert!(is_future(&error), "{error}"),
    }
}

async fn a_list_then_a_watch_misses_nothing(source: Arc<dyn ObjectSource>) {
    let writer = {
        let source = source.clone();
        tokio::spawn(async move {
            for round in 0..200 {
                let key = pod("a", &format!("x{}", round % 7));
                if round % 3 == 2 {
                    // Whether it is there does not matter.
                    drop(delete(&*source, &key, Expect::Any).await);
                } else {
                    put(&*source, &key, Expect::Any, "1")
                        .await
                        .expect("anything goes");
                }
                tokio::task::yield_now().await;
            }
        })
    };
    for _ in 0..20 {
        tokio::task::yield_now().await;
        let page = list(&*source, everything(&pods())).await;
        let mut state: BTreeMap<Key, Revision> = BTreeMap::new();
        for object in &page.objects {
            assert!(object.revision <= page.revision);
            state.insert(object.key.clone(), object.revision);
        }
        let mut watch = watch(&*source, None, page.revision)
            .await
            .expect("it is just listed");
        let target = source.revision();
        while watch.seen() < target {
            for event in next(&mut watch).await {
                assert!(event.revision() > page.revision);
                let key = event.object.key.clone();
                let before = match event.kind {
                    EventKind::Added | EventKind::Modified => state.insert(key, event.revision()),
                    EventKind::Deleted => state.remove(&key),
                };
                assert_eq!(before, event.previous.as_ref().map(|object| object.revision));
            }
        }
    }
    writer.await.expect("the writer goes on");
}

async fn concurrent_writers_agree(source: Arc<dyn ObjectSource>) {
    let key = pod("a", "counter");
    create(&*source, &key, "0").await;
    let mut writers = Vec::new();
    for _ in 0..8 {
        let (source, key) = (source.clone(), key.clone());
        writers.push(tokio::spawn(async move {
            let mut done = 0;
            while done < 10 {
                let object = get(&*source, &key).await.expect("it is there");
                let count: u64 = object
                    .head
                    .label("n")
                    .and_then(|n| n.parse().ok())
                    .expect("it counts");
                let expect = Expect::Revision(object.revision);
                match put(&*source, &key, expect, &(count + 1).to_string()).await {
                    Ok(_) => done += 1,
                    Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.expect("the writer goes on");
    }
    let object = get(&*source, &key).await.expect("it is there");
    assert_eq!(object.head.label("n"), Some("80"), "no update is lost");
}

async fn what_is_too_old_is_expired(source: &dyn ObjectSource) {
    let resource = pods();
    let key = pod("a", "x");
    let start = source.revision();
    let mut slow = watch(source, None, start).await.expect("now can be watched from");
    create(source, &key, "0").await;
    let mut revisions = Vec::new();
    for index in 0..20 {
        revisions.push(update(source, &key, &index.to_string()).await.revision);
    }
    let is_expired = |error: &Error| matches!(error, Error::Expired { asked, oldest } if *asked < *oldest);
    let error = slow.next().await.expect_err("its events are gone");
    assert!(is_expired(&error), "{error}");
    match watch(source, None, start).await {
        Ok(_) => panic!("events that are gone can be watched"),
        Err(error) => assert!(is_expired(&error), "{error}"),
    }
    let request = ListRequest {
        at: Some(start),
        ..everything(&resource)
    };
    let error = source.list(&request).await.expect_err("that state is gone");
    assert!(is_expired(&error), "{error}");
    // The newest eight changes can be seen: after the revision of the ninth newest.
    let after = revisions[revisions.len() - 9];
    let mut recent = watch(source, None, after).await.expect("these events are kept");
    assert_eq!(collect(&mut recent, 8).await.len(), 8);
    let request = ListRequest {
        at: Some(after),
        ..everything(&resource)
    };
    let page = list(source, request).await;
    assert_eq!(page.objects.first().map(|object| object.revision), Some(after));
}
