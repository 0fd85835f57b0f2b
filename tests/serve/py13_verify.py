"""Verifies a signed card with the official Python SDK: `py13_verify.py CARD KEYS`, both JSON files. Prints the verified key id."""

import json
import sys

from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import ParseDict
from jwt import PyJWK

card, keys = (json.load(open(path)) for path in sys.argv[1:3])
known = {key["kid"]: PyJWK(key) for key in keys["keys"]}
asked = []


def key(kid, jku):
    asked.append((kid, jku))
    return known[kid]


parsed = ParseDict(card, AgentCard(), ignore_unknown_fields=True)
create_signature_verifier(key, ["ES256", "EdDSA"])(parsed)
print(json.dumps({"kid": asked[-1][0], "jku": asked[-1][1]}))
