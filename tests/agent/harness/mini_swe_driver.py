"""Runs under the interpreter of the real mini-swe-agent (`make referees`): plays scripted messages, prints its requests.

Standard input: JSON with `outputs` (assistant messages), `cwd`, `timeout`, `step_limit`. Agent, environment, parser and
templates are the package's own; only the model is ours.
"""

import copy
import json
import sys
from types import SimpleNamespace

import yaml
from minisweagent import package_dir
from minisweagent.agents.default import AgentConfig, DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)


class Scripted:
    """Answers with the scripted messages in order, and keeps what it was asked."""

    def __init__(self, outputs, observation_template, format_error_template):
        self.outputs, self.requests = iter(outputs), []
        self.observation_template, self.format_error_template = observation_template, format_error_template

    def query(self, messages, **kwargs):
        self.requests.append([{k: v for k, v in copy.deepcopy(m).items() if k != "extra"} for m in messages])
        message = next(self.outputs)
        calls = [SimpleNamespace(id=c["id"], function=SimpleNamespace(**c["function"])) for c in message.get("tool_calls", [])]
        actions = parse_toolcall_actions(calls, format_error_template=self.format_error_template)
        return {**message, "extra": {"actions": actions, "cost": 0.0}}

    def format_message(self, **message):
        return message

    def format_observation_messages(self, message, outputs, template_vars=None):
        return format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self.observation_template,
            template_vars=template_vars,
        )

    def get_template_vars(self, **kwargs):
        return {}

    def serialize(self):
        return {}


def main():
    ask = json.load(sys.stdin)
    mini = yaml.safe_load((package_dir / "config" / "mini.yaml").read_text())
    swebench = yaml.safe_load((package_dir / "config" / "benchmarks" / "swebench.yaml").read_text())
    model = Scripted(ask["outputs"], mini["model"]["observation_template"], mini["model"]["format_error_template"])
    agent = DefaultAgent(
        model,
        LocalEnvironment(cwd=ask["cwd"], timeout=ask["timeout"]),
        system_template=mini["agent"]["system_template"],
        instance_template=mini["agent"]["instance_template"],
        step_limit=ask["step_limit"],
    )
    ended = agent.run("the task")
    facts = {
        "step_limit": swebench["agent"]["step_limit"],
        "timeout": swebench["environment"]["timeout"],
        "format_errors": AgentConfig.model_fields["max_consecutive_format_errors"].default,
    }
    print(json.dumps({"requests": model.requests, "tools": [BASH_TOOL], "ended": ended, "facts": facts}))


main()
