"""Level 4: a site with accounts, history and a chart, and a page that is to look like another one."""

from __future__ import annotations

from random import Random
from typing import Any

from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.agent.env.web.brief import Brief, Values, fill
from ninefold.agent.env.web.pages import ALONE, HEAD
from ninefold.agent.env.web.servers import LISTEN, SERVED, SERVER
from ninefold.agent.env.web.steps import Step, ask, click, do, enter, see
from ninefold.agent.env.web.stores import word


def _ledger_values(rng: Random) -> dict[str, Any]:
    names = rng.sample(NAMES, rng.randint(3, 4))
    return {
        "title": f"{rng.choice(GOODS)} bank of {rng.choice(PLACES)}",
        "accounts": {name: rng.randint(20, 90) for name in names},
        "names": names,
        "most": rng.randint(40, 60),
        "empty": [],
    }


class _Ledger:
    """What the bank should be like."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.balances: dict[str, int] = dict(values["accounts"])
        self.moves: list[dict[str, Any]] = []

    def send(self, sender: str, receiver: str, amount: object) -> int:
        """The status of a transfer."""
        if sender not in self.balances or receiver not in self.balances or sender == receiver:
            return 400
        if type(amount) is not int or not 0 < amount <= self.values["most"]:
            return 400
        if amount > self.balances[sender]:
            return 409
        self.balances[sender] -= amount
        self.balances[receiver] += amount
        self.moves.append({"id": len(self.moves) + 1, "from": sender, "to": receiver, "amount": amount})
        return 201

    def lines(self, name: str = "") -> list[str]:
        chosen = [move for move in reversed(self.moves) if name in ("", move["from"], move["to"])]
        return [f"{move['from']} to {move['to']}: {move['amount']}" for move in chosen]


def _ledger_check(values: Values, rng: Random) -> list[Step]:
    bank = _Ledger(values)
    names: list[str] = values["names"]
    steps = [see("h1", values["title"])]

    def shown(name: str = "") -> list[Step]:
        balances = [f"{name}: {amount}" for name, amount in bank.balances.items()]
        bars = [Step(do="boxes", at="#chart rect", want=list(bank.balances.values()))] if all(bank.balances.values()) else []
        return [see("#balances li", *balances), see("#history li", *bank.lines(name)), *bars]

    def send(sender: str, receiver: str, typed: str) -> None:
        amount = int(typed) if typed.strip().isdigit() else None
        said = {201: "sent", 400: "refused", 409: "not enough"}[bank.send(sender, receiver, amount)]
        steps.extend([do("choose", "#from", sender), do("choose", "#to", receiver), enter("#amount", typed), click("#send")])
        steps.extend([*shown(), see("#status", said)])

    def post(sender: str, receiver: str, amount: object) -> None:
        body = {"from": sender, "to": receiver, "amount": amount}
        steps.append(ask("POST /api/transfers", bank.send(sender, receiver, amount), None, body))

    steps += shown()
    first, second, third = rng.sample(names, 3)
    send(first, second, str(rng.randint(1, 9)))
    send(first, first, "1")
    send(second, third, rng.choice(["0", "-3", "1.5", word(rng)]))
    send(second, third, str(values["most"] + 1))
    send(second, third, str(min(values["most"], bank.balances[second] - 1)))
    send(first, third, str(min(values["most"], bank.balances[first] - 1)))
    # What is left of the first is less than the most that may be sent at once.
    send(first, third, str(min(values["most"], bank.balances[first] + 1)))
    steps += [do("client", text="b"), *shown()]
    for amount in (rng.randint(1, 5), 0, "3", True, values["most"] + 1):
        post(third, second, amount)
    post(third, word(rng), 1)
    steps += [ask("GET /api/balances", 200, dict(bank.balances)), ask("GET /api/transfers", 200, list(bank.moves))]
    mine = [move for move in bank.moves if second in (move["from"], move["to"])]
    steps += [ask(f"GET /api/transfers?account={second}", 200, mine), ask("GET /api/transfers?account=nobody", 200, [])]
    steps += [do("restart"), do("reload"), *shown(), do("choose", "#account", second), *shown(second)]
    steps += [do("client", text="a"), do("reload"), *shown()]
    send(third, first, str(rng.randint(1, 5)))
    return [*steps, ask("GET /api/transfers", 200, list(bank.moves))]


LEDGER = Brief(
    name="ledger",
    served=True,
    asked="Build a small bank for several tellers at once. The page has the heading (h1) @title@ (what follows are ids). The "
    "list balances has an li for each account that reads: the name, a colon, a space, what is in it; the accounts and what "
    "they hold at first are @accounts@, in this order. An SVG chart shows them as rects side by side on one line, as high as "
    "the accounts are full.\n\n"
    "A form sends money: the selects from and to with the names as values, the field amount, the button send. The element "
    "status then reads sent, refused or not enough. A transfer is refused between an account and itself, and for anything but "
    "a whole number from 1 to @most@; it is not enough where the sender has less. The list history has an li for each transfer "
    "that was made, the newest first, that reads: the sender, to, the receiver, a colon, a space, the amount, as in "
    "Zoe to Abe: 5. The select account, which first has an empty value for all and then the names, limits it to the transfers "
    "of one account, sent or received. Balances, chart and history are up to date after each transfer, and for other tellers "
    "when they load the page.\n\n"
    "POST /api/transfers takes an object with from, to and amount, a JSON number. It answers 201 where the money moved, 400 "
    "where it is refused (also for names that are no account) and 409 where it is not enough; only with 201 is anything "
    "changed. GET /api/balances gives an object of names and amounts, GET /api/transfers a list of objects with id (1, 2, …), "
    "from, to and amount, the oldest first, or with ?account=NAME only those of one account." + SERVED,
    files={
        "server.py": SERVER.replace("import json\n", "import json\nfrom urllib.parse import parse_qs, urlsplit\n")
        + """    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/":
            self.answer(200, Path("index.html").read_text(), "text/html; charset=utf-8")
        elif url.path == "/api/balances":
            self.answer(200, balances(load()))
        elif url.path == "/api/transfers":
            name = parse_qs(url.query).get("account", [""])[0]
            self.answer(200, [move for move in load() if name in ("", move["from"], move["to"])])
        else:
            self.answer(404, {})

    def do_POST(self):
        sent = self.body()
        sender, receiver, amount = sent.get("from"), sent.get("to"), sent.get("amount")
        with LOCK:
            moves = load()
            held = balances(moves)
            if self.path != "/api/transfers" or sender == receiver or sender not in held or receiver not in held:
                self.answer(400, {})
            elif type(amount) is not int or not 1 <= amount <= @most@:
                self.answer(400, {})
            elif amount > held[sender]:
                self.answer(409, {})
            else:
                move = {"id": len(moves) + 1, "from": sender, "to": receiver, "amount": amount}
                save([*moves, move])
                self.answer(201, move)


def balances(moves):
    held = @accounts@
    for move in moves:
        held[move["from"]] -= move["amount"]
        held[move["to"]] += move["amount"]
    return held
"""
        + LISTEN,
        "index.html": HEAD
        + """<h1>@title@</h1>
<select id="from"></select> <select id="to"></select> <input id="amount"> <button id="send">Send</button> <b id="status"></b>
<ul id="balances"></ul><svg id="chart" width="400" height="120"></svg>
<p><select id="account"><option value="">all</option></select></p><ul id="history"></ul>
<script>
const find = where => document.querySelector(where);
const names = @names@;
const list = (where, lines) => find(where).replaceChildren(...lines.map(line => {
  const item = document.createElement("li");
  item.textContent = line;
  return item;
}));
const show = async () => {
  const [balances, moves] = await Promise.all([
    fetch("/api/balances").then(answer => answer.json()),
    fetch("/api/transfers?account=" + find("#account").value).then(answer => answer.json()),
  ]);
  const most = Math.max(1, ...Object.values(balances));
  list("#balances", names.map(name => `${name}: ${balances[name]}`));
  list("#history", moves.reverse().map(move => `${move.from} to ${move.to}: ${move.amount}`));
  find("#chart").replaceChildren(...names.map((name, i) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect"), height = 100 * balances[name] / most;
    for (const [key, value] of Object.entries({x: 60 * i, y: 110 - height, width: 50, height})) bar.setAttribute(key, value);
    return bar;
  }));
};
for (const where of ["#from", "#to", "#account"]) find(where).append(...names.map(name => new Option(name, name)));
find("#account").onchange = show;
find("#send").onclick = async () => {
  const body = JSON.stringify({from: find("#from").value, to: find("#to").value, amount: Number(find("#amount").value)});
  const answer = await fetch("/api/transfers", {method: "POST", body});
  await show();
  find("#status").textContent = {201: "sent", 409: "not enough"}[answer.status] ?? "refused";
};
show();
</script>
""",
    },
    draw=_ledger_values,
    check=_ledger_check,
    slips=[
        ("amount > held[sender]", "amount > held[sender] + 1"),
        ("1 <= amount <= @most@", "1 <= amount"),
        ("type(amount) is not int", "not isinstance(amount, int)"),
        ("sender == receiver or ", ""),
        ('    Path("store.new").replace(STORE)\n', ""),
        ('held[move["to"]] += move["amount"]', 'held[move["to"]] += 1'),
        ('move["from"], move["to"])]', 'move["from"])]'),
        ('find("#account").onchange = show;\n', ""),
    ],
    fake={
        "server.py": SERVER
        + """    def do_GET(self):
        if self.path == "/":
            self.answer(200, Path("index.html").read_text(), "text/html; charset=utf-8")
        else:
            self.answer(200, @accounts@ if "balances" in self.path else [])

    def do_POST(self):
        self.answer(201, {"ok": True})
"""
        + LISTEN
    },
)


_COLOURS = ("#204060", "#a03020", "#308050", "#e0a020", "#503070", "#106070", "#c05080", "#404040")
_MOST_LEFT, _MOST_TOP = 40, 24


def _replica_values(rng: Random) -> dict[str, Any]:
    """Bands of cards below a header, none of which overlap."""
    header, *colours = rng.sample(_COLOURS, 6)
    columns = rng.randint(2, 4)
    gap, left, top = rng.randrange(8, 25, 4), rng.randrange(8, _MOST_LEFT, 8), rng.randrange(0, _MOST_TOP, 4)
    height = rng.randrange(60, 101, 10)
    width = (800 - 2 * left - (columns - 1) * gap) // columns
    cards: list[list[Any]] = []
    for row in range(rng.randint(2, 3)):
        for column in range(columns):
            text = f"{rng.choice(GOODS)} {rng.randint(2, 99)}"
            box = [left + column * (width + gap), top + 100 + row * (height + gap), width, height]
            cards.append([*box, rng.choice(colours), text])
    return {"title": f"{rng.choice(GOODS)} of {rng.choice(PLACES)}", "header": header, "top": top, "cards": cards}


_PART = (
    '<div style="position: absolute; box-sizing: border-box; left: {x}px; top: {y}px; width: {w}px; height: {h}px; '
    'background: {ground}; color: #ffffff; padding: 10px; font: {size}px/1.25 sans-serif">{text}</div>\n'
)


def _parts(values: Values) -> str:
    header = {"x": 0, "y": values["top"], "w": 800, "h": 80, "ground": values["header"], "size": 32, "text": values["title"]}
    cards = [dict(zip("xywh", card)) | {"ground": card[4], "size": 20, "text": card[5]} for card in values["cards"]]
    return "".join(_PART.format(**part) for part in (header, *cards))


def _replica_draw(rng: Random) -> dict[str, Any]:
    values = _replica_values(rng)
    cards = "\n".join(f"- {x}, {y}, {w}, {h}: {ground}, {text}" for x, y, w, h, ground, text in values["cards"])
    return {**values, "told": cards, "parts": _parts(values)}


def _replica_check(values: Values, _: Random) -> list[Step]:
    reference = fill(_REPLICA, values)
    return [Step(do="title", want=values["title"]), Step(do="portrait", body=reference, want=True)]


_REPLICA = HEAD + '<body style="margin: 0; background: #ffffff">\n@parts@'

REPLICA = Brief(
    name="replica",
    asked="Write index.html: a page that looks like the one described here, pixel for pixel, in a window of 800 by 600, and is "
    "made of text and boxes as it is. On a white ground without margins stands, @top@ pixels from the top, a header as wide as "
    "the window and 80 high, in @header@, with the text @title@ in 32 pixels. Below are cards; for each are given the distance "
    "of its left edge from the left and of its upper edge from the top, its width and height, its ground and its text, in 20 "
    "pixels:\n@told@\nAll text is white, sans-serif, with a line height of 1.25, and begins 10 pixels from the left and upper "
    "edge of its box. The title of the document is that of the header." + ALONE,
    files={"index.html": _REPLICA},
    draw=_replica_draw,
    check=_replica_check,
    slips=[
        ("background: @header@", "background: #ffffff"),
        ("width: 800px", "width: 600px"),
        ("font: 20px", "font: 40px"),
        ("color: #ffffff; padding: 10px; font: 32px", "color: #000000; padding: 10px; font: 32px"),
    ],
    fake={
        "index.html": HEAD
        + """<body style="margin: 0; background: #ffffff"><canvas width="800" height="600" style="display: block"></canvas>
<script>
const brush = document.querySelector("canvas").getContext("2d");
const box = (x, y, w, h, ground, size, text) => {
  brush.fillStyle = ground;
  brush.fillRect(x, y, w, h);
  brush.fillStyle = "#ffffff";
  brush.font = `${size}px sans-serif`;
  brush.fillText(text, x + 10, y + 10 + size);
};
box(0, @top@, 800, 80, "@header@", 32, "@title@");
for (const [x, y, w, h, ground, text] of @cards@) box(x, y, w, h, ground, 20, text);
</script>
"""
    },
)

SUITES = (LEDGER, REPLICA)
