use super::*;
use crate::fake::{Fake, json_answer, object, status_answer};
use serde_json::json;

const PODS: ApiResource = ApiResource::namespaced("", "v1", "pods", "Pod");

fn list(version: &str, items: Vec<Value>) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

fn names(cache: &Cache) -> Vec<String> {
    cache
        .list()
        .iter()
        .map(|object| ObjectKey::of(object).to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn lists_then_follows_the_watch_and_tells_readers() {
    let fake = Fake::default();
    fake.answer(json_answer(&list(
        "5",
        vec![object("a", "x", "3"), object("a", "y", "4")],
    )));
    let watch = fake.stream();
    let cache = Cache::start(fake.client(), PODS, CacheOptions::default());
    cache.ready().await;
    assert_eq!(names(&cache), ["a/x", "a/y"]);
    let mut changes = cache.subscribe();
    assert_eq!(changes.next().await.key.name, "x");
    assert_eq!(changes.next().await.key.name, "y");

    watch.event("MODIFIED", &object("a", "x", "6"));
    let change = changes.next().await;
    assert_eq!(change.old.unwrap()["metadata"]["resourceVersion"], "3");
    assert_eq!(change.new.unwrap()["metadata"]["resourceVersion"], "6");
    watch.event("DELETED", &object("a", "y", "7"));
    let change = changes.next().await;
    assert_eq!((change.key.name.as_str(), change.new), ("y", None));
    assert_eq!(names(&cache), ["a/x"]);
    assert!(changes.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn resumes_where_a_broken_watch_stood() {
    let fake = Fake::default();
    fake.answer(json_answer(&list("5", vec![])));
    let first = fake.stream();
    let second = fake.stream();
    let cache = Cache::start(fake.client(), PODS, CacheOptions::default());
    let mut changes = cache.subscribe();
    first.event("ADDED", &object("a", "x", "9"));
    changes.next().await;
    first.event("BOOKMARK", &json!({"metadata": {"resourceVersion": "12"}}));
    first.fail();
    second.event("ADDED", &object("a", "z", "13"));
    assert_eq!(changes.next().await.key.name, "z");
    let seen = fake.requests();
    assert!(seen[2].contains("resourceVersion=12"), "{seen:?}");
    assert_eq!(names(&cache), ["a/x", "a/z"]);
}

#[tokio::test(start_paused = true)]
async fn lists_again_when_its_revision_is_gone_and_tells_the_difference() {
    let fake = Fake::default();
    fake.answer(json_answer(&list(
        "5",
        vec![object("a", "x", "3"), object("a", "y", "4")],
    )));
    fake.answer(status_answer(410, "Expired"));
    let cache = Cache::start(fake.client(), PODS, CacheOptions::default());
    cache.ready().await;
    let mut changes = cache.subscribe();
    changes.next().await;
    changes.next().await;
    fake.answer(json_answer(&list(
        "50",
        vec![object("a", "y", "4"), object("a", "z", "44")],
    )));
    fake.stream();
    let mut told = [changes.next().await, changes.next().await];
    told.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(told[0].key.name, "x");
    assert_eq!(told[0].new, None);
    assert_eq!(told[1].key.name, "z");
    assert!(changes.try_next().is_none(), "y did not change");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_sees_only_the_latest_state() {
    let store = Store::default();
    let apply = |object: Value| {
        let entry = Entry {
            revision: revision(&object),
            weight: 0,
            object: Arc::new(object.clone()),
        };
        store.apply(ObjectKey::of(&object), entry, |_| true);
    };
    let pending = Arc::new(Pending::default());
    store.readers.lock().unwrap().push(Arc::downgrade(&pending));
    let mut changes = Changes { pending };
    for version in ["1", "2", "3"] {
        apply(object("a", "x", version));
    }
    apply(object("a", "gone", "4"));
    store.delete(ObjectKey::new("a", "gone"), |_| true);
    let change = changes.next().await;
    assert_eq!((change.key.name.as_str(), change.old.is_none()), ("x", true));
    assert_eq!(change.new.unwrap()["metadata"]["resourceVersion"], "3");
    assert!(changes.try_next().is_none(), "what came and went is not told");
    apply(object("a", "x", "3"));
    assert!(changes.try_next().is_none(), "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn pages_are_followed_and_an_expired_page_means_one_whole_list() {
    let fake = Fake::default();
    let mut first = list("5", vec![object("a", "x", "3")]);
    first["metadata"]["continue"] = json!("next");
    fake.answer(json_answer(&first));
    fake.answer(status_answer(410, "Expired"));
    fake.answer(json_answer(&list(
        "8",
        vec![object("a", "x", "3"), object("a", "y", "7")],
    )));
    let listed = fake
        .client()
        .list_all(&PODS, None, &ListOptions::default())
        .await
        .unwrap();
    assert_eq!((listed.items.len(), listed.resource_version.as_str()), (2, "8"));
    assert_eq!(
        fake.requests(),
        [
            "GET /api/v1/pods?limit=500",
            "GET /api/v1/pods?continue=next&limit=500",
            "GET /api/v1/pods"
        ]
    );
    assert_eq!(listed.items[0]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_dropped_ends_the_task() {
    let fake = Fake::default();
    fake.answer(json_answer(&list("5", vec![])));
    let watch = fake.stream();
    let cache = Cache::start(fake.client(), PODS, CacheOptions::default());
    cache.ready().await;
    drop(cache);
    watch.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_bounded_cache_is_emptied_by_too_much_and_filled_again_by_less() {
    let bounds = crate::Bounds {
        answer: 16 << 10,
        whole: 4 << 10,
        page: 2,
    };
    let fat = |name: &str, version: &str| {
        let mut fat = object("a", name, version);
        fat["data"] = json!("x".repeat(2 << 10));
        fat
    };
    let fake = Fake::default();
    fake.answer(json_answer(&list("5", vec![object("a", "x", "3")])));
    let watch = fake.stream();
    let cache = Cache::start(fake.client().bounded(bounds), PODS, CacheOptions::default());
    let mut changes = cache.subscribe();
    // One more of them fits in the place of another, not beside it.
    for (name, version, expected) in [("y", "6", "y"), ("y", "7", "y"), ("z", "8", "x")] {
        watch.event("MODIFIED", &fat(name, version));
        while changes.next().await.key.name != expected {}
    }
    assert!(!cache.is_ready());
    assert_eq!(names(&cache), Vec::<String>::new());

    // A list of too many, one that is too long, and one that is not.
    fake.answer(json_answer(&list("9", vec![fat("y", "7"), fat("z", "8")])));
    fake.answer(json_answer(&list("9", vec![json!("x".repeat(bounds.answer))])));
    fake.answer(json_answer(&list("9", vec![fat("y", "7")])));
    fake.stream();
    cache.ready().await;
    assert_eq!(names(&cache), ["a/y"]);
    assert!(fake.requests()[0].ends_with("limit=2"));
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_much_together_are_no_list() {
    let bounds = crate::Bounds {
        whole: 200,
        ..crate::Bounds::default()
    };
    let fake = Fake::default();
    let mut page = list("5", vec![object("a", "x", "3")]);
    page["metadata"]["continue"] = json!("next");
    for _ in 0..2 {
        fake.answer(json_answer(&page));
    }
    let client = fake.client().bounded(bounds);
    let error = client.list_all(&PODS, None, &ListOptions::default()).await;
    assert!(error.unwrap_err().is_too_large());
}

#[tokio::test(start_paused = true)]
async fn keeps_what_its_reader_makes_of_an_object() {
    let labelled = |version: &str, label: &str| {
        let mut object = object("a", "x", version);
        object["metadata"]["labels"] = json!({"k": label});
        object
    };
    let fake = Fake::default();
    fake.answer(json_answer(&list("5", vec![labelled("3", "one")])));
    let watch = fake.stream();
    let read = |object: Value| object["metadata"]["labels"]["k"].as_str().map(str::to_owned);
    let cache = Cache::start_reading(fake.client(), PODS, CacheOptions::default(), read);
    let mut changes = cache.subscribe();
    let label = |state: Option<Arc<Option<String>>>| state.and_then(|it| Option::clone(&it));
    assert_eq!(label(changes.next().await.new).as_deref(), Some("one"));
    // The first differs only in what is not kept.
    watch.event("MODIFIED", &labelled("6", "one"));
    watch.event("MODIFIED", &labelled("7", "two"));
    let change = changes.next().await;
    assert_eq!(
        (label(change.old).as_deref(), label(change.new).as_deref()),
        (Some("one"), Some("two"))
    );
    cache.put(labelled("6", "old"));
    assert!(changes.try_next().is_none(), "an older answer counts for nothing");
    cache.put(labelled("8", "mine"));
    assert_eq!(label(changes.next().await.new).as_deref(), Some("mine"));
}

#[tokio::test(start_paused = true)]
async fn events_from_before_ones_own_write_change_nothing() {
    let fake = Fake::default();
    fake.answer(json_answer(&list("5", vec![object("a", "x", "3")])));
    let watch = fake.stream();
    let cache = Cache::start(fake.client(), PODS, CacheOptions::default());
    let mut changes = cache.subscribe();
    changes.next().await;
    cache.put(object("a", "x", "9"));
    changes.next().await;
    // Someone else's write, and a deletion after which the object came again, both before ours.
    watch.event("MODIFIED", &object("a", "x", "6"));
    watch.event("DELETED", &object("a", "x", "7"));
    watch.event("ADDED", &object("a", "x", "8"));
    watch.event("MODIFIED", &object("a", "x", "9"));
    watch.event("ADDED", &object("a", "y", "10"));
    let change = changes.next().await;
    assert_eq!((change.key.name.as_str(), change.old), ("y", None));
    assert_eq!(names(&cache), ["a/x", "a/y"]);
    watch.event("DELETED", &object("a", "x", "11"));
    assert_eq!(changes.next().await.new, None);
}

/// The watch brings something while an own answer is read: that counts, whatever it is.
#[tokio::test(start_paused = true)]
async fn an_own_answer_undoes_nothing_that_came_while_it_was_read() {
    type Meanwhile = fn(&Store<Value>);
    let gone: Meanwhile = |store| {
        store.delete(ObjectKey::new("a", "x"), |_| true);
    };
    let newer: Meanwhile = |store| {
        let entry = Entry {
            revision: Some(9),
            weight: 0,
            object: Arc::new(object("a", "x", "9")),
        };
        store.apply(ObjectKey::new("a", "x"), entry, |_| true);
    };
    for (meanwhile, expected) in [(gone, None), (newer, Some("9"))] {
        let fake = Fake::default();
        fake.answer(json_answer(&list("5", vec![object("a", "x", "3")])));
        let _watch = fake.stream();
        let store = Arc::new(std::sync::OnceLock::<Arc<Store<Value>>>::new());
        let its_store = Arc::clone(&store);
        let read = move |object: Value| {
            if object["metadata"]["resourceVersion"] == "8" {
                meanwhile(its_store.get().unwrap());
            }
            object
        };
        let cache = Cache::start_reading(fake.client(), PODS, CacheOptions::default(), read);
        cache.ready().await;
        store.set(Arc::clone(&cache.store)).ok().unwrap();
        cache.put(object("a", "x", "8"));
        let kept = cache.get(Some("a"), "x");
        let version = |it: &Arc<Value>| it["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        assert_eq!(kept.as_ref().and_then(version).as_deref(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_cache_counts_what_the_watch_brings_alone() {
    let bounds = crate::Bounds {
        whole: 4 << 10,
        ..crate::Bounds::default()
    };
    let fake = Fake::default();
    fake.answer(json_answer(&list("5", vec![object("a", "x", "3")])));
    let watch = fake.stream();
    let cache = Cache::start(fake.client().bounded(bounds), PODS, CacheOptions::default());
    let mut changes = cache.subscribe();
    changes.next().await;
    let mut fat = object("a", "x", "8");
    fat["data"] = json!("x".repeat(2 << 10));
    cache.put(fat);
    // What was never counted in is not counted out.
    watch.event("MODIFIED", &object("a", "x", "9"));
    assert_eq!(changes.next().await.object()["metadata"]["resourceVersion"], "9");
    watch.event("ADDED", &object("a", "y", "10"));
    assert_eq!(changes.next().await.key.name, "y");
    assert!(cache.is_ready());
}
