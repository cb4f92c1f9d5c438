"""The agent loop as a state machine: it says what to generate next, takes what was generated, and is data in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from ninefold.agent.effort.budget import spend
from ninefold.agent.harness.compaction import Compaction
from ninefold.agent.harness.compose import ERROR, AnyHarness, compose
from ninefold.agent.harness.context import Exchange
from ninefold.agent.harness.delegation import TOOLS, prompts
from ninefold.agent.harness.progress import Progress
from ninefold.agent.harness.prompt import pictures, shown
from ninefold.agent.harness.rules import key_of
from ninefold.agent.harness.transcript import Transcript
from ninefold.chat.messages import call_id
from ninefold.core.errors import NinefoldError, SandboxError, boundary
from ninefold.core.packed import (
    as_bytes,
    call_of,
    call_record,
    observation_of,
    observation_record,
    pack,
    picture_arrays,
    pictures_of,
    rows_of,
    rows_record,
    slot_of,
    slot_record,
    trajectory_of,
    trajectory_record,
    unpack,
)
from ninefold.core.picture import Picture
from ninefold.core.protocols import (
    ChatFormat,
    Completion,
    Family,
    Message,
    Observation,
    ParsedMessage,
    Request,
    SandboxRuntime,
    Tool,
    World,
    offered,
)
from ninefold.core.seeds import seed_of
from ninefold.core.types import Call, Result, Row, Segment, Slot, StopReason, Trajectory, Turn
from ninefold.media.png import from_png


class Episode:
    """One attempt at a task. Alternate `request` and `accept` until `done`; then `final`, a verifier, and `conclude`.

    A paused message stays open: the next request goes on from the ids so far. Truncated episodes (tokens, context, turns)
    are judged by the state that the world was left in, without a response unless a whole message gave one.

    A call that begins sub-agents is executed by episodes of their own in the same world, one after the other: until they are
    done, requests and completions are theirs.
    """

    def __init__(
        self,
        *,
        slot: Slot,
        family: Family,
        harness: AnyHarness,
        chat: ChatFormat,
        world: World | None = None,
        transcript: Transcript | None = None,
        progress: Progress | None = None,
        exchanges: Sequence[Exchange] = (),
        pictures: Iterable[Picture] = (),
        begun_by: Episode | None = None,
    ) -> None:
        self.slot = slot
        self.family = family
        self.harness = harness
        self.chat = chat
        self.tools: tuple[Tool, ...] = offered(family, slot.task)
        self.observations: tuple[Observation, ...] = ()
        """What the last message's calls returned, those that were executed."""
        self._world = world if begun_by is None else begun_by._world
        self._begun_by = begun_by
        self._agent: Episode | None = None
        """The sub-agent at work."""
        self._agents: list[Trajectory] = []
        """Of the sub-agents that are done."""
        self._reports: list[str] = []
        """Of those of the call that is executed."""
        self._transcript = transcript or Transcript()
        self._progress = progress or Progress()
        self._exchanges = list(exchanges)
        self._pictures = {picture.hash: picture for picture in pictures}
        """Hash → every picture that was shown."""

    @staticmethod
    def start(
        slot: Slot,
        *,
        family: Family,
        harness: AnyHarness,
        chat: ChatFormat,
        runtime: SandboxRuntime | None = None,
        prompt: Sequence[Segment] | None = None,
        trouble: str = "",
    ) -> Episode:
        """A fresh episode with its world open; one whose world cannot be opened is done at once, as invalid.

        `prompt` is that of another sample of the group, where there is one, so that it is not rendered again. With `trouble`
        it is not even tried, for that reason.
        """
        episode = Episode(slot=slot, family=family, harness=harness, chat=chat, pictures=pictures(slot.task))
        with boundary(SandboxError, f"opening {slot.task.id}", catch=episode._break):
            if trouble:
                raise SandboxError(trouble)
            episode._world = family.open(slot.task, seed=slot.seed, runtime=runtime)
        opening = harness.messages(slot.task)
        if prompt is None:
            prompt = chat.open(opening, tools=harness.schemas(episode.tools), effort=slot.effort)
        episode._begin_row(prompt, len(opening), ())
        episode._check_limits()
        return episode

    @property
    def done(self) -> bool:
        return self._progress.stop is not None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What was said and done so far."""
        return tuple(self._progress.turns)

    @property
    def summarising(self) -> bool:
        """Whether the next message is a summary of the row, which a new one goes on from."""
        return self._progress.summarising

    @property
    def prompt(self) -> tuple[Segment, ...]:
        """What stood there before anything was sampled."""
        segments = self._transcript.rows[0].segments
        return tuple(takewhile(lambda segment: segment.source == "rendered", segments))

    @property
    def at_work(self) -> Episode:
        """Who says the next message: the episode itself, or its sub-agent."""
        return self if self._agent is None else self._agent.at_work

    @property
    def session(self) -> str:
        """Identity of the row that grows."""
        return f"{self.slot.id}#{self._transcript.row}" if self._agent is None else self._agent.session

    def request(self) -> Request:
        """What to generate next: an assistant message, or the rest of one that was paused."""
        assert not self.done
        if self._agent is not None:
            return self._agent.request()
        turn = len(self._progress.turns)
        return Request(
            id=f"{self.session}.{turn}.{self._progress.resumes}",
            session=self.session,
            ids=self._transcript.ids,
            max_new=self._room,
            seed=seed_of(self.slot.seed, self._transcript.row, turn),
            pictures=tuple(self._pictures[image] for image in self._transcript.images) if self._pictures else (),
        )

    def accept(self, completion: Completion) -> None:
        """Take what was generated: a whole message is acted on, a paused one stays open, anything else ends the episode."""
        assert not self.done
        if self._agent is not None:
            self._agent.accept(completion)
            self._hear()
            return
        self._append_sampled(completion)
        match completion.finish:
            case "stop":
                self._act()
            case "length":
                self._truncate(self._limit())
            case "error" | "cancelled":
                self._truncate("error")
                self._progress.trouble = "generation failed"
            case "paused":
                self._check_limits()

    def resume(self, at_most: int | None = None) -> None:
        """Go on after a pause; at the (`at_most` + 1)-th the episode ends instead, invalid, with that reason."""
        if self.done:
            return
        if at_most is not None and self._progress.resumes >= at_most:
            self._truncate("stale")
            self._progress.trouble = f"paused more than {at_most} times"
        else:
            self._progress.resumes += 1
            if self._agent is not None:
                self._agent.resume()

    def give_up(self, reason: str) -> None:
        """End it here, whatever it is at, as invalid for that reason."""
        if not self.done:
            self._truncate("error")
        self._progress.trouble = reason

    def final(self) -> Mapping[str, Any] | None:
        """Close the world and return its final state for the verifier; None where there is nothing to judge."""
        assert self.done
        state: Mapping[str, Any] | None = None
        with boundary(SandboxError, f"closing {self.slot.task.id}", catch=self._break):
            if self._world is not None:
                if not self._progress.trouble:
                    state = self._world.final(self._progress.response)
                self._world.close()
        self._world = None
        return None if self._progress.trouble else state

    def conclude(self, result: Result | None) -> Trajectory:
        """The finished trajectory; `result` is the verdict on `final`, None where that was None.

        Whoever breaks the wire format does not pass: left-out markers save tokens, and budgets would teach to leave them out.
        """
        assert (result is None) == bool(self._progress.trouble)
        return self._told(self._judged(result))

    def _told(self, result: Result) -> Trajectory:
        progress, slot = self._progress, self.slot
        assert progress.stop is not None
        return Trajectory(
            id=slot.id,
            task=slot.task,
            effort=slot.effort,
            group=slot.group,
            seed=slot.seed,
            rows=self._transcript.rows,
            turns=tuple(progress.turns),
            composition=self.harness.composition,
            stop=progress.stop,
            result=result,
            spend=spend(slot.task.domain, think_tokens=progress.think_tokens, new_tokens=progress.new_tokens),
            resumes=progress.resumes,
            pictures=tuple(self._pictures[hash] for hash in sorted(self._pictures)),
            agents=tuple(self._agents),
        )

    def _judged(self, result: Result | None) -> Result:
        if result is None:
            return Result(status="invalid", detail=self._progress.trouble)
        if result.status == "pass" and self._progress.malformed:
            return Result(status="fail", detail=f"a message is not well-formed: {self._progress.malformed}")
        return result

    def save(self) -> bytes:
        """Everything it owns, between two calls; `restore` goes on bit for bit. A world that cannot be saved ends it."""
        world: bytes | None = None
        with boundary(SandboxError, f"saving {self.slot.task.id}", catch=self._break):
            world = None if self._world is None or self._begun_by is not None else self._world.save()
        rows, arrays = rows_record([*self._transcript.rows, *(Row(segments=e.sampled) for e in self._exchanges)])
        record = {
            "slot": slot_record(self.slot),
            "composition": self.harness.composition,
            "progress": self._progress.record(),
            "rows": rows,
            "exchanges": [
                {
                    "calls": [call_record(call) for call in e.calls],
                    "results": list(e.results),
                    "pictures": [[picture.hash for picture in shown] for shown in e.pictures],
                    "notes": list(e.notes),
                }
                for e in self._exchanges
            ],
            "observations": [observation_record(observation) for observation in self.observations],
            "reports": self._reports,
        }
        arrays |= picture_arrays(self._pictures.values())
        arrays |= {f"agents/{n}": as_bytes(pack(*trajectory_record(agent))) for n, agent in enumerate(self._agents)}
        if self._agent is not None:
            arrays["agent"] = as_bytes(self._agent.save())
        return pack(record, arrays if world is None else {**arrays, "world": as_bytes(world)})

    @staticmethod
    def restore(
        saved: bytes,
        *,
        families: Mapping[str, Family],
        chat: ChatFormat,
        runtime: SandboxRuntime | None = None,
        begun_by: Episode | None = None,
    ) -> Episode:
        """The inverse of `save`."""
        record, arrays = unpack(saved)
        slot, family = slot_of(record["slot"]), families[record["slot"]["task"]["family"]]
        rows = rows_of(record["rows"], arrays)
        closed = len(rows) - len(record["exchanges"])
        pictures = {picture.hash: picture for picture in pictures_of(arrays)}
        exchanges = [
            Exchange(
                sampled=row.segments,
                calls=tuple(call_of(c) for c in e["calls"]),
                results=tuple(e["results"]),
                pictures=tuple(tuple(pictures[hash] for hash in shown) for shown in e["pictures"]),
                notes=tuple(e.get("notes", ())),
            )
            for row, e in zip(rows[closed:], record["exchanges"])
        ]
        episode = Episode(
            slot=slot,
            family=family,
            harness=compose(record["composition"]),
            chat=chat,
            transcript=Transcript(rows[:closed]),
            progress=Progress.of(record["progress"]),
            exchanges=exchanges,
            pictures=pictures.values(),
            begun_by=begun_by,
        )
        with boundary(SandboxError, f"restoring {slot.task.id}", catch=episode._break):
            if "world" in arrays:
                episode._world = family.restore(slot.task, arrays["world"].tobytes(), runtime=runtime)
        episode.observations = tuple(map(observation_of, record.get("observations", ())))
        episode._reports = record.get("reports", [])
        ended = sum(name.startswith("agents/") for name in arrays)
        episode._agents = [trajectory_of(*unpack(arrays[f"agents/{n}"].tobytes())) for n in range(ended)]
        if "agent" in arrays:
            episode._agent = Episode.restore(
                arrays["agent"].tobytes(), families=families, chat=chat, runtime=runtime, begun_by=episode
            )
        return episode

    @property
    def _room(self) -> int:
        """Tokens that may still be generated in this row."""
        limits = self.slot.task.limits
        return min(limits.new_tokens - self._progress.new_tokens, limits.context - self._transcript.tokens)

    def _append_sampled(self, completion: Completion) -> None:
        if not len(completion.ids):
            return
        self._transcript.append(
            Segment(
                ids=completion.ids,
                source="sampled",
                message=self._progress.message,
                logprobs=completion.logprobs,
                policy_version=completion.policy_version,
                finish_reason=completion.finish,
            )
        )
        self._progress.new_tokens += len(completion.ids)

    def _message_ids(self) -> tuple[tuple[Segment, ...], np.ndarray]:
        sampled = self._transcript.message
        length = sum(len(segment.ids) for segment in sampled)
        return sampled, self._transcript.ids[self._transcript.tokens - length :]

    def _act(self) -> None:
        """A whole message: dispatch its calls, then stop or ask for the next one."""
        progress = self._progress
        message = self.chat.parse(self._message_ids()[1])
        progress.think_tokens += message.think_tokens
        progress.response = message.response
        progress.malformed = progress.malformed or next(iter(message.problems), "")
        if progress.summarising:
            self._summarised(message)
            return
        refusal = self.harness.refusal(message, [call.error for call in self._canonical(message)])
        if refusal:
            self._refuse(message, refusal)
            return
        progress.refused = 0
        self.observations = ()
        self._execute(message)

    def _canonical(self, message: ParsedMessage) -> list[Call]:
        return [self.harness.to_world(call, self.tools) for call in message.calls]

    def _execute(self, message: ParsedMessage) -> None:
        """Dispatch a message's calls in order, from the first without a result up to one that hands in an answer. While
        sub-agents are at work the rest waits."""
        calls = self._canonical(message)
        submission: str | None = None
        for number in range(len(self.observations), len(calls)):
            call = calls[number]
            before = {key_of(earlier): seen for earlier, seen in zip(calls, self.observations)} if self.harness.once else {}
            observation = before.get(key_of(call)) or self._dispatch(call, number)
            if observation is None:
                return
            self.observations += (observation,)
            submission = self.harness.submission(observation)
            if submission is not None:
                break
        self._executed(message, submission)

    def _executed(self, message: ParsedMessage, submission: str | None) -> None:
        """All calls of a message have their results: stop, or ask for the next one."""
        progress, sampled = self._progress, self._transcript.message
        turn = self._turn(message)
        progress.turns.append(turn)
        turns = len(progress.turns)
        if self.done:
            return
        if submission is not None:
            progress.response, progress.stop = submission, "answered"
        elif not message.calls or any(observation.done for observation in self.observations):
            progress.stop = "answered"
        elif self.harness.finished(message, turns) or turns >= self.slot.task.limits.turns:
            progress.stop = "turns"
        elif self.harness.stuck(progress.turns):
            progress.stop = "loop"
        else:
            seen = tuple(tuple(map(from_png, observation.images)) for observation in self.observations)
            self._pictures |= {picture.hash: picture for some in seen for picture in some}
            results, pictures = turn.observations, seen if any(seen) else ()
            progress.turns[-1] = replace(turn, pictures=tuple(tuple(picture.hash for picture in some) for some in pictures))
            self._continue(Exchange(sampled=sampled, calls=message.calls, results=results, pictures=pictures))

    def _turn(self, message: ParsedMessage) -> Turn:
        """The message with its results as the policy sees them, and with what is said of repeated calls."""
        pairs = zip(message.calls, self.observations)
        results = tuple(self.harness.observation(call, observation, self.tools) for call, observation in pairs)
        turn = Turn(think=message.think, response=message.response, calls=message.calls, observations=results)
        reminder = self.harness.reminder([*self._progress.turns, turn])
        return replace(turn, observations=(*results[:-1], f"{results[-1]}\n\n{reminder}")) if reminder else turn

    def _dispatch(self, call: Call, number: int) -> Observation | None:
        """Execute call `number` of a message, in canonical names; None while sub-agents are at work for it. What cannot be
        dispatched is answered by an error under the same index."""
        if call.error is not None:
            return Observation(text=ERROR + call.error)
        if any(call.tool == tool.name for tool in TOOLS):
            return self._delegate(call, number)
        observation = Observation(text="")
        if self._world is not None and not self.done:
            with boundary(SandboxError, f"{call.tool} in {self.slot.task.id}", catch=self._break):
                observation = self._world.call(call)
        return observation

    def _delegate(self, call: Call, number: int) -> Observation | None:
        """Begin the next sub-agent of a call; what all of them reported once there is no further one."""
        wanted, most = prompts(call), self.harness.delegation.most
        if not wanted or len(wanted) > most:
            return Observation(text=f"{ERROR}give 1 to {most} prompts, not {len(wanted)}")
        while len(self._reports) < len(wanted) and not self.done:
            self._agent = self._begun(wanted[len(self._reports)], number)
            if not self._agent.done:
                return None
            self._dismiss()
        reports, self._reports = self._reports, []
        return Observation(text="\n\n".join(reports))

    def _begun(self, prompt: str, number: int) -> Episode:
        """A sub-agent that is told `prompt`: the same harness and world, fewer tools, and the tokens that are left."""
        slot, delegation, limits = self.slot, self.harness.delegation, self.slot.task.limits
        group, index = f"{slot.id}@{len(self._progress.turns)}.{number}", len(self._reports)
        task = replace(
            slot.task,
            id=f"{slot.task.id}@{group}/{index}",
            instruction=prompt,
            pictures=(),
            tools=delegation.tools(slot.task.tools),
            limits=replace(
                limits,
                turns=min(delegation.turns or limits.turns, limits.turns),
                new_tokens=limits.new_tokens - self._progress.new_tokens,
            ),
        )
        own = Slot(task=task, effort=slot.effort, group=group, index=index, seed=seed_of(slot.seed, group, index))
        agent = Episode(slot=own, family=self.family, harness=self.harness, chat=self.chat, begun_by=self)
        opening = self.harness.messages(task)
        segments = self.chat.open(opening, tools=self.harness.schemas(agent.tools), effort=slot.effort)
        agent._begin_row(segments, len(opening), ())
        agent._check_limits()
        return agent

    def _hear(self) -> None:
        """Take the report of a sub-agent that is done, which is asked for more where it is short, and go on."""
        agent, delegation = self._agent, self.harness.delegation
        assert agent is not None
        if not agent.done:
            return
        progress = agent._progress
        short = len(progress.response or "") < delegation.least
        if progress.stop == "answered" and short and not progress.asked_again:
            progress.stop, progress.asked_again = None, True
            agent._continue(Exchange(sampled=agent._transcript.message, calls=(), results=(), notes=(delegation.more,)))
            if not agent.done:
                return
        self._dismiss()
        self._execute(self.chat.parse(self._message_ids()[1]))

    def _dismiss(self) -> None:
        """The sub-agent is done: keep its trajectory and its report. What broke it breaks the episode."""
        agent, self._agent = self._agent, None
        assert agent is not None
        progress = agent._progress
        self._agents.append(agent._told(Result(status="invalid", detail="a sub-agent is not judged")))
        self._progress.new_tokens += progress.new_tokens
        self._progress.think_tokens += progress.think_tokens
        said = progress.response or f"{ERROR}the sub-agent ended without a report ({progress.stop})"
        self._reports.append(self.harness.delegation.shown(said))
        if progress.trouble:
            self._progress.stop, self._progress.trouble = "error", progress.trouble

    def _refuse(self, message: ParsedMessage, refusal: str) -> None:
        """A message of bad form leaves the history: a new row goes on with what is said to it in its place."""
        progress = self._progress
        self.observations = ()
        progress.refused += 1
        progress.turns.append(Turn(think=message.think, response=message.response, calls=(), observations=()))
        if progress.refused >= self.harness.patience:
            progress.stop = "form"
        elif self.harness.finished(message, turns := len(progress.turns)) or turns >= self.slot.task.limits.turns:
            progress.stop = "turns"
        else:
            if self._exchanges:
                last = self._exchanges[-1]
                self._exchanges[-1] = replace(last, notes=(*last.notes, refusal))
            else:
                progress.notes.append(refusal)
            self._reopen()

    def _summarised(self, message: ParsedMessage) -> None:
        """The summary is there: a new row goes on from it and what survives beside it."""
        policy, progress = self.harness.context, self._progress
        assert isinstance(policy, Compaction)
        progress.turns.append(Turn(think=message.think, response=message.response, calls=(), observations=()))
        progress.todo = policy.last_todo(self._exchanges) or progress.todo
        progress.summarising, progress.summary, progress.notes = False, message.response or "", []
        progress.response = None
        self._exchanges = policy.kept(self._exchanges, self.slot.task.limits.context)
        self._reopen()

    def _continue(self, exchange: Exchange) -> None:
        """Append the results, or open a shortened row where the context policy wants one; stop where neither fits."""
        policy, limit = self.harness.context, self.slot.task.limits.context
        rendered = self._results(exchange, self._progress.message)
        tokens = self._transcript.tokens + sum(len(segment.ids) for segment in rendered)
        if policy.kind != "none" or self.harness.patience:
            self._exchanges.append(exchange)
        if policy.due(tokens, limit):
            shortened = policy.shorten(self._exchanges, tokens / limit)
            if shortened != self._exchanges:
                self._exchanges = shortened
                self._reopen()
                return
        ask = policy.asks(tokens, limit)
        if ask:
            exchange = replace(exchange, notes=(*exchange.notes, ask))
            rendered = self._results(exchange, self._progress.message)
            tokens = self._transcript.tokens + sum(len(segment.ids) for segment in rendered)
        if tokens >= limit:
            self._progress.stop = "context"
            return
        self._transcript.append(*rendered)
        self._progress.message += exchange.messages
        self._progress.summarising = bool(ask)
        self._check_limits()

    def _reopen(self) -> None:
        """A new row from the opening and the exchanges as they are now."""
        progress, opening = self._progress, self.harness.messages(self.slot.task)
        prompt: Sequence[Segment] = self.prompt
        if progress.summary is not None or progress.notes:
            if progress.summary is not None:
                assert isinstance(self.harness.context, Compaction)
                opening = self.harness.context.opening(opening, progress.summary, progress.todo)
            opening = [*opening, *({"role": "user", "content": note} for note in progress.notes)]
            prompt = self.chat.open(opening, tools=self.harness.schemas(self.tools), effort=self.slot.effort)
        self._begin_row(prompt, len(opening), self._exchanges)
        self._check_limits()

    def _begin_row(self, prompt: Sequence[Segment], message: int, exchanges: Sequence[Exchange]) -> None:
        """A new row: the prompt, then `exchanges` from message `message` on."""
        segments = list(prompt)
        for exchange in exchanges:
            segments += [*exchange.as_context(message), *self._results(exchange, message)]
            message += exchange.messages
        self._transcript.open(segments)
        self._progress.message = message

    def _results(self, exchange: Exchange, message: int) -> list[Segment]:
        """The results of message `message`, and the prefix of the next one."""
        seen = exchange.pictures or ((),) * len(exchange.calls)
        messages: list[Message] = [
            {"role": "tool", "tool_call_id": call_id(number), "name": call.tool, "content": shown(some, text)}
            for number, (call, text, some) in enumerate(zip(exchange.calls, exchange.results, seen), 1)
        ]
        messages += [{"role": "user", "content": note} for note in exchange.notes]
        return self.chat.extend(messages, message=message + 1, calls=exchange.calls)

    def _truncate(self, stop: StopReason) -> None:
        """End it here. A message in progress is kept as a turn of which nothing is dispatched."""
        sampled, ids = self._message_ids()
        if self._agent is not None:
            self._agent._truncate(stop)
            self._dismiss()
            self._progress.turns.append(self._turn(self.chat.parse(ids)))
        elif sampled:
            message = self.chat.parse(ids)
            self._progress.think_tokens += message.think_tokens
            self._progress.turns.append(Turn(think=message.think, response=message.response, calls=(), observations=()))
            self._progress.response = None
        self._progress.stop = stop

    def _check_limits(self) -> None:
        """Stop where nothing may be generated any more."""
        if not self.done and self._room <= 0:
            self._truncate(self._limit())

    def _limit(self) -> StopReason:
        return "tokens" if self._progress.new_tokens >= self.slot.task.limits.new_tokens else "context"

    def _break(self, error: NinefoldError) -> None:
        """Something that is not the policy's fault: the episode is invalid."""
        self._progress.stop = "error"
        self._progress.trouble = self._progress.trouble or str(error)
