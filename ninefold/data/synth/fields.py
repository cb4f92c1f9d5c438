"""Where growth begins: predefined coarse concepts by domain, and what is read about them."""

from __future__ import annotations

from collections.abc import Mapping

from ninefold.core.config import Config


class Field(Config):
    """One domain."""

    seeds: tuple[str, ...]
    """Predefined coarse concepts."""
    collections: tuple[str, ...] = ()
    """What is read: packages and folders by name, `wordnet` and `python-doc` for what ships with ninefold; all if empty."""


def _field(seeds: str, *collections: str) -> Field:
    return Field(seeds=tuple(" ".join(seeds.split()).split(", ")), collections=collections)


FIELDS: Mapping[str, Field] = {
    "artificial intelligence": _field(
        "torch, torch.nn, torch.optim, torch.distributions, tensor, gradient, loss",
        "torch",
    ),
    "coding": _field(
        "python, iterator, string, exception, file, thread, protocol, codec",
        "python",
        "python-doc",
    ),
    "mathematics": _field(
        "sympy, mpmath, numpy, matrix, polynomial, number, equation, distribution, set",
        "sympy",
        "mpmath",
        "numpy",
    ),
    "graph theory": _field(
        "networkx, graph, tree, shortest path, clique, matching, flow, community",
        "networkx",
    ),
    "physics": _field(
        """physicist, force, energy, particle, electricity, unit, device, machine, instrument, meter, phenomenon, light,
        sound, wave, star, astronomy, airfoil, power, motion, quantity, rate""",
        "wordnet",
    ),
    "chemistry": _field(
        """chemist, element, compound, acid, alcohol, mineral, drug, substance, salt, oil, material, mixture, fabric,
        reaction, process, alloy, dye, gas, solution, liquid""",
        "wordnet",
    ),
    "biomedicine": _field(
        """disease, disorder, condition, inflammation, muscle, vein, artery, bone, organ, cell, protein, hormone,
        bacteria, virus, surgery, procedure, plant, tree, shrub, herb, grass, fern, fungus, genus, fish, bird, mammal,
        beetle, snake""",
        "wordnet",
    ),
    "humanities": _field(
        """philosopher, writer, poet, painter, singer, actor, music, religion, language, historian, deity, god, law,
        statesman, city, river, region, battle, island, art, dance, theory, belief, style, philosophy""",
        "wordnet",
    ),
}
"""Seeds that the collections of this machine say something of. [ours]"""
