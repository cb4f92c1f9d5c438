"""pi (badlogic/pi-mono; spec 08, 1.7): four tools, three more for looking around, and a short prompt."""

from dataclasses import replace

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.rules import Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.view import FLAG, NUMBER, TEXT, Toolset, View, optional, required
from ninefold.agent.harness.whitebox import WhiteBox, nano

BYTES = 51_200
"""Of any result."""
LINES = 2_000


_CAPPED = Layout(limit=BYTES, head=BYTES, bytes=True, cut="{head}\n[{left_out} bytes left out]", more="\n[{left_out} more]")

READ = View(
    name="read",
    operation="read",
    description="Read lines of a file, 2000 or 50 KB at most.",
    parameters={
        "path": required(TEXT, "path"),
        "offset": optional(NUMBER, "offset", default=1),
        "limit": optional(NUMBER, "limit", default=LINES, most=LINES),
    },
    layout=replace(_CAPPED, more="\n[{left_out} more lines; go on with offset={next}]"),
)
BASH = View(
    name="bash",
    operation="shell",
    description="Run a bash command. Without timeout, in seconds, it has as long as it needs.",
    parameters={"command": required(TEXT, "command"), "timeout": optional(NUMBER, "seconds")},
    layout=Layout(
        limit=BYTES,
        tail=BYTES,
        bytes=True,
        cut="[{left_out} bytes left out]\n{tail}",
        empty="(nothing was printed)",
        failed="{body}\n\nThe command ended with exit code {exit_code}",
        killed="{body}\n\nThe command {why}",
    ),
)
EDIT = View(
    name="edit",
    operation="edit",
    description="Replace a text that occurs once in a file.",
    parameters={"path": required(TEXT, "path"), "oldText": required(TEXT, "old"), "newText": required(TEXT, "new")},
)
WRITE = View(
    name="write",
    operation="write",
    description="Write a file, making its folders.",
    parameters={"path": required(TEXT, "path"), "content": required(TEXT, "text")},
)
VIEWS = (
    READ,
    BASH,
    EDIT,
    WRITE,
    View(
        name="grep",
        operation="grep",
        description="Search file contents.",
        parameters={
            "pattern": required(TEXT, "pattern"),
            "path": optional(TEXT, "path"),
            "glob": optional(TEXT, "glob"),
            "ignoreCase": optional(FLAG, "ignore_case"),
            "literal": optional(FLAG, "literal"),
            "context": optional(NUMBER, "context"),
            "limit": optional(NUMBER, "limit", default=100),
        },
        layout=replace(_CAPPED, line_chars=500, empty="No matches found"),
    ),
    View(
        name="find",
        operation="glob",
        description="Find files by a pattern of their path.",
        parameters={
            "pattern": required(TEXT, "pattern"),
            "path": optional(TEXT, "path"),
            "limit": optional(NUMBER, "limit", default=1_000),
        },
        layout=replace(_CAPPED, empty="No files found"),
    ),
    View(
        name="ls",
        operation="list",
        description="What a folder holds.",
        parameters={"path": optional(TEXT, "path"), "limit": optional(NUMBER, "limit", default=500)},
        layout=replace(_CAPPED, empty="(empty)"),
    ),
)

PROMPT = Sections(
    sections=(
        Section(name="identity", text="You are a coding agent. You read files, run commands, edit and write."),
        Section(name="tools", text="Tools:\n{tools}"),
        Section(name="guidelines", text="Read before you edit. Name the files that you talk about. Be brief."),
        Section(name="project", text="# The project\n{project_doc}"),
        Section(name="skills", text="# Skills\n{skills}"),
        Section(name="date", text="Date: {date}"),
        Section(name="folder", text="Working directory: {cwd}"),
    ),
    docs=("AGENTS.md", "CLAUDE.md"),
)
CONTEXT = Compaction(
    reserve=16_384,
    ask="Summarise the work so that it can go on: goal, progress, decisions, files, next steps.",
    prefix="What came before, as a summary:\n",
    summary_tokens=13_107,
    keep=1_000_000,
    keep_tokens=20_000,
)

FULL = WhiteBox(name="pi", version="2026", toolset=Toolset(views=VIEWS), prompt=PROMPT, context=CONTEXT, rules=Rules())
NANO = nano(FULL, "You are a coding agent.")
