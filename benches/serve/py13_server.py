"""An agent on the official Python server of A2A 1.0 that says what the scripted executor says to `stream N MS` and `chunks N`.

Prints where it speaks JSON-RPC.
"""

import asyncio
import socket

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCard, Part, Task, TaskState
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette


class Agent(AgentExecutor):
    async def execute(self, context, events):
        word, count, *apart = context.message.parts[0].text.split()
        task = Task(id=context.task_id, context_id=context.context_id, history=[context.message])
        task.status.state = TaskState.TASK_STATE_SUBMITTED
        await events.enqueue_event(task)
        updater = TaskUpdater(events, task.id, task.context_id)
        await updater.start_work()
        for index in range(int(count)):
            if word == "stream":
                await asyncio.sleep(int(apart[0]) / 1000)
            await updater.add_artifact(
                [Part(text=f"{index} ")],
                artifact_id="answer",
                append=index > 0,
                last_chunk=index + 1 == int(count),
            )
        await updater.complete()

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/rpc"
    described = {
        "name": "load",
        "description": "Streams.",
        "version": "1.0.0",
        "supportedInterfaces": [{"url": endpoint, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "act", "name": "Act", "description": "Acts.", "tags": ["test"]}],
    }
    card = ParseDict(described, AgentCard())
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=create_jsonrpc_routes(handler, rpc_url="/rpc"))
    print(endpoint, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])


main()
