use crate::v1_0::{AuthenticationInfo, TaskPushNotificationConfig};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::task::entry;
use super::{Dialect, V03, V03Seq};

impl Serialize for V03<'_, TaskPushNotificationConfig> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let config = self.value;
        let mut map = serializer.serialize_map(Some(2))?;
        match self.dialect {
            Dialect::Rpc => map.serialize_entry("taskId", &config.task_id)?,
            Dialect::Rest => {
                let id = config.id.as_deref().unwrap_or_default();
                let name = format_args!("tasks/{}/pushNotificationConfigs/{id}", config.task_id);
                map.serialize_entry("name", &name)?;
            }
        }
        map.serialize_entry("pushNotificationConfig", &Inner(config))?;
        map.end()
    }
}

/// Serializes the configurations of a task: a bare list over JSON-RPC.
impl Serialize for V03<'_, [TaskPushNotificationConfig]> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let each = V03Seq(self.value, self.dialect);
        match self.dialect {
            Dialect::Rpc => each.serialize(serializer),
            Dialect::Rest => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("configs", &each)?;
                map.serialize_entry("nextPageToken", "")?;
                map.end()
            }
        }
    }
}

struct Inner<'a>(&'a TaskPushNotificationConfig);

impl Serialize for Inner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "id", self.0.id.as_ref())?;
        map.serialize_entry("url", &self.0.url)?;
        entry(&mut map, "token", self.0.token.as_ref())?;
        let authentication = self.0.authentication.as_ref().map(Authentication);
        entry(&mut map, "authentication", authentication.as_ref())?;
        map.end()
    }
}

struct Authentication<'a>(&'a AuthenticationInfo);

impl Serialize for Authentication<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schemes", &[&self.0.scheme])?;
        entry(&mut map, "credentials", self.0.credentials.as_ref())?;
        map.end()
    }
}
