//! Writes, revisions, lists and pages.

use super::*;

pub(super) async fn writes_meet_their_expectations(source: &dyn ObjectSource) {
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

pub(super) async fn objects_carry_their_revision(source: &dyn ObjectSource) {
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

pub(super) async fn revisions_grow_by_every_change_and_by_nothing_else(source: &dyn ObjectSource) {
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

pub(super) async fn lists_are_ordered_filtered_and_scoped(source: &dyn ObjectSource) {
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

pub(super) async fn pages_read_at_the_first_pages_revision(source: &dyn ObjectSource) {
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

pub(super) async fn the_future_is_refused(source: &dyn ObjectSource) {
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

pub(super) async fn concurrent_writers_agree(source: Arc<dyn ObjectSource>) {
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
