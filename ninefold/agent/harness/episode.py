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
    pack,
    picture_arrays,
    pictures_of,
    rows_of,
    rows_record,
    slot_of,
    slot_record,
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
    ) -> None:
        self.slot = slot
        self.family = family
        self.harness = harness
        self.chat = chat
        self.tools: tuple[Tool, ...] = offered(family, slot.task)
        self.observations: tuple[Observation, ...] = ()
        """What the last message's calls returned."""
        self._world = world
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
    def session(self) -> str:
        """Identity of the row that grows."""
        return f"{self.slot.id}#{self._transcript.row}"

    def request(self) -> Request:
        """What to generate next: an assistant message, or the rest of one that was paused."""
        assert not self.done
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
        progress, slot = self._progress, self.slot
        assert progress.stop is not None
        assert (result is None) == bool(progress.trouble)
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
            result=self._judged(result),
            spend=spend(slot.task.domain, think_tokens=progress.think_tokens, new_tokens=progress.new_tokens),
            resumes=progress.resumes,
            pictures=tuple(self._pictures[hash] for hash in sorted(self._pictures)),
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
            world = None if self._world is None else self._world.save()
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
        }
        arrays |= picture_arrays(self._pictures.values())
        return pack(record, arrays if world is None else {**arrays, "world": as_bytes(world)})

    @staticmethod
    def restore(
        saved: bytes, *, families: Mapping[str, Family], chat: ChatFormat, runtime: SandboxRuntime | None = None
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
        )
        with boundary(SandboxError, f"restoring {slot.task.id}", catch=episode._break):
            if "world" in arrays:
                episode._world = family.restore(slot.task, arrays["world"].tobytes(), runtime=runtime)
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
        sampled, ids = self._message_ids()
        message = self.chat.parse(ids)
        progress.think_tokens += message.think_tokens
        progress.response = message.response
        progress.malformed = progress.malformed or next(iter(message.problems), "")
        if progress.summarising:
            self._summarised(message)
            return
        canonical = [self.harness.to_world(call, self.tools) for call in message.calls]
        refusal = self.harness.refusal(message, [call.error for call in canonical])
        if refusal:
            self._refuse(message, refusal)
            return
        progress.refused = 0
        submission = self._execute(canonical)
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
            self._continue(Exchange(sampled=sampled, calls=message.calls, results=results, pictures=pictures))

    def _execute(self, calls: Sequence[Call]) -> str | None:
        """Dispatch a message's calls in order, up to one that hands in an answer, which is returned."""
        done: dict[str, Observation] = {}
        observations: list[Observation] = []
        submission: str | None = None
        for call in calls:
            key = key_of(call) if self.harness.once else str(len(observations))
            done[key] = done[key] if key in done else self._dispatch(call)
            observations.append(done[key])
            submission = self.harness.submission(done[key])
            if submission is not None:
                break
        self.observations = tuple(observations)
        return submission

    def _turn(self, message: ParsedMessage) -> Turn:
        """The message with its results as the policy sees them, and with what is said of repeated calls."""
        pairs = zip(message.calls, self.observations)
        results = tuple(self.harness.observation(call, observation, self.tools) for call, observation in pairs)
        turn = Turn(think=message.think, response=message.response, calls=message.calls, observations=results)
        reminder = self.harness.reminder([*self._progress.turns, turn])
        return replace(turn, observations=(*results[:-1], f"{results[-1]}\n\n{reminder}")) if reminder else turn

    def _dispatch(self, call: Call) -> Observation:
        """Execute one canonical call; what cannot be dispatched is answered by an error under the same index."""
        if call.error is not None:
            return Observation(text=ERROR + call.error)
        observation = Observation(text="")
        if self._world is not None and not self.done:
            with boundary(SandboxError, f"{call.tool} in {self.slot.task.id}", catch=self._break):
                observation = self._world.call(call)
        return observation

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
        if sampled:
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
