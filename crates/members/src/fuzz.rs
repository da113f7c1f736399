//! Fuzz bodies: what clients of simulated pods send.

use serde_json::json;

use crate::spdy::Session;
use crate::streams::{Exec, Forward, Streams};

/// Any bytes as a SPDY session, to a forwarded port and to a command: nothing panics, and nobody gets much more than
/// what was sent.
pub fn fuzz_spdy(bytes: &[u8]) {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
    let wanted = vec!["error", "stdin", "stdout"];
    let streams: [Box<dyn Streams>; 2] = [
        Box::new(Forward::new(pod.clone())),
        Box::new(Exec::new(pod, vec!["cat".to_owned()], wanted)),
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
