"""Legal: drafts against a playbook that changes, conflict checks in a register that grows, holds on mail."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ninefold.agent.env.office.cast import HEADS, PROJECTS
from ninefold.agent.env.office.clerk import Clerk, Message
from ninefold.agent.env.office.clock import day_of, moment
from ninefold.agent.env.office.entry import Entry
from ninefold.agent.env.office.plan import HOUSE, Plan
from ninefold.agent.env.office.rules import Rule
from ninefold.agent.env.office.seat import first_line
from ninefold.agent.env.office.wording import Wording, prose
from ninefold.agent.env.script import Steps

PLAYBOOK = "Contract playbook"
RULES: Mapping[str, int] = {
    "liability at least": 24,
    "notice at most": 60,
    "payment at most": 45,
    "term at least": 12,
    "warranty at least": 18,
    "deposit at most": 15,
}
_CONTRACTS, _REGISTER = "Contracts", "Client register"


def _deviations(rules: Mapping[str, Rule], terms: Mapping[str, int], at: int) -> list[str]:
    """Terms that are worse than the playbook has it, in its order."""
    found = []
    for key, rule in rules.items():
        name, _, bound = key.partition(" at ")
        if name in terms and (terms[name] < rule.at(at) if bound == "least" else terms[name] > rule.at(at)):
            found.append(name)
    return found


class Review:
    """Which clauses of a draft deviate from the playbook."""

    convention = (
        f"Drafts of contracts: submit `deviates: CLAUSES` on the firm's card of the board {_CONTRACTS}, the clauses that are "
        f"worse than the {PLAYBOOK} for the time of the request, in its order, separated by commas; move the card to reviewed."
    )
    _asks = Wording("Here is the draft with {firm}: {terms}.", "{firm} has sent a draft, with {terms}. Please review it.")

    def prepare(self, plan: Plan) -> None:
        plan.happen(0, HOUSE, "canvas_open", "x", name=_CONTRACTS, columns="drafts, reviewed")

    def draw(self, plan: Plan, day: int) -> None:
        rng, at = plan.rng, plan.minute(day)
        firm = plan.cast.firms[plan.fresh("contract", len(plan.cast.firms))]
        head = plan.holder(HEADS["legal"], 0)
        due = f"day {day} 18:00"
        title = f"Contract {firm}"
        owner = plan.someone().name
        card = plan.happen(
            0, head, "canvas_create", "c", board=_CONTRACTS, column="drafts", title=title, text="", owner=owner, due=due
        )
        rules = plan.books["legal"].rules
        keys = [key for key in rules if rng.random() < 0.8] or [*rules][:3]
        terms: dict[str, int] = {}
        while not (deviating := _deviations(rules, terms, at)):
            terms = {key.split()[0]: max(1, round(rules[key].at(at) * rng.choice((0.5, 0.8, 1, 1.25, 1.5)))) for key in keys}
        said = [f"{name} {number}" for name, number in terms.items()]
        rng.shuffle(said)
        thread = plan.mail(at, owner, f"Draft {firm}", self._asks.say(rng, firm=firm, terms=", ".join(said)))
        handed_in = Entry(kind="submission", place=card, line=f"deviates: {', '.join(deviating)}")
        plan.due(thread, "draft", handed_in, Entry(kind="column", place=card, to="reviewed"), after=at)

    def settle(self, plan: Plan) -> None: ...

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        found = self._asks.read(message.lines[0])
        return None if found is None or message.post else self._review(clerk, message, found)

    def _review(self, clerk: Clerk, message: Message, found: Mapping[str, str]) -> Steps:
        rules = yield from clerk.rules(PLAYBOOK)
        terms = {name: int(number) for name, number in (term.split() for term in found["terms"].split(", "))}
        cards = yield from clerk.do("canvas_search", query=f'{_CONTRACTS} "{found["firm"]}"')
        id, bar, _ = cards.partition(" | ")
        if not bar:
            return
        text = clerk.said(f"deviates: {', '.join(_deviations(rules, terms, message.at))}")
        yield from clerk.do("canvas_submit", card=id, text=text)
        yield from clerk.do("canvas_move", card=id, column="reviewed")


class Check:
    """Whether the house may act for a client against somebody, who may be a client too."""

    convention = (
        f"Conflict checks: where the other firm is in the {_REGISTER} as well, answer the post in its thread with "
        "`conflict, matter NUMBER`, the other firm's; else with `clear, ask PARTNER`, the client's."
    )
    _asks = Wording("Conflict check, please: {client} against {other}.", "May we act for {client} against {other}?")
    _entry = re.compile(r"\S+: (.+): matter (\d+), (.+)")

    def prepare(self, plan: Plan) -> None:
        """Half of the firms are clients; each night one more may become one."""
        firms = [*plan.cast.firms]
        plan.rng.shuffle(firms)
        head, half = plan.holder(HEADS["legal"], 0), len(firms) // 2
        since: dict[str, tuple[int, int, str]] = {}
        for place, firm in enumerate(firms[: half + plan.days - 1]):
            at = 0 if place < half else moment(place - half + 2, 7, 30)
            since[firm] = at, 100 + plan.fresh("matter", 900), plan.someone().name
        lines = {firm: f"{firm}: matter {number}, {partner}" for firm, (_, number, partner) in since.items()}
        text = "\n".join(line for firm, line in lines.items() if not since[firm][0])
        page = plan.happen(0, head, "note_create", "n", parent="", title=_REGISTER, text=text)
        for firm, (at, _, _) in since.items():
            if at:
                plan.happen(at, head, "note_append", "b", page=page, text=lines[firm])
        plan.state["clients"] = since

    def draw(self, plan: Plan, day: int) -> None:
        rng, at = plan.rng, plan.minute(day)
        clients: dict[str, tuple[int, int, str]] = plan.state["clients"]
        known = [firm for firm, (since, _, _) in clients.items() if since <= at]
        strangers = [firm for firm in plan.cast.firms if firm not in known]
        client = rng.choice(known)
        other = rng.choice([firm for firm in (known if rng.random() < 0.5 else strangers) if firm != client])
        line = f"conflict, matter {clients[other][1]}" if other in known else f"clear, ask {clients[client][2]}"
        text = self._asks.say(rng, client=client, other=other)
        post = plan.happen(at, plan.someone().name, "chat_send", "p", channel="#intake", text=text)
        plan.due(post, "conflict check", Entry(kind="chat", place="#intake", to=post, line=first_line(line)), after=at)

    def settle(self, plan: Plan) -> None: ...

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        found = self._asks.read(message.lines[0])
        return None if found is None or message.place != "#intake" else self._check(clerk, message, found)

    def _check(self, clerk: Clerk, message: Message, found: Mapping[str, str]) -> Steps:
        register = yield from clerk.page(_REGISTER)
        clients = {entry[1]: entry for line in register.splitlines() if (entry := self._entry.fullmatch(line))}
        if (other := clients.get(found["other"])) is not None:
            text = f"conflict, matter {other[2]}"
        elif (client := clients.get(found["client"])) is not None:
            text = f"clear, ask {client[3]}"
        else:
            return
        yield from clerk.do("chat_reply", post=message.post, text=clerk.said(text))


class Hold:
    """Every mail that mentions a project is to be labelled, those too that come until the hold ends."""

    convention = "Holds: label other threads than the request; reply `held NUMBER`, those that there are at the time."
    _asks = Wording(
        "Legal hold: until the end of day {day} put the label {label} on every mail that mentions {project}, old or new.",
        "Whatever mail mentions {project}, already here or to come until the end of day {day}, gets the label {label}.",
    )

    def prepare(self, plan: Plan) -> None: ...

    def draw(self, plan: Plan, day: int) -> None:
        rng, at = plan.rng, plan.minute(day, last=12 * 60)
        project = PROJECTS[plan.fresh("hold", len(PROJECTS))]
        last = rng.randint(day, plan.days)
        label = f"hold-{project.casefold()}"
        before = [self._mention(plan, project, plan.minute(1, 60, 9 * 60)) for _ in range(rng.randint(1, 3))]
        text = self._asks.say(rng, day=last, label=label, project=f"Project {project}")
        head = plan.holder(HEADS["legal"], at)
        request = plan.mail(at, head, "Hold", text)
        labels = [Entry(kind="label", place=thread, line=label) for thread in before]
        plan.due(request, "hold", Entry(kind="mail", place=request, line=f"held {len(before)}"), *labels, after=at)
        for later in range(day, min(plan.days, last + 1) + 1):
            first = 9 * 60 + 5 if later > day else 13 * 60
            came = plan.minute(later, first)
            thread = self._mention(plan, project, came)
            if later <= last:
                plan.due(thread, "mail under hold", Entry(kind="label", place=thread, line=label), after=came)

    def _mention(self, plan: Plan, project: str, at: int) -> str:
        text = f"{prose(plan.rng, 1)} The costs of Project {project} came to {plan.rng.randint(100, 9999)}."
        return plan.mail(at, plan.someone().name, plan.rng.choice(("Minutes", "For the file", "Costs")), text)

    def settle(self, plan: Plan) -> None: ...

    def handle(self, clerk: Clerk, message: Message) -> Steps | None:
        holds: dict[str, tuple[str, int]] = clerk.memory.setdefault("holds", {})
        if message.post:
            return None
        if (found := self._asks.read(message.lines[0])) is not None:
            holds[found["project"]] = found["label"], int(found["day"])
            return self._hold(clerk, message, found)
        mentioned = next((project for project in holds if project in "\n".join(message.lines)), None)
        if mentioned is None or day_of(message.at) > holds[mentioned][1] or clerk.effort == "low":
            return None
        return _label(clerk, message.place, holds[mentioned][0])

    def _hold(self, clerk: Clerk, message: Message, found: Mapping[str, str]) -> Steps:
        seen = yield from clerk.do("mail_search", query=f'"{found["project"]}"')
        threads = {line.split(" | ")[0] for line in seen.splitlines() if " | " in line} - {message.place}
        for thread in sorted(threads):
            yield from clerk.do("mail_label", thread=thread, label=found["label"])
        yield from clerk.reply(message.place, f"held {len(threads)}")


def _label(clerk: Clerk, thread: str, label: str) -> Steps:
    yield from clerk.do("mail_label", thread=thread, label=label)


MATTERS = (Review(), Check(), Hold())
