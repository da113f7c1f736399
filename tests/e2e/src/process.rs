//! Processes that end with the test that started them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::Bench;

/// A background process whose output goes to a file. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; its output goes to `<folder>/<name>.log`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).expect("a log file can be made");
        let twin = file.try_clone().expect("a log file can be shared");
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(twin)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end (SIGTERM) and waits.
    ///
    /// # Errors
    /// When it is not gone within `limit`; it is killed then.
    pub fn stop(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let start = std::time::Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        self.child.kill()?;
        Err(io::Error::other(format!(
            "{} did not end within {limit:?}",
            self.name
        )))
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Process {
    #[expect(
        clippy::print_stderr,
        reason = "the log of a failed test is what a person needs"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.output();
            let tail: Vec<&str> = output.lines().rev().take(40).collect();
            eprintln!("--- the end of {}'s output:", self.name);
            for line in tail.into_iter().rev() {
                eprintln!("{line}");
            }
        }
        self.kill();
    }
}

/// The program under test with a command line.
pub fn tombolo(bench: &Bench, line: &[&str]) -> Command {
    let mut command = Command::new(&bench.binary);
    command.args(line);
    command
}
