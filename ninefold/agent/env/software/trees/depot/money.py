"""Whole cents."""


def share(amount: int, percent: int) -> int:
    """So many percent of an amount, rounded to whole cents, halves up."""
    return (amount * percent + 50) // 100


def split(total: int, parts: int) -> list[int]:
    """A total as whole parts that differ by one at most, the larger ones first."""
    each, rest = divmod(total, parts)
    return [each + 1] * rest + [each] * (parts - rest)


def spell(cents: int) -> str:
    """An amount in writing: 1205 is "12.05", -7 is "-0.07"."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
