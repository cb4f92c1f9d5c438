"""Programs in the namespace runtime: they run as anywhere, within limits, and leave nothing behind."""

from __future__ import annotations

import time

import pytest

from ninefold.core.errors import UserError
from ninefold.core.protocols import ExecLimits, Sandbox
from ninefold.sandbox.namespace import NamespaceRuntime


def test_streams_files_and_exit_codes(box: Sandbox) -> None:
    box.write("lib/helper.py", "ANSWER = 'ä'".encode())
    result = box.python(
        "import sys, lib.helper as h\nprint(input(), h.ANSWER)\nprint('e', file=sys.stderr)\nsys.exit(7)", stdin="hé\n"
    )
    assert (result.stdout, result.stderr, result.exit_code, result.reason) == ("hé ä\n", "e\n", 7, "exited")
    result = box.run(["sh", "-c", "cat; cat lib/helper.py >&2; exit 9"], stdin="in")
    assert (result.stdout, result.stderr, result.exit_code) == ("in", "ANSWER = 'ä'", 9)
    assert box.run(["python", "-c", "import sys; print(sys.argv, __name__)", "a b"]).stdout == "['-c', 'a b'] __main__\n"


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("def f():\n    return 1 / 0\nf()", 1, "ZeroDivisionError: division by zero"),
        ("def f(:", 1, "SyntaxError: invalid syntax"),
        ("raise SystemExit('bye')", 1, "bye"),
        ("exit(3)", 3, ""),
        ("import os; os._exit(4)", 4, ""),
        ("import os; os.abort()", 128 + 11, None),
    ],
)
def test_endings_of_python_programs(box: Sandbox, code: str, exit_code: int, stderr: str | None) -> None:
    result = box.python(code)
    assert (result.exit_code, result.reason) == (exit_code, "exited")
    if stderr is not None:
        assert result.stderr.strip().endswith(stderr)
        assert "ninefold" not in result.stderr


def test_a_traceback_shows_the_program_and_nothing_around_it(box: Sandbox) -> None:
    shown = box.python("def f():\n    return 1 / 0\nf()").stderr.splitlines()
    assert shown[:3] == ["Traceback (most recent call last):", '  File "<program>", line 3, in <module>', "    f()"]
    assert len([line for line in shown if "File" in line]) == 2


def test_the_interpreter_says_farewell(box: Sandbox) -> None:
    code = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'atexit')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\n"
        "print('main', end=' ')"
    )
    assert box.python(code).stdout == "main thread\natexit\n"


def test_a_child_that_leaves_the_program_normally(box: Sandbox) -> None:
    code = "import os\nif os.fork():\n    os.wait(); print('parent')\nelse:\n    print('child')"
    assert box.python(code).stdout == "child\nparent\n"


def test_signals_mean_to_an_executed_program_what_they_do_anywhere(box: Sandbox) -> None:
    assert box.run(["sh", "-c", "kill -TERM $$"]).exit_code == 128 + 15
    assert box.run(["sh", "-c", "kill -9 $$"]).exit_code == 128 + 9
    assert box.run(["no-such-program"]).exit_code == 127
    assert box.run(["/etc/passwd"]).exit_code == 126


def test_executions_do_not_see_each_other(box: Sandbox) -> None:
    box.python(
        "import builtins, json, random, sys\nbuiltins.len = lambda x: -1\njson.dumps = None\nsys.path.clear()\nrandom.seed(1)"
    )
    assert box.python("import json; print(len('abc'), json.dumps([1]))").stdout == "3 [1]\n"
    draws = {box.python("import random; print(random.random())").stdout for _ in range(5)}
    assert len(draws) == 5
    orders = {box.python("print(list({'a', 'b', 'c', 'd', 'e'}))").stdout for _ in range(5)}
    assert len(orders) == 1, "equal programs print equal sets"


def test_temporary_files_stay_with_the_sandbox_and_out_of_its_export(namespaces: NamespaceRuntime, box: Sandbox) -> None:
    before = box.export()
    box.python("open('/tmp/x', 'w').write('1')")
    assert box.python("print(open('/tmp/x').read())").stdout == "1\n"
    assert box.export() == before
    other = namespaces.create()
    assert "FileNotFoundError" in other.python("open('/tmp/x')").stderr
    other.close()


DAEMONS = """
import os, signal, sys, time
print("started", flush=True)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(s, signal.SIG_IGN)
        if os.fork() == 0:
            while True:
                time.sleep(0.01)
                open("heartbeat", "a").write("x")
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["python", "run"])
def test_the_whole_tree_dies_at_the_time_limit_and_output_is_kept(box: Sandbox, way: str) -> None:
    limits = ExecLimits(seconds=2)
    result = box.python(DAEMONS, limits=limits) if way == "python" else box.run(["python", "-c", DAEMONS], limits=limits)
    assert (result.stdout.splitlines()[0], result.exit_code, result.reason) == ("started", None, "timeout")
    beats = len(box.read("heartbeat"))
    time.sleep(0.1)
    assert len(box.read("heartbeat")) == beats > 0


def test_background_processes_end_with_the_program(box: Sandbox) -> None:
    result = box.run(
        ["sh", "-c", "(while true; do echo x >> beat; sleep 0.01; done) & until [ -s beat ]; do sleep 0.01; done; echo done"]
    )
    assert (result.stdout, result.exit_code, result.reason) == ("done\n", 0, "exited")
    beats = len(box.read("beat"))
    time.sleep(0.1)
    assert len(box.read("beat")) == beats > 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_is_cut_at_its_limit(box: Sandbox, stream: str) -> None:
    result = box.python(f"import sys\nwhile True: sys.{stream}.write('y' * 10_000)", limits=ExecLimits(output_bytes=100_000))
    assert result.reason == "output"
    assert getattr(result, stream) == "y" * 100_000
    assert box.run(["sh", "-c", "printf 12345"], limits=ExecLimits(output_bytes=5)).reason == "exited"


def test_output_that_is_no_text_is_kept_readable(box: Sandbox) -> None:
    assert box.python("import os; os.write(1, bytes([65, 0xFF, 0, 66]))").stdout == "A\ufffd\0B"


@pytest.mark.parametrize("code", ["x = bytearray(10**9)", "x = []\nwhile True: x.append('a' * 10**6)"])
def test_memory_is_bounded_and_the_reason_says_so(box: Sandbox, code: str) -> None:
    assert box.python(code).reason == "memory"
    assert box.run(["python", "-c", code], limits=ExecLimits(memory_mb=64)).reason == "memory"


def test_the_least_memory_is_enough_to_start_and_less_is_refused(box: Sandbox) -> None:
    assert box.python("print(sum(range(1000)))", limits=ExecLimits(memory_mb=32)).stdout == "499500\n"
    assert box.run(["python", "-c", "print(1)"], limits=ExecLimits(memory_mb=32)).stdout == "1\n"
    with pytest.raises(UserError, match="memory_mb"):
        box.python("1", limits=ExecLimits(memory_mb=31))


def test_memory_is_bounded_over_all_processes_too(box: Sandbox) -> None:
    code = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        break
mine = bytearray(SIZE << 20)
time.sleep(SECONDS)
"""
    hog = box.python(code.replace("SIZE", "40").replace("SECONDS", "30"), limits=ExecLimits(seconds=30))
    assert (hog.exit_code, hog.reason) == (None, "memory")
    frugal = box.python(code.replace("SIZE", "1").replace("SECONDS", "0.3"), limits=ExecLimits(memory_mb=64))
    assert (frugal.exit_code, frugal.reason) == (0, "exited"), "what processes share is counted once"


def test_a_fork_bomb_is_bounded_and_harms_no_neighbour(namespaces: NamespaceRuntime, box: Sandbox) -> None:
    code = """
import os, time
n = 0
try:
    while os.fork():
        n += 1
    time.sleep(60)
except BlockingIOError:
    print(n)
"""
    assert box.python(code, limits=ExecLimits(processes=16)).stdout == "15\n"
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert box.python(bomb, limits=ExecLimits(seconds=0.5)).reason == "timeout"
    assert box.python("import subprocess; print(subprocess.run(['echo', 'ok'], stdout=-1).stdout)").stdout == "b'ok\\n'\n"


def test_disk_is_bounded_in_bytes_and_in_files(box: Sandbox) -> None:
    fill = "i = 0\nwhile True:\n    i += 1\n    with open(f'f{i}', 'wb') as f: f.write(b'x' * SIZE)"
    result = box.python(fill.replace("SIZE", str(1 << 22)))
    assert result.stderr.strip().endswith("[Errno 28] No space left on device")
    box.run(["sh", "-c", "rm f*"])
    result = box.python(fill.replace("SIZE", "0"))
    assert result.stderr.strip().splitlines()[-1].startswith("OSError: [Errno 28]")
    box.run(["find", ".", "-type", "f", "-delete"])
    result = box.python("open('big', 'wb').truncate(1 << 40)")
    assert "File too large" in result.stderr


def test_large_inputs_and_programs(box: Sandbox) -> None:
    text = "é" * 500_000
    assert box.python("print(len(input()))", stdin=text).stdout == "500000\n"
    assert box.python("x = '" + "a" * 1_000_000 + "'\nprint(len(x))").stdout == "1000000\n"
