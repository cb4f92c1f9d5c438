"""Independent pieces of a stage side by side: jobs with prerequisites on a few worker processes."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, cast

from ninefold.core.errors import NinefoldError, boundary
from ninefold.learn.parallel import die_with_parent


class JobError(NinefoldError):
    """A job's process died, or it raised what is no error of ours; the message holds the traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A call to be made once its prerequisites are done."""

    name: str
    call: Callable[..., Any]
    """A module-level function, so that another process can find it."""
    arguments: tuple[Any, ...]
    after: tuple[str, ...] = ()
    """Names of jobs that must be done first."""


def run_jobs(jobs: Sequence[Job], workers: int) -> dict[str, Any]:
    """Results by name. One worker runs inline, in order; more take the first ready job each time they are free.

    At the first failure the other workers are ended. Inline all errors come as they are; from a worker our own ones do, with
    its traceback as their cause, and others as JobError.
    """
    names = {job.name for job in jobs}
    assert len(names) == len(jobs), "names of jobs must be unique"
    assert all(set(job.after) <= names for job in jobs)
    if workers == 1 or len(jobs) == 1:
        return _inline(jobs)
    context = multiprocessing.get_context("spawn")
    pool = [_Worker.start(context) for _ in range(min(workers, len(jobs)))]
    try:
        return _dispatch(list(jobs), pool)
    finally:
        for worker in pool:
            worker.end()


def _inline(jobs: Sequence[Job]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    waiting = list(jobs)
    while waiting:
        job = next(j for j in waiting if results.keys() >= set(j.after))
        waiting.remove(job)
        results[job.name] = job.call(*job.arguments)
    return results


def _dispatch(waiting: list[Job], pool: list[_Worker]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    idle = list(pool)
    busy: dict[Connection, tuple[_Worker, Job]] = {}
    while waiting or busy:
        ready = [job for job in waiting if results.keys() >= set(job.after)]
        for job in ready[: len(idle)]:
            worker = idle.pop()
            worker.connection.send((job.call, job.arguments))
            busy[worker.connection] = (worker, job)
            waiting.remove(job)
        for connection in wait(list(busy)):
            assert isinstance(connection, Connection)
            worker, job = busy.pop(connection)
            try:
                failed, value = connection.recv()
            except EOFError:
                raise JobError(f"{job.name}: its process ended without an answer (killed, or out of memory)") from None
            if failed:
                raise _failure(job, *value)
            results[job.name] = value
            idle.append(worker)
    return results


def _failure(job: Job, error: NinefoldError, trace: str) -> NinefoldError:
    """What to raise for an error that a worker met."""
    told = JobError(f"{job.name} failed:\n{trace}")
    if isinstance(error, JobError):
        return told
    error.__cause__ = told
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    process: BaseProcess
    connection: Connection

    @staticmethod
    def start(context: SpawnContext) -> _Worker:
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, os.getpid()), daemon=False)
        process.start()
        there.close()
        return _Worker(process=process, connection=cast(Connection, here))

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _serve(connection: Connection, parent: int) -> None:
    """Answer calls until the parent goes away."""
    die_with_parent(parent)
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            call, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_answer(call, arguments))


def _answer(call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """(False, result), or (True, (error, traceback))."""
    failures: list[tuple[NinefoldError, str]] = []
    with boundary(JobError, "a job", catch=lambda error: failures.append((error, traceback.format_exc()))):
        return False, call(*arguments)
    return True, failures[0]
