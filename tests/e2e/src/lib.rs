//! Fixtures of the end-to-end tests: the built binary, real control planes and kubectl, as processes.
//!
//! Two variables say where things are: `TOMBOLO_BINARY` (the program under test) and `TOMBOLO_REALKUBE` (a folder
//! whose `bin/` holds the Kubernetes binaries, see `tests/realkube`). Without them the tests say loudly that they
//! are skipped, and fail instead when `CI` is set. `cargo xtask test` sets both.

mod fleet;
mod joined;
mod kubectl;
mod process;
mod realkube;
mod suite;
mod templates;
mod up;
pub mod vault;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use fleet::{Fleet, Make, Part, Settings};
pub use joined::joined_agent;
pub use kubectl::{Kubectl, Running};
pub use process::{Process, tombolo};
pub use realkube::ControlPlane;
pub use suite::{Ours, Suite, deployment};
pub use templates::{Templates, plain_http};
pub use up::Up;

/// Where the things under test are.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The program under test.
    pub binary: PathBuf,
    /// The folder with `bin/` and the state of real control planes.
    pub realkube: PathBuf,
}

impl Bench {
    /// Finds both, or says why the test is skipped.
    ///
    /// # Panics
    /// When something is missing and `CI` is set.
    #[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
    pub fn find(test: &str) -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (binary, realkube) = (variable("TOMBOLO_BINARY"), variable("TOMBOLO_REALKUBE"));
        if let (Some(binary), Some(realkube)) = (binary, realkube) {
            return Some(Self { binary, realkube });
        }
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(
            !ci,
            "{test}: TOMBOLO_BINARY and TOMBOLO_REALKUBE must be set in CI"
        );
        eprintln!("SKIPPED {test}: run it with `cargo xtask test`, which builds what it needs");
        None
    }

    /// A kubectl with a kubeconfig.
    pub fn kubectl(&self, kubeconfig: impl Into<PathBuf>) -> Kubectl {
        Kubectl::new(self.realkube.join("bin/kubectl"), kubeconfig.into())
    }
}

/// Checks that a text has some words in it.
///
/// # Panics
/// When one is missing, with the text.
pub fn contains(text: &str, wanted: &[&str]) {
    for word in wanted {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}

/// Asks again until the answer is something, for at most `limit`.
///
/// # Panics
/// When the time is over, with what was waited for and the last complaint.
pub fn wait_for<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(complaint) => {
                assert!(
                    start.elapsed() < limit,
                    "{what}: not within {limit:?}: {complaint}"
                );
            }
        }
        // A pause between two questions, not a wait for a condition to have come true.
        std::thread::park_timeout(Duration::from_millis(150));
    }
}
