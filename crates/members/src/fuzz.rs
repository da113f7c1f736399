//! Fuzz bodies: what clients of simulated pods send.

use serde_json::json;

use crate::exec::task;
use crate::spdy::Session;
use crate::streams::{Exec, Forward, Streams};

/// Any bytes as a SPDY session, to a forwarded port and to a command: nothing panics, and nobody gets much more than
/// what was sent.
pub fn fuzz_spdy(bytes: &[u8]) {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
    let command = |terminal| {
        let wanted = vec!["error", "stdin", "stdout"];
        Exec::new(task(&pod, &["cat".to_owned()]), terminal, wanted)
    };
    let streams: [Box<dyn Streams>; 3] = [
        Box::new(Forward::new(pod.clone())),
        Box::new(command(false)),
        Box::new(command(true)),
    ];
    for mut streams in streams {
        let mut session = Session::new();
        session.receive(bytes);
        while let Ok(Some(event)) = session.poll_event() {
            streams.handle(event, &mut session);
        }
        let answered = session.take_output().len();
        assert!(
            answered <= 64 * bytes.len(),
            "{answered} bytes for {}",
            bytes.len()
        );
    }
}
