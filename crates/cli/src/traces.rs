//! Exports the spans of `serve`, `gateway` and `mcp` over OTLP/HTTP, if the environment names a receiver.
//!
//! A server emits a `tracing` span for each request ([`SPANS`]); [`SpanLayer`] makes spans of OpenTelemetry of them. A queue of bounded
//! length keeps them for the thread of the SDK, so a receiver that does not answer loses spans and delays nothing. [`WithinLimits`]
//! keeps refused requests of one client from filling it.

mod settings;

use std::borrow::Cow;
use std::collections::HashMap;
use std::env;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base::log::{Level, Log, SPANS};
use base::text::first_chars;
use egress::credential::Trust;
use egress::{AddressPolicy, HttpClient as _, ReqwestClient, status_text};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer;
use tracing_subscriber::registry::LookupSpan;
use url::Url;

use super::exit::Failure;
pub(crate) use settings::SECRET_VARIABLES;
use settings::Settings;

/// How long the end of a server waits for the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// How long after a failure no other is logged.
const QUIET_TIME: Duration = Duration::from_secs(600);

/// The attribute with the status of an HTTP request, and the status of a request above a limit (RFC 6585, section 4).
const STATUS: &str = "http.response.status_code";
const TOO_MANY_REQUESTS: i64 = 429;

/// The maximum length of an attribute, in characters.
const MAX_CHARS: usize = 200;

/// The export of a server's spans, if there is one.
pub(crate) struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Starts the export that the environment asks for, and returns it with what `install` returns for its layer. `service` names
    /// the server if the environment does not; `log` receives where the spans go, and failures.
    ///
    /// # Errors
    /// A variable is invalid. Nothing is installed then.
    pub(crate) fn start<T>(
        service: &'static str,
        log: &Arc<dyn Log>,
        install: impl FnOnce(Option<SpanLayer>) -> T,
    ) -> Result<(Self, T), Failure> {
        let unusable = |error: String| Failure::usage(format!("cannot export spans: {error}"));
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let Some(settings) = Settings::read(variable).map_err(unusable)? else {
            return Ok((Self(None), install(None)));
        };
        let trust = settings.trust().map_err(unusable)?;
        let (url, timeout) = (settings.url, settings.timeout);
        let client = ReqwestClient::new().map_err(|error| unusable(error.to_string()))?;
        let client = Client {
            client,
            runtime: Handle::current(),
            url: url.clone(),
            trust: trust.map(Arc::new),
            timeout,
            log: Arc::clone(log),
            logged_at: Mutex::default(),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(url.as_str())
            .with_timeout(timeout)
            .with_http_client(client)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        // A later value replaces an earlier one.
        let mut resource = Resource::builder_empty()
            .with_service_name(service)
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_detector(Box::new(EnvResourceDetector::new()));
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            resource = resource.with_service_name(name);
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_span_processor(WithinLimits(BatchSpanProcessor::builder(exporter).build()))
            .build();
        let installed = install(Some(SpanLayer(provider.tracer("remote-agent"))));
        log.log(Level::Info, &format!("exports spans to {}", place(&url)));
        for warning in &settings.warnings {
            log.log(Level::Warn, warning);
        }
        Ok((Self(Some(provider)), installed))
    }

    /// Sends the last spans, within [`FLUSH_TIMEOUT`].
    pub(crate) async fn end(self) {
        if let Some(provider) = self.0 {
            let flush = move || provider.shutdown_with_timeout(FLUSH_TIMEOUT);
            // The log has the failures.
            let _ = tokio::task::spawn_blocking(flush).await;
        }
    }
}

/// Returns the part of a URL that a log may show.
fn place(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Sends batches with the client of all other requests. The operator names the receiver, so it may have any address.
struct Client {
    client: ReqwestClient,
    /// Runs the requests: the thread of the SDK has no runtime.
    runtime: Handle,
    url: Url,
    trust: Option<Arc<Trust>>,
    timeout: Duration,
    log: Arc<dyn Log>,
    /// When it last logged a failure.
    logged_at: Mutex<Option<Instant>>,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let request = egress::Request {
            method: parts.method,
            url: self.url.clone(),
            headers: parts.headers,
            body: Some(body),
            access: AddressPolicy::AnyAddress,
            trust: self.trust.clone(),
            repeatable: false,
            authorization: None,
            send_state: None,
        };
        let (client, timeout) = (self.client.clone(), self.timeout);
        let exchange = async move { tokio::time::timeout(timeout, client.exchange(request)).await };
        let Ok(sent) = self.runtime.spawn(exchange).await else {
            return Err("the process ends".into());
        };
        let answer = match sent {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.failure(error.to_string())),
            Err(_) => {
                let fault = format!("no answer within {} ms", timeout.as_millis());
                return Err(self.failure(fault));
            }
        };
        if !answer.status.is_success() {
            self.failure(format!("it answered {}", status_text(answer.status)));
        }
        // The headers may say when to try again. The body could only say how many spans the receiver dropped.
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

impl Client {
    /// Logs a failure, unless one was logged recently.
    fn failure(&self, fault: String) -> HttpError {
        let mut logged_at = self.logged_at.lock();
        if logged_at.is_none_or(|at| at.elapsed() > QUIET_TIME) {
            *logged_at = Some(Instant::now());
            let place = place(&self.url);
            let line = format!(
                "cannot export spans to {place}: {fault}; spans may be lost, and the log has no other failure for {} minutes",
                QUIET_TIME.as_secs() / 60
            );
            self.log.log(Level::Warn, &line);
        }
        fault.into()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("place", &place(&self.url))
            .finish_non_exhaustive()
    }
}

/// Passes spans on, except those of requests that the server refused above a limit.
#[derive(Debug)]
struct WithinLimits<P>(P);

impl<P: SpanProcessor> SpanProcessor for WithinLimits<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let is_refused = span.attributes.iter().any(|attribute| {
            attribute.key.as_str() == STATUS && attribute.value == Value::I64(TOO_MANY_REQUESTS)
        });
        if !is_refused {
            self.0.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// Makes spans of OpenTelemetry of the `tracing` spans with the target [`SPANS`].
pub(crate) struct SpanLayer(SdkTracer);

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: layer::Context<'_, S>) {
        let Some(new) = context
            .span(id)
            .filter(|new| new.metadata().target() == SPANS)
        else {
            return;
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent_here = new.parent().and_then(|parent| {
            let extensions = parent.extensions();
            Some(extensions.get::<Span>()?.span_context().clone())
        });
        let parent = fields.parent.take().or(parent_here);
        let parent = parent.map_or_else(Context::new, |parent| {
            Context::new().with_remote_span_context(parent)
        });
        let builder = SpanBuilder::from_name(new.metadata().name()).with_kind(SpanKind::Server);
        let mut span = self.0.build_with_context(builder, &parent);
        fields.apply(&mut span);
        new.extensions_mut().insert(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: layer::Context<'_, S>) {
        let Some(recorded) = context.span(id) else {
            return;
        };
        if let Some(span) = recorded.extensions_mut().get_mut::<Span>() {
            let mut fields = Fields::default();
            values.record(&mut fields);
            fields.apply(span);
        }
    }

    fn on_close(&self, id: Id, context: layer::Context<'_, S>) {
        let closed = context.span(&id);
        if let Some(mut span) = closed.and_then(|closed| closed.extensions_mut().remove::<Span>()) {
            span.end();
        }
    }
}

/// The fields of a `tracing` span.
#[derive(Default)]
struct Fields {
    name: Option<String>,
    parent: Option<SpanContext>,
    is_failed: bool,
    attributes: Vec<KeyValue>,
}

impl Fields {
    fn apply(self, span: &mut Span) {
        if let Some(name) = self.name {
            span.update_name(name);
        }
        if self.is_failed {
            span.set_status(Status::error(Cow::Borrowed("")));
        }
        for attribute in self.attributes {
            span.set_attribute(attribute);
        }
    }

    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.is_failed |= field.name() == "error.type";
        self.attributes.push(KeyValue::new(field.name(), value));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let text = || first_chars(value, MAX_CHARS).to_owned();
        match field.name() {
            "otel.name" => self.name = Some(text()),
            "traceparent" => self.parent = parent(value),
            _ => self.add(field, text()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Returns the span of a valid `traceparent`.
fn parent(traceparent: &str) -> Option<SpanContext> {
    let headers = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shown_place_has_no_query() {
        let url = Url::parse("https://e.example/otlp/v1/traces?key=s3cret#s3cret").unwrap();
        assert_eq!(place(&url), "https://e.example/otlp/v1/traces");
    }

    #[test]
    fn invalid_traceparent_is_no_parent() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(parent(valid).is_some());
        for text in [
            "",
            "00-1",
            &valid.replace("b7ad6b7169203331", "0000000000000000"),
        ] {
            assert_eq!(parent(text), None, "{text}");
        }
    }
}
