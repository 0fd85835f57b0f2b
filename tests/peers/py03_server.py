"""An agent on the official Python A2A 0.3 server, for tests on loopback.

The first word of a message chooses what the agent does (see `Agent.execute`). JSON-RPC is served
at `/rpc`, HTTP+JSON at `/rest`. Prints `READY <flavour>=<port>` and exits when stdin closes, so a
test process that dies leaves nothing behind.
"""

import asyncio
import base64
import json
import os
import socket
import sys
import threading

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.apps.jsonrpc import DefaultCallContextBuilder
from a2a.server.events import InMemoryQueueManager
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Part,
    TaskState,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task

BIG = "0123456789abcdef" * (5 * 1024 * 1024 // 16)


def text_of(message):
    return "".join(part.root.text for part in message.parts if part.root.kind == "text")


def text_part(text):
    return Part(root=TextPart(text=text))


class RequestPath(DefaultCallContextBuilder):
    """Passes the HTTP path of a message to the agent."""

    def build(self, request):
        context = super().build(request)
        context.state["path"] = request.url.path
        return context


class WatchedQueues(InMemoryQueueManager):
    """Notifies the agent when another client subscribes to its task."""

    def __init__(self):
        super().__init__()
        self._watched = {}

    def watched(self, task_id):
        return self._watched.setdefault(task_id, asyncio.Event())

    async def tap(self, task_id):
        queue = await super().tap(task_id)
        self.watched(task_id).set()
        return queue


class Agent(AgentExecutor):
    def __init__(self, queues):
        self._queues = queues

    async def execute(self, context, events):
        said = text_of(context.message)
        word, _, rest = said.partition(":")
        rest = rest.strip()
        if context.current_task:  # the answer to the question of `ask` or `auth`
            updater = TaskUpdater(events, context.task_id, context.context_id)
            await updater.add_artifact([text_part(f"you said {said}")], artifact_id="answer")
            await updater.complete()
        elif word == "message":
            await events.enqueue_event(new_agent_text_message(rest, context.context_id))
        elif word == "where":
            path = context.call_context.state["path"]
            await events.enqueue_event(new_agent_text_message(path, context.context_id))
        elif word == "crash":
            raise RuntimeError(rest)
        else:
            await self._work(self.BEHAVIOURS[word], context.message, rest, events)

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()

    async def _work(self, behaviour, message, rest, events):
        task = new_task(message)
        # A task that waits for others is `working` from its first event on: a later event could
        # overtake what the others do.
        waits = behaviour in self.WAITING
        if waits:
            task.status.state = TaskState.working
        await events.enqueue_event(task)
        updater = TaskUpdater(events, task.id, task.context_id)
        if not waits:
            await updater.start_work()
        await behaviour(self, updater, message, rest)

    async def _task(self, updater, _message, rest):
        chunks = ["alpha ", "beta ", rest]
        for index, chunk in enumerate(chunks):
            await updater.add_artifact(
                [text_part(chunk)],
                artifact_id="answer",
                name="answer.txt",
                append=index > 0,
                last_chunk=index == len(chunks) - 1,
            )
        await updater.complete()

    async def _watched(self, updater, message, rest):
        await self._queues.watched(updater.task_id).wait()
        await self._task(updater, message, rest)

    async def _held(self, updater, message, rest):
        await self._queues.watched(updater.task_id).wait()
        await self._begun(updater, message, rest)

    async def _begun(self, updater, message, rest):
        await updater.add_artifact([text_part(rest)], artifact_id="answer")
        await self._slow(updater, message, rest)

    async def _slow(self, _updater, _message, _rest):
        await asyncio.Event().wait()

    async def _ask(self, updater, _message, rest):
        question = updater.new_agent_message([text_part(rest)])
        await updater.requires_input(question, final=True)

    async def _auth(self, updater, _message, rest):
        question = updater.new_agent_message([text_part(rest)])
        await updater.requires_auth(question, final=True)

    async def _fail(self, updater, _message, rest):
        await updater.failed(updater.new_agent_message([text_part(rest)]))

    async def _reject(self, updater, _message, rest):
        await updater.reject(updater.new_agent_message([text_part(rest)]))

    async def _parts(self, updater, message, _rest):
        others = [part for part in message.parts if part.root.kind != "text"]
        seen = [part.model_dump(mode="json", exclude_none=True) for part in others]
        await updater.add_artifact([text_part(json.dumps(seen))], artifact_id="seen")
        await updater.complete()

    async def _gift(self, updater, _message, _rest):
        data = base64.b64encode(bytes.fromhex("00ff68656c6c6f")).decode()
        files = [
            FileWithBytes(bytes=data, name="a.bin", mime_type="application/octet-stream"),
            FileWithUri(uri="https://files.test/b.png", name="b.png", mime_type="image/png"),
        ]
        parts = [Part(root=FilePart(file=file)) for file in files]
        parts.append(Part(root=DataPart(data={"count": 2, "nested": {"list": ["x", None, True]}})))
        await updater.add_artifact(parts, artifact_id="gift", name="gift")
        await updater.complete()

    async def _big(self, updater, _message, _rest):
        await updater.add_artifact([text_part(BIG)], artifact_id="big")
        await updater.complete()

    BEHAVIOURS = {
        "task": _task,  # an artifact in three chunks
        "watched": _watched,  # the same once another client has subscribed
        "held": _held,  # one chunk once another client has subscribed, then until cancelled
        "begun": _begun,  # one chunk at once, then until cancelled
        "slow": _slow,  # until cancelled
        "ask": _ask,
        "auth": _auth,
        "fail": _fail,
        "reject": _reject,
        "parts": _parts,  # tells what parts it got
        "gift": _gift,  # gives parts of its own
        "big": _big,  # an artifact of 5 MiB
    }
    WAITING = {_watched, _held, _begun, _slow}


def card(origin):
    return AgentCard(
        protocol_version="0.3.0",
        name="py03",
        description="Does what the first word of a message says.",
        version="1.0.0",
        url=f"{origin}/rpc",
        preferred_transport="JSONRPC",
        additional_interfaces=[
            AgentInterface(url=f"{origin}/rpc", transport="JSONRPC"),
            AgentInterface(url=f"{origin}/rest", transport="HTTP+JSON"),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain", "application/json", "application/octet-stream"],
        default_output_modes=["text/plain", "application/json", "application/octet-stream"],
        skills=[AgentSkill(id="act", name="Act", description="Acts.", tags=["test"])],
    )


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"READY 0.3={sockets[0].getsockname()[1]}", flush=True)


def exit_with_stdin():
    sys.stdin.buffer.read()
    os._exit(0)  # open event streams would hold up a graceful shutdown


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    queues = WatchedQueues()
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Agent(queues),
        InMemoryTaskStore(),
        queue_manager=queues,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
    )
    parts = {"agent_card": card(origin), "http_handler": handler, "context_builder": RequestPath()}
    app = A2ARESTFastAPIApplication(**parts).build(rpc_url="/rest")
    A2AStarletteApplication(**parts).add_routes_to_app(app, rpc_url="/rpc")
    threading.Thread(target=exit_with_stdin, daemon=True).start()
    Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


main()
