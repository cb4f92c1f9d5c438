"""The fake plays its script and nothing else."""

from __future__ import annotations

from ninefold.core.protocols import ExecResult
from ninefold.sandbox.memory import Execution, MemoryRuntime


def test_the_script_sees_the_program_and_may_change_files() -> None:
    def script(execution: Execution) -> ExecResult:
        execution.files["out"] = execution.files["in"].upper()
        return ExecResult(
            stdout=f"{execution.argv} {execution.code} {execution.stdin}", stderr="", exit_code=3, reason="exited"
        )

    sandbox = MemoryRuntime(script).create({"in": "abc"})
    assert sandbox.python("x = 1", stdin="s").stdout == "None x = 1 s"
    assert sandbox.run(["ls", "-l"]).stdout == "('ls', '-l') None "
    assert sandbox.read("out") == b"ABC"
