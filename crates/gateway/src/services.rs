//! The configured HTTP services (Heretek A2A §6.4).

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::config::ServiceConfig;

/// The maximum number of concurrent requests to services.
pub(super) const MAX_CONCURRENT_REQUESTS: usize = 64;

/// The configured services.
pub(super) struct ServiceCatalog {
    all: Vec<ServiceConfig>,
    pub(super) permits: Arc<Semaphore>,
}

impl ServiceCatalog {
    pub(super) fn new(services: &[ServiceConfig]) -> Self {
        Self {
            all: services.to_vec(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&ServiceConfig> {
        self.all.iter().find(|service| service.service_id == name)
    }

    /// Lists the services for discovery. The configuration refuses endpoints with user info or a query.
    pub(super) fn list(&self) -> Vec<Value> {
        let entry = |service: &ServiceConfig| {
            json!({
                "serviceId": service.service_id,
                "endpoint": service.endpoint,
                "capabilities": service.capabilities,
                "healthEndpoint": service.health_endpoint,
            })
        };
        self.all.iter().map(entry).collect()
    }
}
