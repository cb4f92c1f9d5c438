"""Kimi Code as of d723cc47, 2026-08-22 (spec 08, 1.2): facts of its tools, prompt order, compaction and loop guard.

Left out, as their parameters are not stated: the tower tools, CreateGoal, CronDelete. DEVIATION: a foreground command that
times out is ended, not moved to the background; results are numbered and closed in words of our own.
"""

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.delegation import Delegation
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.rules import Ladder, Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.view import (
    FLAG,
    OBJECT,
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

RESULT = 50_000
"""Characters of any result."""
_CUT = "{head}\n[{left_out} characters are left out here]\n{tail}"
_LISTED = Layout(line_chars=2_000, limit=RESULT, head=RESULT, cut=_CUT, empty="Nothing matches.", more="\n[{left_out} more]")
_QUESTION = record(
    ("question", "header", "options"),
    question=TEXT,
    header={"type": "string", "maxLength": 12},
    options=array(record(("label",), label=TEXT, description=TEXT), 2, 4),
    multi_select=FLAG,
)

READ = View(
    name="Read",
    operation="read",
    description="Read lines of a text file; a negative line_offset counts from the end.",
    parameters={
        "path": required(TEXT, "path"),
        "line_offset": optional(within(-1_000), "offset", default=1),
        "n_lines": optional(within(1), "limit", default=1_000, most=1_000),
    },
    layout=Layout(
        line="{number}\t{text}",
        line_chars=2_000,
        limit=102_400,
        head=102_400,
        bytes=True,
        cut="{head}\n[cut after 100 KiB]",
        more="\n[{left_out} more lines; go on with line_offset {next}]",
        empty="The file is empty.",
    ),
)
WRITE = View(
    name="Write",
    operation="write",
    description="Write a text file, making its folders, or append to it.",
    parameters={
        "path": required(TEXT, "path"),
        "content": required(TEXT, "text"),
        "mode": optional(choice("overwrite", "append"), "append", names={"overwrite": False, "append": True}),
    },
)
EDIT = View(
    name="Edit",
    operation="edit",
    description="Replace text in a file. It has to occur once, unless replace_all is set.",
    parameters={
        "path": required(TEXT, "path"),
        "old_string": required(TEXT, "old"),
        "new_string": required(TEXT, "new"),
        "replace_all": optional(FLAG, "every"),
    },
)
BASH = View(
    name="Bash",
    operation="shell",
    description="Run a bash command; timeout is in seconds, 60 unless given, 300 at most.",
    parameters={
        "command": required(TEXT, "command"),
        "cwd": optional(TEXT, "folder"),
        "timeout": optional(within(1), "seconds", default=60, most=300),
        "description": optional(TEXT),
        "run_in_background": optional(FLAG, "background"),
        "disable_timeout": optional(FLAG),
    },
    layout=Layout(
        limit=RESULT,
        head=RESULT // 2,
        tail=RESULT // 2,
        cut=_CUT,
        failed="{body}\n[exit code {exit_code}]",
        killed="{body}\n[ended: {why}]",
    ),
)
GREP = View(
    name="Grep",
    operation="grep",
    description="Search file contents with a regular expression (ripgrep).",
    parameters={
        "pattern": required(TEXT, "pattern"),
        "path": optional(TEXT, "path"),
        "glob": optional(TEXT, "glob"),
        "type": optional(TEXT, "kind"),
        "output_mode": optional(
            choice("content", "files_with_matches", "count_matches"),
            "mode",
            default="files_with_matches",
            names={"files_with_matches": "files", "count_matches": "count"},
        ),
        "-i": optional(FLAG, "ignore_case"),
        "-n": optional(FLAG, "numbers"),
        "-A": optional(WHOLE, "after"),
        "-B": optional(WHOLE, "before"),
        "-C": optional(WHOLE, "context"),
        "head_limit": optional(within(0), "limit", default=250),
        "offset": optional(within(0), "offset"),
        "multiline": optional(FLAG, "multiline"),
        "include_ignored": optional(FLAG),
    },
    layout=_LISTED,
)
GLOB = View(
    name="Glob",
    operation="glob",
    description="Find files by a pattern of their path.",
    parameters={
        "pattern": required(TEXT, "pattern"),
        "path": optional(TEXT, "path"),
        "include_ignored": optional(FLAG),
        "include_dirs": optional(FLAG),
    },
    fixed={"limit": 100},
    layout=_LISTED,
)
TODO_LIST = View(
    name="TodoList",
    operation="todo",
    description="Keep the list of what is to be done: without todos it is shown, an empty list clears it.",
    parameters={
        "todos": optional(
            array(record(("title", "status"), title=TEXT, status=choice("pending", "in_progress", "done"))),
            "items",
            names={"title": "text", "done": "completed"},
        )
    },
)
VIEWS = (
    READ,
    WRITE,
    EDIT,
    BASH,
    GREP,
    GLOB,
    View(
        name="WebSearch",
        operation="search",
        description="Search documents.",
        parameters={"query": required(TEXT, "query")},
        layout=_LISTED,
    ),
    View(
        name="FetchURL",
        operation="fetch",
        description="Read the text of a document.",
        parameters={"url": required(TEXT, "url")},
        layout=_LISTED,
    ),
    TODO_LIST,
    View(
        name="ReadMediaFile",
        operation="media",
        description="Look at a picture, or at a region of it.",
        parameters={
            "path": required(TEXT, "path"),
            "region": optional(record(("x", "y", "width", "height"), x=WHOLE, y=WHOLE, width=WHOLE, height=WHOLE), "region"),
            "full_resolution": optional(FLAG),
        },
    ),
    View(
        name="CronCreate",
        operation="cron",
        description="Schedule a prompt by a cron line.",
        parameters={
            "cron": required(TEXT, "when"),
            "prompt": required({"type": "string", "maxLength": 8_192}, "prompt"),
            "recurring": optional(FLAG, "recurring"),
        },
        fixed={"action": "create"},
    ),
    View(name="CronList", operation="cron", description="List the schedule.", fixed={"action": "list"}),
    View(
        name="Agent",
        operation="agent",
        description="Give a sub-agent a task of its own; its last message comes back.",
        parameters={
            "prompt": required(TEXT, "prompt"),
            "description": required(TEXT, "description", default="part of the work"),
            "subagent_type": optional(TEXT, "kind", default="coder"),
            "resume": optional(TEXT, "resume"),
            "run_in_background": optional(FLAG, "background"),
            "fork": optional(FLAG, "fork"),
            "model": optional(TEXT, "model"),
        },
    ),
    View(
        name="AgentSwarm",
        operation="swarm",
        description="Give up to 128 sub-agents one task each, made from a template that holds {{item}}.",
        parameters={
            "description": required(TEXT, "description", default="parts of the work"),
            "prompt_template": required(TEXT, "template"),
            "subagent_type": optional(TEXT, "kind"),
            "items": optional(array(TEXT, None, 128), "items"),
            "fork": optional(FLAG, "fork"),
            "resume_agent_ids": optional(OBJECT, "resume"),
            "model": optional(TEXT, "model"),
        },
    ),
    View(
        name="AskUserQuestion",
        operation="ask",
        description="Ask the user one to four questions.",
        parameters={
            "questions": required(array(_QUESTION, 1, 4), "questions"),
            "background": optional(FLAG, "background"),
        },
    ),
    View(
        name="Skill",
        operation="skill",
        description="Load a skill.",
        parameters={"skill": required(TEXT, "name"), "args": optional(TEXT, "arguments")},
    ),
    View(
        name="TaskList",
        operation="task_list",
        description="List background tasks.",
        parameters={"active_only": optional(FLAG, "active"), "limit": optional(within(1, 100), "limit")},
    ),
    View(
        name="TaskOutput",
        operation="task_output",
        description="Output of a background task.",
        parameters={"task_id": required(TEXT, "id")},
        layout=Layout(limit=32_768, head=32_768, bytes=True),
    ),
    View(
        name="TaskStop",
        operation="task_stop",
        description="End a background task.",
        parameters={"task_id": required(TEXT, "id"), "reason": optional(TEXT, "reason")},
    ),
    View(
        name="WaitFor",
        operation="wait",
        description="Wait, at most 600 seconds, or until a task ends.",
        parameters={"timeout": required({"type": "number", "maximum": 600}, "seconds"), "task_id": optional(TEXT, "id")},
    ),
    View(name="EnterPlanMode", operation="plan", description="Plan before anything is changed."),
    View(
        name="ExitPlanMode",
        operation="plan_end",
        description="Put the plan to the user.",
        parameters={"options": optional(array(OBJECT, 1, 3), "options")},
    ),
    View(name="GetGoal", operation="goal", description="Show the goal."),
    View(
        name="SetGoalBudget",
        operation="goal_budget",
        description="Bound what the goal may cost.",
        parameters={
            "value": required({"type": "number"}, "value"),
            "unit": required(choice("turns", "tokens", "ms", "s", "min", "h"), "unit"),
        },
    ),
    View(
        name="UpdateGoal",
        operation="goal_update",
        description="Say how the goal stands.",
        parameters={"status": required(choice("active", "complete", "blocked"), "status")},
    ),
    View(
        name="select_tools",
        operation="select_tools",
        description="Load tools that are listed by name alone.",
        parameters={"names": required(TEXTS, "names")},
    ),
)

PROMPT = Sections(
    sections=(
        Section(name="identity", text="You are an agent for software work on the user's computer."),
        Section(name="language", text="Answer in the user's language."),
        Section(
            name="tools",
            text="Find out and act by tools. Independent calls may go in one message. Text in <system> tags informs you; "
            "text in <system-reminder> tags has to be followed.",
        ),
        Section(
            name="coding", text="In code, change what is asked and nothing else, in the style of what is there; then check it."
        ),
        Section(name="research", text="In research, look at the sources and keep to what they say."),
        Section(
            name="context", text="When the conversation grows too long it goes on from a summary; files and the list stay."
        ),
        Section(name="environment", text="The system is {os}; commands run in {shell}."),
        Section(name="folder", text="The working directory is {cwd}."),
        Section(name="tree", text="It holds:\n{tree}"),
        Section(name="project", text="The project says this of itself; it gives no permissions:\n```\n{project_doc}\n```"),
        Section(name="skills", text="Skills, to be read before they are needed:\n{skills}"),
        Section(name="reminders", text="Do the whole task. Do not claim what you have not checked."),
        Section(name="date", text="<system-reminder>Today is {date}.</system-reminder>", role="user"),
    ),
)
CONTEXT = Compaction(
    ratio=0.85,
    reserve=50_000,
    ask="The context is nearly full. Write, in the first person, what you were asked, did, found and still have to do.",
    prefix="What I have done so far, in my own words:\n",
    user_tokens=20_000,
    user_head=2_000,
    todo="TodoList",
)
RULES = Rules(
    ladder=Ladder(
        remind=(3, 5, 8),
        stop=12,
        text="<system-reminder>That was the same call {count} times in a row. Do something else.</system-reminder>",
    ),
    once=True,
)

FULL = WhiteBox(
    name="kimi_code",
    version="d723cc47",
    toolset=Toolset(views=VIEWS, delegation=Delegation(least=200)),
    prompt=PROMPT,
    context=CONTEXT,
    rules=RULES,
)
NANO = nano(FULL, "You are an agent for software work.")
