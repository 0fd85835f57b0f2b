"""Calls the operations of a server in order, with the official Python client of A2A 1.0.

    py13_client.py ORIGIN BINDING VERSION HOOK

Fetches the card at ORIGIN, uses only its interface of BINDING and VERSION, and prints the result of each operation as a
line of JSON, in the same form for every client. HOOK is the URL of a webhook.
"""

import asyncio
import base64
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict

ORIGIN, BINDING, VERSION, HOOK = sys.argv[1:]
MISSING = "no-such-task"


def state(status):
    return TaskState.Name(status.state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def text(parts):
    return "".join(part.text for part in parts)


def artifact_text(task):
    return "".join(text(artifact.parts) for artifact in task.artifacts)


def message(what, *more, task=None):
    created = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=what), *more])
    if task is not None:
        created.task_id, created.context_id = task.id, task.context_id
    return created


class Operations:
    def __init__(self, http, card):
        self.card = card
        config = {"httpx_client": http, "supported_protocol_bindings": [BINDING]}
        self.waiting = ClientFactory(ClientConfig(streaming=False, **config)).create(card)
        self.polling = ClientFactory(ClientConfig(streaming=False, polling=True, **config)).create(card)
        self.streaming = ClientFactory(ClientConfig(streaming=True, **config)).create(card)

    async def answer(self, client, created, **configuration):
        request = SendMessageRequest(message=created)
        ParseDict(configuration, request.configuration)
        async for event in client.send_message(request):
            return event.message if event.HasField("message") else event.task

    async def card_(self):
        return {"name": self.card.name, "streaming": self.card.capabilities.streaming}

    async def send(self):
        task = await self.answer(self.waiting, message("task hello"))
        return {"state": state(task.status), "text": artifact_text(task)}

    async def message(self):
        return {"text": text((await self.answer(self.waiting, message("message hello"))).parts)}

    async def return_immediately(self):
        task = await self.answer(self.polling, message("slow"))
        await self.waiting.cancel_task(CancelTaskRequest(id=task.id))
        return {"settled": state(task.status) not in ("submitted", "working")}

    async def parts(self):
        data = Part(raw=b"\x00\xffhello", filename="a.bin", media_type="application/octet-stream")
        link = Part(url="https://files.test/b.png", media_type="image/png")
        task = await self.answer(self.waiting, message("parts", data, link))
        return MessageToDict(task.artifacts[0].parts[0].data)

    async def artifact_parts(self):
        task = await self.answer(self.waiting, message("gift"))
        raw, link, data = task.artifacts[0].parts
        return {
            "bytes": base64.b64encode(raw.raw).decode(),
            "link": link.url,
            "data": MessageToDict(data.data),
        }

    async def fail(self):
        task = await self.answer(self.waiting, message("fail because"))
        return {"state": state(task.status), "text": text(task.status.message.parts)}

    async def reject(self):
        task = await self.answer(self.waiting, message("reject because"))
        return {"state": state(task.status), "text": text(task.status.message.parts)}

    async def ask(self):
        first = await self.answer(self.waiting, message("ask which?"))
        second = await self.answer(self.waiting, message("blue", task=first))
        return {
            "first_state": state(first.status),
            "question": text(first.status.message.parts),
            "state": state(second.status),
            "text": artifact_text(second),
            "same": first.id == second.id,
        }

    async def stream(self):
        return await self.follow(self.streaming.send_message(SendMessageRequest(message=message("stream 5 1"))))

    async def follow(self, events):
        first, seen, last = None, "", None
        async for event in events:
            kind = event.WhichOneof("payload")
            first = first or kind
            if kind == "task":
                seen, last = artifact_text(event.task), state(event.task.status)
            elif kind == "status_update":
                last = state(event.status_update.status)
            elif kind == "artifact_update":
                seen += text(event.artifact_update.artifact.parts)
        return {"first": first, "state": last, "text": seen}

    async def resubscribe(self):
        stream = self.streaming.send_message(SendMessageRequest(message=message("stream 20 20")))
        task = None
        async for event in stream:
            if event.HasField("task"):
                task = event.task
            if event.HasField("artifact_update"):
                break
        await stream.aclose()
        return await self.follow(self.streaming.subscribe(SubscribeToTaskRequest(id=task.id)))

    async def get(self):
        task = await self.answer(self.waiting, message("echo hello"))
        fetched = await self.waiting.get_task(GetTaskRequest(id=task.id))
        return {"state": state(fetched.status), "text": artifact_text(fetched), "history": text(fetched.history[0].parts)}

    async def list(self):
        task = await self.answer(self.waiting, message("echo hello"))
        request = ListTasksRequest(context_id=task.context_id, include_artifacts=True)
        listed = await self.waiting.list_tasks(request)
        return {"texts": [artifact_text(one) for one in listed.tasks], "total": listed.total_size}

    async def cancel(self):
        task = await self.answer(self.polling, message("slow"))
        canceled = await self.waiting.cancel_task(CancelTaskRequest(id=task.id))
        return {"state": state(canceled.status)}

    async def push_configs(self):
        task = await self.answer(self.polling, message("slow"))
        config = {"taskId": task.id, "id": "hook-1", "url": HOOK, "token": "tok"}
        created = await self.waiting.create_task_push_notification_config(
            ParseDict(config, TaskPushNotificationConfig())
        )
        fetched = await self.waiting.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook-1")
        )
        listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        listed = await self.waiting.list_task_push_notification_configs(listing)
        await self.waiting.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook-1")
        )
        remaining = await self.waiting.list_task_push_notification_configs(listing)
        await self.waiting.cancel_task(CancelTaskRequest(id=task.id))
        return {
            "created": created.url == HOOK,
            "fetched": fetched.id,
            "listed": [one.id for one in listed.configs],
            "remaining": len(remaining.configs),
        }

    async def push(self):
        config = {
            "url": HOOK,
            "token": "tok",
            "authentication": {"scheme": "Bearer", "credentials": "cred"},
        }
        task = await self.answer(self.waiting, message("echo hello"), taskPushNotificationConfig=config)
        return {"task": task.id}

    async def not_found(self):
        return await self.waiting.get_task(GetTaskRequest(id=MISSING))

    async def not_cancelable(self):
        task = await self.answer(self.waiting, message("echo hello"))
        return await self.waiting.cancel_task(CancelTaskRequest(id=task.id))

    async def bad_webhook(self):
        task = await self.answer(self.waiting, message("echo hello"))
        config = {"taskId": task.id, "id": "hook-1", "url": "ftp://hook.test/"}
        return await self.waiting.create_task_push_notification_config(
            ParseDict(config, TaskPushNotificationConfig())
        )


async def main():
    async with httpx.AsyncClient(timeout=20) as http:
        card = await A2ACardResolver(http, ORIGIN).get_agent_card()
        wanted = [
            one
            for one in card.supported_interfaces
            if (one.protocol_binding, one.protocol_version) == (BINDING, VERSION)
        ]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(wanted)
        operations = Operations(http, card)
        helpers = ("answer", "follow")
        for name in [name for name in vars(Operations) if name not in helpers and not name.startswith("__")]:
            try:
                seen = await asyncio.wait_for(getattr(operations, name)(), 20)
            except Exception as error:  # the test records how the client reports an error
                seen = {"error": type(error).__name__, "message": str(error)}
            print(json.dumps({"operation": name.rstrip("_"), **seen}), flush=True)


asyncio.run(main())
