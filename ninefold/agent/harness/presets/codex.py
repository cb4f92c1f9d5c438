"""Codex at 6c6d291 (spec 08, 1.4): next to no tools beside the shell and patches.

`apply_patch` is the JSON variant; its parameter's name and the list's are from general knowledge. DEVIATION: commands run to
their end, so there is no session to write to, and yield_time_ms bounds them; wall time is in whole seconds, and chunk_id is a
digest of the output, so that a run can be repeated.
"""

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.rules import Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.view import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    Toolset,
    View,
    array,
    choice,
    optional,
    record,
    required,
)
from ninefold.agent.harness.whitebox import WhiteBox, nano

OUTPUT = 40_000
"""Characters of an output: 10,000 tokens of four."""
_CUT = "{head}…{left_out} characters left out…{tail}"

EXEC = View(
    name="exec_command",
    operation="shell",
    description="Run a command and return its output.",
    parameters={
        "cmd": required(TEXT, "command"),
        "workdir": optional(TEXT, "folder"),
        "tty": optional(FLAG),
        "yield_time_ms": optional(NUMBER, "seconds", default=10_000, most=30_000, scale=0.001),
        "max_output_tokens": optional(NUMBER, default=10_000),
        "shell": optional(TEXT),
        "login": optional(FLAG),
        "environment_id": optional(TEXT),
        "sandbox_permissions": optional(choice("use_default", "with_additional_permissions", "require_escalated")),
        "justification": optional(TEXT),
        "prefix_rule": optional(TEXTS),
        "additional_permissions": optional(OBJECT),
    },
    layout=Layout(
        limit=OUTPUT,
        head=OUTPUT // 2,
        tail=OUTPUT // 2,
        cut=_CUT,
        whole="chunk_id: {digest}\nwall_time_seconds: {seconds}\nexit_code: {exit_code}\n"
        "original_token_count: {tokens}\noutput:\n{body}",
        killed="chunk_id: {digest}\nwall_time_seconds: {seconds}\nexit_code: 124\n"
        "original_token_count: {tokens}\noutput:\n{body}",
    ),
)
SHELL_COMMAND = View(
    name="shell_command",
    operation="shell",
    description="Run a command in the user's shell.",
    parameters={
        "command": required(TEXT, "command"),
        "workdir": optional(TEXT, "folder"),
        "timeout_ms": optional(NUMBER, "seconds", default=10_000, scale=0.001),
        "login": optional(FLAG),
    },
    layout=Layout(
        limit=OUTPUT,
        head=OUTPUT // 2,
        tail=OUTPUT // 2,
        cut=_CUT,
        whole="Exit code: {exit_code}\nWall time: {seconds} seconds\nOutput:\n{body}",
        killed="Exit code: 124\nWall time: {seconds} seconds\nOutput:\n{body}",
    ),
)
PATCH = View(
    name="apply_patch",
    operation="patch",
    description="Change files by a patch between `*** Begin Patch` and `*** End Patch`.",
    parameters={"input": required(TEXT, "patch")},
)
PLAN = View(
    name="update_plan",
    operation="todo",
    description="Say which steps there are and how far they are.",
    parameters={
        "explanation": optional(TEXT),
        "plan": required(
            array(record(("step", "status"), step=TEXT, status=choice("pending", "in_progress", "completed"))),
            "items",
            names={"step": "text"},
        ),
    },
)
IMAGE = View(
    name="view_image", operation="media", description="Look at a picture.", parameters={"path": required(TEXT, "path")}
)
STDIN = View(
    name="write_stdin",
    operation="session",
    description="Write to a command that still runs.",
    parameters={
        "session_id": required(NUMBER, "id"),
        "chars": optional(TEXT, "text"),
        "yield_time_ms": optional(NUMBER, "seconds", default=250, scale=0.001),
        "max_output_tokens": optional(NUMBER),
    },
)
WEB = View(
    name="web_search",
    operation="search",
    description="Search documents.",
    parameters={"query": required(TEXT, "query")},
)
VIEWS = (EXEC, PATCH, PLAN, IMAGE, STDIN, WEB)

PROMPT = Sections(
    sections=(
        Section(name="base", text="You are a coding agent that works in a terminal. Be exact, safe and helpful."),
        Section(
            name="patches",
            text="Change files by apply_patch: lines of a hunk begin with a space, - or +.",
            tool="apply_patch",
        ),
        Section(name="permissions", text="Commands run in a sandbox without a network; nobody is asked for approval."),
        Section(name="project", text="# AGENTS.md for {cwd}\n{project_doc}", role="user"),
        Section(
            name="environment",
            text="<environment_context>\n<cwd>{cwd}</cwd>\n<shell>{shell}</shell>\n<current_date>{date}</current_date>\n"
            "<timezone>UTC</timezone>\n</environment_context>",
            role="user",
        ),
    ),
)
CONTEXT = Compaction(
    # 90 % of an effective window that is 95 % of the nominal one.
    ratio=0.855,
    ask="Write a summary for another agent that takes over: progress, decisions, facts it needs, next steps.",
    prefix="Another agent began this task and left this summary of it:\n",
    user_tokens=20_000,
)

FULL = WhiteBox(name="codex", version="6c6d291", toolset=Toolset(views=VIEWS), prompt=PROMPT, context=CONTEXT, rules=Rules())
NANO = nano(FULL, "You are a coding agent in a terminal.")
