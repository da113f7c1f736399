//! kubectl as a program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Some kubectl, with a kubeconfig.
    pub fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(words(line));
        command
    }

    /// Runs a command line (single quotes group words); gives its standard output, or its complaint.
    ///
    /// # Errors
    /// What kubectl wrote to standard error when it failed.
    pub fn try_run(&self, line: &str) -> Result<String, String> {
        self.try_with_input(line, "")
    }

    /// The same with standard input.
    ///
    /// # Errors
    /// What kubectl wrote to standard error when it failed.
    pub fn try_with_input(&self, line: &str, input: &str) -> Result<String, String> {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut stdin = child.stdin.take().ok_or("no standard input")?;
        stdin
            .write_all(input.as_bytes())
            .map_err(|error| error.to_string())?;
        drop(stdin);
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!(
                "kubectl {line}: {}{}",
                text(&output.stdout),
                text(&output.stderr)
            ))
        }
    }

    /// Runs a command line that must succeed.
    ///
    /// # Panics
    /// When it fails, with what kubectl said.
    pub fn run(&self, line: &str) -> String {
        self.try_run(line)
            .unwrap_or_else(|complaint| panic!("{complaint}"))
    }

    /// Runs a command line with standard input; it must succeed.
    ///
    /// # Panics
    /// When it fails, with what kubectl said.
    pub fn with_input(&self, line: &str, input: &str) -> String {
        self.try_with_input(line, input)
            .unwrap_or_else(|complaint| panic!("{complaint}"))
    }

    /// Starts a command line that goes on, such as `get -w`.
    ///
    /// # Panics
    /// When kubectl does not start.
    pub fn start(&self, line: &str) -> Running {
        let mut child = self
            .command(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("its output is piped"));
        Running { child, lines }
    }

    /// `get … -o json`, parsed.
    ///
    /// # Errors
    /// What kubectl wrote to standard error when it failed.
    pub fn json(&self, what: &str) -> Result<Value, String> {
        let text = self.try_run(&format!("get {what} -o json"))?;
        serde_json::from_str(&text).map_err(|error| format!("get {what}: {error}"))
    }
}

/// A kubectl that goes on until this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// The next line that it writes; empty once it has ended.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(_) => line,
            Err(_) => String::new(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Splits a command line at spaces; single quotes group.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut started) = (String::new(), false, false);
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                started = true;
            }
            ' ' if !quoted => {
                if started {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            other => {
                word.push(other);
                started = true;
            }
        }
    }
    if started {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes_group_words() {
        assert_eq!(
            super::words("patch x -p '{\"a\": 1}' ''"),
            ["patch", "x", "-p", "{\"a\": 1}", ""]
        );
    }
}
