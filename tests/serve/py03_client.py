"""Calls the operations of a server in order, with the official Python client of A2A 0.3.

    py03_client.py ORIGIN BINDING VERSION HOOK

Fetches the card at ORIGIN, prefers its interface of BINDING, and prints the result of each operation as a line of JSON, in
the same form for every client. HOOK is the URL of a webhook. The only VERSION is 0.3.
"""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    FilePart,
    FileWithBytes,
    FileWithUri,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

ORIGIN, BINDING, VERSION, HOOK = sys.argv[1:]
MISSING = "no-such-task"


def text(parts):
    return "".join(part.root.text for part in parts if isinstance(part.root, TextPart))


def artifact_text(task):
    return "".join(text(artifact.parts) for artifact in task.artifacts or [])


def message(what, *more, task=None):
    parts = [Part(root=part) for part in (TextPart(text=what), *more)]
    created = Message(role=Role.user, message_id=str(uuid.uuid4()), parts=parts)
    if task is not None:
        created.task_id, created.context_id = task.id, task.context_id
    return created


class Operations:
    def __init__(self, http, card):
        self.http, self.card = http, card
        self.waiting = self.client(streaming=False)
        self.polling = self.client(streaming=False, polling=True)
        self.streaming = self.client(streaming=True)

    def client(self, **more):
        config = ClientConfig(
            httpx_client=self.http, supported_transports=[BINDING], use_client_preference=True, **more
        )
        return ClientFactory(config).create(self.card)

    async def answer(self, client, created):
        async for event in client.send_message(created):
            return event if isinstance(event, Message) else event[0]

    async def card_(self):
        return {"name": self.card.name, "streaming": self.card.capabilities.streaming}

    async def send(self):
        task = await self.answer(self.waiting, message("task hello"))
        return {"state": task.status.state.value, "text": artifact_text(task)}

    async def message(self):
        return {"text": text((await self.answer(self.waiting, message("message hello"))).parts)}

    async def return_immediately(self):
        task = await self.answer(self.polling, message("slow"))
        await self.waiting.cancel_task(TaskIdParams(id=task.id))
        return {"settled": task.status.state.value not in ("submitted", "working")}

    async def parts(self):
        data = FileWithBytes(bytes="AP9oZWxsbw==", name="a.bin", mime_type="application/octet-stream")
        link = FileWithUri(uri="https://files.test/b.png", mime_type="image/png")
        task = await self.answer(self.waiting, message("parts", FilePart(file=data), FilePart(file=link)))
        return task.artifacts[0].parts[0].root.data

    async def artifact_parts(self):
        task = await self.answer(self.waiting, message("gift"))
        raw, link, data = (part.root for part in task.artifacts[0].parts)
        return {"bytes": raw.file.bytes, "link": link.file.uri, "data": data.data}

    async def fail(self):
        task = await self.answer(self.waiting, message("fail because"))
        return {"state": task.status.state.value, "text": text(task.status.message.parts)}

    async def reject(self):
        task = await self.answer(self.waiting, message("reject because"))
        return {"state": task.status.state.value, "text": text(task.status.message.parts)}

    async def ask(self):
        first = await self.answer(self.waiting, message("ask which?"))
        second = await self.answer(self.waiting, message("blue", task=first))
        return {
            "first_state": first.status.state.value,
            "question": text(first.status.message.parts),
            "state": second.status.state.value,
            "text": artifact_text(second),
            "same": first.id == second.id,
        }

    async def stream(self):
        return await self.follow(self.streaming.send_message(message("stream 5 1")))

    async def follow(self, events):
        # The client yields the task that it builds from the events, and each event except for the first task.
        first, task = None, None
        async for task, update in events:
            first = first or (update.kind if update else "task")
        return {"first": first, "state": task.status.state.value, "text": artifact_text(task)}

    async def resubscribe(self):
        stream = self.streaming.send_message(message("stream 20 20"))
        async for task, update in stream:
            if update is not None and update.kind == "artifact-update":
                break
        await stream.aclose()
        return await self.follow(self.streaming.resubscribe(TaskIdParams(id=task.id)))

    async def get(self):
        task = await self.answer(self.waiting, message("echo hello"))
        fetched = await self.waiting.get_task(TaskQueryParams(id=task.id))
        return {
            "state": fetched.status.state.value,
            "text": artifact_text(fetched),
            "history": text(fetched.history[0].parts),
        }

    async def cancel(self):
        task = await self.answer(self.polling, message("slow"))
        canceled = await self.waiting.cancel_task(TaskIdParams(id=task.id))
        return {"state": canceled.status.state.value}

    async def push_configs(self):
        # The client can neither list nor delete them.
        task = await self.answer(self.polling, message("slow"))
        config = PushNotificationConfig(id="hook-1", url=HOOK, token="tok")
        created = await self.waiting.set_task_callback(
            TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
        )
        fetched = await self.waiting.get_task_callback(
            GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="hook-1")
        )
        await self.waiting.cancel_task(TaskIdParams(id=task.id))
        return {
            "created": created.push_notification_config.url == HOOK,
            "fetched": fetched.push_notification_config.id,
        }

    async def push(self):
        config = PushNotificationConfig(
            url=HOOK,
            token="tok",
            authentication=PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="cred"),
        )
        task = await self.answer(self.client(streaming=False, push_notification_configs=[config]), message("echo hello"))
        return {"task": task.id}

    async def not_found(self):
        return await self.waiting.get_task(TaskQueryParams(id=MISSING))

    async def not_cancelable(self):
        task = await self.answer(self.waiting, message("echo hello"))
        return await self.waiting.cancel_task(TaskIdParams(id=task.id))

    async def bad_webhook(self):
        task = await self.answer(self.waiting, message("echo hello"))
        config = PushNotificationConfig(id="hook-1", url="ftp://hook.test/")
        return await self.waiting.set_task_callback(
            TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
        )


def refusal(error):
    # Over JSON-RPC the client keeps the whole error, over HTTP+JSON only the status.
    error = getattr(error, "error", error)
    details = getattr(error, "data", None) or [{}]
    return {
        "error": type(error).__name__,
        "code": getattr(error, "code", None) or getattr(error, "status_code", None),
        "reason": details[0].get("reason"),
        "message": getattr(error, "message", str(error)),
    }


async def main():
    async with httpx.AsyncClient(timeout=20) as http:
        card = await A2ACardResolver(http, ORIGIN).get_agent_card()
        operations = Operations(http, card)
        helpers = ("client", "answer", "follow")
        for name in [name for name in vars(Operations) if name not in helpers and not name.startswith("__")]:
            try:
                seen = await asyncio.wait_for(getattr(operations, name)(), 20)
            except Exception as error:  # the test records how the client reports an error
                seen = refusal(error)
            print(json.dumps({"operation": name.rstrip("_"), **seen}), flush=True)


asyncio.run(main())
