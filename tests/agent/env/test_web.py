"""Sites: a parser judges the first level, a browser the others; what is right passes, and nothing that only looks it."""

from __future__ import annotations

from itertools import count

import pytest

from ninefold.agent.env.play import play
from ninefold.agent.env.web import Web, browser
from ninefold.agent.env.web.elements import Elements, wrong
from ninefold.agent.env.web.fakes import suspicion
from ninefold.agent.env.web.levels import BRIEFS, LEVELS, brief_of
from ninefold.agent.env.web.policies import hacks
from ninefold.agent.env.web.steps import Played, Step, click, do, enter, see
from ninefold.agent.env.web.steps import wrong as differs
from ninefold.core.protocols import SandboxRuntime
from ninefold.core.types import Result, Task

WEB = Web()
PARTS = (("h1", "tea"), ("p", "jam"))


@pytest.fixture
def chromium(isolated: SandboxRuntime) -> SandboxRuntime:
    """A runtime on a machine with a browser."""
    if (reason := browser.lacks()) is not None:
        pytest.skip(reason)
    return isolated


def task_of(brief: str) -> Task:
    level = next(level for level, briefs in enumerate(LEVELS) if brief in {b.name for b in briefs})
    tasks = (WEB.generate("dev", level, seed) for seed in count())
    return next(task for task in tasks if task.data["brief"] == brief)


def verdict(task: Task, files: dict[str, str], runtime: SandboxRuntime) -> Result:
    return WEB.verify(task, {"response": "done", "files": files}, runtime=runtime)


@pytest.mark.parametrize(
    "html",
    [
        "<h1>tea</h1><p>jam</p>",
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>x</title></head>\n"
        "<body><h1> tea </h1>\n<p>jam</p></body></html>",
    ],
)
def test_a_page_of_these_elements_is_right(html: str) -> None:
    assert wrong(html, PARTS) is None


@pytest.mark.parametrize(
    ("html", "why"),
    [
        ("<p>jam</p><h1>tea</h1>", "shows"),
        ("<h1>tea</h1><p>jam</p><p>jam</p>", "shows"),
        ("<h1>tea</h1><p>jam", "not closed"),
        ("<h1>tea<p>jam</p></h1>", "stands inside"),
        ("<title><h1>tea</h1><p>jam</p></title>", "stands inside"),
        ("<head><h1>tea</h1><p>jam</p></head>", "stands inside"),
        ("<h1 hidden>tea</h1><p>jam</p>", "attributes"),
        ("<style>h1 {color: white}</style><h1>tea</h1><p>jam</p>", "not asked for"),
        ("<h1>tea</h1><p>jam</p> ham", "outside"),
        ("<!-- <h1>tea</h1><p>jam</p> -->", "shows"),
        ("</h1><h1>tea</h1><p>jam</p>", "closes nothing"),
        ("<h1>tea</h1><![CDATA[<p>jam</p>]]>", "shows"),
        ("&lt;h1>tea&lt;/h1><p>jam</p>", "outside"),
    ],
)
def test_a_page_that_does_not_show_just_these_elements_is_wrong(html: str, why: str) -> None:
    told = wrong(html, PARTS)
    assert told is not None
    assert why in told


def test_the_page_of_elements_is_what_its_instruction_says() -> None:
    elements = Elements(parts=PARTS)
    assert elements.text == "Write page.html : h1 tea , p jam ."
    assert wrong(elements.html, PARTS) is None


@pytest.mark.parametrize(
    "source",
    [
        "if (navigator.webdriver) show()",
        "navigator['webdriver']",
        "/HeadlessChrome/.test(navigator.userAgent)",
        "if os.environ.get('CI'): pass",
        "if (process.env.NODE_ENV === 'test') {}",
        "os.getenv('PYTEST_CURRENT_TEST')",
    ],
)
def test_asking_who_looks_is_refused_unseen(source: str) -> None:
    assert suspicion({"index.html": "<p>a</p>", "app.js": source}) is not None


def test_no_right_solution_is_suspicious() -> None:
    for name, brief in BRIEFS.items():
        assert suspicion(brief.gold(task_of(name).data["values"])) is None
    assert suspicion({"index.html": "CI, TESTS and os.environ['HOME']"}) is None


def test_every_slip_breaks_one_place_and_every_fake_is_another_site() -> None:
    for name, brief in BRIEFS.items():
        values = task_of(name).data["values"]
        right = brief.gold(values)
        assert "@" not in "".join(right.values()), "a placeholder was not filled"
        assert brief.faked(values) != right
        for number in range(len(brief.slips)):
            changed = [path for path, text in brief.broken(values, number).items() if text != right[path]]
            assert len(changed) == 1, brief.slips[number]


def test_inputs_are_drawn_from_what_is_handed_in() -> None:
    task = task_of("notes")
    brief, values = brief_of(task), task.data["values"]
    seen = {str(brief.check(values, WEB.inputs(task, {"index.html": text}))) for text in ("a", "b", "c")}
    assert len(seen) == 3
    assert str(brief.check(values, WEB.inputs(task, {"index.html": "a"}))) in seen


def test_what_is_seen_is_compared_in_order_and_to_the_end() -> None:
    steps = [see("#a", "1"), click("#b"), see("#a", "2"), Step(do="boxes", at="rect", want=[1, 2])]
    bars = [[0, 50, 10, 50], [12, 0, 10, 100]]
    assert differs(steps, Played(seen=[["1"], ["2"], bars], fault=None)) is None
    assert "['3'], not ['2']" in str(differs(steps, Played(seen=[["1"], ["3"], bars], fault=None)))
    assert "not everything" in str(differs(steps, Played(seen=[["1"], ["2"]], fault=None)))
    assert "crashed" in str(differs(steps, Played(seen=[["1"], ["2"], bars], fault="the page crashed")))
    for other in (
        [[0, 0, 10, 50], [12, 0, 10, 100]],
        [[0, 50, 10, 50]],
        [[0, 20, 10, 80], [12, 0, 10, 100]],
        [[0, 99, 1, 1]] * 2,
    ):
        assert differs(steps, Played(seen=[["1"], ["2"], other], fault=None)) is not None


def test_without_a_browser_the_levels_that_need_one_are_skipped(
    monkeypatch: pytest.MonkeyPatch, isolated: SandboxRuntime
) -> None:
    monkeypatch.setattr(browser, "PLACES", ("/usr/lib/no-such-browser",))
    assert WEB.lacks(0) is None
    assert "chromium-headless-shell" in str(WEB.lacks(1))
    task = task_of("counter")
    assert verdict(task, brief_of(task).gold(task.data["values"]), isolated).status == "invalid"


@pytest.mark.parametrize("name", ["counter", "guestbook"])
def test_right_passes_and_broken_and_fake_fail(name: str, chromium: SandboxRuntime) -> None:
    task = task_of(name)
    brief, values = brief_of(task), task.data["values"]
    assert verdict(task, brief.gold(values), chromium) == Result(status="pass", score=1.0)
    assert verdict(task, brief.broken(values, 0), chromium).status == "fail"
    assert verdict(task, brief.faked(values), chromium).status == "fail"


@pytest.mark.full
@pytest.mark.parametrize("name", BRIEFS)
def test_every_brief_is_judged_right(name: str, chromium: SandboxRuntime) -> None:
    """Gold, every broken solution and every fake, as `bench/web.py` does."""
    task = task_of(name)
    brief, values = brief_of(task), task.data["values"]
    assert verdict(task, brief.gold(values), chromium).status == "pass"
    for number, (right, _) in enumerate(brief.slips):
        broken = brief.broken(values, number)
        assert broken != brief.gold(values), right
        assert verdict(task, broken, chromium).status == "fail", right
    for what, policy in hacks(task).items():
        assert play(WEB, task, policy, 0, chromium)[0].status == "fail", what


PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
PAGE = "<!doctype html><title>t</title><body><p id=a>one</p><button id=b>go</button><input id=c>"


def visited(runtime: SandboxRuntime, page: str, *steps: Step) -> Played:
    (played,) = browser.visit(runtime, {"index.html": page}, [steps], served=False)
    return played


def test_only_what_can_be_seen_and_touched_is(chromium: SandboxRuntime) -> None:
    """One visit to a page with everything that hides something."""
    page = (
        PAGE
        + """<p class=x>shown</p><p class=x hidden>no</p><p class=x style="opacity: 0">no</p>
<p class=x style="visibility: hidden">no</p><div style="opacity: 0"><p class=x>no</p></div>
<div style="position: relative"><p class=x id=under>no</p>
<div style="position: absolute; inset: 0; background: white"></div></div>
<p id=agent></p><script>
document.querySelector("#agent").textContent = String(navigator.webdriver) + navigator.userAgent.includes("Headless");
Object.defineProperty(HTMLElement.prototype, "innerText", {get: () => "lie"});
document.querySelector("#b").onclick = e => { document.querySelector("#a").textContent = e.isTrusted ? "two" : "three"; };
</script>"""
    )
    played = visited(
        chromium, page, see(".x"), see("#a"), click("#b"), see("#a"), see("#agent"), enter("#c", "x"), click("#under")
    )
    assert played.seen == [["shown"], ["one"], ["two"], ["falsefalse"]]
    assert "#under is covered" in str(played.fault)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("<script>while (true) {}</script>", "does not"),
        ("<script>throw new Error('lost')</script>", "error was thrown: Error: lost"),
        ("<script src=gone.js></script>", "console shows an error"),
        ("<script>fetch('http://192.0.2.1/')</script>", "error"),
        (f"<div style='position: fixed; inset: 0; background: url(\"{PIXEL}\")'>", "a picture"),
        (f"<style>body::before {{content: url({PIXEL}); position: fixed; inset: 0}}</style>", "a picture"),
    ],
)
def test_what_no_page_may_do_is_a_fault(more: str, why: str, chromium: SandboxRuntime) -> None:
    assert why in str(visited(chromium, PAGE + more, see("#a")).fault)


def test_dialogs_do_not_stop_a_visit(chromium: SandboxRuntime) -> None:
    page = PAGE + "<script>b.onclick = () => { a.textContent = confirm('sure?') ? 'yes' : 'no'; }</script>"
    assert visited(chromium, page, click("#b"), see("#a", "yes")).seen == [["yes"]]


DAEMON = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    seen = 0
    def do_GET(self):
        Handler.seen += self.path == "/"
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>t</title><p id=a>{Handler.seen} {os.path.exists('/work/ninefold')}".encode())
    def log_message(self, *args):
        pass
server = HTTPServer(("127.0.0.1", 8000), Handler)
if os.fork():
    os.wait()
os.setsid()
server.serve_forever()
"""
"""A server in a session of its own; the process that was started only waits for it."""


def test_a_server_that_detaches_itself_does_not_survive_its_end(chromium: SandboxRuntime) -> None:
    """What it kept in memory is gone, and it has seen nothing of the browser's files."""
    steps = [see("#a"), do("reload"), see("#a"), do("restart"), do("open"), see("#a")]
    (played,) = browser.visit(chromium, {"server.py": DAEMON}, [steps], served=True)
    assert (played.seen, played.fault) == ([["1 False"], ["2 False"], ["1 False"]], None)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"server.py": "raise SystemExit"}, "the server ends"),
        ({"server.py": "import time\ntime.sleep(99)"}, "no server listens"),
        ({"server.py": "", "build.py": "raise SystemExit(1)"}, "the build fails"),
    ],
)
def test_what_does_not_start_is_told(files: dict[str, str], why: str, chromium: SandboxRuntime) -> None:
    (played,) = browser.visit(chromium, files, [[see("#a")]], served=True)
    assert why in str(played.fault)
