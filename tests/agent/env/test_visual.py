"""Visual tasks: programs see pictures and show them, nothing comes back unread, answers earn what they agree."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from PIL import Image

from ninefold.agent.env.play import play
from ninefold.agent.env.script import Script, answers
from ninefold.agent.env.visual import Visual
from ninefold.agent.env.visual.family import KINDS
from ninefold.agent.env.visual.grounding import boxes
from ninefold.agent.env.visual.picture import SHOWN
from ninefold.agent.env.visual.policies import looking, written
from ninefold.agent.env.visual.puzzles import difference, maze
from ninefold.agent.env.visual.question import LARGEST, SIZES
from ninefold.agent.env.visual.world import VisualWorld
from ninefold.agent.harness.presets import PUBLIC, preset
from ninefold.core.protocols import Observation, SandboxRuntime, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Task
from ninefold.media.png import from_png, to_png
from ninefold.media.scene import draw
from ninefold.media.view import crop

FAMILY = Visual()


@pytest.fixture
def world(isolated: SandboxRuntime):
    world = FAMILY.open(FAMILY.generate("train", 1, 0), seed=0, runtime=isolated)
    yield world
    world.close()


def run(world: VisualWorld, code: str) -> Observation:
    return world.call(Call(tool="code", arguments={"code": code}))


def test_first_views_are_smaller_than_the_files() -> None:
    for level in range(FAMILY.levels):
        for seed in range(6):
            for scene in FAMILY.generate("dev", level, seed).pictures:
                seen, whole = draw(scene), draw(scene["of"])
                assert (seen.width, seen.height) == (whole.width // SIZES[level].shrink, whole.height // SIZES[level].shrink)


def test_every_kind_of_question_is_asked() -> None:
    for level, kinds in enumerate(KINDS):
        tasks = [FAMILY.generate("train", level, seed) for seed in range(40)]
        assert len({task.data["kind"].partition(" ")[0] for task in tasks}) == len(kinds)
        assert all(len(task.data["looks"]) < task.limits.turns for task in tasks)


def test_programs_see_the_files_and_what_they_show_comes_back(world: VisualWorld) -> None:
    whole = draw(world._task.pictures[0]["of"])
    seen = run(world, 'print(load("a.png"))\nshow(load("a.png").crop(3, 5, 40, 30))\nlook("bottom right")')
    assert seen.text == f"Picture {whole.width}x{whole.height}"
    half = whole.width // 2
    closer = (crop(whole, (3, 5, 40, 30)), crop(whole, (half, half, whole.width, whole.height)))
    assert tuple(map(from_png, seen.images)) == closer
    assert run(world, "show(load().zoom(2))").images != seen.images
    assert run(world, "1 + 1") == Observation(text="nothing was shown or printed")
    assert run(world, "show(load().crop(900, 0, 910, 9))").text.startswith("error: ValueError: nothing of")
    assert run(world, "while True: pass").text == "error: timeout"


def test_the_shell_shows_pictures_too(world: VisualWorld) -> None:
    code = "from picture import *; show(load().crop(0, 0, 9, 7)); print(1)"
    seen = world.call(Call(tool="shell", arguments={"command": f"python3 -c '{code}'"}))
    assert seen.text.strip() == "1"
    assert [from_png(image).width for image in seen.images] == [9]


BOMB = Image.new("RGB", (LARGEST + 1, 3))


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"junk", "is no PNG file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no PNG file"),
        (_png(BOMB), f"is {LARGEST + 1}x3; crop or shrink it"),
        (_png(Image.new("RGB", (9, 9)))[:45], "cannot be read"),
        (
            _png(Image.new("RGB", (9, 9))).replace(b"\x00\x00\x00\x09\x00\x00\x00\x09", b"\xff\xff\xff\xff\x00\x00\x00\x09"),
            "crop",
        ),
    ],
)
def test_what_is_no_picture_is_told_and_not_decoded(world: VisualWorld, data: bytes, problem: str) -> None:
    seen = run(world, f'import os\nos.makedirs("shown", exist_ok=True)\nopen("shown/1.png", "wb").write({data!r})')
    assert problem in seen.text
    assert seen.images == ()


def test_few_pictures_come_back_at_once(world: VisualWorld) -> None:
    seen = run(world, f"for n in range({SHOWN + 1}): show(load().crop(n, 0, n + 5, 5))")
    assert len(seen.images) == SHOWN
    assert "a program may show" in seen.text
    link = run(world, 'import os, shutil\nshutil.rmtree("shown")\nos.mkdir("shown")\nos.symlink("/etc/passwd", "shown/1.png")')
    assert link.images == ()
    assert "root" not in link.text


def test_a_world_that_was_saved_keeps_files_and_shows_no_picture_twice(isolated: SandboxRuntime, world: VisualWorld) -> None:
    first = run(world, 'load().crop(0, 0, 8, 8).save("mine.png")\nlook("top left")')
    again = FAMILY.restore(world._task, world.save(), runtime=isolated)
    assert len(first.images) == 1
    assert run(again, "print(load('mine.png').width)") == Observation(text="8")
    assert len(run(again, "show(load('mine.png'))").images) == 1
    again.close()


def test_harnesses_show_regions_by_their_own_tools(isolated: SandboxRuntime, world: VisualWorld) -> None:
    region = {"x": 4, "y": 6, "width": 20, "height": 10}
    tools = [tool for tool in FAMILY.tools if tool.name in world._task.tools]
    whole = draw(world._task.pictures[0]["of"])
    kimi = preset("kimi_code")
    call = kimi.to_world(Call(tool="ReadMediaFile", arguments={"path": "a.png", "region": region}), tools)
    (image,) = world.call(call).images
    assert from_png(image) == crop(whole, (4, 6, 24, 16))
    ways = {
        name: [schema["function"]["name"] for schema in harness.schemas(tools)]
        for name, harness in zip(PUBLIC, map(preset, PUBLIC))
    }
    assert len(ways) == 7
    assert all(names for names in ways.values()), ways
    assert {"ReadMediaFile", "code"} <= set(ways["kimi_code"])
    assert "view_image" in ways["codex"]
    assert {"vision_analyze", "execute_code"} <= set(ways["hermes"])
    big = draw({"kind": "drawing", "width": LARGEST + 8, "height": 8, "marks": []})
    world._opened().sandbox.write("big.png", to_png(big))
    assert "too large" in world.call(Call(tool="media", arguments={"path": "big.png"})).text


@pytest.mark.parametrize("level", [0, 1, 2, 3, pytest.param(4, marks=pytest.mark.full)])
def test_whoever_makes_every_look_sees_the_answer(isolated: SandboxRuntime, level: int) -> None:
    tasks = {task.data["kind"]: task for task in (FAMILY.generate("dev", level, seed) for seed in range(40))}
    for task in tasks.values():
        policy = FAMILY.demonstrate(task, Style(effort="max", seed=0))
        result, final = play(FAMILY, task, policy, 0, isolated)
        assert (result.status, result.score) == ("pass", 1.0), (task.id, task.data["kind"], final)


def accuracy(task: Task, runtime: SandboxRuntime, operations: int, tries: int) -> float:
    """Share of full marks among demonstrators who look so often."""
    passed = 0
    for seed in range(tries):
        policy = Script(looking(task, rng_of(task.id, seed), operations))
        passed += play(FAMILY, task, policy, 0, runtime)[0].status == "pass"
    return passed / tries


def test_looking_more_often_pays(isolated: SandboxRuntime) -> None:
    task = next(t for seed in range(99) if (t := FAMILY.generate("dev", 3, seed)).data["kind"] == "maze")
    few, all_of_them = accuracy(task, isolated, 0, 30), accuracy(task, isolated, 99, 2)
    assert all_of_them == 1.0
    assert few < 0.7


def task_of(form: str, level: int) -> Task:
    return next(t for seed in range(99) if (t := FAMILY.generate("dev", level, seed)).data["form"] == form)


def score(task: Task, answer: object) -> tuple[str, float]:
    result, _ = play(FAMILY, task, answers(written(task.data["form"], answer)))
    return result.status, result.score


def test_near_boxes_earn_their_overlap() -> None:
    task = task_of("boxes", 2)
    wanted = task.data["answer"]
    shifted = [[left + 1, top, right + 1, bottom] for left, top, right, bottom in wanted]
    status, near = score(task, shifted)
    assert 0.8 < near < 1.0
    assert (status == "pass") == (near >= 0.9)
    status, some = score(task, wanted[:-1])
    assert status == "fail"
    assert some == pytest.approx(2 * (len(wanted) - 1) / (2 * len(wanted) - 1))
    assert score(task, wanted[::-1]) == ("pass", 1.0)
    assert score(task, [[0, 0, 320, 320]]) == ("fail", 0.0)


def test_texts_and_numbers_earn_their_nearness() -> None:
    task = task_of("text", 1)
    right = task.data["answer"]
    assert score(task, right.lower()) == ("pass", 1.0)
    assert score(task, right[:-1] + "#")[1] == pytest.approx(1 - 1 / len(right))
    assert score(task, right + " " + right) == ("fail", 0.0)
    task = task_of("number", 1)
    value, off = task.data["answer"], task.data["off"]
    assert score(task, value) == ("pass", 1.0)
    assert score(task, value + 1)[1] == pytest.approx(1 - 1 / off if 1 - 1 / off > 0.5 else 0.0)
    assert score(replace(task, data={**task.data, "answer": value + round(off)}), value) == ("fail", 0.0)


@pytest.mark.parametrize(
    "answer", ["[[1, 2]]", "[[1, 2, 3, NaN]]", "[[1, 2, 3, 1e999]]", "[" * 4_000, "[]", "[[true, 1, 2, 3]]", "{}"]
)
def test_no_other_form_is_an_answer(answer: str) -> None:
    task = task_of("boxes", 2)
    result = FAMILY.verify(task, {"response": answer})
    assert (result.status, result.score) == ("fail", 0.0)


def test_outlines_are_drawn_and_compared() -> None:
    task = task_of("polygon", 2)
    corners = task.data["answer"]
    assert score(task, corners[3:] + corners[:3]) == ("pass", 1.0)
    middle = np.mean(corners, axis=0)
    smaller = [[round(x + 0.1 * (middle[0] - x), 1), round(y + 0.1 * (middle[1] - y), 1)] for x, y in corners]
    assert 0.5 < score(task, smaller)[1] < 1.0
    assert json.loads(json.dumps(task.data["answer"])) == corners


def test_a_maze_leads_where_it_says() -> None:
    """Flooded from the red square, the way reaches the side of the answer's exit and no other."""
    for question in (maze(Random(seed), 3) for seed in range(2)):
        pixels = draw(question.scenes[0]).pixels_HWC.astype(int)
        black = pixels.sum(-1) == 0
        first, last = np.argwhere(black).min(), np.argwhere(black).max()
        free = {(y, x) for y, x in np.argwhere(~black).tolist() if first <= min(y, x) and max(y, x) <= last}
        edge = [tuple(np.argwhere((pixels == (220, 30, 30)).all(-1))[0].tolist())]
        sides: set[str] = set()
        while edge:
            y, x = edge.pop()
            if (y, x) in free:
                free.remove((y, x))
                sides |= {letter for letter, at in zip("ADBC", (y - first, x - first, last - x, last - y)) if at == 0}
                edge += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
        assert sides == {question.answer}


def test_boxes_and_points_lie_where_the_things_are() -> None:
    for seed in range(6):
        question = boxes(Random(seed), 2)
        pixels = draw(question.scenes[0]).pixels_HWC
        for left, top, right, bottom in question.answer:
            inked = np.argwhere((pixels[top - 1 : bottom + 1, left - 1 : right + 1] != 255).any(-1))
            assert (inked.min(0) == 1).all()
            assert tuple(inked.max(0)) == (bottom - top, right - left)
        question = difference(Random(seed), 3)
        changed = (draw(question.scenes[0]).pixels_HWC != draw(question.scenes[1]).pixels_HWC).any(-1)
        near = np.zeros_like(changed)
        for x, y in question.answer:
            near[y - 6 : y + 6, x - 6 : x + 6] = True
            assert changed[y - 6 : y + 6, x - 6 : x + 6].any()
        assert not (changed & ~near).any()
