"""Does it pay to look more often? Visual tasks played with 0, 1, 2, … image operations allowed.

    python bench/visual.py --tasks 24

The scripted demonstrator of the family makes at most so many of the looks that show the answer, in the sandbox, and guesses
the rest from the first view; at 99 it makes all of them. The figures are full marks and mean scores of the same held-out tasks
by operations and level; the baseline is the first view alone. `ok` says that full marks and score rise with every doubling over
all levels, and that all looks together give full marks. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from itertools import pairwise

from ninefold.agent.env import family
from ninefold.agent.env.play import play, runtime_for
from ninefold.agent.env.script import Script
from ninefold.agent.env.visual.policies import looking
from ninefold.core.seeds import rng_of

OPERATIONS = (0, 1, 2, 4, 99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=24, help="of each level")
    given = parser.parse_args()
    visual = family("visual")
    passed: dict[tuple[int, int], list[bool]] = defaultdict(list)
    scores: dict[tuple[int, int], list[float]] = defaultdict(list)
    with runtime_for(visual) as runtime:
        for level in range(visual.levels):
            for seed in range(given.tasks):
                task = visual.generate("heldout", level, seed)
                for operations in OPERATIONS:
                    policy = Script(looking(task, rng_of("bench", task.id, operations), operations))
                    result, _ = play(visual, task, policy, seed, runtime)
                    passed[level, operations].append(result.status == "pass")
                    scores[level, operations].append(result.score)
            told = [sum(passed[level, operations]) / given.tasks for operations in OPERATIONS]
            print(f"level {level}: full marks {' '.join(f'{share:.2f}' for share in told)}", file=sys.stderr)
    count = visual.levels * given.tasks
    marks = [sum(sum(passed[level, n]) for level in range(visual.levels)) / count for n in OPERATIONS]
    means = [sum(sum(scores[level, n]) for level in range(visual.levels)) / count for n in OPERATIONS]
    print(f"{'operations':<14}" + "".join(f"{n:>8}" for n in OPERATIONS))
    print(f"{'full marks':<14}" + "".join(f"{share:>8.3f}" for share in marks))
    print(f"{'mean score':<14}" + "".join(f"{mean:>8.3f}" for mean in means))
    rising = all(a < b for series in (marks, means) for a, b in pairwise(series))
    figures = {
        "operations": OPERATIONS,
        "full_marks": marks,
        "mean_score": means,
        "by_level": [[sum(passed[level, n]) / given.tasks for n in OPERATIONS] for level in range(visual.levels)],
        "tasks": count,
    }
    against = {"first view alone": marks[0]}
    print(json.dumps({"bench": "visual", "figures": figures, "against": against, "ok": rising and marks[-1] == 1.0}))


if __name__ == "__main__":
    main()
