"""Problems in the shape of KernelBench's, of our own making: how they are scaled, left out and judged."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env import family
from ninefold.agent.env.kernelbench import KernelBench, checkout
from ninefold.agent.env.kernelbench.answer import handed_in
from ninefold.agent.env.kernelbench.hacks import hacks, writes
from ninefold.agent.env.kernelbench.sizes import LEAST, halvings
from ninefold.agent.env.play import play
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.types import Call, Result, Task
from ninefold.data.tasks.kernelbench import ELEMENTS, import_level
from ninefold.data.tasks.store import read_tasks, write_tasks
from ninefold.sandbox.runtime import PACKAGES, open_runtime, packages

FAMILY = KernelBench()

PROBLEM = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width, bend):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.bend = bend

    def forward(self, x, keep, times):
        return torch.tanh(self.mix(x) * self.bend) * keep * times

rows, width = 40_000, 64  # many
bend = 0.5

def get_inputs():
    return [torch.rand(rows, width), torch.randint(0, 2, (rows, 1)).bool(), 2.0]

def get_init_inputs():
    return [width, bend]
"""
_KEEPS = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return {}\n\nsize = {}\n\n"
_GIVES = "def get_inputs():\n    return [torch.rand(size, 8)]\n\ndef get_init_inputs():\n    return []\n"
PLAIN = _KEEPS.format("torch.nn.functional.hardtanh(x)", 64) + _GIVES
UNSIGNED = _KEEPS.format("x.sqrt().cumsum(1)", 64) + _GIVES
OTHERS = {
    "2_constant": _KEEPS.format("x - x + 1", 64) + _GIVES,
    "3_random": _KEEPS.format("torch.nn.functional.dropout(x)", 64) + _GIVES,
    "4_changes": _KEEPS.format("x.add_(1)", 64) + _GIVES,
    "5_large": _KEEPS.format("x + 1", 64) + _GIVES.replace("size, 8", "10 ** 5, 10 ** 5"),
    "6_unsure": _KEEPS.format("x + 1e8 - 1e8", 64) + _GIVES,
    "10_half": _KEEPS.format("x.half()", 64) + _GIVES,
}


@pytest.fixture(scope="module")
def runtime() -> Iterator[SandboxRuntime]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PACKAGES, sysconfig.get_paths()["purelib"])
        opened = open_runtime()
    try:
        opened.check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    if (missing := FAMILY.lacks()) is not None and "cc" in missing:
        pytest.skip(missing)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout."""
    root = tmp_path_factory.mktemp("kernelbench")
    level = root / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name, text in {"1_mix": PROBLEM, **OTHERS, "20_plain": PLAIN, "21_unsigned": UNSIGNED}.items():
        (level / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(checkout.PLACE, str(root))
        yield root


@pytest.fixture(scope="module")
def task(place: Path, runtime: SandboxRuntime) -> Task:
    ((found,), _) = import_level(1, runtime, most=1)
    return found


def _judged(task: Task, text: str, runtime: SandboxRuntime, kernel: str | None = None) -> Result:
    files = {"model_new.py": text, **({} if kernel is None else {"kernel.c": kernel})}
    return FAMILY.verify(task, {"response": "done", "files": files}, runtime=runtime)


def test_the_largest_sizes_are_halved_and_nothing_else() -> None:
    text = "n, k = 4 * 32, 3  # é\nm: int = 128\nshape = (64, n)\nscale = 128.0\nflag = True\n\ndef f():\n    return 512\n"
    first, second, third, *_ = halvings(text)
    assert first == text
    assert second == text.replace("4 * 32", "64").replace("m: int = 128", "m: int = 64")
    assert third == second.replace("64", "32")
    assert [*halvings(text)][-1].startswith("n, k = 8, 3  # é\nm: int = 8\nshape = (8, n)\nscale = 128.0")
    assert [*halvings("n = -500\nk = min(900, 4)\n")] == ["n = -500\nk = min(900, 4)\n"]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_halving_ends_and_keeps_what_is_equal_equal(sizes: list[int]) -> None:
    text = "".join(f"n{i} = {size}\n" for i, size in enumerate(sizes))
    steps = [[ast.literal_eval(line.partition(" = ")[2]) for line in step.splitlines()] for step in halvings(text)]
    assert max(steps[-1]) < LEAST
    for before, after in pairwise(steps):
        assert after == [size // 2 if size == max(before) else size for size in before]
    assert all((a == b) <= (x == y) for step in steps for a, x in zip(sizes, step) for b, y in zip(sizes, step))


def test_problems_are_listed_by_number(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*checkout.problems(1)] == ["1_mix", *OTHERS, "20_plain", "21_unsigned"]
    with pytest.raises(UserError, match="no level 3"):
        checkout.problems(3)
    monkeypatch.setenv(checkout.PLACE, str(place / "nowhere"))
    with pytest.raises(UserError, match="no checkout of KernelBench"):
        checkout.problems(1)


def test_where_no_torch_is_shown_it_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PACKAGES, raising=False)
    assert "show no torch" in str(FAMILY.lacks(1))
    monkeypatch.setenv(PACKAGES, str(tmp_path))
    assert "show no torch" in str(FAMILY.lacks(1))
    monkeypatch.setenv(PACKAGES, str(tmp_path / "absent"))
    with pytest.raises(UserError, match="no folder"):
        packages()


def test_a_problem_becomes_a_task(task: Task, tmp_path: Path) -> None:
    rows, width = task.data["inputs"][0][1]
    assert (rows, width) == (10_000, 64)
    assert rows * width * 6 < ELEMENTS < 2 * rows * width * 6
    assert task.data["inputs"][1:] == [["bool", [rows, 1]], ["literal", "2.0"]]
    assert task.data["init"] == "[64, 0.5]"
    assert task.data["wild"] > 0
    assert task.data["calls"] == 1
    assert task.files["reference.py"] == PROBLEM.replace("40_000", "10000") == task.data["source"]
    write_tasks(tmp_path / "tasks.jsonl", [task])
    assert read_tasks(tmp_path / "tasks.jsonl") == [task]
    assert family("kernelbench").name == "kernelbench"


@pytest.mark.full
def test_what_cannot_be_judged_is_left_out_with_its_reason(place: Path, runtime: SandboxRuntime) -> None:
    tasks, left_out = import_level(1, runtime, only=[*OTHERS])
    assert not tasks
    reasons = dict(told.removeprefix("1/").split(": ", 1) for told in left_out)
    for name, reason in {
        "2_constant": "a constant would pass",
        "3_random": "drawn at random",
        "4_changes": "changes its inputs",
        "5_large": "too large",
        "6_unsure": "float32 does not know",
        "10_half": "float16",
    }.items():
        assert reason in reasons[name], name


def test_gold_is_as_quick_as_the_reference(task: Task, runtime: SandboxRuntime) -> None:
    result, _ = play(FAMILY, task, FAMILY.gold(task), runtime=runtime)
    assert result.status == "pass", result
    assert abs(result.score - FAMILY.gold_score(task)) < 0.3


def test_nearly_right_is_wrong(task: Task, runtime: SandboxRuntime) -> None:
    wrong = PROBLEM.replace("Model", "ModelNew").replace("* times", "* times * 1.0005")
    assert "times what is allowed" in _judged(task, wrong, runtime).detail


IN_C = """#include <math.h>

void mix(const float *x, const float *w, const float *b, const unsigned char *keep, float *y, long rows, long width) {
    for (long r = 0; r < rows; r++)
        for (long c = 0; c < width; c++) {
            float sum = b[c];
            for (long k = 0; k < width; k++) sum += x[r * width + k] * w[c * width + k];
            y[r * width + c] = keep[r] * 2 * tanhf(sum * 0.5f);
        }
}
"""
CALLS_C = """import ctypes
import torch

MIX = ctypes.CDLL("./kernel.so").mix

class ModelNew(torch.nn.Module):
    def __init__(self, width, bend):
        super().__init__()
        torch.rand(7)
        self.mix = torch.nn.Linear(width, width)

    def forward(self, x, keep, times):
        y = torch.empty_like(x)
        places = [ctypes.c_void_p(t.data_ptr()) for t in (x, self.mix.weight, self.mix.bias, keep, y)]
        MIX(*places, *map(ctypes.c_long, x.shape))
        return y
"""


@pytest.mark.full
def test_a_module_may_call_c_and_gets_the_weights_by_name(task: Task, runtime: SandboxRuntime) -> None:
    assert _judged(task, CALLS_C, runtime, IN_C).status == "pass"
    assert _judged(task, CALLS_C.replace("self.mix", "self.other"), runtime, IN_C).status == "fail"
    assert "error" in _judged(task, CALLS_C, runtime, "int f( {").detail


@pytest.mark.full
def test_half_precision_is_wrong(task: Task, runtime: SandboxRuntime) -> None:
    low = PROBLEM.replace("Model", "ModelNew").replace(
        "self.mix(x)", "nn.functional.linear(x.bfloat16(), self.mix.weight.bfloat16(), self.mix.bias.bfloat16()).float()"
    )
    assert "times what is allowed" in _judged(task, low, runtime).detail


@pytest.mark.full
def test_what_is_right_for_a_problems_own_values_alone_is_wrong(place: Path, runtime: SandboxRuntime) -> None:
    (plain, unsigned), _ = import_level(1, runtime, only=["20", "21_unsigned"])
    assert (plain.data["wild"], unsigned.data["wild"]) == (8.0, 0.0)
    assert plain.data["calls"] == 8
    assert play(FAMILY, plain, FAMILY.hacks(plain)["its input"], runtime=runtime)[0].status == "fail"
    assert play(FAMILY, plain, FAMILY.gold(plain), runtime=runtime)[0].status == "pass"
    assert play(FAMILY, unsigned, FAMILY.gold(unsigned), runtime=runtime)[0].status == "pass"


@pytest.mark.full
@pytest.mark.parametrize("name", hacks(PROBLEM))
def test_what_the_public_record_knows_earns_nothing(task: Task, runtime: SandboxRuntime, name: str) -> None:
    result, _ = play(FAMILY, task, FAMILY.hacks(task)[name], runtime=runtime)
    assert (result.status != "pass", result.score) == (True, 0.0), result


def test_the_public_check_tells_right_from_wrong(task: Task, runtime: SandboxRuntime) -> None:
    right = PROBLEM.replace("Model", "ModelNew")
    world = FAMILY.open(task, seed=0, runtime=runtime)
    for text, wanted in ((right, "right"), (right.replace("* times", "* times * 1.01"), "wrong: ")):
        world.call(writes(text).move([]).calls[0])
        assert wanted in world.call(Call(tool="shell", arguments={"command": "python3 check.py"})).text
    world.close()


def test_an_answer_is_one_file_of_that_name() -> None:
    for files in ({}, {"model_new.py": " "}, {"other.py": "x"}, {"model_new.py": "x" * 100_000}, None, {"model_new.py": 3}):
        assert isinstance(handed_in({"files": files}), str)
    assert handed_in({"files": {"model_new.py": "x"}}) == ("x", None)
