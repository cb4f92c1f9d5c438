"""OpenClaw (spec 08, 1.5): a resident assistant with a workspace of files about itself.

File tools take pi's parameters, on which it is built (unverified); tools whose parameters are not stated are left out, and of
`process` and `cron` all but the action. Its detectors of loops are off unless configured: `LADDER` is the general one.
DEVIATION: commands run to their end; what is pruned stays pruned, in a new row, where it is done anew for each request.
"""

from ninefold.agent.harness.compaction import Compaction, Pruning
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.presets.pi import EDIT, READ, WRITE
from ninefold.agent.harness.rules import Ladder, Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.view import FLAG, NUMBER, TEXT, Toolset, View, choice, optional, required, within
from ninefold.agent.harness.whitebox import WhiteBox, nano

EXEC = View(
    name="exec",
    operation="shell",
    description="Run a command; timeout is in seconds, 1800 unless given.",
    parameters={
        "command": required(TEXT, "command"),
        "yieldMs": optional(NUMBER, default=10_000),
        "background": optional(FLAG, "background"),
        "timeout": optional(NUMBER, "seconds", default=1_800),
        "elevated": optional(FLAG),
        "host": optional(TEXT),
        "security": optional(choice("deny", "allowlist", "full")),
        "ask": optional(choice("off", "on-miss", "always")),
        "pty": optional(FLAG),
    },
    layout=Layout(failed="{body}\n\n(exit code {exit_code})", killed="{body}\n\n(the command {why})"),
)
VIEWS = (
    EXEC,
    READ,
    WRITE,
    EDIT,
    View(
        name="apply_patch",
        operation="patch",
        description="Change several files by a patch.",
        parameters={"input": required(TEXT, "patch")},
    ),
    View(
        name="web_search",
        operation="search",
        description="Search documents.",
        parameters={"query": required(TEXT, "query"), "count": optional(within(1, 10), "count", default=5)},
    ),
    View(
        name="web_fetch",
        operation="fetch",
        description="Read the text of a document.",
        parameters={
            "url": required(TEXT, "url"),
            "extractMode": optional(choice("markdown", "text")),
            "maxChars": optional(NUMBER, "limit", default=50_000, most=50_000),
        },
    ),
    View(name="image", operation="media", description="Look at a picture.", parameters={"image": required(TEXT, "path")}),
    View(
        name="process",
        operation="process",
        description="See to commands in the background.",
        parameters={"action": required(choice("list", "poll", "log", "write", "kill", "clear", "remove"), "action")},
    ),
    View(
        name="sessions_spawn",
        operation="agent",
        description="Give a sub-agent a task of its own.",
        parameters={
            "task": required(TEXT, "prompt"),
            "label": optional(TEXT, "description"),
            "agentId": optional(TEXT, "kind"),
            "model": optional(TEXT, "model"),
            "runTimeoutSeconds": optional(NUMBER, "seconds"),
            "cleanup": optional(choice("delete", "keep"), "cleanup"),
        },
    ),
    View(
        name="cron",
        operation="schedule",
        description="See to the schedule.",
        parameters={"action": required(choice("status", "list", "add", "update", "remove", "run", "runs", "wake"), "action")},
    ),
)
FILE_CHARS = 20_000
"""Of each file of the workspace that is put into the prompt."""

PROMPT = Sections(
    sections=(
        Section(name="tooling", text="## Tooling\nYour tools:\n{tools}"),
        Section(
            name="skills", text="## Skills\nRead the SKILL.md of one that fits before you act.\n<skills>\n{skills}\n</skills>"
        ),
        Section(name="update", text="## Updates\nUpdate yourself only when you are asked to."),
        Section(name="workspace", text="## Workspace\n{cwd}"),
        Section(name="documentation", text="## Documentation\nLook into docs/ of the workspace first."),
        Section(name="files", text="## Files of the workspace\n{project_doc}"),
        Section(name="memory", text="## Memory\n{memory}"),
        Section(name="sandbox", text="## Sandbox\nCommands run in a sandbox without a network."),
        Section(name="date", text="## Time\nTime zone: UTC"),
        Section(name="heartbeat", text="## Heartbeats\nTo a heartbeat with nothing to do, answer HEARTBEAT_OK."),
        Section(name="runtime", text="## Runtime\n{os}, {shell}"),
        Section(name="reasoning", text="## Reasoning\nNot shown unless asked for."),
    ),
    docs=("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md"),
    doc_chars=FILE_CHARS,
    memory=("MEMORY.md",),
)
CONTEXT = Compaction(
    reserve=20_000,
    ask="Summarise what was said and done so far, with open questions and what comes next.",
    prefix="Earlier conversation, summarised:\n",
    keep=3,
    pruning=Pruning(),
)
LADDER = Ladder(remind=(10, 20), stop=30, history=30, text="This call was made {count} times lately. Try another way.")

FULL = WhiteBox(name="openclaw", version="2026", toolset=Toolset(views=VIEWS), prompt=PROMPT, context=CONTEXT, rules=Rules())
NANO = nano(FULL, "You are a personal assistant.")
