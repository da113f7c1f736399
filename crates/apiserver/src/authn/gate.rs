//! The way into the server: who is it, whom does it act for, may it. One call for each request.

use std::sync::Arc;

use http::HeaderMap;
use machinery::ApiError;

use super::Authenticator;
use crate::authz::{Attributes, Authorizer, require};
use crate::impersonate;
use crate::request_info::RequestInfo;
use crate::user::{Caller, UserInfo};

/// Paths that everybody may ask, as Kubernetes has it: a prober has no rights yet when a control plane starts.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Authentication, impersonation and authorization, in that order.
#[derive(Debug, Clone)]
pub struct Gate {
    authenticator: Option<Arc<Authenticator>>,
    authorizer: Arc<dyn Authorizer>,
}

impl Gate {
    /// Without an authenticator whoever comes over a connection is anonymous.
    pub fn new(authenticator: Option<Arc<Authenticator>>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self {
            authenticator,
            authorizer,
        }
    }

    /// Lets a request in, as the user it acts for. Takes all credentials and impersonation out of its headers.
    ///
    /// # Errors
    /// 401 for credentials that are not accepted, 403 for what the user may not do.
    pub async fn admit(
        &self,
        caller: Caller,
        headers: &mut HeaderMap,
        info: &RequestInfo,
    ) -> Result<UserInfo, ApiError> {
        let user = match (caller, &self.authenticator) {
            (Caller::User(user), _) => user,
            (Caller::Peer(peer), Some(authenticator)) => authenticator.authenticate(&peer, headers).await?,
            (Caller::Peer(_), None) => UserInfo::anonymous(),
        };
        let user = impersonate::apply(self.authorizer.as_ref(), user, headers).await?;
        if !info.is_resource_request && ALWAYS_ALLOWED.contains(&info.path.as_str()) {
            return Ok(user);
        }
        require(self.authorizer.as_ref(), &user, &Attributes::of_request(info)).await?;
        Ok(user)
    }

    /// Who decides about tokens, if anybody does.
    pub fn authenticator(&self) -> Option<&Arc<Authenticator>> {
        self.authenticator.as_ref()
    }

    /// Who decides about rights.
    pub fn authorizer(&self) -> &dyn Authorizer {
        self.authorizer.as_ref()
    }
}
