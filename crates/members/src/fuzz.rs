//! Fuzz bodies: what clients of simulated pods send, and what pods say of themselves.

use std::sync::Arc;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use machinery::Gvk;
use machinery::patch::merge_patch;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use crate::action::Action;
use crate::behaviour::Behaviour;
use crate::exec::{converse, task};
use crate::said;
use crate::spdy::Session;
use crate::streams::{Exec, Forward, Streams};
use crate::upgrade::web_socket;
use crate::world::{World, containers};
use crate::{commands, plan};

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

/// Any bytes as a WebSocket's, to commands: the answer is whole messages on the channels of outputs, with how it ended
/// at most once and last, and not much more than what was sent.
pub fn fuzz_channels(bytes: &[u8]) {
    let pod =
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": [{"name": "c"}]}});
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime without sockets can be made");
    for (command, terminal) in [("cat", false), ("cat", true), ("false", true)] {
        let task = task(&pod, &[command.to_owned()]);
        let task = if terminal { task.on_terminal() } else { task };
        let (answer, messages) = runtime.block_on(async {
            let mut answer = Vec::new();
            let socket = web_socket(tokio::io::join(bytes, &mut answer)).await;
            let wanted = ["stdin", "stdout", "stderr"];
            let _cut_off = converse(socket, &task, terminal, &wanted, stream::pending().boxed()).await;
            let heard = tokio::io::join(&answer[..], tokio::io::sink());
            let client = WebSocketStream::from_raw_socket(heard, Role::Client, None).await;
            let messages: Vec<_> = client.collect().await;
            (answer.len(), messages)
        });
        assert!(
            answer <= 2 * bytes.len() + 1_024,
            "{answer} bytes for {}",
            bytes.len()
        );
        let said = messages.into_iter().filter_map(Result::ok);
        let channels: Vec<u8> = said
            .filter_map(|message| match message {
                Message::Binary(data) => Some(*data.first().expect("a channel is named")),
                Message::Text(_) => panic!("a text is no channel's"),
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
            })
            .collect();
        let outputs = channels.strip_suffix(&[3]).unwrap_or(&channels);
        assert!(
            outputs.iter().all(|channel| matches!(channel, 1 | 2)),
            "{channels:?}"
        );
    }
}

/// A pod in lines (see [`apiserver::fuzz::edit`]): what it says of its behaviour is read, and if it is a pod at all, its
/// node takes it in few steps to where nothing more happens, by statuses that are of a pod.
pub fn fuzz_behaviour(bytes: &[u8]) {
    let mut pod = json!({});
    apiserver::fuzz::edit(&mut pod, &String::from_utf8_lossy(bytes));
    let behaviour = Behaviour::of(&pod);
    assert!(!behaviour.restarts || pod["spec"]["restartPolicy"] != "Never");
    for container in containers(&pod) {
        said::notice(&pod, container);
        let printed = said::printed(&pod, container);
        assert_eq!(
            printed.is_some(),
            commands::of_container(&pod, container).is_some()
        );
        assert!(printed.is_none_or(|text| text.len() <= bytes.len() + 64));
    }
    let schema = machinery::builtin::schema(&Gvk::new("v1", "Pod")).expect("pods have a schema");
    let is_pod = |pod: &Value| schema.validate(pod).is_empty();
    if !is_pod(&pod) {
        return;
    }
    let node = Arc::new(json!({"metadata": {"name": "node"}}));
    let mut now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    for _ in 0..8 {
        let world = World {
            nodes: vec![Arc::clone(&node)],
            pods: vec![Arc::new(pod.clone())],
            ..World::default()
        };
        let pass = plan(&[], &world, now, 1);
        let patch = pass.actions.into_iter().find_map(|action| match action {
            Action::Patch { patch, .. } => Some(patch),
            Action::Bind { node, .. } => Some(json!({"spec": {"nodeName": node}})),
            Action::Create { .. } | Action::Delete { .. } => None,
        });
        match (patch, pass.wake_at) {
            (Some(patch), _) => merge_patch(&mut pod, &patch),
            (None, Some(wake)) => now = wake,
            (None, None) => return,
        }
        assert!(is_pod(&pod), "{:?}: {pod}", schema.validate(&pod));
    }
    panic!("{pod} goes on for ever");
}
