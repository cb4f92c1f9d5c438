"""Level 3: small sites with a server of their own, which keeps what several people send."""

from __future__ import annotations

from random import Random
from typing import Any

from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.agent.env.web.brief import Brief, Values
from ninefold.agent.env.web.pages import HEAD
from ninefold.agent.env.web.steps import Step, ask, click, do, enter, see
from ninefold.agent.env.web.stores import word

SERVED = (
    " Write server.py, which uses Python's standard library alone and listens on port 8000 of 127.0.0.1 when it is started "
    "with python3 server.py; / is the page, and what begins with /api/ speaks JSON. Nothing that was accepted is lost when the "
    "server is killed and started again in the same folder. Leave the folder without stored data, and with index.html beside "
    "server.py. No error is logged in the browser."
)

SERVER = """import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

STORE, LOCK = Path("store.json"), Lock()


def load():
    return json.loads(STORE.read_text()) if STORE.exists() else @empty@


def save(state):
    Path("store.new").write_text(json.dumps(state))
    Path("store.new").replace(STORE)


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body, kind="application/json"):
        data = body.encode() if kind != "application/json" else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        try:
            sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            return {}
        return sent if isinstance(sent, dict) else {}

"""
LISTEN = """

ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""
"""The rest of a server: the parts between are the brief's own."""


def _guestbook_values(rng: Random) -> dict[str, Any]:
    title = f"{rng.choice(NAMES)}'s {rng.choice(GOODS)} in {rng.choice(PLACES)}"
    return {"title": title, "longest": rng.randint(20, 60), "empty": []}


def _guestbook_check(values: Values, rng: Random) -> list[Step]:
    entries: list[tuple[str, str]] = []
    steps = [see("h1", values["title"]), see("#entries li"), ask("GET /api/entries", 200, [])]

    def shown() -> list[Step]:
        return [see("#entries li", *(f"{name}: {text}" for name, text in reversed(entries)))]

    def sign(name: str, text: str) -> None:
        steps.extend([enter("#name", name), enter("#text", text), click("#send")])
        accepted = bool(name.strip()) and bool(text.strip()) and len(text.strip()) <= values["longest"]
        if accepted:
            entries.append((name.strip(), text.strip()))
        steps.extend([*shown(), see("#status", *([] if accepted else ["refused"]))])

    sign(word(rng), word(rng))
    sign(f" {word(rng)} ", f"<b>{word(rng)}</b> & co")
    sign(word(rng), "  ")
    sign(word(rng), "x" * (values["longest"] + 1))
    sign(word(rng), "y" * values["longest"])
    listed = [{"id": number, "name": name, "text": text} for number, (name, text) in enumerate(entries, 1)]
    name = word(rng)
    sent = {"name": name, "text": word(rng)}
    steps += [ask("GET /api/entries", 200, listed), do("client", text="b"), *shown()]
    steps += [ask("POST /api/entries", 201, {"id": 4, **sent}, sent), ask("POST /api/entries", 400, None, {"name": name})]
    steps += [ask("POST /api/entries", 400, None, {"name": 5, "text": ["x"]}), ask("GET /api/nothing", 404, None)]
    entries.append((name, sent["text"]))
    steps += [do("restart"), do("reload"), *shown(), do("client", text="a"), do("reload"), *shown()]
    steps += [do("cut", text="off"), enter("#name", word(rng)), enter("#text", word(rng)), click("#send"), *shown()]
    steps += [see("#status", "offline"), do("cut", text="on")]
    sign(word(rng), word(rng))
    return [*steps, ask("GET /api/entries", 200, [*listed, {"id": 4, **sent}, _entry(5, entries[-1])])]


def _entry(number: int, entry: tuple[str, str]) -> dict[str, Any]:
    return {"id": number, "name": entry[0], "text": entry[1]}


GUESTBOOK = Brief(
    name="guestbook",
    served=True,
    asked="Build a guest book that all visitors share. The page has the heading (h1) @title@, the fields name and text, the "
    "button send and the list entries (these are ids), which holds an li for each entry, the newest first, that reads: the "
    "name, a colon, a space, the text. Text is shown as it was typed, whatever it holds; space around it does not count.\n\n"
    "GET /api/entries gives the entries as a list of objects with id (1, 2, …), name and text, the oldest first. POST "
    "/api/entries takes an object with name and text and answers 201 with the entry. It answers 400 and keeps nothing where "
    "either is no text or empty, or the text is longer than @longest@ characters. Other addresses give 404.\n\n"
    "The element status shows refused after an entry was refused, offline where the server could not be reached (nothing "
    "joins the list then), and nothing after one was accepted." + SERVED,
    files={
        "server.py": SERVER
        + """    def do_GET(self):
        if self.path == "/":
            self.answer(200, Path("index.html").read_text(), "text/html; charset=utf-8")
        elif self.path == "/api/entries":
            self.answer(200, load())
        else:
            self.answer(404, {})

    def do_POST(self):
        sent = self.body()
        fields = [sent.get("name"), sent.get("text")]
        if self.path != "/api/entries":
            self.answer(404, {})
            return
        fields = [field.strip() if isinstance(field, str) else "" for field in fields]
        if not all(fields) or len(fields[1]) > @longest@:
            self.answer(400, {})
            return
        with LOCK:
            entries = load()
            entry = {"id": len(entries) + 1, "name": fields[0], "text": fields[1]}
            save([*entries, entry])
        self.answer(201, entry)
"""
        + LISTEN,
        "index.html": HEAD
        + """<h1>@title@</h1>
<input id="name"><input id="text"><button id="send">Sign</button> <b id="status"></b>
<ul id="entries"></ul>
<script>
const find = where => document.querySelector(where);
const show = async () => {
  const entries = await (await fetch("/api/entries")).json();
  find("#entries").replaceChildren(...entries.reverse().map(entry => {
    const item = document.createElement("li");
    item.textContent = `${entry.name}: ${entry.text}`;
    return item;
  }));
};
find("#send").onclick = async () => {
  try {
    const body = JSON.stringify({name: find("#name").value, text: find("#text").value});
    const answer = await fetch("/api/entries", {method: "POST", body});
    await show();
    find("#status").textContent = answer.ok ? "" : "refused";
  } catch {
    find("#status").textContent = "offline";
  }
};
show();
</script>
""",
    },
    draw=_guestbook_values,
    check=_guestbook_check,
    slips=[
        ('    Path("store.new").replace(STORE)\n', ""),
        ("len(fields[1]) > @longest@", "len(fields[1]) >= @longest@"),
        ("item.textContent", "item.innerHTML"),
        ("entries.reverse()", "entries"),
        ('  } catch {\n    find("#status").textContent = "offline";', '  } catch {\n    find("#status").textContent = "";'),
        ("    def body(self):", "    def body(self)"),
    ],
    fake={
        "server.py": SERVER
        + """    entries = []

    def do_GET(self):
        if self.path == "/":
            self.answer(200, Path("index.html").read_text(), "text/html; charset=utf-8")
        else:
            self.answer(200, Handler.entries)

    def do_POST(self):
        sent = {key: str(value).strip() for key, value in self.body().items()}
        if not sent.get("text") or len(sent["text"]) > @longest@:
            self.answer(400, {})
            return
        entry = {"id": len(Handler.entries) + 1, **sent}
        Handler.entries.append(entry)
        self.answer(201, entry)
"""
        + LISTEN
    },
)


def _poll_values(rng: Random) -> dict[str, Any]:
    return {
        "title": f"What shall {rng.choice(NAMES)} take to {rng.choice(PLACES)}?",
        "options": rng.sample(GOODS, rng.randint(3, 5)),
        "empty": {},
    }


def _poll_check(values: Values, rng: Random) -> list[Step]:
    counts = dict.fromkeys(values["options"], 0)
    steps = [see("h1", values["title"])]

    def shown() -> list[Step]:
        total = sum(counts.values())
        bars = [Step(do="boxes", at="#results rect", want=list(counts.values()))] if all(counts.values()) else []
        return [see("#results li", *(f"{name}: {n}" for name, n in counts.items())), see("#total", str(total)), *bars]

    def vote(option: str, new: bool) -> None:
        steps.append(click(f"#options button:nth-child({values['options'].index(option) + 1})"))
        counts[option] += new
        steps.extend([*shown(), see("#status", "thank you" if new else "you have voted")])

    steps += shown()
    vote(rng.choice(values["options"]), True)
    vote(rng.choice(values["options"]), False)
    steps += [do("reload"), *shown()]
    vote(rng.choice(values["options"]), False)
    for who in "bc":
        steps += [do("client", text=who), *shown()]
        vote(rng.choice(values["options"]), True)
    # No two bars are equally high then, and none is missing.
    for option, wanted in zip(counts, rng.sample(range(4, 6 + len(counts)), len(counts))):
        steps += [ask("POST /api/votes", 201, None, {"option": option})] * (wanted - counts[option])
        counts[option] = wanted
    steps += [ask("POST /api/votes", 400, None, {"option": word(rng)}), ask("POST /api/votes", 400, None, {})]
    steps += [ask("GET /api/votes", 200, counts), do("restart"), do("reload"), *shown()]
    vote(rng.choice(values["options"]), False)
    return [*steps, do("client", text="a"), do("open"), *shown(), ask("GET /api/votes", 200, dict(counts))]


POLL = Brief(
    name="poll",
    served=True,
    asked="Build a poll. The page has the heading (h1) @title@ and in the element options a button for each of @options@, in "
    "this order (options, results and so on are ids). The element results holds an li for each option that reads: its name, "
    "a colon, a space, the number of its votes; and an SVG with a rect for each option, side by side, all on one line and as "
    "high as the votes are many. The element total tells the number of all votes.\n\n"
    "Each browser votes once: a first vote is counted, shown at once, and status reads thank you. Further votes are not "
    "counted, also not after the page was loaded again or the server started again, and status reads you have voted.\n\n"
    "POST /api/votes takes an object with option; it answers 201, or 400 for what is no option, and 409 to a browser that has "
    "voted, which is known by a cookie; a client without cookies may vote as often as it likes. GET /api/votes gives an object "
    "with the number of votes of each option." + SERVED,
    files={
        "server.py": SERVER
        + """    def do_GET(self):
        if self.path == "/":
            self.answer(200, Path("index.html").read_text(), "text/html; charset=utf-8")
        elif self.path == "/api/votes":
            self.answer(200, {option: load().get(option, 0) for option in @options@})
        else:
            self.answer(404, {})

    def do_POST(self):
        option = self.body().get("option")
        if self.path != "/api/votes" or option not in @options@:
            self.answer(400, {})
        elif "voted=yes" in self.headers.get("Cookie", ""):
            self.answer(409, {})
        else:
            with LOCK:
                votes = load()
                votes[option] = votes.get(option, 0) + 1
                save(votes)
            self.voted = True
            self.answer(201, {})

    voted = False

    def end_headers(self):
        if self.voted:
            self.send_header("Set-Cookie", "voted=yes; Max-Age=9999999; Path=/")
        super().end_headers()
"""
        + LISTEN,
        "index.html": HEAD
        + """<h1>@title@</h1>
<div id="options"></div><p><b id="status"></b> Votes: <b id="total"></b></p>
<div id="results"><ul></ul><svg width="400" height="120"></svg></div>
<script>
const find = where => document.querySelector(where);
const options = @options@;
const show = async () => {
  const votes = await (await fetch("/api/votes")).json(), most = Math.max(1, ...Object.values(votes));
  find("#results ul").replaceChildren(...options.map(option => {
    const item = document.createElement("li");
    item.textContent = `${option}: ${votes[option]}`;
    return item;
  }));
  find("#results svg").replaceChildren(...options.map((option, i) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect"), height = 100 * votes[option] / most;
    for (const [name, value] of Object.entries({x: 60 * i, y: 110 - height, width: 50, height})) bar.setAttribute(name, value);
    return bar;
  }));
  find("#total").textContent = options.reduce((sum, option) => sum + votes[option], 0);
};
find("#options").append(...options.map(option => {
  const button = document.createElement("button");
  button.textContent = option;
  button.onclick = async () => {
    const answer = await fetch("/api/votes", {method: "POST", body: JSON.stringify({option})});
    await show();
    find("#status").textContent = answer.ok ? "thank you" : "you have voted";
  };
  return button;
}));
show();
</script>
""",
    },
    draw=_poll_values,
    check=_poll_check,
    slips=[
        ('        elif "voted=yes" in self.headers.get("Cookie", ""):\n            self.answer(409, {})\n', ""),
        ("; Max-Age=9999999; Path=/", "; Max-Age=0; Path=/"),
        (" or option not in @options@", ""),
        ('    Path("store.new").replace(STORE)\n', ""),
        ("100 * votes[option] / most", "100"),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1><div id="options"></div>
<p><b id="status"></b> Votes: <b id="total">0</b></p><div id="results"><ul></ul></div>
<script>
const options = @options@, votes = options.map(() => 0);
const show = () => {
  document.querySelector("ul").innerHTML = options.map((option, i) => `<li>${option}: ${votes[i]}</li>`).join("");
  document.querySelector("#total").textContent = votes.reduce((a, b) => a + b);
};
options.forEach((option, i) => {
  const button = document.createElement("button");
  button.textContent = option;
  button.onclick = () => {
    const first = !localStorage.voted;
    if (first) { votes[i] += 1; localStorage.voted = 1; }
    show();
    document.querySelector("#status").textContent = first ? "thank you" : "you have voted";
  };
  document.querySelector("#options").append(button);
});
show();
</script>
"""
    },
)

SERVERS = (GUESTBOOK, POLL)
