"""A person at a browser: opens pages, clicks, types and looks.

A plan comes on standard input, what was seen goes to standard output as one line of JSON. What should have been seen is not
known here: nothing that a page or a server could find out helps it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

from ninefold.agent.env.web.inside.chromium import Browser, Fault, Lost, Page
from ninefold.agent.env.web.inside.site import Server, serve


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
