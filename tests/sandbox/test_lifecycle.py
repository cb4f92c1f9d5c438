"""Start and end of a runtime, threads, and what is left after kill -9: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from ninefold.core.errors import SandboxError
from ninefold.core.protocols import ExecLimits
from ninefold.sandbox.namespace import NamespaceRuntime
from ninefold.sandbox.runtime import open_runtime

ROOT = Path(__file__).parents[2]


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, itself not included."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found.update(children)
        todo += children
    return found


def alive(pids: set[int]) -> set[int]:
    def running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return {pid for pid in pids if running(pid)}


def wait_until_gone(pids: set[int], seconds: float = 20) -> set[int]:
    end = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < end:
        time.sleep(0.02)
    return alive(pids)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def zygote_pid() -> int:
    """The only child of the launcher started last."""
    ours = descendants(os.getpid())
    launched = [pid for pid in ours if b"ninefold.sandbox.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    stat = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in launched}
    parent = {pid: int(fields[1]) for pid, fields in stat.items()}
    # By when it started: process numbers begin anew once they are used up.
    newest = max((pid for pid in launched if parent[pid] not in launched), key=lambda pid: int(stat[pid][19]))
    return next(pid for pid in launched if parent[pid] == newest)


@pytest.mark.usefixtures("namespaces")
def test_kill_of_the_owner_leaves_no_process() -> None:
    code = """
import sys
from ninefold.sandbox.namespace import NamespaceRuntime
from ninefold.core.protocols import ExecLimits
box = NamespaceRuntime().create()
print("ready", flush=True)
box.run(["sh", "-c", "setsid sleep 100 & sleep 100"], limits=ExecLimits(seconds=100))
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    end = time.monotonic() + 20
    while len(below := descendants(owner.pid)) < 5 and time.monotonic() < end:
        time.sleep(0.02)
    assert len(below) >= 5, "launcher, zygote, init, shell, sleepers"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert wait_until_gone(below) == set()


@pytest.mark.usefixtures("namespaces")
def test_close_leaves_no_process_and_no_file_descriptor() -> None:
    before, files = descendants(os.getpid()), open_descriptors()
    runtime = NamespaceRuntime()
    box = runtime.create({"a": "1"})
    box.python("import os\nif os.fork() == 0:\n    import time; time.sleep(50)")
    runtime.close()
    assert descendants(os.getpid()) <= before
    box.close()
    assert open_descriptors() == files


@pytest.mark.usefixtures("namespaces")
def test_a_dead_zygote_is_an_error_and_its_files_can_still_be_saved() -> None:
    with closing(NamespaceRuntime()) as runtime:
        box = runtime.create({"a": "1"})
        zygote = zygote_pid()
        os.kill(zygote, signal.SIGKILL)
        wait_until_gone({zygote})
        with pytest.raises(SandboxError):
            box.python("print(1)")
        with closing(runtime.restore(box.export())) as again:
            assert again.python("print(open('a').read())").stdout == "1\n"


@pytest.mark.usefixtures("namespaces")
def test_a_zygote_killed_during_an_execution_is_an_error() -> None:
    with closing(NamespaceRuntime()) as runtime:
        box = runtime.create()
        zygote = zygote_pid()
        timer = threading.Timer(0.3, os.kill, (zygote, signal.SIGKILL))
        timer.start()
        with pytest.raises(SandboxError, match="died"):
            box.python("import time; time.sleep(60)", limits=ExecLimits(seconds=60))
        timer.join()


def test_threads_share_a_runtime(namespaces: NamespaceRuntime) -> None:
    failures: list[object] = []

    def work(number: int) -> None:
        with closing(namespaces.create({"n": str(number)})) as box:
            for i in range(5):
                result = box.python("print(open('n').read(), input())", stdin=str(i))
                if result.stdout != f"{number} {i}\n":
                    failures.append(result)
            if box.python("while True: pass", limits=ExecLimits(seconds=0.2)).reason != "timeout":
                failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.full
@pytest.mark.usefixtures("namespaces")
def test_a_thousand_sandboxes_leave_nothing_open() -> None:
    def use(runtime: NamespaceRuntime, times: int) -> None:
        for i in range(times):
            with closing(runtime.create({"a": str(i)})) as box, closing(box.fork()) as copy:
                assert copy.python("print(open('a').read())").stdout == f"{i}\n"
                assert box.run(["cat", "a"]).stdout == str(i)

    with closing(NamespaceRuntime()) as runtime:
        use(runtime, 5)
        files = Path(f"/proc/{zygote_pid()}/fd")
        before = len(list(files.iterdir())), open_descriptors(), descendants(os.getpid())
        threads = [threading.Thread(target=use, args=(runtime, 125)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        use(runtime, 1)
        assert (len(list(files.iterdir())), open_descriptors(), descendants(os.getpid())) == before


@pytest.mark.usefixtures("namespaces")
def test_a_runtime_made_in_a_thread_outlives_it() -> None:
    runtime = NamespaceRuntime()
    thread = threading.Thread(target=runtime.check)
    thread.start()
    thread.join()
    with closing(runtime), closing(runtime.create()) as box:
        assert box.python("print(1)").stdout == "1\n"


def test_where_namespaces_are_refused_nothing_runs_and_the_remedy_is_named() -> None:
    """A process that may have no more namespaces stands for a kernel that gives none."""
    code = """
import ctypes, os
from pathlib import Path
uid, gid = os.geteuid(), os.getegid()
if ctypes.CDLL(None).unshare(0x10000000):
    raise SystemExit(77)
Path("/proc/self/setgroups").write_text("deny")
Path("/proc/self/uid_map").write_text(f"1000 {uid} 1")
Path("/proc/self/gid_map").write_text(f"1000 {gid} 1")
Path("/proc/sys/user/max_user_namespaces").write_text("0")
from ninefold.sandbox.runtime import open_runtime
runtime = open_runtime()
try:
    runtime.create()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode == 77:
        pytest.skip("the kernel refuses user namespaces to the test itself")
    assert done.stdout.startswith("SandboxUnavailable cannot isolate programs on this machine"), done
    assert "unshare" in done.stdout
    assert "user.max_user_namespaces" in done.stdout


def test_runtimes_by_name() -> None:
    assert open_runtime("memory").create({"a": "1"}).read("a") == b"1"
    assert isinstance(open_runtime("namespace"), NamespaceRuntime)


def test_the_zygote_imports_nothing_but_the_standard_library() -> None:
    code = """
import sys, ninefold.sandbox.zygote.__main__
print({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__"})
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "{'ninefold'}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: all the other tests are this one")
@pytest.mark.skipif(ROOT.is_relative_to("/root"), reason="an ordinary user cannot read this checkout")
@pytest.mark.usefixtures("namespaces")
def test_an_ordinary_user_is_served_too() -> None:
    code = """
import os
from ninefold.sandbox.namespace import NamespaceRuntime
runtime = NamespaceRuntime()
box = runtime.create({"locked/a": "text"})
box.python("import os; os.chmod('locked', 0); open('made', 'w').write('by the program')")
again = runtime.restore(box.export())
print(os.geteuid(), again.run(["ls"]).stdout.split(), again.read("made"))
runtime.close()
"""
    # The interpreter may lie in root's home; a private mount namespace shows it at its place, and nothing else of that home.
    show_interpreter = f"""
exec 8<{sys.base_prefix}
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p {sys.base_prefix}
mount --no-canonicalize --bind /proc/self/fd/8 {sys.base_prefix}
"""
    script = (
        "set -e\n"
        + (show_interpreter if Path(sys.base_prefix).is_relative_to("/root") else "")
        + f'exec setpriv --reuid 4321 --regid 4321 --clear-groups {sys.executable} -c "$CODE"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env={"PATH": os.environ["PATH"], "CODE": code},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout == "4321 ['locked', 'made'] b'by the program'\n", done
