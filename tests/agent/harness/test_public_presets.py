"""Public harnesses against the facts of spec 08: tools, parameters, required sets, choices, limits, order of prompts."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ninefold.agent.harness.compose import compose
from ninefold.agent.harness.presets import PUBLIC, claude_code, codex, hermes, kimi_code, mini_swe, openclaw, pi, preset
from ninefold.agent.harness.view import View
from ninefold.agent.harness.whitebox import WhiteBox
from ninefold.core.errors import UserError
from ninefold.core.types import Task, hash_of
from tests.agent.harness.errand import Errand

HERMES = Path(__file__).parents[3] / "runs" / "referees" / "hermes" / "tools"

TABLE: dict[str, dict[str, str]] = {
    "kimi_code": {
        "Bash": "command cwd? timeout? description? run_in_background? disable_timeout?",
        "Read": "path line_offset? n_lines?",
        "Write": "path content mode?",
        "Edit": "path old_string new_string replace_all?",
        "Glob": "pattern path? include_ignored? include_dirs?",
        "Grep": "pattern path? glob? type? output_mode? -i? -n? -A? -B? -C? head_limit? offset? multiline? include_ignored?",
        "Agent": "prompt description subagent_type? resume? run_in_background? fork? model?",
        "AgentSwarm": "description subagent_type? prompt_template items? fork? resume_agent_ids? model?",
        "TodoList": "todos?",
        "AskUserQuestion": "questions background?",
        "ReadMediaFile": "path region? full_resolution?",
        "TaskOutput": "task_id",
        "TaskStop": "task_id reason?",
        "WaitFor": "timeout task_id?",
        "TaskList": "active_only? limit?",
        "CronCreate": "cron prompt recurring?",
        "CronList": "",
        "Skill": "skill args?",
        "WebSearch": "query",
        "FetchURL": "url",
        "EnterPlanMode": "",
        "ExitPlanMode": "options?",
        "GetGoal": "",
        "UpdateGoal": "status",
        "SetGoalBudget": "value unit",
        "select_tools": "names",
    },
    "claude_code": {
        "Bash": "command timeout? description? run_in_background? dangerouslyDisableSandbox?",
        "Read": "file_path offset? limit? pages? allow_large?",
        "Edit": "file_path old_string new_string replace_all?",
        "Write": "file_path content",
        "Glob": "pattern path?",
        "Grep": "pattern path? glob? output_mode? -A? -B? -C? context? -n? -i? -o? type? head_limit? offset? multiline?",
        "Agent": "description prompt subagent_type? model? effort? run_in_background? name? isolation?",
        "TodoWrite": "todos",
        "WebFetch": "url prompt offset?",
        "WebSearch": "query allowed_domains? blocked_domains?",
        "EnterPlanMode": "",
        "Monitor": "description timeout_ms?",
    },
    "codex": {
        "exec_command": "cmd workdir? tty? yield_time_ms? max_output_tokens? shell? login? environment_id? "
        "sandbox_permissions? justification? prefix_rule? additional_permissions?",
        "write_stdin": "session_id chars? yield_time_ms? max_output_tokens?",
        "apply_patch": "input",
        "update_plan": "explanation? plan",
        "view_image": "path",
        "web_search": "query",
    },
    "openclaw": {
        "exec": "command yieldMs? background? timeout? elevated? host? security? ask? pty?",
        "process": "action",
        "read": "path offset? limit?",
        "write": "path content",
        "edit": "path oldText newText",
        "apply_patch": "input",
        "web_search": "query count?",
        "web_fetch": "url extractMode? maxChars?",
        "image": "image",
        "sessions_spawn": "task label? agentId? model? runTimeoutSeconds? cleanup?",
        "cron": "action",
    },
    "hermes": {
        "read_file": "path offset? limit?",
        "write_file": "path content cross_profile?",
        "patch": "mode path? old_string? new_string? replace_all? patch? cross_profile?",
        "search_files": "pattern target? path? file_glob? limit? offset? output_mode? context?",
        "terminal": "command background? timeout? workdir? pty? notify_on_complete? watch_patterns?",
        "process": "action session_id? data? timeout? offset? limit?",
        "web_search": "query limit?",
        "web_extract": "urls char_limit?",
        "vision_analyze": "image_url question",
        "skills_list": "category?",
        "skill_view": "name file_path?",
        "todo": "todos? merge?",
        "memory": "action? target content? old_text? operations?",
        "session_search": "query? limit? sort? session_id? around_message_id? window? role_filter? profile?",
        "clarify": "question choices?",
        "execute_code": "code",
        "delegate_task": "goal? context? tasks? role? background?",
    },
    "mini_swe": {"bash": "command"},
    "pi": {
        "read": "path offset? limit?",
        "bash": "command timeout?",
        "edit": "path oldText newText",
        "write": "path content",
        "grep": "pattern path? glob? ignoreCase? literal? context? limit?",
        "find": "pattern path? limit?",
        "ls": "path? limit?",
    },
}
"""Tool → its parameters; `?` marks those that may be left out."""

CHOICES: dict[str, dict[str, list[str]]] = {
    "kimi_code": {
        "Write.mode": ["overwrite", "append"],
        "Grep.output_mode": ["content", "files_with_matches", "count_matches"],
        "UpdateGoal.status": ["active", "complete", "blocked"],
        "SetGoalBudget.unit": ["turns", "tokens", "ms", "s", "min", "h"],
        "TodoList.todos.status": ["pending", "in_progress", "done"],
    },
    "claude_code": {
        "Grep.output_mode": ["content", "files_with_matches", "count"],
        "Agent.model": ["sonnet", "opus", "haiku", "fable"],
        "Agent.isolation": ["worktree", "remote"],
    },
    "codex": {
        "exec_command.sandbox_permissions": ["use_default", "with_additional_permissions", "require_escalated"],
        "update_plan.plan.status": ["pending", "in_progress", "completed"],
    },
    "openclaw": {
        "exec.security": ["deny", "allowlist", "full"],
        "exec.ask": ["off", "on-miss", "always"],
        "process.action": ["list", "poll", "log", "write", "kill", "clear", "remove"],
        "cron.action": ["status", "list", "add", "update", "remove", "run", "runs", "wake"],
    },
    "hermes": {
        "patch.mode": ["replace", "patch"],
        "search_files.target": ["content", "files"],
        "search_files.output_mode": ["content", "files_only", "count"],
        "process.action": ["list", "poll", "log", "wait", "kill", "write", "submit", "close"],
        "memory.action": ["add", "replace", "remove"],
        "memory.target": ["memory", "user"],
        "delegate_task.role": ["leaf", "orchestrator"],
    },
}

TYPES: dict[str, str] = {
    **dict.fromkeys(("Grep.context", "grep.context", "search_files.context"), "number"),
    **dict.fromkeys(("timeout", "n_lines", "line_offset", "-A", "-B", "-C", "head_limit", "offset", "limit"), "number"),
    **dict.fromkeys(("yield_time_ms", "max_output_tokens", "yieldMs", "maxChars", "count", "value", "timeout_ms"), "number"),
    **dict.fromkeys(("runTimeoutSeconds", "char_limit", "window", "around_message_id"), "number"),
    **dict.fromkeys(("run_in_background", "disable_timeout", "replace_all", "include_ignored", "include_dirs"), "boolean"),
    **dict.fromkeys(("-i", "-n", "-o", "multiline", "fork", "active_only", "recurring", "full_resolution"), "boolean"),
    **dict.fromkeys(("dangerouslyDisableSandbox", "allow_large", "tty", "login", "background", "elevated", "pty"), "boolean"),
    **dict.fromkeys(("ignoreCase", "literal", "cross_profile", "notify_on_complete", "merge"), "boolean"),
    **dict.fromkeys(("items", "questions", "todos", "names", "options", "plan", "prefix_rule", "urls", "tasks"), "array"),
    **dict.fromkeys(("allowed_domains", "blocked_domains", "watch_patterns", "choices", "operations"), "array"),
    **dict.fromkeys(("region", "resume_agent_ids", "additional_permissions"), "object"),
}
"""JSON types of parameters, or of one tool's, that are no strings. Whole numbers count as numbers; `session_id` is either."""


def views(name: str) -> dict[str, View]:
    harness = preset(name)
    assert isinstance(harness, WhiteBox)
    return {view.name: view for view in harness.toolset.views}


@pytest.mark.parametrize("name", PUBLIC)
def test_tools_and_parameters(name: str) -> None:
    stated = {
        tool: {parameter.rstrip("?"): not parameter.endswith("?") for parameter in text.split()}
        for tool, text in TABLE[name].items()
    }
    assert {tool: {p: facts.required for p, facts in view.parameters.items()} for tool, view in views(name).items()} == stated
    for view in views(name).values():
        for parameter, facts in view.parameters.items():
            kind = "number" if facts.kind == "integer" else facts.kind
            wanted = TYPES.get(f"{view.name}.{parameter}", TYPES.get(parameter, "string"))
            assert parameter == "session_id" or kind == wanted, f"{view.name}.{parameter}"


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str) -> None:
    for path, wanted in CHOICES[name].items():
        tool, parameter, *inner = path.split(".")
        schema = views(name)[tool].parameters[parameter].schema
        for key in inner:
            schema = schema["items"]["properties"][key]
        assert schema["enum"] == wanted, path


def test_limits() -> None:
    """Those of the table, in the units of each."""
    bash, read = views("kimi_code")["Bash"].parameters["timeout"], kimi_code.READ
    assert (bash.default, bash.most) == (60, 300)
    assert (read.parameters["n_lines"].default, read.parameters["line_offset"].schema["minimum"]) == (1_000, -1_000)
    assert (read.layout.line_chars, read.layout.limit, read.layout.bytes) == (2_000, 100 * 1_024, True)
    assert (kimi_code.GLOB.fixed["limit"], kimi_code.GREP.parameters["head_limit"].default) == (100, 250)
    assert views("kimi_code")["AgentSwarm"].parameters["items"].schema["maxItems"] == 128
    assert kimi_code.BASH.layout.limit == 50_000
    context = kimi_code.CONTEXT
    assert (context.ratio, context.reserve, context.user_tokens, context.user_head) == (0.85, 50_000, 20_000, 2_000)

    bash = claude_code.BASH.parameters["timeout"]
    assert (bash.default, bash.most, bash.canonical(120_000)) == (120_000, 600_000, 120)
    assert claude_code.BASH.layout.limit == 30_000
    assert (claude_code.READ.parameters["limit"].default, claude_code.READ.layout.line) == (2_000, "{number}\t{text}")
    assert claude_code.EDIT.fixed == claude_code.WRITE.fixed == {"read_first": True}
    assert (claude_code.GLOB.fixed["limit"], claude_code.GREP.parameters["head_limit"].default) == (100, 250)

    run = codex.EXEC.parameters
    assert (run["yield_time_ms"].default, run["yield_time_ms"].most, run["max_output_tokens"].default) == (
        10_000,
        30_000,
        10_000,
    )
    assert codex.SHELL_COMMAND.parameters["timeout_ms"].default == 10_000
    assert codex.CONTEXT.ratio == pytest.approx(0.9 * 0.95)
    assert codex.CONTEXT.user_tokens == 20_000

    assert (openclaw.EXEC.parameters["yieldMs"].default, openclaw.EXEC.parameters["timeout"].default) == (10_000, 1_800)
    assert views("openclaw")["web_search"].parameters["count"].schema == {"type": "integer", "minimum": 1, "maximum": 10}
    assert (openclaw.LADDER.remind, openclaw.LADDER.stop, openclaw.LADDER.history) == ((10, 20), 30, 30)
    pruning = openclaw.CONTEXT.pruning
    assert pruning is not None
    assert (pruning.keep, pruning.long, pruning.head, pruning.tail, pruning.least) == (3, 4_000, 1_500, 1_500, 50_000)
    assert (pruning.soft_ratio, pruning.hard_ratio, openclaw.PROMPT.doc_chars) == (0.3, 0.5, 20_000)

    terminal = hermes.TERMINAL.layout
    assert (terminal.limit, terminal.head, terminal.tail, hermes.READ.layout.limit) == (50_000, 20_000, 30_000, 100_000)
    assert (hermes.RULES.turns, hermes.CONTEXT.ratio, hermes.CONTEXT.keep_share) == (90, 0.75, pytest.approx(0.2 * 0.75))
    assert hermes.CONTEXT.summary_tokens == 10_000

    assert (pi.READ.parameters["limit"].default, pi.READ.layout.limit, pi.CONTEXT.reserve) == (2_000, 50 * 1_024, 16_384)
    assert (pi.CONTEXT.keep_tokens, pi.CONTEXT.summary_tokens) == (20_000, int(0.8 * 16_384))
    by_name = views("pi")
    assert [by_name[tool].parameters["limit"].default for tool in ("grep", "find", "ls")] == [100, 1_000, 500]
    assert (by_name["grep"].layout.line_chars, pi.BASH.parameters["timeout"].default) == (500, None)

    assert (mini_swe.BASH.fixed["seconds"], mini_swe.RULES.turns, mini_swe.RULES.format_errors) == (60, 250, 3)
    assert (mini_swe.BASH.layout.limit + 1, mini_swe.BASH.layout.head, mini_swe.BASH.layout.tail) == (10_000, 5_000, 5_000)


def test_prompt_orders() -> None:
    wanted = {
        "kimi_code": "identity language tools coding research context environment folder tree project skills reminders date",
        "claude_code": "identity intro system tasks care tools tone output environment project date",
        "codex": "base patches permissions project environment",
        "openclaw": "tooling skills update workspace documentation files memory sandbox date heartbeat runtime reasoning",
        "hermes": "identity guidance skills environment project memory date",
        "mini_swe": "system",
        "pi": "identity tools guidelines project skills date folder",
    }
    assert {name: " ".join(section.name for section in _whole(name).prompt.sections) for name in PUBLIC} == wanted
    by_user = {name: [section.name for section in _whole(name).prompt.sections if section.role == "user"] for name in PUBLIC}
    assert (by_user["claude_code"], by_user["codex"]) == (["project", "date"], ["project", "environment"])


def test_prompt_is_filled_from_the_task() -> None:
    task = errand()
    opening = preset("codex").messages(task)
    assert [message["role"] for message in opening] == ["system", "user", "user", "user"]
    assert "Be exact." in opening[1]["content"]
    assert "<cwd>/work</cwd>" in opening[2]["content"]
    assert opening[3]["content"] == task.instruction
    whole = "\n".join(str(message["content"]) for message in preset("kimi_code").messages(task))
    assert "```\nBe exact.\n```" in whole
    assert "src/\n  main.py" in whole
    assert "Skills" not in whole, "a section with nothing to say is left out"
    skilled = replace(task, files={**task.files, "skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Read PDF.\n---\n"})
    assert "- pdf: Read PDF. (/work/skills/pdf/SKILL.md)" in str(preset("kimi_code").messages(skilled)[0]["content"])
    assert "{instruction}" in str(preset("pi").messages(replace(task, instruction="say {instruction}"))[-1]["content"])


@pytest.mark.parametrize("name", PUBLIC)
def test_nano_views_are_small_and_real(name: str) -> None:
    small, whole = preset(f"{name}/nano"), preset(name)
    schemas = small.schemas(Errand.tools)
    assert 1 <= len(schemas) <= 4
    required = {tool: [p for p in text.split() if not p.endswith("?")] for tool, text in TABLE[name].items()}
    assert all(sorted(s["function"]["parameters"]["required"]) == sorted(required[s["function"]["name"]]) for s in schemas)
    spoken = sum(len(str(message["content"])) for message in small.messages(errand()))
    assert len(json.dumps(schemas)) + spoken < 1_200
    assert len(json.dumps(schemas)) <= len(json.dumps(whole.schemas(Errand.tools)))


@pytest.mark.parametrize("name", [f"{name}{size}" for name in PUBLIC for size in ("", "/nano")])
def test_composition_makes_it_again(name: str) -> None:
    harness = preset(name)
    written = json.loads(json.dumps(harness.composition))
    assert compose(written) == harness
    assert hash_of(written) == hash_of(harness.composition)
    with pytest.raises(UserError, match="colour"):
        compose({**written, "toolset": {**written["toolset"], "colour": 1}})


@pytest.mark.referee
def test_hermes_schemas_equal_those_of_the_package() -> None:
    if not HERMES.exists():
        pytest.skip("make referees installs hermes-agent")
    real = {d["name"]: d["parameters"] for file in HERMES.glob("*.py") for d in _declarations(file)}
    ours = preset("hermes")
    assert isinstance(ours, WhiteBox)
    for view in ours.toolset.views:
        theirs = real[view.name]
        assert list(view.parameters) == list(theirs["properties"]), view.name
        assert {p for p, facts in view.parameters.items() if facts.required} == set(theirs["required"]), view.name
        for parameter, facts in view.parameters.items():
            stated = theirs["properties"][parameter]
            assert (facts.kind, facts.schema.get("enum")) == (stated["type"], stated.get("enum")), f"{view.name}.{parameter}"


def errand() -> Task:
    return Errand().generate("train", 0, 0)


def _whole(name: str) -> WhiteBox:
    harness = preset(name)
    assert isinstance(harness, WhiteBox)
    return harness


def _declarations(file: Path) -> list[dict[str, Any]]:
    """The function declarations that stand in a source file as literals."""
    found = [_literal(node) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Dict)]
    return [d for d in found if isinstance(d.get("parameters"), dict) and isinstance(d["parameters"].get("properties"), dict)]


def _literal(node: ast.expr) -> Any:
    """A literal as a value; what is computed is None."""
    if isinstance(node, ast.Dict):
        return {k.value: _literal(v) for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant)}
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    return node.value if isinstance(node, ast.Constant) else None
