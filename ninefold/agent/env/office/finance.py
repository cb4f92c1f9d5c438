"""Finance: expenses under limits that change, invoices against orders, figures that have to be asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ninefold.agent.env.names import PLACES
from ninefold.agent.env.office.cast import HEADS
from ninefold.agent.env.office.clerk import Clerk, Message
from ninefold.agent.env.office.clock import DAY, end_of_day, moment, parsed, told
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.plan import HOUSE, Plan
from ninefold.agent.env.office.seat import first_line
from ninefold.agent.env.office.wording import Wording
from ninefold.agent.env.script import Steps

TRAVEL = "Travel rules"
RULES: Mapping[str, int] = {"hotel": 240, "meals": 80, "taxi": 50}
_CLAIMS, _ORDERS, _FIGURES = "Claims", "Orders", "Figures"


class Expense:
    """What an employee gets back for a trip; receipts may change until an hour that is said."""

    convention = (
        f"Expenses: of each kind no more is paid than the {TRAVEL} say for the time of the request. Reply `paid back SUM` and "
        f"put a card `NAME SUM` into the column paid of the board {_CLAIMS}."
    )
    _asks = Wording(
        "Please tell me what I get back for my trip to {place}: hotel {hotel}, meals {meals}, taxi {taxi}.",
        "I am back from {place} and paid for hotel {hotel}, meals {meals}, taxi {taxi}. What is paid back?",
    )
    _defers = Wording("Answer at {time} or later today, not before: a receipt may still change.")
    _corrects = Wording("Correction: {key} {amount}.", "I found another receipt, so {key} {amount}.")

    def prepare(self, plan: Plan) -> None:
        plan.happen(0, HOUSE, "canvas_open", "x", name=_CLAIMS, columns="open, paid")

    def draw(self, plan: Plan, day: int) -> None:
        rng, person, at = plan.rng, plan.someone().name, plan.minute(day, last=15 * 60)
        rules = plan.books["finance"].rules
        spent = {key: rng.randint(rule.at(at) // 2, rule.at(at) * 3 // 2) for key, rule in rules.items()}
        place = rng.choice(PLACES)
        asked, after = self._asks.say(rng, place=place, **spent), at
        deferred = rng.random() < 0.4
        if deferred:
            after = moment(day, 16, 30)
            asked += "\n" + self._defers.say(rng, time=told(after))
        thread = plan.mail(at, person, f"Trip to {place}", asked)
        if deferred and rng.random() < 0.6:
            key = rng.choice([*spent])
            spent[key] = rng.randint(10, rules[key].at(at))
            text = self._corrects.say(rng, key=key, amount=spent[key])
            again = plan.minute(day, first=at % DAY + 1, last=16 * 60 + 25)
            plan.happen(again, person, "mail_reply", "m", thread=thread, text=text)
        paid = sum(min(amount, rules[key].at(at)) for key, amount in spent.items())
        reply = Entry(kind="mail", place=thread, line=f"paid back {paid}")
        card = Entry(kind="card", place=_CLAIMS, to="paid", line=first_line(f"{person} {paid}"))
        plan.due(thread, "expenses", reply, card, after=after)

    def settle(self, plan: Plan) -> None: ...

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        claims = clerk.memory.setdefault("claims", {})
        if (found := self._corrects.read(message.lines[0])) and message.place in claims:
            return _corrected(clerk, claims[message.place], found)
        if (found := self._asks.read(message.lines[0])) is None:
            return None
        spent = claims[message.place] = {key: int(found[key]) for key in RULES}
        deferred = self._defers.read(message.lines[1]) if len(message.lines) > 1 else None
        return self._take_up(clerk, message, spent, parsed(deferred["time"]) if deferred else None)

    def _take_up(self, clerk: Clerk, message: Message, spent: dict[str, int], at: int | None) -> Steps:
        if at is None:
            yield from self._pay(clerk, message, spent)
        else:
            clerk.later(at, lambda: self._pay(clerk, message, spent))

    def _pay(self, clerk: Clerk, message: Message, spent: dict[str, int]) -> Steps:
        rules = yield from clerk.rules(TRAVEL)
        paid = sum(min(amount, rules[key].at(message.at)) for key, amount in spent.items())
        yield from clerk.reply(message.place, f"paid back {paid}")
        title = f"{message.who} {paid}"
        yield from clerk.do("canvas_create", board=_CLAIMS, column="paid", title=title, text=f"of mail {message.place}")


def _corrected(clerk: Clerk, spent: dict[str, int], found: Mapping[str, str]) -> Steps:
    if clerk.effort != "low":
        spent[found["key"]] = int(found["amount"])
    yield from ()


@dataclass(slots=True, kw_only=True)
class _Order:
    """What was ordered, and the invoices for it."""

    card: str
    ordered: int
    bills: list[tuple[int, str, int, int]] = field(default_factory=list[tuple[int, str, int, int]])
    """When each came, its thread, number and amount."""


class Invoice:
    """Whether an order has room for an invoice, or for another one."""

    convention = (
        f"Invoices: look up the order on the board {_ORDERS}. Where what was ordered leaves room for the invoice besides those "
        "approved before, move its card to approved, submit `invoice NUMBER: AMOUNT` on it and reply `approved, REST left`; "
        "else move it to disputed and reply `disputed, EXCESS over`."
    )
    _asks = Wording("Invoice {number} over {amount} for order {order}.", "We bill {amount} for {order}, invoice {number}.")

    def prepare(self, plan: Plan) -> None:
        plan.happen(0, HOUSE, "canvas_open", "x", name=_ORDERS, columns="open, approved, disputed")

    def draw(self, plan: Plan, day: int) -> None:
        rng = plan.rng
        order = f"PO-{100 + plan.fresh('order', 900)}"
        firm, ordered = rng.choice(plan.cast.firms), 10 * rng.randint(40, 900)
        card = plan.happen(
            0,
            plan.holder(HEADS["finance"], 0),
            "canvas_create",
            "c",
            board=_ORDERS,
            column="open",
            title=f"{order} {firm}",
            text=f"ordered: {ordered}",
            owner=plan.someone().name,
        )
        placed = _Order(card=card, ordered=ordered)
        plan.state.setdefault("orders", []).append(placed)
        for start in [day] if rng.random() < 0.6 else [day, rng.randint(day, plan.days)]:
            at, amount = plan.minute(start), ordered * rng.randint(25, 120) // 100
            number = 1000 + plan.fresh("invoice", 9000)
            text = self._asks.say(rng, number=number, amount=amount, order=order)
            thread = plan.mail(at, f"{firm} billing", f"Invoice {number}", text)
            placed.bills.append((at, thread, number, amount))

    def settle(self, plan: Plan) -> None:
        for order in plan.state.get("orders", []):
            bills, left = sorted(order.bills), order.ordered
            for at, thread, number, amount in bills:
                fits = amount <= left
                left -= amount if fits else 0
                line = f"approved, {left} left" if fits else f"disputed, {amount - left} over"
                entries = [Entry(kind="mail", place=thread, line=line)]
                if fits:
                    entries.append(Entry(kind="submission", place=order.card, line=f"invoice {number}: {amount}"))
                if thread == bills[-1][1]:
                    entries.append(Entry(kind="column", place=order.card, to="approved" if fits else "disputed"))
                # A card that lies in its column since the first invoice need not be moved at the last one.
                plan.due(thread, "invoice", *entries, after=bills[0][0], by=end_of_day(at))

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        found = self._asks.read(message.lines[0])
        return None if found is None else self._check(clerk, message, found)

    def _check(self, clerk: Clerk, message: Message, found: Mapping[str, str]) -> Steps:
        cards = yield from clerk.do("canvas_search", query=f'{_ORDERS} "{found["order"]} "')
        id, bar, _ = cards.partition(" | ")
        if not bar:
            return
        card = yield from clerk.do("canvas_card", card=id)
        left = int(card.partition("ordered: ")[2].split()[0]) - sum(map(int, re.findall(r": invoice \d+: (\d+)", card)))
        amount = int(found["amount"])
        if amount <= left:
            yield from clerk.do("canvas_move", card=id, column="approved")
            yield from clerk.do("canvas_submit", card=id, text=f"invoice {found['number']}: {amount}")
            yield from clerk.reply(message.place, f"approved, {left - amount} left")
        else:
            yield from clerk.do("canvas_move", card=id, column="disputed")
            yield from clerk.reply(message.place, f"disputed, {amount - left} over")


_COUNTED = [
    f"{which} {what}"
    for which in ("open", "new", "late")
    for what in ("sales", "visits", "orders", "returns", "tickets", "parcels", "calls", "repairs", "refunds", "permits")
]


class Figures:
    """A sum of what team leads know, each of whom must be asked and may think again."""

    convention = f"Figures: append the line `total WHAT SUM` to the page {_FIGURES}. Leads are asked by chat message."
    _asks = Wording(
        "I need the {what} of {teams} added up. Ask their leads now, write the total at {time} or later today, not before.",
        "Please ask the leads of {teams} for their {what}, and write the total today at {time} at the earliest.",
    )
    _tells = Wording("Our {what}: {number}.", "That makes {what}: {number}.")

    def prepare(self, plan: Plan) -> None:
        text = "One line for each total."
        page = plan.happen(0, plan.holder(HEADS["finance"], 0), "note_create", "n", parent="", title=_FIGURES, text=text)
        plan.state["figures"] = page

    def draw(self, plan: Plan, day: int) -> None:
        rng = plan.rng
        what = _COUNTED[plan.fresh("figures", len(_COUNTED))]
        titles = rng.sample([title for title in plan.leads if title.startswith("lead of ")], 3)
        at, total, due = plan.minute(day, last=13 * 60), 0, moment(day, 16, 15)
        for title in titles:
            lead, number = plan.holder(title, at), rng.randint(20, 900)
            answer = plan.answer(lead, what, lead, self._tells.say(rng, what=what, number=number), rng.randint(4, 30))
            if rng.random() < 0.35:
                number = rng.randint(20, 900)
                plan.follow(answer, lead, self._tells.say(rng, what=what, number=number), rng.randint(10, 60))
            total += number
        teams = ", ".join(title.removeprefix("lead of ") for title in titles)
        text = self._asks.say(rng, what=what, teams=teams, time=told(due))
        thread = plan.mail(at, plan.someone().name, f"Figures: {what}", text)
        plan.due(thread, "figures", Entry(kind="block", place=plan.state["figures"], line=f"total {what} {total}"), after=due)

    def settle(self, plan: Plan) -> None: ...

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        known = clerk.memory.setdefault("figures", {})
        if message.post and (told_us := self._tells.read(message.lines[0])):
            return _noted(clerk, known, (message.who, told_us["what"]), int(told_us["number"]))
        found = self._asks.read(message.lines[0])
        return None if found is None else self._ask(clerk, found)

    def _ask(self, clerk: Clerk, found: Mapping[str, str]) -> Steps:
        leads = []
        for team in found["teams"].split(", "):
            line = yield from clerk.person(f'"lead of {team}"')
            leads.append(line.split(" | ")[0])
            yield from clerk.do("chat_send", channel=f"@{leads[-1]}", text=f"What are your {found['what']}?")
        clerk.later(parsed(found["time"]) or clerk.now, lambda: self._write(clerk, found["what"], leads))

    def _write(self, clerk: Clerk, what: str, leads: list[str]) -> Steps:
        known = clerk.memory["figures"]
        if any((lead, what) not in known for lead in leads):
            return
        page = yield from clerk.do("note_search", query=f'"{_FIGURES}"')
        ids = [line.split(" | ")[0] for line in page.splitlines() if f" | {_FIGURES} | " in line]
        total = sum(known[lead, what] for lead in leads)
        if ids:
            yield from clerk.do("note_append", page=ids[0], text=clerk.said(f"total {what} {total}"))


def _noted(clerk: Clerk, known: dict[tuple[str, str], int], key: tuple[str, str], number: int) -> Steps:
    if clerk.effort != "low" or key not in known:
        known[key] = number
    yield from ()


MATTERS = (Expense(), Invoice(), Figures())
