"""mini-swe-agent 2.4.6 (spec 08, 1.7): one tool, no memory of errors of form, and a sentinel that hands the work in.

The real package runs beside it in `tests/agent/harness/test_mini_swe.py`. DEVIATION: its limit on cost has no meaning here.
"""

from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.rules import Rules
from ninefold.agent.harness.sections import Section, Sections
from ninefold.agent.harness.view import TEXT, Toolset, View, required
from ninefold.agent.harness.whitebox import WhiteBox, nano

SENTINEL = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SHORT, _END = '{{\n  "returncode": {exit_code},\n  {body}', "\n}}"
_DIED = '{{\n  "returncode": -1,\n  {body}, "exception_info": {why!j}\n}}'

BASH = View(
    name="bash",
    operation="shell",
    description="Run a bash command.",
    parameters={"command": required(TEXT, "command")},
    fixed={"seconds": 60},
    layout=Layout(
        body='"output": {body!j}',
        limit=9_999,
        head=5_000,
        tail=5_000,
        cut='"output_head": {head!j},\n  "output_tail": {tail!j},\n  "elided_chars": {left_out},\n  "warning": "Too long."',
        whole=_SHORT + _END,
        killed=_DIED,
    ),
)
PROMPT = Sections(
    sections=(Section(name="system", text="You work on a computer through its shell."),),
    user=(
        "The task: {instruction}\n\n"
        "Every message has to call bash at least once; say why before you do. Each command runs in a new subshell, so that "
        "neither folders nor variables last. When all is done, run `echo "
        + SENTINEL
        + "` alone: nothing can be done after it.\n"
        "The system is {os}."
    ),
)
RULES = Rules(
    turns=250,
    sentinel=SENTINEL,
    format_errors=3,
    reprimand="{error}\nCall bash with a command. To end the task, run `echo " + SENTINEL + "` alone.",
)

FULL = WhiteBox(
    name="mini_swe",
    version="2.4.6",
    toolset=Toolset(views=(BASH,)),
    prompt=PROMPT,
    context=Compaction(kind="none"),
    rules=RULES,
)
NANO = nano(FULL, f"Call bash in every message; `echo {SENTINEL}` ends the task.")
