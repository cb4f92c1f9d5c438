"""Jobs side by side: order, failure, a dead worker, and the same results whatever the number of workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.recipes.jobs import Job, JobError, run_jobs


def note(folder: str, name: str, *needed: str) -> str:
    """Leave a file, having seen those of the prerequisites."""
    for other in needed:
        assert Path(folder, other).exists(), f"{name} ran before {other}"
    Path(folder, name).write_text(str(os.getpid()))
    return name.upper()


def fail(message: str) -> None:
    raise ValueError(message)


def refuse(message: str) -> None:
    raise UserError(message)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait(seconds: float) -> None:
    time.sleep(seconds)


def chain(folder: Path) -> list[Job]:
    """Two chains of three, listed with the prerequisites last."""
    jobs = [
        Job(
            name=f"{line}{n}",
            call=note,
            arguments=(str(folder), f"{line}{n}", *([f"{line}{n - 1}"] if n else [])),
            after=(f"{line}{n - 1}",) if n else (),
        )
        for line in "ab"
        for n in range(3)
    ]
    return jobs[::-1]


def test_prerequisites_first_and_results_alike_whatever_the_workers(tmp_path: Path) -> None:
    results = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        results.append(run_jobs(chain(folder), workers))
        assert {int(path.read_text()) == os.getpid() for path in folder.iterdir()} == {workers == 1}
    assert results[0] == results[1] == {name: name.upper() for name in ("a0", "a1", "a2", "b0", "b1", "b2")}


def test_a_failure_names_its_job_and_ends_the_others() -> None:
    jobs = [Job(name="slow", call=wait, arguments=(600.0,)), Job(name="broken", call=fail, arguments=("no such thing",))]
    with pytest.raises(JobError, match=r"(?s)broken failed.*ValueError: no such thing"):
        run_jobs(jobs, 2)


def test_our_own_errors_keep_their_type() -> None:
    jobs = [Job(name="slow", call=wait, arguments=(600.0,)), Job(name="picky", call=refuse, arguments=("give another",))]
    with pytest.raises(UserError, match=r"^give another$") as caught:
        run_jobs(jobs, 2)
    assert "picky failed" in str(caught.value.__cause__)


def test_a_dead_worker_is_an_error_not_a_wait() -> None:
    jobs = [Job(name="slow", call=wait, arguments=(600.0,)), Job(name="dead", call=die, arguments=())]
    with pytest.raises(JobError, match="dead: its process ended without an answer"):
        run_jobs(jobs, 2)


def test_inline_errors_come_as_they_are() -> None:
    with pytest.raises(ValueError, match="as it is"):
        run_jobs([Job(name="only", call=fail, arguments=("as it is",))], 2)


ORDER: list[int] = []


@given(
    st.integers(1, 12).flatmap(lambda n: st.tuples(*[st.sets(st.integers(0, max(0, i - 1))) for i in range(n)])), st.randoms()
)
def test_inline_order_respects_any_prerequisites(needs: tuple[set[int], ...], random: Random) -> None:
    """Any acyclic prerequisites, jobs listed in any order: each runs once, behind all that it needs."""
    ORDER.clear()
    needs = tuple({j for j in others if j < i} for i, others in enumerate(needs))
    jobs = [Job(name=str(i), call=ORDER.append, arguments=(i,), after=tuple(map(str, need))) for i, need in enumerate(needs)]
    random.shuffle(jobs)
    run_jobs(jobs, 1)
    assert sorted(ORDER) == list(range(len(needs)))
    assert all(ORDER.index(j) < ORDER.index(i) for i, need in enumerate(needs) for j in need)
