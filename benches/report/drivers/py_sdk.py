"""The official Python client of A2A 1.0 under load. Takes commands of the report as lines of JSON."""

import asyncio
import json
import sys
import time
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest


def send_request(text):
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=text)])
    return SendMessageRequest(message=message)


async def calls(call, width, seconds):
    count = 0
    start = time.perf_counter()

    async def worker():
        nonlocal count
        while True:
            await call()
            count += 1
            if time.perf_counter() >= start + seconds:
                return

    await asyncio.gather(*(worker() for _ in range(width)))
    return {"calls": count, "seconds": time.perf_counter() - start}


async def main():
    origin = json.loads(sys.argv[1])["origin"]
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
        card = await A2ACardResolver(http, origin).get_agent_card()
        waiting = ClientFactory(ClientConfig(streaming=False, httpx_client=http)).create(card)
        streaming = ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create(card)

        async def send():
            async for _ in waiting.send_message(send_request("Good morning")):
                pass

        async def stream(text):
            start, seen = time.perf_counter(), 0
            async for _ in streaming.send_message(send_request(text)):
                seen += 1
            return {"seen": seen, "seconds": time.perf_counter() - start}

        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            match command["op"]:
                case "send":
                    result = await calls(send, command["width"], command["seconds"])
                case "status":
                    status = lambda: waiting.get_task(GetTaskRequest(id="t-1"))  # noqa: E731
                    result = await calls(status, command["width"], command["seconds"])
                case "stream":
                    result = await stream(command["text"])
            print(json.dumps(result), flush=True)


asyncio.run(main())
