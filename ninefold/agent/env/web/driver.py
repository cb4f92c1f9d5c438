"""A person at a browser: the program that opens pages, clicks, types and looks, inside the sandbox.

It uses the standard library alone, and speaks the DevTools protocol through a pipe. A plan comes on standard input, what was
seen goes to standard output as one line of JSON. What should have been seen is not known here: nothing that a page or a server
could find out helps it.

Everything is looked at from a JavaScript world of its own, which shares the page's elements and none of its functions; clicks
and keys are those of a hand, and reach only what lies on top.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import http.server
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 10.0
"""A page that does not answer in time has failed."""
REST_SECONDS = 1.5
"""A page that never comes to rest is looked at all the same."""
SETTINGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--disable-breakpad"),
    *("--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none"),
    *("--user-data-dir=/tmp/profile", "--remote-debugging-pipe", "--headless"),
)
DISGUISE = (
    "--disable-blink-features=AutomationControlled",
    "--user-agent=Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
)
"""A page cannot tell a test from a person by what the browser says of itself."""
FONTS = "<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/fonts</cachedir></fontconfig>"

EYES = r"""
globalThis.eyes ??= (() => {
  const all = where => [...document.querySelectorAll(where)];
  const shown = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true})
    && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().height > 0;
  const centre = e => {
    e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    const box = e.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const onTop = e => {
    const top = document.elementFromPoint(...centre(e));
    return top !== null && (e.contains(top) || top.contains(e));
  };
  const visible = where => all(where).filter(e => shown(e) && onTop(e));
  const text = e => (e.innerText ?? e.textContent ?? "").replace(/\s+/g, " ").trim();
  const box = e => {
    const {x, y, width, height} = e.getBoundingClientRect();
    return [x + scrollX, y + scrollY, width, height].map(Math.round);
  };
  const drawn = /^(img|canvas|video|object|embed|iframe|image)$/i;
  const painted = style => style.backgroundImage.includes("url(") || style.content.includes("url(");
  const covers = (width, height) => width * height >= innerWidth * innerHeight / 2;
  const said = e => [...e.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim()).map(node => {
    const range = document.createRange();
    range.selectNode(node);
    return [node.data.replace(/\s+/g, " ").trim(), getComputedStyle(e).color, ...box(range)];
  });
  const bare = ["rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"];
  return {
    pause: () => new Promise(done => {
      setTimeout(done, 200);
      setTimeout(() => requestAnimationFrame(() => setTimeout(done)));
    }),
    title: () => document.title,
    see: where => visible(where).map(text).filter(said => said),
    read: (where, name) => all(where).map(e => name === "value" ? e.value : e.getAttribute(name)),
    boxes: where => visible(where).map(box),
    target: where => {
      const [first] = all(where);
      if (!first) return "is not there";
      if (!shown(first)) return "cannot be seen";
      if (first.disabled) return "is disabled";
      if (!onTop(first)) return "is covered by something else";
      return centre(first);
    },
    choose: (where, value) => {
      const [e] = all(where);
      e.value = value;
      for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, {bubbles: true}));
      return e.value === value;
    },
    focus: where => { const [e] = all(where); e.focus(); e.select?.(); return document.activeElement === e; },
    picture: () => {
      for (const e of document.querySelectorAll("*")) {
        const {x, y, width, height} = e.getBoundingClientRect();
        const seen = [Math.min(x + width, innerWidth) - Math.max(x, 0), Math.min(y + height, innerHeight) - Math.max(y, 0)];
        const image = drawn.test(e.tagName) || painted(getComputedStyle(e));
        if (image && Math.min(...seen) > 0 && covers(...seen)) return e.tagName.toLowerCase();
        for (const side of ["::before", "::after"]) {
          const style = getComputedStyle(e, side);
          if (painted(style) && covers(parseFloat(style.width) || 0, parseFloat(style.height) || 0)) return side;
        }
      }
      return "";
    },
    structure: () => all("body, body *").filter(shown).flatMap(e => {
      const ground = getComputedStyle(e).backgroundColor;
      return bare.includes(ground) ? said(e) : [["", ground, ...box(e)], ...said(e)];
    }),
  };
})();
"""


class Fault(Exception):
    """The page or the server did not do what a person would expect of any page."""


class Lost(Exception):
    """The browser itself is gone."""


class Browser:
    """One Chromium, spoken to through descriptors 3 and 4 of its own."""

    def __init__(self, program: str) -> None:
        Path("/tmp/fonts.conf").write_text(FONTS)
        hear, tell = os.pipe()
        self._from, write = os.pipe()
        self._to = os.dup(tell)
        os.dup2(write, tell)
        os.close(write)
        assert (hear, tell) == (3, 4), "the browser is started before anything else is opened"
        environment = {**os.environ, "FONTCONFIG_FILE": "/tmp/fonts.conf", "HOME": "/tmp"}
        self._process = subprocess.Popen(
            [program, *SETTINGS, *DISGUISE],
            pass_fds=(3, 4),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hear)
        os.close(tell)
        self._count = 0
        self._buffer = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}

    def call(self, method: str, session: str | None = None, /, **parameters: Any) -> dict[str, Any]:
        """The result of a command. Raises Fault where it fails or does not come in time."""
        number = self.tell(method, session, **parameters)
        until = time.monotonic() + ANSWER_SECONDS
        while number not in self._answers:
            if not self.listen(until - time.monotonic()):
                raise Fault("the page does not answer")
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Fault(f"{method}: {answer['error'].get('message', '')}")
        return answer["result"]

    def tell(self, method: str, session: str | None = None, /, **parameters: Any) -> int:
        """Send a command whose answer nobody needs to wait for; its number."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        return self._count

    def listen(self, seconds: float) -> bool:
        """Take in what the browser says; whether it said anything in that time."""
        if not select.select([self._from], [], [], max(0.0, seconds))[0]:
            return False
        data = os.read(self._from, 1 << 20)
        if not data:
            raise Lost
        *messages, self._buffer = (self._buffer + data).split(b"\0")
        for raw in messages:
            message = json.loads(raw)
            if "id" in message:
                self._answers[message["id"]] = message
            elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                page.hear(message["method"], message["params"])
        return True

    def page(self, context: str, size: tuple[int, int]) -> Page:
        """A new tab of a browser context."""
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.do(f"{domain}.enable")
        page.do("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        return page


class Page:
    """One tab: what is under way in it, and what went wrong."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.target = target
        self.offline = False
        self.faults: list[str] = []
        self._browser, self._session = browser, session
        self._under_way: set[str] = set()
        self._world: int | None = None
        self._loaded = False

    def do(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def hear(self, method: str, told: dict[str, Any]) -> None:
        """An event of this tab."""
        match method:
            case "Network.requestWillBeSent":
                self._under_way.add(told["requestId"])
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._under_way.discard(told["requestId"])
            case "Page.frameStartedLoading":
                self._under_way.add(told["frameId"])
            case "Page.frameStoppedLoading":
                self._under_way.discard(told["frameId"])
            case "Page.loadEventFired":
                self._loaded = True
            case "Page.frameNavigated" if "parentId" not in told["frame"]:
                self._world = None
            case "Page.javascriptDialogOpening":
                self._browser.tell("Page.handleJavaScriptDialog", self._session, accept=True)
            case "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                thrown = details.get("exception", {}).get("description") or details.get("text", "")
                self.faults.append(f"an error was thrown: {thrown[:200]}")
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "assert"):
                self.faults.append(f"the console shows an error: {json.dumps(told['args'])[:200]}")
            case "Log.entryAdded" if told["entry"]["level"] == "error" and not self._expected(told["entry"]):
                self.faults.append(
                    f"the console shows an error: {told['entry']['text'][:200]} {told['entry'].get('url', '')[:80]}"
                )
            case "Inspector.targetCrashed":
                self.faults.append("the page crashed")
            case _:
                pass

    def _expected(self, entry: dict[str, Any]) -> bool:
        """Refusals of an interface are part of what a page handles, and so is a network that is gone."""
        path = "/" + entry.get("url", "").partition("://")[2].partition("/")[2]
        return entry["source"] == "network" and (self.offline or path.startswith(("/api/", "/favicon.ico")))

    def go(self, url: str) -> None:
        """Open an address and wait until it has come to rest."""
        self._loaded = False
        error = self.do("Page.navigate", url=url).get("errorText")
        if error:
            raise Fault(f"the page cannot be opened: {error}")
        self._rest_loaded()

    def reload(self) -> None:
        self._loaded = False
        self.do("Page.reload")
        self._rest_loaded()

    def show(self, html: str) -> None:
        """Put a document of our own into the tab."""
        self.go("about:blank")
        frame = self.do("Page.getFrameTree")["frameTree"]["frame"]["id"]
        self.do("Page.setDocumentContent", frameId=frame, html=html)
        self._world = None
        self.rest()

    def _rest_loaded(self) -> None:
        until = time.monotonic() + ANSWER_SECONDS
        while not self._loaded:
            if not self._browser.listen(until - time.monotonic()):
                raise Fault("the page does not finish loading")
        self._world = None
        self.rest()
        if what := self.look("picture()"):
            raise Fault(f"a picture (<{what}>) stands in place of a page")

    def rest(self) -> None:
        """Wait until nothing is under way, and everything is drawn."""
        until = time.monotonic() + REST_SECONDS
        while True:
            while self._under_way and time.monotonic() < until:
                self._browser.listen(until - time.monotonic())
            self.look("pause()")
            if not self._under_way or time.monotonic() >= until:
                return

    def look(self, expression: str) -> Any:
        """What our own eyes see in the page; where it is just being left, in the next one."""
        for _ in range(2):
            try:
                return self._look(expression)
            except Fault as fault:
                self._world = None
                if "context" not in str(fault):
                    raise
        return self._look(expression)

    def _look(self, expression: str) -> Any:
        if self._world is None:
            frame = self.do("Page.getFrameTree")["frameTree"]["frame"]["id"]
            self._world = self.do("Page.createIsolatedWorld", frameId=frame, worldName="eyes")["executionContextId"]
            self.do("Runtime.evaluate", expression=EYES, contextId=self._world)
        how = {"contextId": self._world, "returnByValue": True, "awaitPromise": True}
        seen = self.do("Runtime.evaluate", expression=f"eyes.{expression}", **how)
        if "exceptionDetails" in seen:
            raise Fault(f"cannot look: {seen['exceptionDetails'].get('exception', {}).get('description', '')[:200]}")
        return seen["result"].get("value")

    def place(self, where: str) -> tuple[float, float]:
        """Where a hand would touch an element."""
        found = self.look(f"target({json.dumps(where)})")
        if isinstance(found, str):
            raise Fault(f"{where} {found}")
        return found[0], found[1]

    def click(self, where: str) -> None:
        x, y = self.place(where)
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.rest()

    def type(self, where: str, text: str) -> None:
        """Put text in the place of what a field holds."""
        self.place(where)
        if not self.look(f"focus({json.dumps(where)})"):
            raise Fault(f"{where} cannot be typed into")
        self._key("Delete", 46)
        if text:
            self.do("Input.insertText", text=text)
        self.rest()

    def press(self, key: str) -> None:
        self._key(key, {"Enter": 13, "Escape": 27, "Tab": 9}[key], "\r" if key == "Enter" else "")
        self.rest()

    def _key(self, key: str, code: int, text: str = "") -> None:
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.do("Input.dispatchKeyEvent", type="keyDown", **named)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def choose(self, where: str, value: str) -> None:
        self.place(where)
        if not self.look(f"choose({json.dumps(where)}, {json.dumps(value)})"):
            raise Fault(f"{where} has no choice {value}")
        self.rest()

    def cut(self, offline: bool) -> None:
        """Take the network away, or give it back."""
        self.offline = offline
        self.do("Network.emulateNetworkConditions", offline=offline, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def portrait(self) -> dict[str, Any]:
        """What it looks like, and of what it is made."""
        return {"png": self.do("Page.captureScreenshot", format="png")["data"], "structure": self.look("structure()")}


class Server:
    """The candidate's server, whose keeper listens on a socket that no page can reach."""

    def __init__(self, port: int, keeper: str) -> None:
        self._port = port
        self._keeper = socket.socket(socket.AF_UNIX)
        self._keeper.settimeout(2 * ANSWER_SECONDS)
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                self._keeper.connect(f"\0{keeper}")
                return
            except OSError:
                if time.monotonic() > until:
                    raise Lost from None
                time.sleep(0.02)

    def begin(self, order: bytes) -> None:
        """Have it started: `a` afresh as it was handed in, `r` again with what it has stored since."""
        try:
            self._keeper.sendall(order)
            answer = self._keeper.recv(1)
        except OSError:
            answer = b""
        if answer != b"k":
            said = {b"b": "the build fails", b"d": "the server ends", b"t": f"no server listens on port {self._port}"}
            raise Fault(said.get(answer, "the server took more than there is"))

    def ask(self, request: str, body: Any) -> list[Any]:
        """[status, JSON or text] of a request."""
        method, _, path = request.partition(" ")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=3.0)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            text = answer.read(1 << 16).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise Fault(f"{request}: {type(error).__name__}") from None
        finally:
            connection.close()
        try:
            return [answer.status, json.loads(text)]
        except ValueError:
            return [answer.status, text[:200]]


class Files(http.server.SimpleHTTPRequestHandler):
    """Hands out the files of a page that has no server of its own."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(folder: str, port: int) -> None:
    """Hand out the folder's files, on a thread that ends with this program."""
    site = http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Files, directory=folder))
    threading.Thread(target=site.serve_forever, daemon=True).start()


class Person:
    """Plays one script: several people, each with a browser context, at one site."""

    def __init__(self, browser: Browser, server: Server | None, port: int, size: tuple[int, int]) -> None:
        self._browser, self._server, self._size = browser, server, size
        self._url = f"http://127.0.0.1:{port}/"
        self._contexts: dict[str, str] = {}
        self._pages: dict[str, Page] = {}
        self._who = "a"

    def play(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """What was seen by each step that looks, and the fault that ended it early, if any."""
        seen: list[Any] = []
        fault = None
        try:
            if self._server is not None:
                self._server.begin(b"a")
            self._open()
            for number, step in enumerate(steps, 1):
                try:
                    self._step(step, seen)
                    faults = [fault for page in self._pages.values() for fault in page.faults]
                    if faults:
                        raise Fault(faults[0])
                except Fault as error:
                    said = " ".join(str(step[key]) for key in ("do", "at", "text") if key in step)
                    raise Fault(f"step {number} ({said[:80]}): {error}") from None
        except Fault as error:
            fault = str(error)
        for context in self._contexts.values():
            with contextlib.suppress(Fault):
                self._browser.call("Target.disposeBrowserContext", browserContextId=context)
        return {"seen": seen, "fault": fault}

    def _open(self) -> None:
        """A new tab in the present person's browser, at the site's first page."""
        if self._who not in self._contexts:
            self._contexts[self._who] = self._browser.call("Target.createBrowserContext")["browserContextId"]
        old = self._pages.pop(self._who, None)
        page = self._pages[self._who] = self._browser.page(self._contexts[self._who], self._size)
        if old is not None:
            page.faults += old.faults
            self._browser.call("Target.closeTarget", targetId=old.target)
        page.go(self._url)

    def _step(self, step: dict[str, Any], seen: list[Any]) -> None:
        page, where, text = self._pages[self._who], step.get("at", ""), step.get("text", "")
        match step["do"]:
            case "click":
                page.click(where)
            case "type":
                page.type(where, text)
            case "press":
                page.press(text)
            case "choose":
                page.choose(where, text)
            case "reload":
                page.reload()
            case "open":
                self._open()
            case "client":
                self._who = text
                if text not in self._pages:
                    self._open()
            case "cut":
                page.cut(text == "off")
            case "restart":
                assert self._server is not None
                self._server.begin(b"r")
            case "see":
                seen.append(page.look(f"see({json.dumps(where)})"))
            case "title":
                seen.append(page.look("title()"))
            case "read":
                seen.append(page.look(f"read({json.dumps(where)}, {json.dumps(text)})"))
            case "boxes":
                seen.append(page.look(f"boxes({json.dumps(where)})"))
            case "ask":
                assert self._server is not None
                seen.append(self._server.ask(text, step.get("body")))
            case "portrait":
                portraits = [page.portrait()]
                for html in (step["body"], ""):
                    page.show(html)
                    portraits.append(page.portrait())
                seen.append(portraits)
            case other:
                raise AssertionError(other)


def main() -> None:
    plan = json.loads(sys.stdin.read())
    port, size = plan["port"], (plan["size"][0], plan["size"][1])
    played: list[dict[str, Any]] = []
    begun = False
    try:
        browser = Browser(plan["browser"])
        browser.call("Browser.getVersion")
        server = Server(port, plan["keeper"]) if plan["keeper"] else None
        if server is None:
            serve(plan["folder"], port)
        begun = True
        for steps in plan["scripts"]:
            played.append(Person(browser, server, port, size).play(steps))
    except Lost:
        if begun:
            played.append({"seen": [], "fault": "the browser died of the page"})
    except Fault:
        assert not begun, "Person.play lets no fault pass"
    sys.stdout.write(json.dumps({"begun": begun, "played": played}) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
