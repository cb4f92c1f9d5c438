"""Chromium, spoken to in the DevTools protocol through a pipe.

Everything is looked at from a world of its own, and clicks and keys are those of a hand: they reach only what lies on top.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from ninefold.agent.env.web.inside.eyes import EYES

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
