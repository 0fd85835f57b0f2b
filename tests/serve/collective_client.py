"""Sends a proposal to the card at ORIGIN with the official Python client of A2A 1.0, and prints the votes and the decision.

    collective_client.py ORIGIN PROPOSAL
"""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState
from google.protobuf.json_format import MessageToDict

ORIGIN, PROPOSAL = sys.argv[1:]


def data(parts):
    return next((MessageToDict(part.data) for part in parts if part.HasField("data")), None)


async def main():
    seen = {"votes": {}}
    async with httpx.AsyncClient(timeout=120) as http:
        card = await A2ACardResolver(http, ORIGIN).get_agent_card()
        seen["skill"] = card.skills[0].id
        client = ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create(card)
        message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=PROPOSAL)])
        async for event in client.send_message(SendMessageRequest(message=message)):
            if event.HasField("status_update"):
                status = event.status_update.status
                seen["state"] = TaskState.Name(status.state)
                vote = data(status.message.parts) or {}
                if "vote" in vote:
                    seen["votes"][vote["member"]] = vote["vote"]
            if event.HasField("artifact_update"):
                artifact = event.artifact_update.artifact
                seen["decision"] = {"name": artifact.artifact_id, "result": data(artifact.parts)["result"]}
    print(json.dumps(seen))


asyncio.run(main())
