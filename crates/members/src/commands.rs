//! The handful of commands that a simulated container knows.

use std::fmt::Write as _;

use serde_json::Value;

use crate::world::{name, text};

/// What a command printed, and how it ended.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

/// Whether the command copies its input to its output.
pub(crate) fn reads_input(command: &[String]) -> bool {
    command == ["cat"]
}

/// What a container's own command prints before it ends; `None` if it is none of those known here, or has none.
pub(crate) fn of_container(pod: &Value, container: &Value) -> Option<Output> {
    // What a shell would do with these is not known here.
    const SHELL: [char; 14] = [
        ';', '&', '|', '<', '>', '$', '`', '(', ')', '\n', '\\', '\'', '"', '#',
    ];
    let lists = ["command", "args"].into_iter();
    let command: Vec<String> = lists
        .filter_map(|list| container[list].as_array())
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect();
    let words = words(&command);
    let is_script = command.first().map(String::as_str) != words.first().copied();
    let plain = !is_script || !words.iter().any(|word| word.contains(SHELL));
    let known = words.first().is_some_and(|word| KNOWN.contains(word));
    (plain && known).then(|| run(pod, &command))
}

/// What ends by itself.
const KNOWN: [&str; 6] = ["echo", "hostname", "env", "true", "false", "exit"];

/// The words of one command, or of `sh -c` with one.
fn words(command: &[String]) -> Vec<&str> {
    match command {
        [shell, flag, script] if flag == "-c" && matches!(shell.rsplit('/').next(), Some("sh" | "bash")) => {
            script.split_whitespace().collect()
        }
        words => words.iter().map(String::as_str).collect(),
    }
}

/// Runs one command, or `sh -c` with one.
pub(crate) fn run(pod: &Value, command: &[String]) -> Output {
    let words = words(command);
    let mut output = Output::default();
    match words.split_first() {
        Some((&"echo", rest)) => output.stdout = format!("{}\n", rest.join(" ")),
        Some((&"hostname", _)) => output.stdout = format!("{}\n", name(pod)),
        Some((&"env", _)) => {
            let _infallible = writeln!(output.stdout, "HOSTNAME={}", name(pod));
            let variables = pod.pointer("/spec/containers/0/env").and_then(Value::as_array);
            for variable in variables.into_iter().flatten() {
                let _infallible = writeln!(
                    output.stdout,
                    "{}={}",
                    text(variable, "/name"),
                    text(variable, "/value")
                );
            }
        }
        Some((&"true", _)) => {}
        Some((&"false", _)) => output.code = 1,
        Some((&"exit", rest)) => output.code = rest.first().and_then(|code| code.parse().ok()).unwrap_or(0),
        Some((other, _)) => {
            output.stderr = format!(
                "{other}: not found: this container is simulated by tombolo and knows echo, hostname, env, cat, \
                 true, false and exit\n"
            );
            output.code = 127;
        }
        None => output.code = 127,
    }
    output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn knows_a_few_commands_and_says_so() {
        let pod = json!({
            "metadata": {"name": "web-1"},
            "spec": {"containers": [{"env": [{"name": "A", "value": "b"}]}]},
        });
        let check = |command: &[&str], stdout: &str, code: i32| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let output = run(&pod, &command);
            assert_eq!(
                (output.stdout.as_str(), output.code),
                (stdout, code),
                "{command:?}"
            );
        };
        check(&["echo", "a", "b"], "a b\n", 0);
        check(&["hostname"], "web-1\n", 0);
        check(&["env"], "HOSTNAME=web-1\nA=b\n", 0);
        check(&["/bin/sh", "-c", "exit 3"], "", 3);
        check(&["nginx"], "", 127);
        check(&[], "", 127);
        assert!(run(&pod, &["nginx".to_owned()]).stderr.contains("simulated"));
    }

    #[test]
    fn a_containers_own_command_ends_if_it_is_known() {
        for (container, printed) in [
            (json!({}), None),
            (json!({"args": ["echo", "hi"]}), Some(("hi\n", 0))),
            (json!({"command": ["echo"], "args": ["hi"]}), Some(("hi\n", 0))),
            (
                json!({"command": ["sh", "-c"], "args": ["exit 3"]}),
                Some(("", 3)),
            ),
            (json!({"command": ["sh", "-c", "echo hi; sleep 5"]}), None),
            (json!({"command": ["sh", "-c", "echo $HOME"]}), None),
            (json!({"command": ["echo", "$(HOME);"]}), Some(("$(HOME);\n", 0))),
            (json!({"args": ["sh"]}), None),
            (json!({"args": ["cat"]}), None),
            (json!({"args": ["sleep", "5"]}), None),
            (json!({"command": []}), None),
        ] {
            let output = of_container(&json!({}), &container);
            let output = output
                .as_ref()
                .map(|output| (output.stdout.as_str(), output.code));
            assert_eq!(output, printed, "{container}");
        }
    }
}
