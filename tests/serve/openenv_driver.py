"""Runs in the interpreter of openenv: its own clients play what the standard input says."""

import json
import sys

from openenv.core.env_server.types import SchemaResponse
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

if __name__ == "__main__":
    import httpx

    asked = json.load(sys.stdin)
    told = {}
    SchemaResponse.model_validate(httpx.get(asked["url"] + "/schema").json())
    with GenericEnvClient(base_url=asked["url"]).sync() as env:
        first = env.reset(seed=asked["seed"])
        told["instruction"] = first.observation["instruction"]
        for action in asked["actions"]:
            last = env.step(action)
        told |= {"reward": last.reward, "done": last.done, "task": env.state()["task_id"]}
        env.reset(seed=asked["seed"])
        told["nothing"] = env.step({"type": "answer", "text": ""}).reward
    with MCPToolClient(base_url=asked["url"]).sync() as env:
        told["tools"] = [tool.name for tool in env.list_tools()]
        told["looked"] = str(env.call_tool("lookup", key="nobody"))
    print(json.dumps(told))
