"""Level 1: pages that do one thing."""

from __future__ import annotations

from random import Random
from typing import Any

from ninefold.agent.env.names import GOODS, PLACES
from ninefold.agent.env.web.brief import Brief, Values
from ninefold.agent.env.web.steps import Step, click, enter, see

HEAD = '<!doctype html><meta charset="utf-8"><title>@title@</title>\n'
ALONE = " The page works without a network, logs no error and needs no other file."


def _counter_values(rng: Random) -> dict[str, Any]:
    step = rng.randint(2, 9)
    least = rng.randint(-5, 5)
    return {
        "title": f"{rng.choice(GOODS)} in {rng.choice(PLACES)}",
        "step": step,
        "least": least,
        "start": least + rng.randint(2, 30),
    }


def _counter_check(values: Values, rng: Random) -> list[Step]:
    count: int = values["start"]
    steps = [see("h1", values["title"]), see("#count", str(count))]

    def press(button: str) -> None:
        nonlocal count
        moved = {"up": count + values["step"], "down": max(values["least"], count - values["step"]), "reset": values["start"]}
        count = moved[button]
        steps.extend([click(f"#{button}"), see("#count", str(count))])

    for _ in range(rng.randint(1, 4)):
        press("up")
    press("reset")
    while count > values["least"]:
        press("down")
    for button in ("down", "up", *rng.choices(("up", "down", "reset"), k=4)):
        press(button)
    return steps


COUNTER = Brief(
    name="counter",
    asked="Write index.html: a page with the heading (h1) @title@, a number in the element with the id count, and three "
    "buttons. The number is @start@ at first; the button with the id up adds @step@, the button down takes @step@ away, but "
    "the number is never less than @least@, and the button reset makes it @start@ again." + ALONE,
    files={
        "index.html": HEAD
        + """<h1>@title@</h1>
<p id="count"></p>
<button id="up">+</button><button id="down">-</button><button id="reset">0</button>
<script>
let count = @start@;
const show = () => { document.querySelector("#count").textContent = count; };
const on = (id, act) => document.getElementById(id).addEventListener("click", () => { act(); show(); });
on("up", () => { count += @step@; });
on("down", () => { count = Math.max(@least@, count - @step@); });
on("reset", () => { count = @start@; });
show();
</script>
"""
    },
    draw=_counter_values,
    check=_counter_check,
    slips=[
        ("Math.max(@least@, count - @step@)", "count - @step@"),
        ("count += @step@", "count += 1"),
        ("=> { count = @start@; }", "=> { count = 0 - 77; }"),
        ("=> { act(); show(); }", "=> { show(); act(); }"),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1><p id="count">@start@</p>
<button id="up">+</button><button id="down">-</button><button id="reset">0</button>
"""
    },
)


def _converter_values(rng: Random) -> dict[str, Any]:
    return {"title": f"Price of {rng.choice(GOODS)}", "factor": rng.randint(2, 99), "fee": rng.randint(1, 99)}


def _converter_check(values: Values, rng: Random) -> list[Step]:
    steps = [see("h1", values["title"]), see("#total")]
    numbers = [0, 1, *rng.sample(range(2, 10), 1), *rng.sample(range(10, 1000), 3)]
    rng.shuffle(numbers)
    for number in numbers:
        steps += [enter("#amount", str(number)), see("#total", str(number * values["factor"] + values["fee"]))]
    for bad in rng.sample(["-1", "x", "1.5", "ten", "--", "2 3"], 3):
        steps += [enter("#amount", bad), see("#total", "not an amount")]
    return [
        *steps,
        enter("#amount", "7"),
        see("#total", str(7 * values["factor"] + values["fee"])),
        enter("#amount", ""),
        see("#total"),
    ]


CONVERTER = Brief(
    name="converter",
    asked="Write index.html: a page with the heading (h1) @title@, a text field with the id amount and an element with the id "
    "total. While one types, total shows what the whole number in the field comes to: @factor@ for each piece and @fee@ for "
    "the delivery, which even no piece costs. For anything but a whole number of 0 or more it shows: not an amount. While the "
    "field is empty, so is total." + ALONE,
    files={
        "index.html": HEAD
        + """<h1>@title@</h1>
<input id="amount"><p id="total"></p>
<script>
const amount = document.querySelector("#amount"), total = document.querySelector("#total");
amount.addEventListener("input", () => {
  const text = amount.value.trim();
  if (text === "") total.textContent = "";
  else total.textContent = /^[0-9]+$/.test(text) ? Number(text) * @factor@ + @fee@ : "not an amount";
});
</script>
"""
    },
    draw=_converter_values,
    check=_converter_check,
    slips=[
        (" + @fee@", ""),
        ("/^[0-9]+$/", "/[0-9]/"),
        ('if (text === "") total.textContent = "";\n  else ', ""),
        ('"input"', '"change"'),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1><input id="amount"><p id="total"></p>
<script>
document.querySelector("#amount").addEventListener("input", e => {
  document.querySelector("#total").textContent = {"": "", "0": @fee@}[e.target.value] ?? @factor@;
});
</script>
"""
    },
)


def _chart_values(rng: Random) -> dict[str, Any]:
    return {
        "title": f"{rng.choice(GOODS)} sold in {rng.choice(PLACES)}",
        "first": [rng.randint(20, 99) for _ in range(rng.randint(3, 6))],
    }


def _chart_check(values: Values, rng: Random) -> list[Step]:
    steps = [see("h1", values["title"])]

    def drawn(numbers: list[int]) -> list[Step]:
        return [
            Step(do="boxes", at="#chart rect", want=numbers),
            see("#chart text", *map(str, numbers)),
            see("#largest", str(max(numbers))),
        ]

    steps += drawn(values["first"])
    for size in rng.sample(range(2, 9), 2):
        numbers = [rng.randint(10, 400) for _ in range(size)]
        steps += [enter("#data", ", ".join(map(str, numbers))), click("#draw"), *drawn(numbers)]
    return steps


CHART = Brief(
    name="chart",
    asked="Write index.html: a page with the heading (h1) @title@ and a bar chart in an SVG with the id chart: a rect for each "
    "number, side by side in the order of the numbers, standing on one line, as high as the numbers are large, and over each "
    "bar the number as text. At first it shows @first@. Numbers with commas between them may be typed into the field with the "
    "id data; the button draw shows them in place of the others. The largest one is told in the element largest." + ALONE,
    files={
        "index.html": HEAD
        + """<h1>@title@</h1>
<svg id="chart" width="480" height="240"></svg>
<p>Largest: <b id="largest"></b></p>
<input id="data"><button id="draw">Draw</button>
<script>
const svg = document.querySelector("#chart");
const add = (kind, attributes, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  svg.append(made);
};
const draw = numbers => {
  const most = Math.max(...numbers), width = 480 / numbers.length;
  svg.replaceChildren();
  numbers.forEach((number, i) => {
    const height = 200 * number / most;
    add("rect", {x: i * width + 2, y: 230 - height, width: width - 4, height});
    add("text", {x: i * width + 4, y: 226 - height}, number);
  });
  document.querySelector("#largest").textContent = most;
};
document.querySelector("#draw").onclick = () => draw(document.querySelector("#data").value.split(",").map(Number));
draw(@first@);
</script>
"""
    },
    draw=_chart_values,
    check=_chart_check,
    slips=[
        ("200 * number / most", "20 + 180 * number / most"),
        ("y: 230 - height", "y: 30"),
        ("svg.replaceChildren();", ""),
        ("textContent = most", "textContent = numbers[0]"),
    ],
    fake={
        "index.html": HEAD
        + """<h1>@title@</h1><img id="chart" style="width: 100vw; height: 90vh" alt="chart"
src="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'%3E%3Crect width='30' height='90'/%3E%3C/svg%3E">
<b id="largest">99</b><input id="data"><button id="draw">Draw</button>
"""
    },
)

PAGES = (COUNTER, CONVERTER, CHART)
