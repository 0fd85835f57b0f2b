"""Follows many tasks through a restart of their server, with the official Python client of A2A 1.0.

    restart_client.py ORIGIN NUMBER TEXT

Sends NUMBER messages over streams and prints a line of JSON once each has its task, another once all streams have ended, with
how they ended and their last states. After a line on standard input, it subscribes to the tasks again and prints the last
states.
"""

import asyncio
import json
import sys
import uuid
from collections import Counter

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, SubscribeToTaskRequest, TaskState

ORIGIN, NUMBER, TEXT = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def state(status):
    return TaskState.Name(status.state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def show(**line):
    print(json.dumps(line), flush=True)


async def follow(events, started=None):
    task, last, end = None, None, "clean"
    try:
        async for event in events:
            if event.HasField("task"):
                task, last = event.task.id, state(event.task.status)
                if started:
                    started()
            if event.HasField("status_update"):
                last = state(event.status_update.status)
    except Exception as error:
        end = type(error).__name__
    return task, last, end


async def main():
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as http:
        card = await A2ACardResolver(http, ORIGIN).get_agent_card()
        config = ClientConfig(streaming=True, httpx_client=http, supported_protocol_bindings=["JSONRPC"])
        client = ClientFactory(config).create(card)
        count = 0

        def started():
            nonlocal count
            count += 1
            if count == NUMBER:
                show(started=count)

        def send():
            message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=TEXT)])
            return follow(client.send_message(SendMessageRequest(message=message)), started)

        seen = await asyncio.gather(*(send() for _ in range(NUMBER)))
        show(ends=Counter(end for _, _, end in seen), states=Counter(last for _, last, _ in seen))
        await asyncio.to_thread(sys.stdin.readline)

        async def resume(task):
            _, last, end = await follow(client.subscribe(SubscribeToTaskRequest(id=task)))
            # A task that has ended has no stream.
            return last if end == "clean" and last else state((await client.get_task(GetTaskRequest(id=task))).status)

        show(states=Counter(await asyncio.gather(*(resume(task) for task, _, _ in seen))))


asyncio.run(main())
