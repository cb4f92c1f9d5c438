"""The agent loop as a state machine: it says what to generate next, takes what was generated, and is data in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.effort.budget import spend
from ninefold.agent.harness.agents import Agents
from ninefold.agent.harness.compose import AnyHarness, compose
from ninefold.agent.harness.conversation import Conversation
from ninefold.agent.harness.execution import Execution
from ninefold.agent.harness.history import History
from ninefold.agent.harness.progress import Progress
from ninefold.agent.harness.saved import SavedEpisode
from ninefold.core.errors import NinefoldError, SandboxError, boundary
from ninefold.core.protocols import ChatFormat, Completion, Family, Observation, Request, SandboxRuntime, World, offered
from ninefold.core.seeds import seed_of
from ninefold.core.types import Call, Result, Segment, Slot, StopReason, Trajectory, Turn


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
        history: History | None = None,
        progress: Progress | None = None,
        agents: Sequence[Trajectory] = (),
        reports: Sequence[str] = (),
        observations: Sequence[Observation] = (),
        begun_by: Episode | None = None,
    ) -> None:
        """One that nothing was said in yet, or that is as its parts are. The world is that of whoever it was begun by."""
        self.slot = slot
        self.family = family
        self.harness = harness
        self.chat = chat
        self.tools = offered(family, slot.task)
        self.progress = progress or Progress()
        self._history = history or History(slot=slot, harness=harness, chat=chat, tools=self.tools)
        self._agents = Agents(
            slot=slot, delegation=harness.delegation, progress=self.progress, begin=self._begun, ended=agents, reports=reports
        )
        self._execution = Execution(
            harness=harness, tools=self.tools, call=self._call, agents=self._agents, observations=observations
        )
        self._conversation = Conversation(
            limits=slot.task.limits,
            harness=harness,
            chat=chat,
            history=self._history,
            execution=self._execution,
            progress=self.progress,
        )
        self._begun_by = begun_by
        self._world: World | None = None if begun_by is None else begun_by._world

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
        episode = Episode(slot=slot, family=family, harness=harness, chat=chat)
        with boundary(SandboxError, f"opening {slot.task.id}", catch=episode._break):
            if trouble:
                raise SandboxError(trouble)
            episode._world = family.open(slot.task, seed=slot.seed, runtime=runtime)
        episode._conversation.begin(prompt)
        return episode

    @property
    def done(self) -> bool:
        return self.progress.stop is not None

    @property
    def observations(self) -> tuple[Observation, ...]:
        """What the last message's calls returned, those that were executed."""
        return self._execution.observations

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What was said and done so far."""
        return tuple(self.progress.turns)

    @property
    def summarising(self) -> bool:
        """Whether the next message is a summary of the row, which a new one goes on from."""
        return self._history.standing.summarising

    @property
    def prompt(self) -> tuple[Segment, ...]:
        """What stood there before anything was sampled."""
        return self._history.prompt

    @property
    def at_work(self) -> Episode:
        """Who says the next message: the episode itself, or its sub-agent."""
        agent = self._agents.at_work
        return self if agent is None else agent.at_work

    @property
    def session(self) -> str:
        """Identity of the row that grows."""
        writer = self.at_work
        return f"{writer.slot.id}#{writer._history.row}"

    def request(self) -> Request:
        """What to generate next: an assistant message, or the rest of one that was paused."""
        assert not self.done
        agent = self._agents.at_work
        if agent is not None:
            return agent.request()
        turn, history = len(self.progress.turns), self._history
        return Request(
            id=f"{self.session}.{turn}.{self.progress.resumes}",
            session=self.session,
            ids=history.ids,
            max_new=self._conversation.room,
            seed=seed_of(self.slot.seed, history.row, turn),
            pictures=history.pictures,
        )

    def accept(self, completion: Completion) -> None:
        """Take what was generated: a whole message is acted on, a paused one stays open, anything else ends the episode."""
        assert not self.done
        agent = self._agents.at_work
        if agent is not None:
            agent.accept(completion)
            if self._agents.heard():
                self._conversation.execute()
            return
        self._history.say(completion)
        self.progress.new_tokens += len(completion.ids)
        match completion.finish:
            case "stop":
                self._conversation.act()
            case "length":
                self._conversation.run_out()
            case "error" | "cancelled":
                self.truncate("error")
                self.progress.trouble = "generation failed"
            case "paused":
                self._conversation.check_limits()

    def resume(self, at_most: int | None = None) -> None:
        """Go on after a pause; at the (`at_most` + 1)-th the episode ends instead, invalid, with that reason."""
        if self.done:
            return
        if at_most is not None and self.progress.resumes >= at_most:
            self.truncate("stale")
            self.progress.trouble = f"paused more than {at_most} times"
            return
        self.progress.resumes += 1
        if self._agents.at_work is not None:
            self._agents.at_work.resume()

    def give_up(self, reason: str) -> None:
        """End it here, whatever it is at, as invalid for that reason."""
        if not self.done:
            self.truncate("error")
        self.progress.trouble = reason

    def go_on(self, note: str) -> None:
        """Ask for another message, by a note behind the last one."""
        self._conversation.go_on(note)

    def truncate(self, stop: StopReason) -> None:
        """End it here; a message in progress is kept as a turn of which nothing is dispatched."""
        self._conversation.truncate(stop)

    def final(self) -> Mapping[str, Any] | None:
        """Close the world and return its final state for the verifier; None where there is nothing to judge."""
        assert self.done
        state: Mapping[str, Any] | None = None
        with boundary(SandboxError, f"closing {self.slot.task.id}", catch=self._break):
            if self._world is not None:
                if not self.progress.trouble:
                    state = self._world.final(self.progress.response)
                self._world.close()
        self._world = None
        return None if self.progress.trouble else state

    def conclude(self, result: Result | None) -> Trajectory:
        """The finished trajectory; `result` is the verdict on `final`, None where that was None.

        Whoever breaks the wire format does not pass: left-out markers save tokens, and budgets would teach to leave them out.
        """
        assert (result is None) == bool(self.progress.trouble)
        if result is None:
            return self.told(Result(status="invalid", detail=self.progress.trouble))
        if result.status == "pass" and self.progress.malformed:
            return self.told(Result(status="fail", detail=f"a message is not well-formed: {self.progress.malformed}"))
        return self.told(result)

    def told(self, result: Result) -> Trajectory:
        """The finished trajectory, with that verdict."""
        progress, slot = self.progress, self.slot
        assert progress.stop is not None
        return Trajectory(
            id=slot.id,
            task=slot.task,
            effort=slot.effort,
            group=slot.group,
            seed=slot.seed,
            rows=self._history.rows,
            turns=tuple(progress.turns),
            composition=self.harness.composition,
            stop=progress.stop,
            result=result,
            spend=spend(slot.task.domain, think_tokens=progress.think_tokens, new_tokens=progress.new_tokens),
            resumes=progress.resumes,
            pictures=tuple(sorted(self._history.shown, key=lambda picture: picture.hash)),
            agents=self._agents.ended,
        )

    def save(self) -> bytes:
        """Everything it owns, between two calls; `restore` goes on bit for bit. A world that cannot be saved ends it."""
        world: bytes | None = None
        with boundary(SandboxError, f"saving {self.slot.task.id}", catch=self._break):
            world = None if self._world is None or self._begun_by is not None else self._world.save()
        agent = self._agents.at_work
        return SavedEpisode(
            slot=self.slot,
            composition=self.harness.composition,
            progress=self.progress,
            standing=self._history.standing,
            rows=self._history.rows,
            exchanges=self._history.exchanges,
            shown=self._history.shown,
            observations=self.observations,
            reports=self._agents.reports,
            agents=self._agents.ended,
            agent=None if agent is None else agent.save(),
            world=world,
        ).pack()

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
        was = SavedEpisode.unpack(saved)
        slot, family, harness = was.slot, families[was.slot.task.family], compose(was.composition)
        history = History(
            slot=slot,
            harness=harness,
            chat=chat,
            tools=offered(family, slot.task),
            rows=was.rows,
            standing=was.standing,
            exchanges=was.exchanges,
            shown=was.shown,
        )
        episode = Episode(
            slot=slot,
            family=family,
            harness=harness,
            chat=chat,
            history=history,
            progress=was.progress,
            agents=was.agents,
            reports=was.reports,
            observations=was.observations,
            begun_by=begun_by,
        )
        with boundary(SandboxError, f"restoring {slot.task.id}", catch=episode._break):
            if was.world is not None:
                episode._world = family.restore(slot.task, was.world, runtime=runtime)
        if was.agent is not None:
            agent = Episode.restore(was.agent, families=families, chat=chat, runtime=runtime, begun_by=episode)
            episode._agents.at_work = agent
        return episode

    def _call(self, call: Call) -> Observation:
        """Execute a call in the world, as long as there is one and nothing has ended the episode."""
        observation = Observation(text="")
        if self._world is not None and not self.done:
            with boundary(SandboxError, f"{call.tool} in {self.slot.task.id}", catch=self._break):
                observation = self._world.call(call)
        return observation

    def _begun(self, slot: Slot) -> Episode:
        """A sub-agent in the same world, under the same harness."""
        agent = Episode(slot=slot, family=self.family, harness=self.harness, chat=self.chat, begun_by=self)
        agent._conversation.begin()
        return agent

    def _break(self, error: NinefoldError) -> None:
        """Something that is not the policy's fault: the episode is invalid."""
        self.progress.stop = "error"
        self.progress.trouble = self.progress.trouble or str(error)
