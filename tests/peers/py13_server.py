"""Agents on the official Python A2A 1.0 server, for tests on loopback.

The first word of a message chooses what an agent does (see `Agent.execute`). Each flavour of the
server listens on a port of its own: JSON-RPC at `/rpc`, HTTP+JSON at `/rest`. Prints
`READY <flavour>=<port>… keys=<the signed card's public keys>` and exits when stdin closes, so a
test process that dies leaves nothing behind.
"""

import asyncio
import base64
import collections
import json
import os
import socket
import sys
import threading

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    DefaultServerCallContextBuilder,
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCard, Message, Part, Role, Task, TaskState
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt.algorithms import ECAlgorithm
from starlette.applications import Starlette
from starlette.responses import JSONResponse

TOKEN = "the-peers-own-token-3f9c1d"
USER, PASSWORD = "caller", "the-peers-own-password-77ab"
# A PNG image of one pixel.
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BIG = "0123456789abcdef" * (5 * 1024 * 1024 // 16)


# How often each text came.
SEEN = collections.Counter()


def text_of(message):
    return "".join(part.text for part in message.parts)


class RequestPath(DefaultServerCallContextBuilder):
    """Passes the HTTP path of a message to the agent."""

    def build(self, request):
        context = super().build(request)
        context.state["path"] = request.url.path
        return context


class WatchedHandler(DefaultRequestHandler):
    """Notifies the agent when another client subscribes to its task."""

    def __init__(self, agent, *args, **kwargs):
        super().__init__(agent, *args, **kwargs)
        agent.watched = self.watched
        self._watched = {}

    def watched(self, task_id):
        return self._watched.setdefault(task_id, asyncio.Event())

    async def on_subscribe_to_task(self, params, context):
        async for event in super().on_subscribe_to_task(params, context):
            # The subscription exists from the first event, which is the task.
            self.watched(params.id).set()
            yield event


class Agent(AgentExecutor):
    async def execute(self, context, events):
        said = text_of(context.message)
        SEEN[said] += 1
        word, _, rest = said.partition(":")
        if "members that vote on a proposal" in said:
            word = "vote"
        rest = rest.strip()
        if context.current_task:  # the answer to the question of `ask` or `auth`
            updater = TaskUpdater(events, context.task_id, context.context_id)
            await updater.add_artifact([Part(text=f"you said {said}")], artifact_id="answer")
            await updater.complete()
        elif word in self.MESSAGES:
            reply = self.MESSAGES[word](context, rest)
            await events.enqueue_event(
                Message(
                    role=Role.ROLE_AGENT,
                    message_id=f"reply-to-{context.message.message_id}",
                    context_id=context.context_id,
                    parts=[Part(text=reply)],
                )
            )
        elif word == "crash":
            raise RuntimeError(rest)
        else:
            await self._work(self.BEHAVIOURS[word], context, rest, events)

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()

    async def _work(self, behaviour, context, rest, events):
        # A task that waits for others is `working` from its first event on: a client that does not wait receives this state.
        waits = behaviour in self.WAITING
        task = Task(id=context.task_id, context_id=context.context_id, history=[context.message])
        task.status.state = (
            TaskState.TASK_STATE_WORKING if waits else TaskState.TASK_STATE_SUBMITTED
        )
        await events.enqueue_event(task)
        updater = TaskUpdater(events, task.id, task.context_id)
        if not waits:
            await updater.start_work()
        await behaviour(self, updater, context.message, rest)

    async def _task(self, updater, _message, rest):
        chunks = ["alpha ", "beta ", rest]
        for index, chunk in enumerate(chunks):
            await updater.add_artifact(
                [Part(text=chunk)],
                artifact_id="answer",
                name="answer.txt",
                append=index > 0,
                last_chunk=index == len(chunks) - 1,
            )
        await updater.complete()

    async def _watched(self, updater, message, rest):
        await self.watched(updater.task_id).wait()
        await self._task(updater, message, rest)

    async def _held(self, updater, message, rest):
        await self.watched(updater.task_id).wait()
        await self._begun(updater, message, rest)

    async def _begun(self, updater, message, rest):
        await updater.add_artifact([Part(text=rest)], artifact_id="answer")
        await self._slow(updater, message, rest)

    async def _slow(self, _updater, _message, _rest):
        await asyncio.Event().wait()

    async def _ask(self, updater, _message, rest):
        await updater.requires_input(updater.new_agent_message([Part(text=rest)]))

    async def _auth(self, updater, _message, rest):
        await updater.requires_auth(updater.new_agent_message([Part(text=rest)]))

    async def _fail(self, updater, _message, rest):
        await updater.failed(updater.new_agent_message([Part(text=rest)]))

    async def _reject(self, updater, _message, rest):
        await updater.reject(updater.new_agent_message([Part(text=rest)]))

    async def _parts(self, updater, message, _rest):
        seen = [MessageToDict(part) for part in message.parts if not part.text]
        await updater.add_artifact([Part(text=json.dumps(seen))], artifact_id="seen")
        await updater.complete()

    async def _gift(self, updater, _message, _rest):
        data = base64.b64encode(bytes.fromhex("00ff68656c6c6f")).decode()
        parts = [
            {"raw": data, "filename": "a.bin", "mediaType": "application/octet-stream"},
            {"url": "https://files.test/b.png", "filename": "b.png", "mediaType": "image/png"},
            {"data": {"count": 2, "nested": {"list": ["x", None, True]}}},
        ]
        parts = [ParseDict(part, Part()) for part in parts]
        await updater.add_artifact(parts, artifact_id="gift", name="gift")
        await updater.complete()

    async def _scan(self, updater, message, _rest):
        files = [f"{p.filename} {p.media_type} {base64.b64encode(p.raw).decode()}" for p in message.parts if p.raw]
        await updater.add_artifact([Part(text="\n".join(files))], artifact_id="seen")
        picture = Part(raw=base64.b64decode(PICTURE), filename="../scan.png", media_type="image/png")
        await updater.add_artifact([picture], artifact_id="scan")
        await updater.complete()

    async def _big(self, updater, _message, _rest):
        await updater.add_artifact([Part(text=BIG)], artifact_id="big")
        await updater.complete()

    MESSAGES = {
        "message": lambda context, rest: rest,
        "count": lambda _context, rest: str(SEEN[rest]),
        "where": lambda context, _rest: context.call_context.state["path"],
        "tenant": lambda context, _rest: context.tenant,
        "vote": lambda _context, _rest: json.dumps({"vote": "reject", "reasoning": "Not on a Friday", "confidence": 0.6}),
    }
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
        "scan": _scan,  # gives the files it got, as text, and an image
        "big": _big,  # an artifact of 5 MiB
    }
    WAITING = {_watched, _held, _begun, _slow}


def interface(url, binding, version="1.0", tenant=""):
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, "tenant": tenant}


SCHEMES = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
    "basic": {"httpAuthSecurityScheme": {"scheme": "Basic"}},
    "api-key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Peer-Key"}},
}


def card(flavour, origin):
    # Where a tenant is part of the path, this server has it before a prefix, and the protocol behind it.
    tenant, rest = ("acme", "") if flavour == "tenant" else ("", "/rest")
    interfaces = [
        interface(f"{origin}/rpc", "JSONRPC", tenant=tenant),
        interface(f"{origin}{rest}", "HTTP+JSON", tenant=tenant),
    ]
    if flavour == "hybrid":
        interfaces = [
            interface(f"{origin}/rpc", "JSONRPC", "0.3"),
            interface(f"{origin}/rest", "HTTP+JSON", "0.3"),
            *interfaces,
        ]
    modes = ["text/plain", "application/json", "application/octet-stream"]
    described = {
        "name": "py13",
        "description": "Does what the first word of a message says.",
        "version": "1.0.0",
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": True, "pushNotifications": True},
        "defaultInputModes": modes,
        "defaultOutputModes": modes,
        "skills": [{"id": "act", "name": "Act", "description": "Acts.", "tags": ["test"]}],
    }
    if flavour in SCHEMES:
        described["securitySchemes"] = {"main": SCHEMES[flavour]}
        described["securityRequirements"] = [{"schemes": {"main": {}}}]
    return ParseDict(described, AgentCard())


class Gate:
    """Admits calls with the flavour's credential, and every client to the card."""

    def __init__(self, app, flavour):
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        self.header, self.wanted, self.challenge = {
            "bearer": (b"authorization", f"Bearer {TOKEN}", 'Bearer realm="peers"'),
            "basic": (b"authorization", f"Basic {basic}", 'Basic realm="peers"'),
            "api-key": (b"x-peer-key", TOKEN, None),
        }[flavour]
        self.app = app

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", []))
        public = scope["type"] != "http" or scope["path"].startswith("/.well-known/")
        if public or headers.get(self.header) == self.wanted.encode():
            await self.app(scope, receive, send)
            return
        challenge = {"WWW-Authenticate": self.challenge} if self.challenge else {}
        refusal = JSONResponse({"error": "Unauthorized"}, status_code=401, headers=challenge)
        await refusal(scope, receive, send)


KEY = ec.generate_private_key(ec.SECP256R1())


def public_keys():
    key = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True) | {"kid": "peers", "alg": "ES256"}
    return json.dumps({"keys": [key]}, separators=(",", ":"))


def signed(card):
    header = {"alg": "ES256", "kid": "peers", "typ": "JOSE"}
    return create_agent_card_signer(KEY, header)(card)


def application(flavour, origin):
    described = card(flavour, origin)
    if flavour == "signed":
        described = signed(described)
    configs = InMemoryPushNotificationConfigStore()
    handler = WatchedHandler(
        Agent(),
        InMemoryTaskStore(),
        described,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
    )
    options = {"context_builder": RequestPath(), "enable_v0_3_compat": flavour == "hybrid"}
    prefix = "" if flavour == "tenant" else "/rest"
    app = Starlette(
        routes=[
            *create_agent_card_routes(described),
            *create_jsonrpc_routes(handler, "/rpc", **options),
            *create_rest_routes(handler, path_prefix=prefix, **options),
        ]
    )
    return Gate(app, flavour) if flavour in SCHEMES else app


class Server(uvicorn.Server):
    def __init__(self, flavour):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        app = application(flavour, f"http://127.0.0.1:{self.port}")
        super().__init__(uvicorn.Config(app, log_level="warning"))


def exit_with_stdin():
    sys.stdin.buffer.read()
    os._exit(0)  # open event streams would hold up a graceful shutdown


async def main():
    flavours = ["1.0", "hybrid", *SCHEMES, "tenant", "signed"]
    servers = {flavour: Server(flavour) for flavour in flavours}
    running = [asyncio.create_task(s.serve(sockets=[s.listener])) for s in servers.values()]
    while not all(server.started for server in servers.values()):
        await asyncio.sleep(0.01)
    ports = (f"{name}={server.port}" for name, server in servers.items())
    print("READY", *ports, f"keys={public_keys()}", flush=True)
    threading.Thread(target=exit_with_stdin, daemon=True).start()
    await asyncio.gather(*running)


asyncio.run(main())
