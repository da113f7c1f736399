//! Keeps the certificates of a running control plane young: what its listener shows, and what its kubeconfig holds.

use std::sync::Arc;
use std::time::Duration;

use apiserver::pki::{Pki, PkiError, ServingCertificate, Step};
use clock::Env;
use clock::disk::Disk;
use jiff::{SignedDuration, Timestamp};
use runtime::{CancellationToken, Chain};
use tokio::sync::watch;

/// The longest time between two looks at the wall clock: it may jump (a machine that slept), and no timer tells.
const LOOK_PERIOD: Duration = Duration::from_hours(1);
/// After a renewal that failed.
const RETRY_PERIOD: Duration = Duration::from_mins(5);

/// How long a control plane runs at least before one authority takes another's place by itself: whoever came by last
/// before it was stopped comes by again, and hears of the one that was announced.
pub(crate) const SETTLING: SignedDuration = SignedDuration::from_hours(24);

/// Renews the certificates of one control plane.
pub(crate) struct Certificates {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) env: Env,
    pub(crate) serving: Arc<ServingCertificate>,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: watch::Sender<String>,
    /// The authorities that are trusted, PEM.
    pub(crate) trusted: watch::Sender<String>,
    /// When this has run for [`SETTLING`].
    pub(crate) settled: Timestamp,
}

impl Certificates {
    /// Renews what nears its end until the token is cancelled; `due` is when the first does.
    pub(crate) async fn run(self, mut due: Timestamp, shutdown: CancellationToken) {
        let mut failed = false;
        loop {
            let pause = match pause(self.env.now(), due) {
                Some(pause) => pause,
                None if failed => RETRY_PERIOD,
                None => Duration::ZERO,
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if self.env.now() < due {
                continue;
            }
            match self.renew() {
                Ok(next) => {
                    tracing::info!(control_plane = self.name, next = %next, "certificates renewed");
                    (due, failed) = (next, next <= self.env.now());
                }
                Err(error) => {
                    tracing::error!(control_plane = self.name, error = %Chain(&error), "certificates are not renewed");
                    failed = true;
                }
            }
        }
    }

    /// Renews, and puts the new ones where they are used. A handful of small files is written, a few times a year.
    fn renew(&self) -> Result<Timestamp, PkiError> {
        let load = || Pki::load_or_create(&*self.disk, &[], &self.env);
        let mut pki = load()?;
        if self.step_at(&pki) <= self.env.now() {
            let step = Pki::succeed(&*self.disk, &self.env)?;
            tracing::info!(
                control_plane = self.name,
                ?step,
                "one certificate authority follows another"
            );
            pki = load()?;
        }
        self.trusted
            .send_if_modified(|now| std::mem::replace(now, pki.trusted_pem.clone()) != pki.trusted_pem);
        self.serving.replace(&pki.serving)?;
        self.kubeconfig
            .send_replace(pki.admin_kubeconfig(&self.name, &self.url).to_text());
        Ok(self.due(&pki))
    }

    /// When the first thing is to be done about them.
    pub(crate) fn due(&self, pki: &Pki) -> Timestamp {
        pki.renewal_at().min(self.step_at(pki))
    }

    fn step_at(&self, pki: &Pki) -> Timestamp {
        match pki.next_step {
            (Step::Announce, due) => due,
            (Step::Succeed | Step::Forget, due) => due.max(self.settled),
        }
    }
}

/// How long to wait before the next look; `None` when it is time.
fn pause(now: Timestamp, due: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(due.duration_since(now)).ok()?;
    (!left.is_zero()).then(|| left.min(LOOK_PERIOD))
}

#[cfg(test)]
mod tests {
    use clock::disk::SimDisk;
    use rustls::client::danger::ServerCertVerifier as _;

    use super::*;

    #[test]
    fn looks_now_and_then_and_exactly_when_it_is_time() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (due, expected) in [
            ("2026-02-01T00:00:00Z", Some(LOOK_PERIOD)),
            ("2026-01-01T01:00:00Z", Some(LOOK_PERIOD)),
            ("2026-01-01T00:10:00Z", Some(Duration::from_mins(10))),
            ("2026-01-01T00:00:00Z", None),
            ("2025-12-31T00:00:00Z", None),
        ] {
            assert_eq!(pause(now, due.parse().unwrap()), expected, "{due}");
        }
    }

    /// Wall time that goes with the paused clock.
    #[derive(Debug)]
    struct Wall(tokio::time::Instant);

    impl clock::Clock for Wall {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(1_800_000_000).unwrap()
                + SignedDuration::try_from(self.0.elapsed()).unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_shown_and_handed_out_never_ends_while_it_runs() {
        let env = Env {
            clock: Arc::new(Wall(tokio::time::Instant::now())),
            ..Env::system()
        };
        let disk = Arc::new(SimDisk::new(1));
        let pki = Pki::load_or_create(&*disk, &[], &env).unwrap();
        let (serving, shutdown) = (
            ServingCertificate::new(&pki.serving).unwrap(),
            CancellationToken::new(),
        );
        let (sender, mut kubeconfig) = watch::channel(String::new());
        let certificates = certificates(&disk, &env, &serving, sender, watch::channel(String::new()).0);
        let mut due = pki.renewal_at();
        let running = tokio::spawn(certificates.run(due, shutdown.clone()));
        for _ in 0..3 {
            let before = serving.current();
            tokio::time::sleep(
                Duration::try_from((due - SignedDuration::from_hours(1)).duration_since(env.now())).unwrap(),
            )
            .await;
            assert!(!kubeconfig.has_changed().unwrap(), "not before it is time");
            kubeconfig.changed().await.unwrap();
            assert!(env.now() < due + SignedDuration::from_hours(1));
            assert_ne!(serving.current().cert, before.cert);
            let text = kubeconfig.borrow_and_update().clone();
            let renewed = Pki::load_or_create(&*disk, &[], &env).unwrap();
            assert_eq!(
                text,
                renewed.admin_kubeconfig("test", "https://127.0.0.1").to_text()
            );
            assert!(renewed.serving.not_after() > env.now() + SignedDuration::from_hours(300 * 24));
            due = renewed.renewal_at();
        }
        shutdown.cancel();
        running.await.unwrap();
    }

    fn certificates(
        disk: &Arc<SimDisk>,
        env: &Env,
        serving: &Arc<ServingCertificate>,
        kubeconfig: watch::Sender<String>,
        trusted: watch::Sender<String>,
    ) -> Certificates {
        Certificates {
            name: "test".to_owned(),
            url: "https://127.0.0.1".to_owned(),
            disk: disk.clone(),
            env: env.clone(),
            serving: serving.clone(),
            kubeconfig,
            trusted,
            settled: env.now() + SETTLING,
        }
    }

    /// Whether a client that trusts these authorities believes what is shown.
    fn believes(trusted: &str, shown: &ServingCertificate, now: Timestamp) -> bool {
        use rustls::pki_types::pem::PemObject as _;
        use rustls::pki_types::{CertificateDer, UnixTime};
        let mut roots = rustls::RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = apiserver::pki::provider();
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let seconds = u64::try_from(now.as_second()).unwrap();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (name, shown) = ("localhost".try_into().unwrap(), shown.current());
        let verdict = verifier
            .build()
            .unwrap()
            .verify_server_cert(&shown.cert[0], &[], &name, &[], time);
        verdict.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_by_once_in_four_weeks_never_loses_sight_of_it() {
        let env = Env {
            clock: Arc::new(Wall(tokio::time::Instant::now())),
            ..Env::system()
        };
        let disk = Arc::new(SimDisk::new(1));
        let pki = Pki::load_or_create(&*disk, &[], &env).unwrap();
        let first = pki.trusted_pem.clone();
        let serving = ServingCertificate::new(&pki.serving).unwrap();
        let (sender, trusted) = watch::channel(first.clone());
        let certificates = certificates(&disk, &env, &serving, watch::channel(String::new()).0, sender);
        let shutdown = CancellationToken::new();
        let due = certificates.due(&pki);
        let running = tokio::spawn(certificates.run(due, shutdown.clone()));
        let mut bundles = vec![first.clone()];
        for visit in 0..(12 * 13) {
            let held = trusted.borrow().clone();
            if bundles.last() != Some(&held) {
                bundles.push(held.clone());
            }
            for _ in 0..28 {
                tokio::time::sleep(Duration::from_hours(24)).await;
                assert!(believes(&held, &serving, env.now()), "visit {visit}");
            }
        }
        let count = |bundle: &String| bundle.matches("BEGIN").count();
        let counts: Vec<usize> = bundles.iter().map(count).collect();
        assert_eq!(counts, [1, 2, 2, 1], "alone, announced, succeeded, alone");
        assert!(!believes(&first, &serving, env.now()), "the old one is forgotten");
        shutdown.cancel();
        running.await.unwrap();
    }
}
