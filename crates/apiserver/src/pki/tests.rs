use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use clock::disk::DiskFile;
use clock::{Clock, OsRandom};

use super::*;

/// A directory in memory that can refuse the n-th write.
#[derive(Debug, Default, Clone)]
pub(crate) struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    writes_left: Arc<Mutex<Option<usize>>>,
}

impl MemoryDisk {
    fn spend(&self) -> io::Result<()> {
        let mut left = self.writes_left.lock().unwrap();
        match left.as_mut() {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct MemoryFile(MemoryDisk, String);

impl DiskFile for MemoryFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.spend()?;
        let mut files = self.0.files.lock().unwrap();
        let file = files.entry(self.1.clone()).or_default();
        file.truncate(usize::try_from(offset).unwrap());
        file.extend_from_slice(bytes);
        Ok(())
    }
    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let files = self.files.lock().unwrap();
        files
            .get(name)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.spend()?;
        self.files.lock().unwrap().insert(name.to_owned(), Vec::new());
        Ok(Box::new(MemoryFile(self.clone(), name.to_owned())))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(MemoryFile(self.clone(), name.to_owned())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.spend()?;
        let mut files = self.files.lock().unwrap();
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A clock that stands where it is put.
#[derive(Debug)]
pub(crate) struct StandingClock(pub(crate) Mutex<Timestamp>);

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// System randomness with a clock that the test moves.
pub(crate) fn env_at(second: i64) -> (Env, Arc<StandingClock>) {
    let clock = Arc::new(StandingClock(Mutex::new(Timestamp::from_second(second).unwrap())));
    let env = Env {
        clock: clock.clone(),
        random: Arc::new(OsRandom),
    };
    (env, clock)
}

const NOW: i64 = 1_800_000_000;

#[test]
fn makes_everything_once_and_loads_it_again() {
    let disk = MemoryDisk::default();
    let (env, _) = env_at(NOW);
    let names = vec!["hub.example.com".to_owned(), "10.1.2.3".to_owned()];
    let first = Pki::load_or_create(&disk, &names, &env).unwrap();
    let files = disk.files.lock().unwrap().clone();
    let second = Pki::load_or_create(&disk, &names, &env).unwrap();
    assert_eq!(
        *disk.files.lock().unwrap(),
        files,
        "a second start writes nothing"
    );
    assert_eq!(first.serving.certificate_pem, second.serving.certificate_pem);
    assert_eq!(first.service_account_key, second.service_account_key);
    assert!(!format!("{first:?}").contains("PRIVATE"), "keys are not logged");
}

#[test]
fn renews_leaves_near_their_end_and_for_new_names_but_keeps_keys() {
    let disk = MemoryDisk::default();
    let (env, clock) = env_at(NOW);
    let first = Pki::load_or_create(&disk, &[], &env).unwrap();
    let named = Pki::load_or_create(&disk, &["new.example.com".to_owned()], &env).unwrap();
    assert_ne!(first.serving.certificate_pem, named.serving.certificate_pem);
    assert_eq!(first.serving.key_pem, named.serving.key_pem);
    assert_eq!(first.admin.certificate_pem, named.admin.certificate_pem);
    *clock.0.lock().unwrap() = named.renewal_at() + SignedDuration::from_secs(1);
    let renewed = Pki::load_or_create(&disk, &[], &env).unwrap();
    assert_ne!(first.admin.certificate_pem, renewed.admin.certificate_pem);
    assert_eq!(
        first.authority.certificate_pem(),
        renewed.authority.certificate_pem(),
        "the authority lives on"
    );
}

#[test]
fn completes_a_directory_after_a_crash_at_any_write() {
    let (env, _) = env_at(NOW);
    for crash in 0..40 {
        let disk = MemoryDisk::default();
        *disk.writes_left.lock().unwrap() = Some(crash);
        let crashed = Pki::load_or_create(&disk, &[], &env).is_err();
        *disk.writes_left.lock().unwrap() = None;
        Pki::load_or_create(&disk, &[], &env).unwrap();
        if !crashed {
            assert!(crash > 20);
            return;
        }
    }
    panic!("forty writes should be enough");
}

/// The authorities of a PEM text, in any order.
fn authorities(pem: &str) -> std::collections::BTreeSet<Vec<u8>> {
    let all = tls::certificates(pem).unwrap();
    all.iter().map(|der| der.to_vec()).collect()
}

#[test]
fn an_authority_is_followed_by_another_and_a_crash_at_any_write_costs_nothing() {
    let (env, _) = env_at(NOW);
    let steps = [Step::Announce, Step::Succeed, Step::Forget];
    let mut crashes = 0;
    for step in steps {
        for crash in 0.. {
            let disk = MemoryDisk::default();
            let load = || Pki::load_or_create(&disk, &[], &env).unwrap();
            let mut before = load();
            for earlier in steps.into_iter().take_while(|it| *it != step) {
                assert_eq!(Pki::succeed(&disk, &env).unwrap(), earlier);
                before = load();
            }
            assert_eq!(before.next_step.0, step);
            *disk.writes_left.lock().unwrap() = Some(crash);
            let crashed = Pki::succeed(&disk, &env).is_err();
            *disk.writes_left.lock().unwrap() = None;
            let mut after = load();
            if after.next_step.0 == step {
                // Nothing came of it: it is done again.
                assert!(crashed);
                assert_eq!(authorities(&after.trusted_pem), authorities(&before.trusted_pem));
                assert_eq!(Pki::succeed(&disk, &env).unwrap(), step);
                after = load();
            }
            assert_eq!(
                after.next_step,
                succession::next(match step {
                    Step::Announce => Phase::Announced { since: env.now() },
                    Step::Succeed => Phase::Succeeded { since: env.now() },
                    Step::Forget => Phase::Alone {
                        ends: after.authority.not_after()
                    },
                })
            );
            let (old, new) = (authorities(&before.trusted_pem), authorities(&after.trusted_pem));
            let expected = match step {
                Step::Announce => old.is_subset(&new) && new.len() == 2,
                Step::Succeed => old == new && new.len() == 2,
                Step::Forget => new.is_subset(&old) && new.len() == 1,
            };
            assert!(expected, "{step:?}, crash {crash}");
            let same = before.authority.certificate_pem() == after.authority.certificate_pem();
            assert_eq!(same, step != Step::Succeed);
            let same = before.serving.certificate_pem == after.serving.certificate_pem;
            assert_eq!(same, step != Step::Succeed);
            assert!(!disk.list().unwrap().iter().any(|name| name == "ca-next.key") || step == Step::Announce);
            if !crashed {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes >= 10, "{crashes}");
}

#[test]
fn an_authority_that_was_left_alone_for_too_long_keeps_its_key() {
    let disk = MemoryDisk::default();
    let (env, clock) = env_at(NOW);
    let first = Pki::load_or_create(&disk, &[], &env).unwrap();
    *clock.0.lock().unwrap() += AUTHORITY_LIFETIME - SignedDuration::from_hours(24);
    let late = Pki::load_or_create(&disk, &[], &env).unwrap();
    assert_ne!(
        first.authority.certificate_pem(),
        late.authority.certificate_pem()
    );
    assert_eq!(first.authority.key_pem(), late.authority.key_pem());
}

#[test]
fn never_replaces_a_damaged_key() {
    let disk = MemoryDisk::default();
    let (env, _) = env_at(NOW);
    Pki::load_or_create(&disk, &[], &env).unwrap();
    disk.files
        .lock()
        .unwrap()
        .insert("ca.key".to_owned(), b"rubbish".to_vec());
    let error = Pki::load_or_create(&disk, &[], &env).unwrap_err();
    assert!(
        matches!(&error, PkiError::Damaged { file, .. } if file == "ca.key"),
        "{error}"
    );
    disk.remove("ca.key").unwrap();
    let error = Pki::load_or_create(&disk, &[], &env).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn writes_a_kubeconfig_that_is_yaml() {
    let (env, _) = env_at(NOW);
    let pki = Pki::ephemeral(&[], &env).unwrap();
    let text = pki
        .admin_kubeconfig("tombolo", "https://127.0.0.1:8443")
        .to_text();
    let value = codec::yaml::parse(&text).unwrap().remove(0);
    assert_eq!(value["current-context"], "tombolo");
    assert_eq!(
        value["clusters"][0]["cluster"]["server"],
        "https://127.0.0.1:8443"
    );
    assert_eq!(value["contexts"][0]["context"]["user"], "admin");
    assert!(value["users"][0]["user"]["client-key-data"].is_string());
}
