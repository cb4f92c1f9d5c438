"""Claude Code 2.1.197 (spec 08, 1.3): facts of its tools, prompt order and limits.

One generation of its lists (TodoWrite); tools whose parameters are not stated are left out. DEVIATION: a command that times
out is ended; a result that is too long is cut, not kept in a file; what survives a compaction is not stated there: [ours] all
of the user's words and the summary.
"""

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.rules import Rules
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

OUTPUT = 30_000
"""Characters of a command's output."""
_LISTED = Layout(empty="No matches.", more="\n[{left_out} more]", limit=OUTPUT, head=OUTPUT)

READ = View(
    name="Read",
    operation="read",
    description="Read a file: its lines with their numbers, 2000 of them unless limit says otherwise.",
    parameters={
        "file_path": required(TEXT, "path"),
        "offset": optional(within(0), "offset", default=1),
        "limit": optional(within(1), "limit", default=2_000),
        "pages": optional(TEXT),
        "allow_large": optional(FLAG),
    },
    layout=Layout(
        line="{number}\t{text}",
        line_chars=2_000,
        empty="<system-reminder>Nothing stands there: the file is empty, or ends before the offset.</system-reminder>",
    ),
)
EDIT = View(
    name="Edit",
    operation="edit",
    description="Replace text in a file that was read before. It has to occur once, unless replace_all is set.",
    parameters={
        "file_path": required(TEXT, "path"),
        "old_string": required(TEXT, "old"),
        "new_string": required(TEXT, "new"),
        "replace_all": optional(FLAG, "every"),
    },
    fixed={"read_first": True},
)
WRITE = View(
    name="Write",
    operation="write",
    description="Write a file. One that exists has to be read first.",
    parameters={"file_path": required(TEXT, "path"), "content": required(TEXT, "text")},
    fixed={"read_first": True},
)
BASH = View(
    name="Bash",
    operation="shell",
    description="Run a bash command; timeout is in milliseconds, 120000 unless given, 600000 at most.",
    parameters={
        "command": required(TEXT, "command"),
        "timeout": optional({"type": "number", "maximum": 600_000}, "seconds", default=120_000, most=600_000, scale=0.001),
        "description": optional(TEXT),
        "run_in_background": optional(FLAG, "background"),
        "dangerouslyDisableSandbox": optional(FLAG),
    },
    layout=Layout(
        limit=OUTPUT,
        head=OUTPUT // 2,
        tail=OUTPUT // 2,
        cut="{head}\n[{left_out} characters left out]\n{tail}",
        failed="{body}\nExit code {exit_code}",
        killed="error: the command {why}\n{body}",
    ),
)
GLOB = View(
    name="Glob",
    operation="glob",
    description="Find files by a pattern of their path.",
    parameters={"pattern": required(TEXT, "pattern"), "path": optional(TEXT, "path")},
    fixed={"limit": 100},
    layout=_LISTED,
)
GREP = View(
    name="Grep",
    operation="grep",
    description="Search file contents with a regular expression.",
    parameters={
        "pattern": required(TEXT, "pattern"),
        "path": optional(TEXT, "path"),
        "glob": optional(TEXT, "glob"),
        "output_mode": optional(
            choice("content", "files_with_matches", "count"),
            "mode",
            default="files_with_matches",
            names={"files_with_matches": "files"},
        ),
        "-A": optional(WHOLE, "after"),
        "-B": optional(WHOLE, "before"),
        "-C": optional(WHOLE, "context"),
        "context": optional(WHOLE, "context"),
        "-n": optional(FLAG, "numbers"),
        "-i": optional(FLAG, "ignore_case"),
        "-o": optional(FLAG, "only"),
        "type": optional(TEXT, "kind"),
        "head_limit": optional(within(0), "limit", default=250),
        "offset": optional(within(0), "offset"),
        "multiline": optional(FLAG, "multiline"),
    },
    layout=_LISTED,
)
TODO_LIST = View(
    name="TodoWrite",
    operation="todo",
    description="Write the list of what is to be done.",
    parameters={
        "todos": required(
            array(
                record(
                    ("content", "status", "activeForm"),
                    content=TEXT,
                    status=choice("pending", "in_progress", "completed"),
                    activeForm=TEXT,
                )
            ),
            "items",
            names={"content": "text"},
        )
    },
)
VIEWS = (
    READ,
    EDIT,
    WRITE,
    BASH,
    GLOB,
    GREP,
    View(
        name="WebSearch",
        operation="search",
        description="Search documents.",
        parameters={
            "query": required(TEXT, "query"),
            "allowed_domains": optional(TEXTS),
            "blocked_domains": optional(TEXTS),
        },
        layout=_LISTED,
    ),
    View(
        name="WebFetch",
        operation="fetch",
        description="Read a document with a question in mind.",
        parameters={
            "url": required(TEXT, "url"),
            "prompt": required(TEXT, default="What does it say?"),
            "offset": optional(within(0), "offset"),
        },
        layout=_LISTED,
    ),
    TODO_LIST,
    View(
        name="Agent",
        operation="agent",
        description="Give a sub-agent a task of its own.",
        parameters={
            "description": required(TEXT, "description", default="part of the work"),
            "prompt": required(TEXT, "prompt"),
            "subagent_type": optional(TEXT, "kind"),
            "model": optional(choice("sonnet", "opus", "haiku", "fable"), "model"),
            "effort": optional(TEXT, "effort"),
            "run_in_background": optional(FLAG, "background"),
            "name": optional(TEXT, "name"),
            "isolation": optional(choice("worktree", "remote"), "isolation"),
        },
    ),
    View(name="EnterPlanMode", operation="plan", description="Plan before anything is changed."),
    View(
        name="Monitor",
        operation="monitor",
        description="Watch what goes on in the background.",
        parameters={
            "description": required(TEXT, "description"),
            "timeout_ms": optional(
                {"type": "number", "maximum": 1_800_000}, "seconds", default=300_000, most=1_800_000, scale=0.001
            ),
        },
    ),
)

PROMPT = Sections(
    sections=(
        Section(name="identity", text="You are a coding agent at a command line."),
        Section(
            name="intro",
            text="You help with software work. Refuse what serves to attack others' systems. Make up no addresses.",
        ),
        Section(name="system", text="# System\nText outside of tools is shown to the user. Tags in results are the system's."),
        Section(name="tasks", text="# Doing tasks\nRead before you change. Change what is asked, no more. Check the result."),
        Section(name="care", text="# Acting with care\nThink twice before anything that cannot be undone."),
        Section(
            name="tools", text="# Using tools\nPrefer a tool made for a thing to the shell. Call independent ones together."
        ),
        Section(name="tone", text="# Tone\nBe brief and plain."),
        Section(name="output", text="# Output\nLead with the answer."),
        Section(name="environment", text="# Environment\nWorking directory: {cwd}\nPlatform: {os}\nShell: {shell}"),
        Section(name="project", text="<system-reminder>\n# CLAUDE.md\n{project_doc}\n</system-reminder>", role="user"),
        Section(name="date", text="<system-reminder>Today is {date}.</system-reminder>", role="user"),
    ),
    docs=("CLAUDE.md",),
)
CONTEXT = Compaction(
    ratio=0.92,
    ask="Summarise the conversation for whoever goes on with it: the request, files and changes, errors, what is next.",
    prefix="This goes on from an earlier conversation, of which this is the summary:\n",
)

FULL = WhiteBox(
    name="claude_code",
    version="2.1.197",
    toolset=Toolset(views=VIEWS, strict=True),
    prompt=PROMPT,
    context=CONTEXT,
    rules=Rules(),
)
NANO = nano(FULL, "You are a coding agent at a command line.")
