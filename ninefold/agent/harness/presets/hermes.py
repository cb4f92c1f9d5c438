"""Hermes (PyPI hermes-agent 0.19.0; spec 08, 1.6, required sets from the package): tools, tiers of its prompt, limits.

Left out: browser, messages, pictures made and speech. Of its guardrails the one on exact failures. DEVIATION: a window here is
below 512K tokens, where its threshold is 0.75.
"""

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.delegation import Delegation
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.rules import Ladder, Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.view import (
    FLAG,
    TEXT,
    TEXTS,
    WHOLE,
    Toolset,
    View,
    array,
    choice,
    optional,
    record,
    required,
    within,
)
from ninefold.agent.harness.whitebox import WhiteBox, nano

RESULT = 100_000
"""Characters of any result."""
_PLAIN = Layout(limit=RESULT, head=RESULT, more="\n[{left_out} more; go on with offset {next}]")
_ROLE = choice("leaf", "orchestrator")

READ = View(
    name="read_file",
    operation="read",
    description="Read lines of a text file, with their numbers.",
    parameters={
        "path": required(TEXT, "path"),
        "offset": optional(within(1), "offset", default=1),
        "limit": optional({"type": "integer", "maximum": 2_000}, "limit", default=500, most=2_000),
    },
    layout=Layout(line="{number}|{text}", limit=RESULT, head=RESULT, more="\n[{left_out} more lines from {next} on]"),
)
WRITE = View(
    name="write_file",
    operation="write",
    description="Write a whole file, making its folders.",
    parameters={
        "path": required(TEXT, "path"),
        "content": required(TEXT, "text"),
        "cross_profile": optional(FLAG),
    },
)
PATCH = View(
    name="patch",
    operation="edit",
    description="Replace text that occurs once (mode replace), or apply a patch to several files (mode patch).",
    parameters={
        "mode": required(choice("replace", "patch"), default="replace"),
        "path": optional(TEXT, "path"),
        "old_string": optional(TEXT, "old"),
        "new_string": optional(TEXT, "new"),
        "replace_all": optional(FLAG, "every"),
        "patch": optional(TEXT, "patch"),
        "cross_profile": optional(FLAG),
    },
    switch="mode",
    cases={"patch": "patch"},
)
SEARCH = View(
    name="search_files",
    operation="grep",
    description="Search file contents, or find files by a pattern of their path.",
    parameters={
        "pattern": required(TEXT, "pattern"),
        "target": optional(choice("content", "files"), default="content"),
        "path": optional(TEXT, "path", default="."),
        "file_glob": optional(TEXT, "glob"),
        "limit": optional(WHOLE, "limit", default=50),
        "offset": optional(WHOLE, "offset", default=0),
        "output_mode": optional(
            choice("content", "files_only", "count"), "mode", default="content", names={"files_only": "files"}
        ),
        "context": optional(WHOLE, "context", default=0),
    },
    switch="target",
    cases={"files": "glob"},
    layout=_PLAIN,
)
TERMINAL = View(
    name="terminal",
    operation="shell",
    description="Run a shell command.",
    parameters={
        "command": required(TEXT, "command"),
        "background": optional(FLAG, "background"),
        "timeout": optional(within(1), "seconds"),
        "workdir": optional(TEXT, "folder"),
        "pty": optional(FLAG),
        "notify_on_complete": optional(FLAG),
        "watch_patterns": optional(TEXTS),
    },
    layout=Layout(
        limit=50_000,
        head=20_000,
        tail=30_000,
        bytes=True,
        cut="{head}\n[{left_out} bytes left out]\n{tail}",
        failed="{body}\n[exit code {exit_code}]",
        killed="{body}\n[{why}]",
    ),
)
TODO_LIST = View(
    name="todo",
    operation="todo",
    description="Read the list of what is to be done, write it, or change items of it.",
    parameters={
        "todos": optional(
            array(
                record(
                    ("id", "content", "status"),
                    id=TEXT,
                    content=TEXT,
                    status=choice("pending", "in_progress", "completed", "cancelled"),
                )
            ),
            "items",
            names={"content": "text"},
        ),
        "merge": optional(FLAG, "merge"),
    },
)
_CHANGE = choice("add", "replace", "remove")
MEMORY = View(
    name="memory",
    operation="memory",
    description="Keep notes for later conversations: of your own, or about the user.",
    parameters={
        "action": optional(_CHANGE, "action", default="add"),
        "target": required(choice("memory", "user"), "target"),
        "content": optional(TEXT, "text"),
        "old_text": optional(TEXT, "old"),
        "operations": optional(array(record(("action",), action=_CHANGE, content=TEXT, old_text=TEXT))),
    },
)
VIEWS = (
    READ,
    WRITE,
    PATCH,
    TERMINAL,
    SEARCH,
    View(
        name="web_search",
        operation="search",
        description="Search documents.",
        parameters={"query": required(TEXT, "query"), "limit": optional(within(1, 100), "count", default=5)},
        layout=_PLAIN,
    ),
    View(
        name="web_extract",
        operation="fetch",
        description="Read the text of documents; here of the first one named.",
        parameters={
            "urls": required(TEXTS, "url", single=True),
            "char_limit": optional(within(2_000), "limit"),
        },
        layout=_PLAIN,
    ),
    TODO_LIST,
    MEMORY,
    View(
        name="vision_analyze",
        operation="media",
        description="Look at a picture with a question in mind.",
        parameters={"image_url": required(TEXT, "path"), "question": required(TEXT, default="What does it show?")},
    ),
    View(
        name="process",
        operation="process",
        description="See to commands in the background.",
        parameters={
            "action": required(choice("list", "poll", "log", "wait", "kill", "write", "submit", "close"), "action"),
            "session_id": optional(TEXT, "id"),
            "data": optional(TEXT, "text"),
            "timeout": optional(within(1), "seconds"),
            "offset": optional(WHOLE, "offset"),
            "limit": optional(within(1), "limit"),
        },
    ),
    View(
        name="skills_list",
        operation="skills",
        description="List skills.",
        parameters={"category": optional(TEXT, "category")},
    ),
    View(
        name="skill_view",
        operation="skill",
        description="Read a skill.",
        parameters={"name": required(TEXT, "name"), "file_path": optional(TEXT, "path")},
    ),
    View(
        name="clarify",
        operation="ask",
        description="Ask the user.",
        parameters={"question": required(TEXT, "questions"), "choices": optional(TEXTS, "choices")},
    ),
    View(
        name="execute_code",
        operation="code",
        description="Run Python that may call tools.",
        parameters={"code": required(TEXT, "code")},
    ),
    View(
        name="session_search",
        operation="sessions",
        description="Search earlier conversations.",
        parameters={
            "query": optional(TEXT, "query"),
            "limit": optional(WHOLE, "limit", default=3),
            "sort": optional(choice("newest", "oldest"), "sort"),
            "session_id": optional(TEXT, "id"),
            "around_message_id": optional(WHOLE, "around"),
            "window": optional(WHOLE, "window", default=5),
            "role_filter": optional(TEXT, "roles"),
            "profile": optional(TEXT, "profile"),
        },
    ),
    View(
        name="delegate_task",
        operation="agent",
        description="Give one or several sub-agents a task of their own.",
        parameters={
            "goal": optional(TEXT, "prompt"),
            "context": optional(TEXT, "context"),
            "tasks": optional(array(record(("goal",), goal=TEXT, context=TEXT, role=_ROLE)), "tasks"),
            "role": optional(_ROLE, "kind"),
            "background": optional(FLAG, "background"),
        },
    ),
)

PROMPT = Sections(
    sections=(
        Section(name="identity", text="You are an agent that learns and remembers."),
        Section(name="guidance", text="Act through tools. Keep in memory what will matter later, and nothing else."),
        Section(name="skills", text="Skills:\n{skills}"),
        Section(name="environment", text="{os}, {shell}, {cwd}"),
        Section(name="project", text="{project_doc}"),
        Section(name="memory", text="Memory:\n{memory}"),
        Section(name="date", text="Begun on {date}"),
    ),
    docs=("SOUL.md", "AGENTS.md", ".cursorrules"),
    memory=("MEMORY.md", "USER.md"),
)
CONTEXT = Compaction(
    ratio=0.75,
    ask="Summarise what was done for reference: the goal, what holds, what is done, what is open.",
    prefix="[For reference: a summary of what came before]\n",
    suffix="\n[End of the summary]",
    summary_tokens=10_000,
    keep=10,
    keep_share=0.15,
)
RULES = Rules(
    turns=90,
    ladder=Ladder(remind=(2, 3, 4), stop=5, failures=True, text="[This call has failed {count} times. Change something.]"),
)

DELEGATION = Delegation(blocked=("ask", "memory", "code", "cron"), turns=50, most=3, chars=24_000)
FULL = WhiteBox(
    name="hermes",
    version="0.19.0",
    toolset=Toolset(views=VIEWS, delegation=DELEGATION),
    prompt=PROMPT,
    context=CONTEXT,
    rules=RULES,
)
NANO = nano(FULL, "You are an agent that remembers.")
