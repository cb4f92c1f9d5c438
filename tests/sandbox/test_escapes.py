"""Real attempts to get out of a namespace sandbox, with both sides checked."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ninefold.core.errors import SandboxError, SandboxUnavailable, UserError
from ninefold.core.protocols import ExecLimits, ExecResult, Sandbox
from ninefold.sandbox import probe
from ninefold.sandbox.namespace import NamespaceRuntime

REPOSITORY = Path(__file__).parents[2]


def test_no_file_of_this_host_can_be_read(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    places = [tmp_path / "secret", Path("/etc/shadow"), Path("/etc/hostname"), REPOSITORY, Path("/sys/class")]
    places = [str(place) for place in places if place.exists()]
    attack = f"""
import os
print([place for place in {places!r} if os.path.exists(place)], os.listdir("/work"))
for way in ("/proc/1/root", "/proc/self/root", "/..", "/proc/self/cwd/.."):
    print(sorted(os.listdir(way)) == sorted(os.listdir("/")))
"""
    assert box.python(attack).stdout == "[] []\n" + "True\n" * 4


def test_no_environment_or_descriptor_of_this_host_is_inherited(
    namespaces: NamespaceRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    read, write = os.pipe()
    os.set_inheritable(read, True)
    with closing(NamespaceRuntime()) as runtime, closing(runtime.create()) as fresh:
        attack = """
import os
print(sorted(os.listdir("/proc/self/fd")), "A_SECRET" in os.environ, b"hunter2" in open("/proc/1/environ", "rb").read())
"""
        assert fresh.python(attack).stdout == "['0', '1', '2', '3'] False False\n", "3 is the listing's own"
        links = fresh.run(["sh", "-c", "ls -l /proc/$$/fd"]).stdout
        assert str(REPOSITORY) not in links
        assert "socket" not in links
    os.close(read)
    os.close(write)


def test_nothing_of_this_hosts_network_can_be_reached(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0ninefold-test-escape")
        abstract.listen()
        code = f"""
import socket
for family, kind, address in [
    (socket.AF_INET, 1, ("127.0.0.1", {tcp.getsockname()[1]})),
    (socket.AF_INET, 1, ("169.254.169.254", 80)),
    (socket.AF_INET6, 1, ("::1", 80)),
    (socket.AF_INET, 2, ("1.1.1.1", 53)),
    (socket.AF_UNIX, 1, "\\0ninefold-test-escape"),
]:
    try:
        socket.socket(family, kind).connect(address); print("connected to", address)
    except OSError as error:
        print(error.errno in (101, 99, 111))
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3); print("raw socket")
except PermissionError:
    print(True)
"""
        assert box.python(code).stdout == "True\n" * 6


def test_only_the_working_directory_and_tmp_can_be_written(box: Sandbox) -> None:
    code = """
import os
for place in ("/", "/usr/lib", "/etc", "/dev", "/proc/sys/kernel", "/root", os.path.dirname(os.__file__)):
    try:
        open(place + "/x", "w"); print("wrote to", place)
    except OSError:
        pass
for path in ("/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", os.__file__, "/etc/passwd"):
    try:
        open(path, "w"); print("opened", path)
    except OSError:
        pass
for place in ("/work", "/tmp", "/dev/shm"):
    open(place + "/x", "w").write("fine")
"""
    result = box.python(code)
    assert (result.stdout, result.stderr) == ("", "")


def test_no_right_can_be_regained(box: Sandbox) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
attempts = {
    "user namespace": lambda: libc.unshare(0x10000000),
    "mount namespace": lambda: libc.unshare(0x20000),
    "mount": lambda: libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None),
    "remount": lambda: libc.mount(None, b"/usr", None, 0x20 | 0x1000, None),
    "unmount proc": lambda: libc.umount2(b"/proc", 2),
    "chroot": lambda: libc.chroot(b"/work"),
    "setuid": lambda: libc.setuid(0),
    "mknod": lambda: libc.mknod(b"/work/sda", 0o60600, os.makedev(8, 0)),
    "ptrace": lambda: libc.ptrace(16, os.getppid(), None, None),
    "reboot": lambda: libc.reboot(0x1234567),
    "raise limit": lambda: libc.prlimit(0, 9, (ctypes.c_uint64 * 2)(2**40, 2**40), None),
}
print([name for name, attempt in attempts.items() if attempt() != -1])
"""
    assert box.python(code).stdout == "[]\n"
    flags = """
print([mount for mount in open("/proc/self/mounts") if "nosuid" not in mount])
print("NoNewPrivs:\\t1" in open("/proc/self/status").read())
"""
    assert box.python(flags).stdout == "[]\nTrue\n"


def test_other_processes_can_be_neither_seen_nor_killed(box: Sandbox, namespaces: NamespaceRuntime) -> None:
    attack = """
import ctypes, os
print(os.getpid(), os.getppid(), [p for p in os.listdir("/proc") if p.isdigit()])
for pid in [os.getppid(), -1, *range(2, 400)]:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
ctypes.CDLL(None).prctl(1, 9)
"""
    assert box.python(attack).stdout == "1 0 ['1']\n"
    assert box.python("print('alive')").stdout == "alive\n"


def test_a_program_cannot_answer_for_the_zygote(box: Sandbox) -> None:
    attack = """
import gc, os, socket, sys
found = [o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() >= 0]
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
for fd in range(3, 256):
    try:
        os.write(fd, b'{"status": 0, "cpu": 0}'); print("wrote to", fd)
    except OSError:
        pass
raise SystemExit(5)
"""
    result = box.python(attack)
    assert (result.stdout, result.exit_code) == ("", 5)
    assert box.python("print('alive')").stdout == "alive\n"


def test_sandboxes_cannot_meet(namespaces: NamespaceRuntime) -> None:
    with closing(namespaces.create({"secret": "x"})) as one, closing(namespaces.create()) as other:
        leave = """
import ctypes, os, socket
libc = ctypes.CDLL(None)
print(libc.shmget(4242, 4096, 0o1666) >= 0)
open("/tmp/note", "w").write("x"); open("/dev/shm/note", "w").write("x")
"""
        find = """
import ctypes, os
print(ctypes.CDLL(None).shmget(4242, 4096, 0o666) >= 0, os.path.exists("/tmp/note"), os.listdir("/work"))
"""
        assert one.python(leave).stdout == "True\n"
        assert other.python(find).stdout == "False False []\n"
        kinds = ("net", "ipc", "mnt", "pid", "user")
        code = f"import os; print(*[os.stat(f'/proc/self/ns/{{kind}}').st_ino for kind in {kinds}])"
        mine, theirs = one.python(code).stdout.split(), other.python(code).stdout.split()
        host = [str(Path(f"/proc/self/ns/{kind}").stat().st_ino) for kind in kinds]
        assert all(len({*three}) == 3 for three in zip(mine[:2], theirs[:2], host[:2]))
        assert not {*host} & {*mine, *theirs}


def test_links_are_never_followed_out_of_the_layer(namespaces: NamespaceRuntime, box: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("host")
    attack = f"""
import os
os.symlink({str(target)!r}, "absolute")
os.symlink("../" * 12 + {str(target)[1:]!r}, "relative")
os.symlink({str(tmp_path)!r}, "folder")
os.symlink("/proc/self/root", "magic")
open("real", "w").write("inside")
os.symlink("real", "inner")
"""
    assert box.python(attack).exit_code == 0
    for path in ("absolute", "relative", "folder/target", f"magic{target}"):
        with pytest.raises(FileNotFoundError):
            box.read(path)
        with pytest.raises(UserError):
            box.write(path, b"overwritten")
    assert target.read_text() == "host"
    assert box.read("inner") == b"inside"
    with closing(namespaces.restore(box.export())) as copy:
        assert b"host" not in copy.export()
        assert copy.run(["readlink", "absolute", "inner"]).stdout == f"{target}\nreal\n"


def test_special_files_and_modes_survive_or_are_refused_plainly(namespaces: NamespaceRuntime, box: Sandbox) -> None:
    code = """
import os, socket
os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("socket"); os.mkdir("empty")
os.mkdir("locked"); open("locked/file", "w").write("kept"); os.chmod("locked/file", 0); os.chmod("locked", 0)
open("tool", "w").write("#!/bin/sh\\necho ran"); os.chmod("tool", 0o755)
open(os.fsdecode(b"odd\\xff\\nname"), "w").write("odd")
"""
    assert box.python(code).exit_code == 0
    for name in ("pipe", "socket", "empty"):
        with pytest.raises(FileNotFoundError):
            box.read(name)
        with pytest.raises(UserError):
            box.write(name, b"x")
    exported = box.export()
    assert box.export() == exported
    with closing(namespaces.restore(exported)) as copy:
        assert copy.export() == exported
        assert copy.run(["./tool"]).stdout == "ran\n"
        assert copy.read(os.fsdecode(b"odd\xff\nname")) == b"odd"
        show = """
import os, stat
print(sorted(os.listdir("."))[:3], stat.filemode(os.stat("locked").st_mode))
os.chmod("locked", 0o700); os.chmod("locked/file", 0o600)
print(open("locked/file").read())
"""
        assert copy.python(show).stdout == "['empty', 'locked', 'odd\\udcff\\nname'] d---------\nkept\n"


def test_files_full_of_holes_are_refused_in_bounded_memory(box: Sandbox) -> None:
    box.python("for i in range(8): open(f'hole{i}', 'wb').truncate(60 << 20)")
    with pytest.raises(SandboxError, match="over the limit"):
        box.export()


def test_a_working_directory_that_its_owner_locked_or_filled_is_an_ordinary_failure(namespaces: NamespaceRuntime) -> None:
    with closing(namespaces.create({"a": "1"})) as locked:
        assert locked.python("import os; os.chmod('a', 0); os.chmod('/work', 0)").exit_code == 0
        with pytest.raises(FileNotFoundError):
            locked.read("a")
        with pytest.raises(UserError):
            locked.write("b", b"2")
        with closing(namespaces.restore(locked.export())) as copy:
            assert copy.python("import os; os.chmod('a', 0o600); print(open('a').read())").stdout == "1\n"
    with closing(namespaces.create()) as full:
        full.python("for i in range(99): open(f'f{i}', 'wb').write(bytes(1 << 20))")
        with pytest.raises(UserError, match="No space left"):
            full.write("b", bytes(1 << 20))


def test_the_probe_notices_a_host_without_isolation() -> None:
    """The same attempts, run as a plain process of this host, are reported one by one."""

    def unisolated(code: str, *, stdin: str) -> ExecResult:
        code = code.replace("os.setuid(0)", 'os.stat("/")').replace('socket.sethostname("x")', 'os.stat("/")')
        code = code.replace('path + "/ninefold-probe"', '"/dev/null"')
        done = subprocess.run([sys.executable, "-c", code], input=stdin, capture_output=True, text=True, check=False)
        return ExecResult(stdout=done.stdout, stderr=done.stderr, exit_code=done.returncode, reason="exited")

    with pytest.raises(SandboxUnavailable, match=r"read .*secret of this host.* reach a TCP port .* NoNewPrivs .* see process"):
        probe.check(unisolated)


def test_many_open_descriptors_above_the_inner_limit_stay_out(namespaces: NamespaceRuntime) -> None:
    boxes = [namespaces.create() for _ in range(120)]
    assert boxes[-1].python("import os; print(sorted(os.listdir('/proc/self/fd')))").stdout == "['0', '1', '2', '3']\n"
    for sandbox in boxes:
        sandbox.close()


def test_descriptors_inside_are_bounded(box: Sandbox) -> None:
    code = "import os\nn = 0\ntry:\n    while True: os.dup(0); n += 1\nexcept OSError: print(n)"
    assert box.python(code, limits=ExecLimits(seconds=5)).stdout == "253\n"
