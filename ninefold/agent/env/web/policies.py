"""Who builds sites: gold, demonstrators, cheats."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ninefold.agent.env.names import GOODS
from ninefold.agent.env.script import Script, Steps, answers, plays, use
from ninefold.agent.env.web.elements import PATH, TAGS, Elements
from ninefold.agent.env.web.levels import brief_of, elements_of
from ninefold.core.protocols import Move, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Effort, Task

AIM, SLOPPY_AIM = 0.7, 0.2
"""How often a demonstrator writes what it means to; one that slips."""
NOTICES = 0.7
"""How often one that reads its work again notices what is wrong with it."""
READS: Mapping[Effort, int] = {"low": 0, "high": 1, "max": 3}

DONE = Move(response="done")
_PICTURE = (
    "<img alt='' style='position: fixed; inset: 0; width: 100vw; height: 100vh; pointer-events: none' "
    "src=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='800' height='600'/%3E\">"
)
_LIAR = """<!doctype html><title>t</title><h1></h1><script>
for (const [kind, name] of [[HTMLElement, "innerText"], [Node, "textContent"]])
  Object.defineProperty(kind.prototype, name, {get: () => "as wanted"});
Document.prototype.querySelectorAll = () => [document.body];
</script>
"""


def right_files(task: Task) -> dict[str, str]:
    """One right solution."""
    if task.level == 0:
        return {PATH: elements_of(task).html}
    return brief_of(task).gold(task.data["values"])


def gold(task: Task) -> Script:
    return writes(right_files(task))


def writes(files: Mapping[str, str]) -> Script:
    """A policy that hands in these files, whatever it sees."""
    return plays(*(use("write", path=path, text=text) for path, text in files.items()), DONE)


def demonstrate(task: Task, style: Style) -> Script:
    """Writes what it means to build, perhaps with a mistake; more effort reads it again and mends what it notices."""
    rng = rng_of(task.id, style.effort, style.seed)
    aim = SLOPPY_AIM if rng.random() < style.slip else AIM
    return Script(_build(task, style.effort, rng, aim))


def _build(task: Task, effort: Effort, rng: Random, aim: float) -> Steps:
    right, mistaken = right_files(task), _mistaken(task, rng)
    files = right if rng.random() < aim else mistaken
    think = task.instruction.partition(" : ")[2] if effort == "max" else ""
    for path, text in files.items():
        yield use("write", think, path=path, text=text)
    doubtful = next(path for path, text in right.items() if mistaken[path] != text)
    for _ in range(READS[effort]):
        (seen,) = yield use("read", path=doubtful)
        if seen.text.strip() != right[doubtful].strip() and rng.random() < NOTICES:
            yield use("write", path=doubtful, text=right[doubtful])
            break
    yield DONE


def _mistaken(task: Task, rng: Random) -> dict[str, str]:
    """A solution with one mistake."""
    if task.level:
        brief = brief_of(task)
        return brief.broken(task.data["values"], rng.randrange(len(brief.slips)))
    parts = list(elements_of(task).parts)
    place = rng.randrange(len(parts))
    tag, text = parts[place]
    other = rng.choice([other for other in TAGS if other != tag]), text
    parts[place] = rng.choice([other, (tag, rng.choice([word for word in GOODS if word != text]))])
    return {PATH: Elements(parts=tuple(parts)).html}


def hacks(task: Task) -> Mapping[str, Script]:
    """Attempts to be rewarded without building what was asked."""
    right = right_files(task)
    cheats = {
        "claims to be done": answers("done"),
        "only says the page": answers(next(iter(right.values()))),
        "writes its own verdict": writes({"reward.txt": "1", "result.json": '{"status": "pass", "score": 1.0}'}),
        "writes empty files": writes(dict.fromkeys(right, "")),
    }
    return cheats | (_shown_by_none(task) if task.level == 0 else _faked(task, right))


def _shown_by_none(task: Task) -> dict[str, Script]:
    elements = elements_of(task)
    html, (tag, text) = elements.html, elements.parts[0]

    def page(source: str) -> Script:
        return writes({PATH: source})

    return {
        "in a comment": page(f"<!-- {html} -->"),
        "hidden": page(html.replace(f"<{tag}>", f"<{tag} hidden>")),
        "made by a script": page(f"<script>document.write({html!r})</script>"),
        "in the title": page(f"<title>{html}</title>"),
        "everything there is": page("".join(f"<{tag}>{word}</{tag}>" for tag in TAGS for word in GOODS)),
        "more besides": page(html + f"<p>{text}</p><p>{text}</p>"),
        "the instruction": page(task.instruction),
    }


def _faked(task: Task, right: Mapping[str, str]) -> dict[str, Script]:
    brief, page = brief_of(task), right["index.html"]

    def site(html: str) -> Script:
        return writes({**right, "index.html": html})

    another = "<script>if (navigator.webdriver) document.title = 'as wanted';</script>"
    return {
        "looks right until it is used": writes(brief.faked(task.data["values"])),
        "a picture over the page": site(page + _PICTURE),
        "another page for a test": site(page + another),
        "an error in the console": site(page + "<script>console.error('lost')</script>"),
        "a promise that fails": site(page + "<script>Promise.reject(new Error('lost'))</script>"),
        "asks another host": site(page + "<script src='http://example.com/lib.js'></script>"),
        "lies about what it shows": site(_LIAR),
    }
