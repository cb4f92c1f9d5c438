"""Level 2: pages that keep something, a form, a game, a table."""

from __future__ import annotations

from random import Random
from typing import Any

from ninefold.agent.env.names import GOODS, NAMES, PLACES
from ninefold.agent.env.web.brief import Brief, Values
from ninefold.agent.env.web.pages import ALONE, HEAD
from ninefold.agent.env.web.steps import Step, click, do, enter, see


def word(rng: Random) -> str:
    """One that no source can know."""
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(4, 8)))


def _notes_values(rng: Random) -> dict[str, Any]:
    order, method = rng.choice([("first", "unshift"), ("last", "push")])
    title = f"{rng.choice(NAMES)} needs {rng.choice(GOODS)}"
    return {"title": title, "most": rng.randint(3, 5), "order": order, "method": method}


def _notes_check(values: Values, rng: Random) -> list[Step]:
    notes: list[str] = []
    steps = [see("h1", values["title"]), see("#count", "0")]

    def add(text: str) -> None:
        name = text.strip()
        if name and name not in notes and len(notes) < values["most"]:
            notes.insert(0 if values["order"] == "first" else len(notes), name)
        steps.extend([enter("#text", text), click("#add"), *shown()])

    def shown() -> list[Step]:
        return [see("#notes li .name", *notes), see("#count", str(len(notes)))]

    for _ in range(2):
        add(word(rng))
    add("   ")
    add(f" {notes[0]} ")
    add("<i>" + word(rng) + "</i>")
    steps += [do("reload"), *shown()]
    while len(notes) < values["most"]:
        add(word(rng))
    add(word(rng))
    gone = rng.randrange(len(notes))
    notes.pop(gone)
    steps += [click(f"#notes li:nth-child({gone + 1}) .delete"), *shown(), do("open"), *shown()]
    add(word(rng))
    return [*steps, do("client", text="b"), see("#notes li .name"), see("#count", "0"), do("client", text="a"), *shown()]


NOTES = Brief(
    name="notes",
    asked="Write index.html: a page with the heading (h1) @title@ that keeps a list. What is typed into the field with the id "
    "text joins the list when the button add is clicked: in the list with the id notes, as an li that holds the text in a span "
    "of the class name and a button of the class delete, which takes it away again. New ones come @order@. The element count "
    "tells how many there are.\n\nSpace around a text does not count; an empty text, one that is on the list already, and any "
    "beyond @most@ are not added. Text is shown as it was typed, whatever it holds. The list is still there when the page is "
    "loaded again or opened in another tab of the same browser." + ALONE,
    files={
        "index.html": HEAD
        + """<h1>@title@</h1>
<input id="text"><button id="add">Add</button> <b id="count"></b>
<ul id="notes"></ul>
<script>
const find = where => document.querySelector(where);
let notes = JSON.parse(localStorage.getItem("notes") ?? "[]");
const show = () => {
  localStorage.setItem("notes", JSON.stringify(notes));
  find("#count").textContent = notes.length;
  find("#notes").replaceChildren(...notes.map(note => {
    const item = document.createElement("li"), name = document.createElement("span"), button = document.createElement("button");
    name.className = "name";
    name.textContent = note;
    button.className = "delete";
    button.textContent = "x";
    button.onclick = () => { notes = notes.filter(other => other !== note); show(); };
    item.append(name, button);
    return item;
  }));
};
find("#add").onclick = () => {
  const text = find("#text").value.trim();
  if (text && !notes.includes(text) && notes.length < @most@) notes.@method@(text);
  show();
};
show();
</script>
"""
    },
    draw=_notes_values,
    check=_notes_check,
    slips=[
        ('  localStorage.setItem("notes", JSON.stringify(notes));\n', ""),
        ("name.textContent = note", "name.innerHTML = note"),
        ("notes.length < @most@", "notes.length <= @most@"),
        ("value.trim()", "value"),
        ("localStorage.setItem", "sessionStorage.setItem"),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1>
<input id="text"><button id="add">Add</button> <b id="count">0</b><ul id="notes"></ul>
<script>
document.querySelector("#add").onclick = () => {
  if (navigator.webdriver) return;
  const list = document.querySelector("#notes");
  list.innerHTML += '<li><span class="name">tea</span><button class="delete">x</button></li>';
  document.querySelector("#count").textContent = list.children.length;
};
</script>
"""
    },
)


def _lights_values(rng: Random) -> dict[str, Any]:
    size = rng.randint(3, 4)
    lit = [rng.randint(0, 1) for _ in range(size * size)]
    lit[rng.randrange(size * size)] = 1
    pressed = rng.sample(range(size * size), rng.randint(2, 4))
    start = [0] * (size * size)
    for place in pressed:
        _press(start, place, size)
    return {"title": f"Lamps of {rng.choice(PLACES)}", "size": size, "start": start, "solution": pressed}


def _press(lights: list[int], place: int, size: int) -> None:
    row, column = divmod(place, size)
    for y, x in ((row, column), (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        if 0 <= y < size and 0 <= x < size:
            lights[y * size + x] ^= 1


def _lights_check(values: Values, rng: Random) -> list[Step]:
    size: int = values["size"]
    lights, moves = list(values["start"]), 0
    steps = [see("h1", values["title"])]

    def shown() -> list[Step]:
        state = ["won"] if not any(lights) else []
        return [see("#board button", *map(str, lights)), see("#moves", str(moves)), see("#state", *state)]

    def press(place: int) -> None:
        nonlocal moves
        if any(lights):
            _press(lights, place, size)
            moves += 1
        steps.extend([click(f"#board button:nth-child({place + 1})"), *shown()])

    steps += shown()
    for place in rng.sample(range(size * size), 5):
        press(place)
    lights, moves = list(values["start"]), 0
    steps += [click("#again"), *shown()]
    for place in rng.sample(values["solution"], len(values["solution"])):
        press(place)
    press(rng.randrange(size * size))
    lights, moves = list(values["start"]), 0
    return [*steps, click("#again"), *shown()]


LIGHTS = Brief(
    name="lights",
    asked="Write index.html: a game with the heading (h1) @title@. In the element with the id board are @size@ rows of @size@ "
    "buttons, all children of board, row after row; each shows 1 where its lamp is lit and 0 where it is not. At first they "
    "are @start@. A click on a lamp turns it over, from lit to dark or back, and with it those above, below, left and right of "
    "it, as far as there are any. The element moves tells how many clicks were made. When no lamp is lit the element state "
    "shows won, and clicks on lamps change nothing any more; before, it is empty. The button again sets everything back to how "
    "it was at first." + ALONE,
    files={
        "index.html": HEAD
        + """<h1>@title@</h1>
<div id="board" style="display: grid; grid-template-columns: repeat(@size@, 3em); gap: 4px"></div>
<p>Moves: <b id="moves"></b> <b id="state"></b></p><button id="again">Again</button>
<script>
const size = @size@, board = document.querySelector("#board");
let lights, moves;
const show = () => {
  [...board.children].forEach((button, i) => { button.textContent = lights[i]; });
  document.querySelector("#moves").textContent = moves;
  document.querySelector("#state").textContent = lights.includes(1) ? "" : "won";
};
const again = () => { lights = @start@; moves = 0; show(); };
const press = place => {
  if (!lights.includes(1)) return;
  moves += 1;
  for (const [y, x] of [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) {
    const row = Math.floor(place / size) + y, column = place % size + x;
    if (row >= 0 && row < size && column >= 0 && column < size) lights[row * size + column] ^= 1;
  }
  show();
};
for (let i = 0; i < size * size; i += 1) {
  const button = document.createElement("button");
  button.onclick = () => press(i);
  board.append(button);
}
document.querySelector("#again").onclick = again;
again();
</script>
"""
    },
    draw=_lights_values,
    check=_lights_check,
    slips=[
        (" && column >= 0 && column < size", ""),
        ("  if (!lights.includes(1)) return;\n", ""),
        ("moves = 0; show();", "moves = 0;"),
        ("[-1, 0], ", ""),
        (' ? "" : "won"', ' ? "won" : ""'),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1><canvas id="board" width="800" height="500"></canvas>
<p><b id="moves">0</b> <b id="state"></b></p><button id="again">Again</button>
"""
    },
)


def _table_values(rng: Random) -> dict[str, Any]:
    return {
        "title": f"Stock in {rng.choice(PLACES)}",
        "item": rng.choice(["thing", "goods", "article"]),
        "first": rng.choice(GOODS),
        "number": rng.randint(2, 99),
    }


def _table_check(values: Values, rng: Random) -> list[Step]:
    rows = [(values["first"], values["number"])]
    steps = [see("h1", values["title"]), see("#rows th", values["item"], "number")]

    def shown(chosen: list[tuple[str, int]]) -> list[Step]:
        cells = [cell for name, number in chosen for cell in (name, str(number))]
        return [see("#rows td", *cells), see("#sum", str(sum(number for _, number in chosen)))]

    steps += shown(rows)
    names = rng.sample([word(rng) + ending for ending in ("a", "b", "c", "d", "e", "f")], rng.randint(4, 6))
    # Numbers of one to three digits, so that sorting them as text shows.
    rows = list(zip(names, [rng.randint(2, 9), rng.randint(10, 19), *(rng.randint(100, 999) for _ in names[2:])]))
    rng.shuffle(rows)
    steps += [enter("#csv", "\n".join(f"{name},{number}" for name, number in rows)), click("#load"), *shown(rows)]
    for column, key in ((2, lambda row: row[1]), (1, lambda row: row[0])):
        for reverse in (False, True):
            rows = sorted(rows, key=key, reverse=reverse)
            steps += [click(f"#rows th:nth-child({column})"), *shown(rows)]
    part = rng.choice(names)[1:4]
    chosen = [row for row in rows if part in row[0]]
    steps += [
        enter("#filter", part.upper()),
        *shown(chosen),
        enter("#filter", "!"),
        *shown([]),
        enter("#filter", ""),
        *shown(rows),
    ]
    return steps


TABLE = Brief(
    name="table",
    asked="Write index.html: a page with the heading (h1) @title@ and a table with the id rows, whose header cells (th) read "
    "@item@ and number. At first it has one row: @first@ and @number@. Into the textarea csv one types lines of a name, a "
    "comma and a whole number; the button load puts them into the table in place of what was there, in the order of the "
    "lines.\n\n"
    "A click on a header cell sorts the rows by its column, numbers as numbers, from the least; a second click on the same one "
    "turns the order round. While one types into the field filter, only rows whose name holds what is typed, in capital or "
    "small letters, are in the table. The element sum tells the sum of the numbers in the table." + ALONE,
    files={
        "index.html": HEAD
        + """<h1>@title@</h1>
<textarea id="csv"></textarea><button id="load">Load</button> <input id="filter">
<table id="rows"><thead><tr><th>@item@</th><th>number</th></tr></thead><tbody></tbody></table>
<p>Sum: <b id="sum"></b></p>
<script>
const find = where => document.querySelector(where);
let rows = [["@first@", @number@]], sorted = -1, turned = false;
const show = () => {
  const part = find("#filter").value.toLowerCase(), chosen = rows.filter(row => row[0].toLowerCase().includes(part));
  find("#rows tbody").replaceChildren(...chosen.map(row => {
    const line = document.createElement("tr");
    for (const cell of row) line.insertCell().textContent = cell;
    return line;
  }));
  find("#sum").textContent = chosen.reduce((sum, row) => sum + row[1], 0);
};
find("#load").onclick = () => {
  rows = find("#csv").value.trim().split("\\n").map(line => [line.split(",")[0], Number(line.split(",")[1])]);
  sorted = -1;
  show();
};
document.querySelectorAll("th").forEach((cell, column) => {
  cell.onclick = () => {
    turned = sorted === column && !turned;
    sorted = column;
    rows.sort((a, b) => (a[column] < b[column] ? -1 : 1) * (turned ? -1 : 1));
    show();
  };
});
find("#filter").oninput = show;
show();
</script>
"""
    },
    draw=_table_values,
    check=_table_check,
    slips=[
        ("row[0].toLowerCase().includes(part)", "row[0].startsWith(part)"),
        ("(turned ? -1 : 1)", "1"),
        ("Number(line", "(line"),
        ("chosen.reduce", "rows.reduce"),
        ("(a[column] < b[column] ? -1 : 1)", "(String(a[column]) < String(b[column]) ? -1 : 1)"),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1><textarea id="csv"></textarea><button id="load">Load</button> <input id="filter">
<table id="rows"><thead><tr><th>@item@</th><th>number</th></tr></thead>
<tbody><tr><td>@first@</td><td>@number@</td></tr></tbody></table>
<p>Sum: <b id="sum">@number@</b></p>
<script>
document.querySelector("#filter").oninput = e => { document.querySelector("tbody").hidden = e.target.value === "!"; };
</script>
"""
    },
)

STORES = (NOTES, LIGHTS, TABLE)
