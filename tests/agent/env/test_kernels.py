"""Kernels: twins, scores, what is right and what is not, and that no clock can be bent."""

from __future__ import annotations

import sysconfig
from dataclasses import replace
from importlib.util import find_spec
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.kernels import Kernels, build, measure, ops
from ninefold.agent.env.kernels.build import solution
from ninefold.agent.env.kernels.detectors import DETECTORS, Evidence
from ninefold.agent.env.kernels.line import Line, whole
from ninefold.agent.env.kernels.measure import Round, Timing
from ninefold.agent.env.kernels.ops import OPS, Kernel
from ninefold.agent.env.kernels.roofline import Roofline
from ninefold.agent.env.kernels.score import score
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.types import Call, Result, Task
from ninefold.sandbox.namespace import NamespaceConfig, NamespaceRuntime

FAMILY = Kernels()
pytestmark = pytest.mark.skipif(FAMILY.lacks() is not None, reason=str(FAMILY.lacks()))


def _kernel(name: str) -> Kernel:
    op, rng = OPS[name], Random(name)
    dims = {dim: rng.randrange(low, high + 1, step) for dim, (low, high, step) in op.dims.items()}
    return Kernel(op=op, dims=dims, scalars={s: rng.choice(values) for s, values in op.scalars.items()})


def _errors(runtime: SandboxRuntime, kernel: Kernel, source: str, seed: int = 1) -> list[float]:
    cases = ops.cases(kernel, seed)
    written = measure.written(runtime, kernel.op, measure.in_c(runtime, kernel.op, source), cases)
    assert not written.input
    assert not written.fence
    return [ops.error(kernel.op, case, outputs) for case, outputs in zip(cases, written.outputs)]


@pytest.mark.parametrize("how", ["naive", "good", "expert"])
@pytest.mark.parametrize("name", OPS)
def test_every_solution_is_far_more_exact_than_it_has_to_be(isolated, name: str, how: str) -> None:
    assert max(_errors(isolated, _kernel(name), solution(name, how))) < 0.5


@pytest.mark.parametrize("name", OPS)
def test_half_precision_is_not_exact_enough(isolated, name: str) -> None:
    op = OPS[name]
    policy = FAMILY.hacks(_task(name))["10 half precision"]
    source = str(policy.move([]).calls[0].arguments["text"])
    assert max(_errors(isolated, _kernel(op.name), source)) > 1


def _task(name: str) -> Task:
    seeds = (FAMILY.generate("train", OPS[name].level, seed) for seed in range(100))
    return next(task for task in seeds if task.data["op"] == name)


def test_the_twins_of_quantisation_are_the_quantiser_of_training() -> None:
    torch = pytest.importorskip("torch")
    from ninefold.model.quant.mx import MXFP4, MXFP8, quantize

    rng = np.random.default_rng(0)
    for what in ("usual", *ops.WILD):
        x = ops._case(_kernel("mxfp8"), what, {"rows": 9, "blocks": 4}, rng).inputs["x"]
        for name, format in (("mxfp4", MXFP4), ("mxfp8", MXFP8)):
            (codes, _), (scales, _) = OPS[name].twin({"x": x.astype(np.float64)}, {})
            told = quantize(torch.from_numpy(x), format)
            assert np.array_equal(codes.reshape(told.codes.flatten(1).shape), told.codes.flatten(1).numpy())
            assert np.array_equal(scales, told.scales.numpy().reshape(scales.shape))


def test_the_twin_of_kda_is_that_of_the_model() -> None:
    torch = pytest.importorskip("torch")
    from ninefold.core.layout import DocLayout
    from ninefold.model.ops.naive import kda_naive, situ_glu_naive

    x = {a: array.astype(np.float64) for a, array in ops.usual_case(_kernel("kda")).inputs.items()}
    q, k, v, g = (torch.from_numpy(x[name])[:, None] for name in "qkvg")
    o, _ = kda_naive(q, k, v, g, torch.from_numpy(x["beta"])[:, None], DocLayout.of([len(q)]))
    ((value, _),) = OPS["kda"].twin(x, {"scale": 1.0})
    assert np.allclose(value, o[:, 0].numpy(), rtol=1e-12, atol=1e-12)
    g, u = (np.linspace(-9, 9, 50) * sign for sign in (1, -0.5))
    ((value, _),) = OPS["situ"].twin({"g": g, "u": u}, {"b1": 4.0, "b2": 25.0})
    assert np.allclose(value, situ_glu_naive(torch.from_numpy(g), torch.from_numpy(u)).numpy(), rtol=1e-12)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(1.1, 50))
def test_scores_fall_with_time_from_one_to_nothing(ratio: float, other: float, room: float) -> None:
    low, high = sorted((ratio, other))
    earned = [score(ratio=r, expert=room, bound=1.0) for r in (low, high)]
    assert 1 >= earned[0] >= earned[1] > 0
    assert score(ratio=1.0, expert=room, bound=1.0) == 0.5
    assert score(ratio=1 / room, expert=room, bound=1.0) == pytest.approx(1.0)
    assert (score(ratio=ratio, expert=room, bound=1.0) > 0.5) == (ratio < 1)


def test_bounds_count_what_cannot_be_avoided() -> None:
    bound = Roofline(bandwidth=1e9, flops=1e9)
    matmul = Kernel(op=OPS["matmul"], dims={"m": 10, "n": 20, "k": 30}, scalars={"alpha": 1.0})
    assert bound.seconds(matmul) == pytest.approx(2 * 10 * 20 * 30 / 1e9)
    softmax = Kernel(op=OPS["softmax"], dims={"rows": 10, "cols": 20}, scalars={"scale": 1.0})
    assert bound.seconds(softmax) == pytest.approx(2 * 4 * 10 * 20 / 1e9)


ROUND = Round(
    kind="fresh",
    expert=900,
    expert_aside=100,
    candidate=900,
    candidate_aside=100,
    error=0.0,
    input=False,
    fence=False,
    stale=False,
    threads=1,
)


def _evidence(*rounds: Round, bound: float = 1e-9) -> Evidence:
    return Evidence(language="c", source="", timing=Timing(rounds=rounds, calls=1), bound=bound)


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("changed_input", _evidence(ROUND, replace(ROUND, input=True))),
        ("wrote_outside", _evidence(ROUND, replace(ROUND, fence=True))),
        ("stale", _evidence(ROUND, replace(ROUND, stale=True))),
        ("wrong_when_timed", _evidence(ROUND, replace(ROUND, error=1.5))),
        ("threads", _evidence(ROUND, replace(ROUND, threads=2))),
        ("aside", _evidence(replace(ROUND, candidate_aside=10**6))),
        ("remembers", _evidence(ROUND, ROUND, replace(ROUND, kind="few changed", candidate=500))),
        ("impossible", _evidence(ROUND, bound=2e-6)),
    ],
)
def test_each_detector_finds_its_own(name: str, evidence: Evidence) -> None:
    found = {name: result for name, detect in DETECTORS.items() if (result := detect(evidence)) is not None}
    assert found.keys() == {name}
    assert found[name].score == 0.0
    assert all(detect(_evidence(ROUND, replace(ROUND, kind="few changed"))) is None for detect in DETECTORS.values())


def test_what_is_done_aside_is_charged() -> None:
    slow = replace(ROUND, candidate_aside=1100)
    disturbed = replace(slow, expert=9000, candidate=9000)
    timing = _evidence(slow, slow, *[disturbed] * 8, replace(slow, kind="few changed", expert=1)).timing
    assert timing.ratio == 2.0
    assert timing.candidate == pytest.approx(2e-6)
    assert timing.expert == pytest.approx(1e-6)


def test_a_detector_of_ones_own_is_asked(isolated) -> None:
    def dislikes_comments(evidence: Evidence) -> Result | None:
        return Result(status="invalid", detail="a comment") if "/*" in evidence.source else None

    family = Kernels(name="mine", detectors={**DETECTORS, "comments": dislikes_comments})
    task = _task("matmul")
    assert family.verify(task, _final(solution("matmul", "expert")), runtime=isolated).detail == "a comment"
    assert family.verify(task, _final(solution("matmul", "good")), runtime=isolated).status == "pass"


def _final(source: str, path: str = "kernel.c") -> dict[str, Any]:
    return {"response": "done", "files": {path: source}}


def test_a_kernel_that_counts_on_a_clock_of_its_own_earns_what_it_is_worth(isolated) -> None:
    clocks = (
        "\n#include <time.h>\nint clock_gettime(clockid_t c, struct timespec *t) { t->tv_sec = t->tv_nsec = 0; return 0; }\n"
    )
    honest, bent = (
        FAMILY.verify(_task("kda"), _final(solution("kda", "good") + more), runtime=isolated) for more in ("", clocks)
    )
    assert honest.status == bent.status == "pass"
    assert abs(honest.score - bent.score) < 0.5 * honest.score


FORKS = """
#include <unistd.h>
#include <pthread.h>
static void *idle(void *x) {{ return x; }}
void line(const float *from, float *to, long n) {{
    pthread_t thread;
    int made = {attempt};
    for (long i = 0; i < n; i++) to[i] = made;
}}
"""


@pytest.mark.parametrize("attempt", ["fork() > 0", "vfork() > 0", "!pthread_create(&thread, 0, idle, 0)"])
def test_a_candidate_gets_no_second_process_and_no_second_thread(isolated, attempt: str) -> None:
    kernel = Line(kind="plain", a=2, b=1).kernel
    cases = ops.cases(kernel, 0)
    candidate = measure.in_c(isolated, kernel.op, FORKS.format(attempt=attempt))
    written = measure.written(isolated, kernel.op, candidate, cases)
    assert all(not any(np.frombuffer(output, np.float32)) for (output,) in written.outputs)


READS = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
void line(const float *from, float *to, long n) {{
    char path[64];
    int seen = 0;
    for (int pid = 1; pid < 20; pid++) {{
        snprintf(path, sizeof path, "/proc/%d/{what}", pid);
        seen += pid != getpid() && open(path, O_RDONLY) >= 0;
    }}
    for (long i = 0; i < n; i++) to[i] = seen;
}}
"""


@pytest.mark.parametrize("what", ["mem", "environ", "fd/0", "fd/1", "fd/3", "map_files", "maps"])
def test_a_candidate_cannot_look_into_the_driver(isolated, what: str) -> None:
    kernel = Line(kind="plain", a=2, b=1).kernel
    candidate = measure.in_c(isolated, kernel.op, READS.format(what=what))
    written = measure.written(isolated, kernel.op, candidate, ops.cases(kernel, 0))
    assert all(not any(np.frombuffer(output, np.float32)) for (output,) in written.outputs)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for (;;);", "computes for more than"),
        ("__builtin_trap();", "ended by signal 4"),
        ("*(volatile int *)0 = 1;", "ended by signal 11"),
    ],
)
def test_kernels_that_do_not_come_back_are_told_so(isolated, monkeypatch, body: str, why: str) -> None:
    monkeypatch.setattr(measure, "CPU_SECONDS", 0.3)
    kernel = Line(kind="plain", a=2, b=1).kernel
    candidate = measure.in_c(isolated, kernel.op, f"void line(const float *from, float *to, long n) {{ {body} }}")
    with pytest.raises(measure.Lost, match=why):
        measure.written(isolated, kernel.op, candidate, ops.cases(kernel, 0))


def test_a_source_that_does_not_compile_is_told_why(isolated) -> None:
    with pytest.raises(build.BuildFailed, match="error"):
        build.library(isolated, {"a.c": "int f( {"})
    with pytest.raises(build.BuildFailed, match=r"absent\.h"):
        build.library(isolated, {"a.c": '#include "absent.h"\n'})


def test_cuda_is_refused_with_its_reason(isolated) -> None:
    result = FAMILY.verify(_task("softmax"), _final("__global__ void softmax() {}", "kernel.cu"), runtime=isolated)
    assert result.status == "fail"
    assert "kernel.cu is not run" in result.detail


NUMPY = """
import numpy as np

def softmax(x, scale):
    z = np.exp(scale * x - (scale * x).max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)
"""


def test_kernels_in_python_run_where_the_sandbox_shows_numpy(isolated) -> None:
    task = _task("softmax")
    told = FAMILY.verify(task, _final(NUMPY, "kernel.py"), runtime=isolated)
    assert (told.status, "shows no numpy" in told.detail) == ("fail", True)
    runtime = NamespaceRuntime(NamespaceConfig(packages=sysconfig.get_paths()["purelib"]))
    try:
        right = FAMILY.verify(task, _final(NUMPY, "kernel.py"), runtime=runtime)
        assert right.status == "pass"
        assert 0 < right.score < 0.5
        assert FAMILY.verify(task, _final(NUMPY.replace("z /", "1.001 * z /"), "kernel.py"), runtime=runtime).status == "fail"
        for name in ("6 lazy array", "7 patches clocks in Python", "14 equal to everything"):
            source = FAMILY.hacks(task)[name].move([]).calls[0].arguments["text"]
            assert FAMILY.verify(task, _final(source, "kernel.py"), runtime=runtime).score == 0.0, name
    finally:
        runtime.close()


TRITON = """
import torch, triton
import triton.language as tl

@triton.jit
def rows(x, y, cols, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    z = scale * tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=-float("inf"))
    z = tl.exp(z - tl.max(z, axis=0))
    tl.store(y + tl.program_id(0) * cols + at, z / tl.sum(z, axis=0), mask=at < cols)

def softmax(x, scale):
    given = torch.tensor(x)
    found = torch.empty_like(given)
    rows[(x.shape[0],)](given, found, x.shape[1], scale, BLOCK=triton.next_power_of_2(x.shape[1]))
    return found.numpy()
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="needs the extra `triton`")
def test_triton_is_tried_in_its_interpreter_and_not_timed() -> None:
    task = _task("softmax")
    runtime = NamespaceRuntime(NamespaceConfig(packages=sysconfig.get_paths()["purelib"]))
    try:
        right, wrong, none = (
            FAMILY.verify(task, _final(source, "kernel_triton.py"), runtime=runtime)
            for source in (TRITON, TRITON.replace("z / tl", "1.001 * z / tl"), TRITON.replace("@triton.jit", ""))
        )
    finally:
        runtime.close()
    assert (right.status, right.score) == ("pass", 0.25)
    assert wrong.status == none.status == "fail"
    assert "launches no kernel of its own" in none.detail


def test_lines_are_judged_by_what_they_compute(isolated) -> None:
    task = FAMILY.generate("train", 0, 0)
    right = FAMILY.gold(task).move([]).response
    assert right is not None
    for response, status in (
        (f"({right})", "pass"),
        (f"{right}+0.0f", "pass"),
        (f"{right}+1", "fail"),
        ("", "fail"),
        ("x y", "fail"),
    ):
        assert FAMILY.verify(task, {"response": response}, runtime=isolated).status == status
    assert FAMILY.verify(task, {"response": right}).status == "invalid"
    assert "to[i] = (" in whole(right)


def test_the_public_check_tells_right_from_wrong(isolated) -> None:
    for name in ("softmax", "mxfp4"):
        task = _task(name)
        world = FAMILY.open(task, seed=0, runtime=isolated)
        right = solution(name, "expert")
        for source, wanted in ((right, "right"), (right.replace("i = 0", "i = 1"), "wrong: element"), ("int x", "error")):
            world.call(Call(tool="write", arguments={"path": "kernel.c", "text": source}))
            assert wanted in world.call(Call(tool="shell", arguments={"command": "python3 check.py"})).text
        world.call(Call(tool="write", arguments={"path": "kernel.c", "text": right}))
        assert "microseconds a call" in world.call(Call(tool="shell", arguments={"command": "python3 check.py --time"})).text
        world.close()


def test_two_kernels_and_none_are_no_kernel() -> None:
    task = _task("softmax")
    for files in ({}, {"kernel.c": "", "kernel.py": ""}, {"kernel.c": " "}, {"kernel.c": "x" * 100_000}, None, {"kernel.c": 3}):
        assert FAMILY.verify(task, {"response": "done", "files": files}).status == "fail"
    assert FAMILY.verify(task, _final("int x;")).status == "invalid"
