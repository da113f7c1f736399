//! The store keeps the contract of every object source.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::sync::Arc;

use clock::disk::SimDisk;
use source::ObjectSource;
use source::conformance::{self, Setup};
use store::{Mode, Options, Store};

fn open(mode: Mode) -> impl Fn(Setup) -> std::future::Ready<Arc<dyn ObjectSource>> {
    move |setup| {
        let options = Options {
            window_events: setup.window_events,
            ..Options::default()
        };
        let store = Store::open(Arc::new(SimDisk::new(1)), options, mode).unwrap();
        std::future::ready(store)
    }
}

#[tokio::test]
async fn with_a_writer_thread() {
    conformance::check(open(Mode::Thread)).await;
}

#[tokio::test]
async fn inline() {
    conformance::check(open(Mode::Inline)).await;
}
