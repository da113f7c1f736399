use super::*;
use crate::fake::{Fake, json_answer, status_answer};

fn config() -> ElectorConfig {
    ElectorConfig::new("system", "agent", "me")
}

fn lease(holder: &str, version: &str) -> Value {
    let now: Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
    json!({"metadata": {"name": "agent", "namespace": "system", "uid": "u-1", "resourceVersion": version},
           "spec": record(holder, Duration::from_secs(15), now, now, 3)})
}

#[test]
fn decides_as_client_go_does() {
    let now: Timestamp = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
    let seconds = Duration::from_secs;
    let holder = |holder: &str, age| next_record(&lease(holder, "1")["spec"], &config(), now, age);
    assert_eq!(holder("other", seconds(14)), None);
    assert_eq!(holder("other", seconds(15)).unwrap()["leaseTransitions"], 4);
    assert_eq!(holder("", seconds(0)).unwrap()["holderIdentity"], "me");
    let renewed = holder("me", seconds(0)).unwrap();
    assert_eq!(renewed["leaseTransitions"], 3);
    assert_eq!(renewed["acquireTime"], "2026-01-02T03:04:05.600000Z");
    assert_eq!(renewed["renewTime"], "2026-01-02T03:04:05.123456Z");
}

#[tokio::test(start_paused = true)]
async fn creates_the_lease_leads_and_releases_it_at_shutdown() {
    let fake = Fake::default();
    fake.answer(status_answer(404, "NotFound"));
    fake.answer(json_answer(&lease("me", "1")));
    let shutdown = CancellationToken::new();
    let elector = Elector::new(fake.client(), Env::system(), config());
    let stop = shutdown.clone();
    let uid = elector
        .run(&shutdown, |leadership| {
            fake.answer(json_answer(&lease("me", "1")));
            fake.answer(json_answer(&lease("", "2")));
            stop.cancel();
            async move {
                leadership.lost.cancelled().await;
                leadership.lease_uid().to_owned()
            }
        })
        .await;
    assert_eq!(uid.as_deref(), Some("u-1"));
    let requests = fake.requests();
    assert_eq!(requests.len(), 4, "{requests:?}");
    assert_eq!(fake.body(3)["spec"]["holderIdentity"], "");
    assert_eq!(fake.body(3)["spec"]["leaseDurationSeconds"], 1);
}

#[tokio::test(start_paused = true)]
async fn works_with_and_without_an_election() {
    for election in [None, Some(config())] {
        let fake = Fake::default();
        let elected = election.is_some();
        if elected {
            fake.answer(status_answer(404, "NotFound"));
            fake.answer(json_answer(&lease("me", "1")));
        }
        let shutdown = CancellationToken::new();
        let mut times = 0;
        Elector::lead(election, &fake.client(), &Env::system(), &shutdown, |stop| {
            times += 1;
            if elected {
                fake.answer(json_answer(&lease("me", "1")));
                fake.answer(json_answer(&lease("", "2")));
            }
            shutdown.cancel();
            async move { stop.cancelled().await }
        })
        .await;
        assert_eq!(times, 1);
        assert_eq!(fake.requests().len(), if elected { 4 } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn takes_a_lease_that_nobody_renews_after_its_duration() {
    let fake = Fake::default();
    let elector = Elector::new(fake.client(), Env::system(), config());
    let start = Instant::now();
    let mut observed = None;
    fake.answer(json_answer(&lease("other", "1")));
    assert!(elector.try_once(&mut observed).await.unwrap().is_none());
    tokio::time::advance(Duration::from_secs(15)).await;
    fake.answer(json_answer(&lease("other", "1")));
    fake.answer(json_answer(&lease("me", "2")));
    assert!(elector.try_once(&mut observed).await.unwrap().is_some());
    assert_eq!(start.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn gives_up_after_the_renew_deadline() {
    let fake = Fake::default();
    for _ in 0..20 {
        fake.answer(status_answer(500, "InternalError"));
    }
    let elector = Elector::new(fake.client(), Env::system(), config());
    let start = Instant::now();
    elector.renew(lease("me", "1")).await;
    assert!(
        start.elapsed() >= Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    assert!(start.elapsed() < Duration::from_secs(13), "{:?}", start.elapsed());
}
