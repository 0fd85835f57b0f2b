//! Hands work from OpenClaw agents to agents elsewhere.
