//! The verbs of the API over untyped objects.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::uri::{InvalidUri, Scheme, Uri};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use machinery::{ApiError, ApiResource, meta};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tower::Service;

use crate::error::{BoxError, Error};
use crate::options::{DeleteOptions, Form, ListOptions, Patch, Query, WatchOptions, segment};
use crate::rate::Rate;
use crate::transport::{Body, Connection, Transport, config_from_token};
use crate::watch::WatchStream;

/// How long any request but a watch may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How much longer than the server the client waits before it gives a watch up.
const WATCH_GRACE: Duration = Duration::from_secs(15);

/// How much is read of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one answer. Default 512 MiB.
    pub answer: usize,
    /// Bytes of a list that is read whole, and of all objects together in the watch caches of a client and its clones.
    /// Default: any number.
    pub whole: usize,
    /// Objects a page when a whole list is read. Default 500.
    pub page: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            answer: 512 << 20,
            whole: usize::MAX,
            page: 500,
        }
    }
}

/// A client of one API server with one identity. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
    server: String,
    user_agent: HeaderValue,
    bounds: Bounds,
    /// What the objects in its watch caches take.
    held: Arc<AtomicUsize>,
}

/// What a client calls itself unless told otherwise. Servers name field managers after it.
const USER_AGENT: HeaderValue = HeaderValue::from_static("tombolo");

/// A page of a list, or all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    /// The objects, with `apiVersion` and `kind` filled in.
    pub items: Vec<Value>,
    /// The revision of the list: watch from here.
    pub resource_version: String,
    /// Token of the next page, empty at the end.
    pub continue_token: String,
}

impl Client {
    /// A client of a service in this process, such as the embedded API server's.
    pub fn from_service<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            transport: Transport::service(service),
            server: String::new(),
            user_agent: USER_AGENT,
            bounds: Bounds::default(),
            held: Arc::default(),
        }
    }

    /// A client of a server, with a token and the CA to trust.
    ///
    /// # Errors
    /// [`Error::Config`] for an address or CA that cannot be used.
    pub fn from_token(connection: &Connection) -> Result<Self, Error> {
        Self::from_config(config_from_token(connection)?)
    }

    /// The same, asked at an address that the server's host was found to have: what was looked up and judged is what is
    /// dialled, whatever its name means a moment later.
    ///
    /// # Errors
    /// [`Error::Config`] for an address or CA that cannot be used.
    pub fn from_token_at(connection: &Connection, address: IpAddr) -> Result<Self, Error> {
        let mut config = config_from_token(connection)?;
        let bad = |error: http::Error| Error::Config(error.into());
        let mut parts = config.cluster_url.into_parts();
        let named = parts.authority.take();
        let named = named.ok_or_else(|| Error::Config("the server has no host".into()))?;
        let port = named.port_u16().unwrap_or(if parts.scheme == Some(Scheme::HTTP) {
            80
        } else {
            443
        });
        let at = SocketAddr::new(address, port).to_string();
        parts.authority = Some(at.parse().map_err(|error: InvalidUri| bad(error.into()))?);
        config.cluster_url = Uri::from_parts(parts).map_err(|error| bad(error.into()))?;
        config.tls_server_name = Some(named.host().trim_matches(['[', ']']).to_owned());
        let host = HeaderValue::try_from(named.as_str()).map_err(|error| Error::Config(error.into()))?;
        let client = Self::from_config(config)?;
        Ok(Self {
            transport: client
                .transport
                .through(String::new(), HeaderMap::from_iter([(header::HOST, host)])),
            ..client
        })
    }

    /// A client from the service account of the pod that this runs in.
    ///
    /// # Errors
    /// [`Error::Config`] outside of a pod.
    pub fn in_cluster() -> Result<Self, Error> {
        Self::from_config(kube::Config::incluster().map_err(|error| Error::Config(error.into()))?)
    }

    /// A client from a `kube` configuration.
    ///
    /// # Errors
    /// [`Error::Config`] for a configuration that cannot be used.
    pub fn from_config(config: kube::Config) -> Result<Self, Error> {
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Self {
            transport: Transport::https(&config)?,
            server,
            user_agent: USER_AGENT,
            bounds: Bounds::default(),
            held: Arc::default(),
        })
    }

    /// A client of what lies behind a path of this one's server, such as a proxy's; each request carries the headers.
    #[must_use]
    pub fn through(&self, path: &str, headers: HeaderMap) -> Self {
        let path = path.trim_end_matches('/').to_owned();
        Self {
            server: format!("{}{path}", self.server),
            transport: self.transport.through(path, headers),
            user_agent: self.user_agent.clone(),
            bounds: self.bounds,
            held: Arc::default(),
        }
    }

    /// The same client, which reads no more than that: for a server that is not to be trusted.
    #[must_use]
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(crate) fn held(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.held)
    }

    /// The same client with a bound on requests, which its clones share. Waiting counts against the deadline of a
    /// request.
    #[must_use]
    pub fn limited(self, rate: Rate) -> Self {
        let transport = self.transport.limited(rate);
        self.over(transport)
    }

    /// The same client over another carrier.
    pub(crate) fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// The server's URL, empty for a service in this process.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The same client under another server name: what a service in this process is called from outside.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<String>) -> Self {
        self.server = server.into();
        self
    }

    /// The same client under another name of its own: servers show it in their logs, and as the manager of the fields
    /// that it writes.
    #[must_use]
    pub fn with_user_agent(mut self, component: &'static str) -> Self {
        self.user_agent = HeaderValue::from_static(component);
        self
    }

    /// Reads one object.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_not_found`] if there is none.
    pub async fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, Error> {
        self.value(Method::GET, &path(resource, namespace, Some(name), None), None)
            .await
    }

    /// Reads one object, or `None` if there is none.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_opt(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        match self.get(resource, namespace, name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads one page (or, without a limit, all) of a list.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_expired`] for an old continue token.
    pub async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Listed, Error> {
        Ok(self.page(resource, namespace, options).await?.0)
    }

    /// A page of a list, and its bytes.
    async fn page(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<(Listed, usize), Error> {
        let path = path(resource, namespace, None, None) + options.query().as_str();
        let request = request(Method::GET, &path, None, "application/json")?;
        let (mut list, bytes) = self.read_value(format!("GET {path}"), request).await?;
        let text = |field: &str| list["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (resource_version, continue_token) = (text("resourceVersion"), text("continue"));
        let mut items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                return Err(Error::Answer {
                    request: format!("GET {path}"),
                    problem: "items is no list".to_owned(),
                });
            }
        };
        let api_version = resource.api_version();
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.entry("apiVersion")
                .or_insert_with(|| api_version.clone().into());
            item.entry("kind")
                .or_insert_with(|| resource.kind.as_ref().into());
        }
        let listed = Listed {
            items,
            resource_version,
            continue_token,
        };
        Ok((listed, bytes))
    }

    /// Reads a whole list in pages. When the pages expire midway it is read again in one piece.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_all(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Listed, Error> {
        let mut page = ListOptions {
            limit: self.bounds.page,
            continue_token: String::new(),
            ..options.clone()
        };
        let (mut all, mut bytes) = self.page(resource, namespace, &page).await?;
        while !all.continue_token.is_empty() {
            page.continue_token.clone_from(&all.continue_token);
            // The token fixes the revision; servers refuse to be told both.
            page.resource_version.clear();
            match self.page(resource, namespace, &page).await {
                Ok((mut next, more)) => {
                    bytes = bytes.saturating_add(more);
                    if bytes > self.bounds.whole {
                        return Err(Error::TooLarge {
                            request: format!("GET {}", path(resource, namespace, None, None)),
                            limit: self.bounds.whole,
                        });
                    }
                    all.items.append(&mut next.items);
                    all.continue_token = next.continue_token;
                }
                Err(error) if error.is_expired() => {
                    let whole = ListOptions {
                        limit: 0,
                        continue_token: String::new(),
                        ..options.clone()
                    };
                    return self.list(resource, namespace, &whole).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Reads one object, or all that options select, as a `meta.k8s.io/v1 Table`. A server that knows no tables sends
    /// the object or list itself.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn table(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: Option<&str>,
        options: &ListOptions,
    ) -> Result<Value, Error> {
        let path = path(resource, namespace, name, None) + options.query().as_str();
        let mut request = request(Method::GET, &path, None, "")?;
        let accept = HeaderValue::from_static(Form::Tables.accept());
        request.headers_mut().insert(header::ACCEPT, accept);
        Ok(self.read_value(format!("GET {path}"), request).await?.0)
    }

    /// Makes an object; answers it as stored.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_already_exists`] if the name is taken.
    pub async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, Error> {
        self.value(Method::POST, &path(resource, namespace, None, None), Some(object))
            .await
    }

    /// Replaces an object; answers it as stored.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_conflict`] if `metadata.resourceVersion` is given and no longer true.
    pub async fn replace(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &Value,
    ) -> Result<Value, Error> {
        self.value(
            Method::PUT,
            &path(resource, namespace, Some(name), None),
            Some(object),
        )
        .await
    }

    /// Makes an object and answers it as stored, or the one of its name that somebody else made meanwhile.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_or_get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, Error> {
        match self.create(resource, namespace, object).await {
            Err(error) if error.is_already_exists() => {
                self.get(resource, namespace, meta::name(object)).await
            }
            answer => answer,
        }
    }

    /// Changes a part of an object or of a subresource of it; answers it as stored.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn patch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        patch: Patch,
        body: &Value,
    ) -> Result<Value, Error> {
        let path = path(resource, namespace, Some(name), subresource) + patch.query().as_str();
        self.send_value(Method::PATCH, &path, Some(body), patch.content_type())
            .await
    }

    /// Tries to make an object: checked and completed by the server, but not stored; answers what would be.
    ///
    /// # Errors
    /// As those of [`Client::create`].
    pub async fn try_create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, Error> {
        let mut query = Query::default();
        query.add("dryRun", "All");
        let path = path(resource, namespace, None, None) + query.as_str();
        self.value(Method::POST, &path, Some(object)).await
    }

    /// Tries to change a part of an object: checked and completed by the server, but not stored; answers what would be.
    ///
    /// # Errors
    /// As those of [`Client::patch`].
    pub async fn try_patch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: Patch,
        body: &Value,
    ) -> Result<Value, Error> {
        let mut query = patch.query();
        query.add("dryRun", "All");
        let path = path(resource, namespace, Some(name), None) + query.as_str();
        self.send_value(Method::PATCH, &path, Some(body), patch.content_type())
            .await
    }

    /// Posts to a subresource (`serviceaccounts/token`, `pods/eviction`…); answers what the server says.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_subresource(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        subresource: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        self.value(
            Method::POST,
            &path(resource, namespace, Some(name), Some(subresource)),
            Some(body),
        )
        .await
    }

    /// Deletes an object. With finalizers or a grace period it may live on for a while.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_not_found`] if there is none.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let path = path(resource, namespace, Some(name), None);
        self.value(Method::DELETE, &path, Some(&options.body())).await?;
        Ok(())
    }

    /// Starts a watch.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_expired`] if the revision is too old.
    pub async fn watch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &WatchOptions,
    ) -> Result<WatchStream, Error> {
        let path = path(resource, namespace, None, None) + options.query().as_str();
        let what = format!("GET {path}");
        let mut request = request(Method::GET, &path, None, "")?;
        let accept = HeaderValue::from_static(options.form.accept());
        request.headers_mut().insert(header::ACCEPT, accept);
        let response = self.answer(&what, request).await?;
        let deadline = (!options.timeout.is_zero()).then(|| Instant::now() + options.timeout + WATCH_GRACE);
        Ok(WatchStream::new(what, response.into_body(), deadline))
    }

    /// Reads any path as JSON, such as `/version`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_path(&self, path: &str) -> Result<Value, Error> {
        self.value(Method::GET, path, None).await
    }

    /// Asks for a path and hands its answer on piece by piece, however large it is. The stream ends with
    /// [`Error::Transport`] if the answer breaks off.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn download(&self, path: &str) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let what = format!("GET {path}");
        let request = request(Method::GET, path, None, "")?;
        let body = self.answer(&what, request).await?.into_body();
        let broken = move |source| Error::Transport {
            request: what.clone(),
            source,
        };
        Ok(body.into_data_stream().map_err(broken).boxed())
    }

    /// Sends any request and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Timeout`] or [`Error::TooLarge`].
    pub async fn request(&self, request: Request<Vec<u8>>) -> Result<Response<Bytes>, Error> {
        self.request_at_most(request, self.bounds.answer).await
    }

    /// Sends any request and reads an answer of at most `limit` bytes: for whoever answers and is not to be trusted.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Timeout`] or [`Error::TooLarge`].
    pub async fn request_at_most(
        &self,
        request: Request<Vec<u8>>,
        limit: usize,
    ) -> Result<Response<Bytes>, Error> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let response = self.send(&what, request).await?;
        let (parts, body) = response.into_parts();
        let bytes = read(&what, body, limit).await?;
        Ok(Response::from_parts(parts, bytes))
    }

    async fn value(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        self.send_value(method, path, body, "application/json").await
    }

    async fn send_value(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &'static str,
    ) -> Result<Value, Error> {
        let what = format!("{method} {path}");
        let request = request(method, path, body, content_type)?;
        Ok(self.read_value(what, request).await?.0)
    }

    /// A successful answer as JSON, and its bytes.
    async fn read_value(&self, what: String, request: Request<Full<Bytes>>) -> Result<(Value, usize), Error> {
        let response = self.answer(&what, request).await?;
        let bytes = read(&what, response.into_body(), self.bounds.answer).await?;
        let value = serde_json::from_slice(&bytes).map_err(|error| Error::Answer {
            request: what,
            problem: error.to_string(),
        })?;
        Ok((value, bytes.len()))
    }

    /// A successful answer, its body unread.
    async fn answer(&self, what: &str, request: Request<Full<Bytes>>) -> Result<Response<Body>, Error> {
        let response = self.send(what, request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.parse().ok());
        let bytes = read(what, response.into_body(), self.bounds.answer).await?;
        let mut error = ApiError::from_body(code, &bytes);
        if let (0, Some(seconds)) = (error.retry_after_seconds, retry_after) {
            error.retry_after_seconds = seconds;
        }
        Err(Error::Api(error))
    }

    async fn send(&self, what: &str, mut request: Request<Full<Bytes>>) -> Result<Response<Body>, Error> {
        request
            .headers_mut()
            .entry(header::USER_AGENT)
            .or_insert_with(|| self.user_agent.clone());
        match tokio::time::timeout(REQUEST_TIMEOUT, self.transport.send(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(source)) => Err(Error::Transport {
                request: what.to_owned(),
                source,
            }),
            Err(_) => Err(timeout(what)),
        }
    }
}

fn timeout(what: &str) -> Error {
    Error::Timeout {
        request: what.to_owned(),
        limit: REQUEST_TIMEOUT,
    }
}

async fn read(what: &str, mut body: Body, limit: usize) -> Result<Bytes, Error> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let mut all = BytesMut::new();
    while let Some(frame) = timeout_at(deadline, body.frame())
        .await
        .map_err(|_| timeout(what))?
    {
        let frame = frame.map_err(|source| Error::Transport {
            request: what.to_owned(),
            source,
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if all.len() + data.len() > limit {
            return Err(Error::TooLarge {
                request: what.to_owned(),
                limit,
            });
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

/// The path of a collection, an object or a subresource.
fn path(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let namespace = namespace.map(segment);
    let name = name.map(segment);
    let mut path = resource.path(namespace.as_deref(), name.as_deref());
    if let Some(subresource) = subresource {
        path.push('/');
        path.push_str(subresource);
    }
    path
}

fn request(
    method: Method,
    path: &str,
    body: Option<&Value>,
    content_type: &'static str,
) -> Result<Request<Full<Bytes>>, Error> {
    let mut builder = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, "application/json");
    if body.is_some() {
        builder = builder.header(header::CONTENT_TYPE, content_type);
    }
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    builder.body(Full::new(bytes)).map_err(|error| Error::Answer {
        request: path.to_owned(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::{Fake, json_answer};

    #[tokio::test]
    async fn what_is_tried_is_marked_as_a_dry_run() {
        let (fake, object) = (Fake::default(), json!({"metadata": {"name": "a"}}));
        let client = fake.client();
        let pods = ApiResource::namespaced("", "v1", "pods", "Pod");
        for _ in 0..3 {
            fake.answer(json_answer(&object));
        }
        client.try_create(&pods, Some("n"), &object).await.unwrap();
        let apply = Patch::Apply {
            manager: "m".into(),
            force: true,
        };
        for patch in [Patch::Merge, apply] {
            let tried = client.try_patch(&pods, Some("n"), "a", patch, &object).await;
            assert_eq!(tried.unwrap(), object);
        }
        assert_eq!(
            fake.requests(),
            [
                "POST /api/v1/namespaces/n/pods?dryRun=All",
                "PATCH /api/v1/namespaces/n/pods/a?dryRun=All",
                "PATCH /api/v1/namespaces/n/pods/a?fieldManager=m&force=true&dryRun=All",
            ]
        );
    }
}
