//! Watches: exact, in order, resumable, or expired.

use std::collections::BTreeMap;

use super::*;

pub(super) async fn watches_tell_every_change_once_in_order(source: &dyn ObjectSource) {
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

pub(super) async fn watches_resume_from_any_revision(source: &dyn ObjectSource) {
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

pub(super) async fn watches_wake_up(source: Arc<dyn ObjectSource>) {
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

pub(super) async fn watches_see_quiet_resources_advance(source: &dyn ObjectSource) {
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

pub(super) async fn a_list_then_a_watch_misses_nothing(source: Arc<dyn ObjectSource>) {
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

pub(super) async fn what_is_too_old_is_expired(source: &dyn ObjectSource) {
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
