"""The public tests of a repository: unittest, so that any Python runs them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby

from ninefold.agent.env.software.issue import written
from ninefold.agent.env.software.repository import Repository
from ninefold.agent.env.software.sources import Case, Sources


def tests(repository: Repository, calls: Mapping[str, Sequence[Case]]) -> tuple[dict[str, str], list[str]]:
    """(path → text, ids in the order of the files) of the tests that make these calls; they pass for the right sources."""
    right = Sources(repository.sources)
    if not repository.package:
        return {"test_f.py": _script(calls["f.f"], right)}, []
    files = {"tests/__init__.py": "", "tests/__main__.py": _MAIN}
    ids: list[str] = []
    for module, names in groupby(calls, key=lambda name: name.rpartition(".")[0]):
        folder, _, last = module.rpartition(".")
        part = "_".join(module.split(".")[1:])
        title = f"{part.title().replace('_', '')}Test"
        methods: list[str] = []
        for name in names:
            for number, case in enumerate(calls[name], 1):
                ids.append(f"tests.test_{part}.{title}.test_{case.function}_{number}")
                call, wanted = written(case, short=True), json.loads(right.outcome(case))
                methods.append(f"    def test_{case.function}_{number}(self):\n        self.assertEqual({call}, {wanted!r})\n")
        head = f"import unittest\n\nfrom {folder} import {last}\n\n\nclass {title}(unittest.TestCase):\n"
        files[f"tests/test_{part}.py"] = head + "\n".join(methods)
    return files, ids


_MAIN = """import unittest

result = unittest.TestResult()
unittest.defaultTestLoader.discover("tests", top_level_dir=".").run(result)
wrong = [*result.failures, *result.errors]
for test, trace in wrong:
    print(test.id().rpartition(".")[2], trace.strip().splitlines()[-1])
print(f"{len(wrong)} of {result.testsRun} fail" if wrong else "OK")
"""
"""What runs all tests, in few words that are the same whenever they say the same."""


def _script(cases: Sequence[Case], right: Sources) -> str:
    """The test of a single file, which says in one line what is wrong."""
    lines = ["from f import f"]
    for case in cases:
        call, wanted = f"f({', '.join(map(str, case.arguments))})", right.outcome(case)
        lines.append(f'print("passed" if {call} == {wanted} else f"{call} is {{{call}}}, not {wanted}")')
    return "\n".join(lines) + "\n"
