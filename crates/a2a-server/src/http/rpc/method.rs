//! The parameters of JSON-RPC methods.

use a2a::parse_request::{self, Fields};
use a2a::{A2aError, Dialect, ErrorReason, Operation};

use crate::http::operations::Call;

/// Parses the parameters of an operation.
pub(crate) fn call(
    operation: Operation,
    dialect: Dialect,
    mut params: Fields,
) -> Result<Call, A2aError> {
    let params = &mut params;
    let is_v1_0 = dialect == Dialect::V1_0;
    // 0.3 has other names for the id of a task and of a push notification configuration.
    let task = if is_v1_0 { "taskId" } else { "id" };
    let config = match is_v1_0 {
        true => "id",
        false => "pushNotificationConfigId",
    };
    Ok(match operation {
        Operation::SendMessage => {
            Call::Send(Box::new(parse_request::send(dialect, params)?.into()))
        }
        Operation::SendStreamingMessage => {
            Call::Stream(Box::new(parse_request::send(dialect, params)?.into()))
        }
        Operation::GetTask => Call::Get {
            task_id: params.required("id")?,
            history_length: parse_request::history_length(dialect, params)?,
        },
        Operation::ListTasks => Call::List(parse_request::list(dialect, params)?),
        Operation::CancelTask => Call::Cancel(params.required("id")?),
        Operation::SubscribeToTask => Call::Subscribe(params.required("id")?),
        Operation::CreatePushConfig => Call::CreatePush(parse_request::create_push(params, None)?),
        Operation::GetPushConfig => Call::GetPush {
            task_id: params.required(task)?,
            config_id: if is_v1_0 {
                Some(params.required(config)?)
            } else {
                params.name(config)?
            },
        },
        Operation::ListPushConfigs => Call::ListPushes(params.required(task)?),
        Operation::DeletePushConfig => Call::DeletePush {
            task_id: params.required(task)?,
            config_id: params.required(config)?,
        },
        Operation::GetExtendedCard => Call::ExtendedCard,
    })
}

/// Returns whether the answer of a method is a stream.
pub(crate) fn is_stream(method: &str) -> bool {
    let operation = Operation::from_method(method).map(|(_, operation)| operation);
    matches!(
        operation,
        Some(Operation::SendStreamingMessage | Operation::SubscribeToTask)
    )
}

/// Returns the error of an unknown method.
pub(crate) fn unknown(name: &str) -> A2aError {
    let name: String = name.chars().take(64).collect();
    A2aError::new(
        ErrorReason::MethodNotFound,
        format!("A2A 1.0 and 0.3 have no method `{name}`"),
    )
}
