//! The end of a custom resource definition. The write that deletes it clears up at once; this heals what a crash in
//! between left behind.

use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use machinery::ApiError;
use smol_str::SmolStr;
use source::{Key, Resource};

use super::feed::Notice;
use super::work::{Controller, Next};
use crate::definitions::{DEFINITIONS, clean_up};
use crate::error;
use crate::server::ApiServer;

/// See the module.
pub(super) struct Definitions(Weak<ApiServer>);

impl Definitions {
    pub(super) fn new(server: &Arc<ApiServer>) -> Self {
        Self(Arc::downgrade(server))
    }

    async fn tend(&self, name: &SmolStr) -> Result<Next, ApiError> {
        let Some(server) = self.0.upgrade() else {
            return Ok(Next::Done);
        };
        clean_up(&server, name).await.map_err(error::of_source)?;
        let key = Key::new(&Resource::from(DEFINITIONS), "", name);
        let left = server.source().get(&key).await.map_err(error::of_source)?;
        Ok(if left.is_some_and(|left| left.head.deleting) {
            Next::Retry
        } else {
            Next::Done
        })
    }
}

impl Controller for Definitions {
    type Key = SmolStr;
    const NAME: &'static str = "definitions";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<SmolStr>) {
        if let Notice::Put(object) = notice
            && object.head.deleting
        {
            wanted.push(object.key.name.clone());
        }
    }

    fn look<'a>(
        &'a self,
        key: &'a SmolStr,
        _: &'a mut Vec<SmolStr>,
    ) -> BoxFuture<'a, Result<Next, ApiError>> {
        Box::pin(self.tend(key))
    }
}
