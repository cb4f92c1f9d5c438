"""What rooms know of each other: engines, chat formats, sandboxes, worlds, families, harnesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ninefold.core.picture import Picture
from ninefold.core.types import (
    Call,
    Domain,
    Effort,
    FinishReason,
    FloatArray,
    IntArray,
    Result,
    Segment,
    Split,
    Task,
    Turn,
)

# ---------------------------------------------------------------------------------------------------------------- engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Generate one assistant message, or the rest of one."""

    id: str
    """Unique among the requests in flight."""
    session: str
    """The row it continues: an engine may keep that row's caches until `release`."""
    ids: IntArray
    """[T] the whole row so far, generation prefix included."""
    max_new: int
    """At most this many tokens; the stop token counts."""
    seed: int
    """With the position it fixes every draw, whatever else is in the batch."""
    temperature: float = 1.0
    """0 is greedy. Log-probabilities are always those at temperature 1."""
    top_p: float = 1.0
    allowed: Grammar | None = None
    """Constrains each token, where given."""
    pictures: tuple[Picture, ...] = ()
    """One for each `media_pad` among `ids`, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came of a request."""

    request: str
    ids: IntArray
    """[n] sampled tokens; the stop token is among them when `finish` is stop."""
    logprobs: FloatArray
    """[n] ln π at temperature 1."""
    policy_version: int
    finish: FinishReason
    """`paused` is neither stop nor length: the message goes on later and is never graded. `cancelled`: nobody wants it."""
    cached: int = 0
    """Tokens of the request that were not computed for it: its session, or another one, had left them."""
    drafted: int = 0
    """Speculative tokens proposed."""
    accepted: int = 0
    """Speculative tokens accepted."""


class Grammar(Protocol):
    """Constrained decoding: which tokens may come next."""

    def allowed(self, ids: IntArray) -> IntArray:
        """Sorted ids that may follow the generated `ids`."""
        ...


class WeightHandle(Protocol):
    """Weights on their way from a trainer to an engine; opaque to everyone between."""

    @property
    def checksum(self) -> str: ...


class Engine(Protocol):
    """Generates tokens. Synchronous and event-driven: submit, then poll until nothing is in flight."""

    @property
    def policy_version(self) -> int: ...

    @property
    def in_flight(self) -> int:
        """Requests submitted and not yet returned."""
        ...

    def submit(self, requests: Sequence[Request]) -> None: ...

    def poll(self) -> list[Completion]:
        """Work until at least one request is finished and return all that are; [] only when none is in flight."""
        ...

    def pause(self) -> list[Completion]:
        """Stop everything; each unfinished request comes back as `paused` with what it had (perhaps nothing)."""
        ...

    def cancel(self, requests: Iterable[str]) -> None:
        """End these requests, if they are in flight; `poll` returns each as `cancelled` with what it had. The only method
        that may be called from another thread, while `poll` works."""
        ...

    def release(self, session: str) -> None:
        """Forget a row's caches: nobody will go on from it, nor begin as it does.

        A session that is over, but may be how another begins, is left to the engine, which forgets it for want of room.
        """
        ...

    def load(self, weights: WeightHandle, version: int) -> None:
        """Take new weights; every cache made by the old ones is dropped. Refused while requests are in flight."""
        ...


# ------------------------------------------------------------------------------------------------------------------ chat

Message = Mapping[str, Any]
"""An OpenAI-style message: role, content, and for assistants reasoning_content and tool_calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMessage:
    """A generated assistant message, whatever the model wrote."""

    think: str
    response: str | None
    calls: tuple[Call, ...]
    """In order; those with `error` are not to be dispatched."""
    problems: tuple[str, ...]
    """Names of the irregularities met: unclosed, stray_text, mismatched_close, truncated."""
    think_tokens: int
    """Tokens inside think channels, without their markers."""


class ChatFormat(Protocol):
    """Renders conversations to token segments and parses generated ids back. XTML is one, a model's template another."""

    @property
    def stop_ids(self) -> tuple[int, ...]: ...

    def open(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]], effort: Effort) -> list[Segment]:
        """The prompt: options and messages, then the generation prefix."""
        ...

    def extend(self, messages: Sequence[Message], *, message: int, calls: Sequence[Call] = ()) -> list[Segment]:
        """What follows a sampled assistant message: tool results or user messages, then the next generation prefix.

        `message` is the index of the first of them in the conversation; `calls` those of the assistant message before.
        The sampled ids are never rendered again.
        """
        ...

    def completion(self, message: Message) -> IntArray:
        """The ids that a policy writing exactly `message` after the generation prefix would sample, stop id included."""
        ...

    def conversation(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), effort: Effort = "max"
    ) -> list[Segment]:
        """A given conversation for supervised learning: masks are True on what a policy would have written."""
        ...

    def parse(self, ids: IntArray) -> ParsedMessage:
        """Never raises on what a model wrote."""
        ...

    def decode(self, ids: IntArray) -> str:
        """Text for people; control tokens are spelled out."""
        ...


# --------------------------------------------------------------------------------------------------------------- sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecLimits:
    """Bounds of one execution in a sandbox."""

    seconds: float = 5.0
    memory_mb: int = 256
    """Of each process, and of all together."""
    address_mb: int | None = None
    """Address space of each process, for programs that reserve far more than they use, as browsers do; None: `memory_mb`."""
    output_bytes: int = 65_536
    processes: int = 32
    files_mb: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How an execution ended; partial output is kept whatever the reason."""

    stdout: str
    stderr: str
    exit_code: int | None
    """None where it was killed."""
    reason: Literal["exited", "timeout", "memory", "output"]


class Sandbox(Protocol):
    """An isolated machine with a writable layer of its own: no network but its own loopback, own file system and processes."""

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        """Run a program in the working directory; its whole process tree is dead when this returns."""
        ...

    def python(self, code: str, *, stdin: str = "", limits: ExecLimits | None = None) -> ExecResult:
        """Run Python source in a fresh interpreter process; the quick path for small programs."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a file of the working directory (relative path; parents are made)."""
        ...

    def read(self, path: str) -> bytes:
        """Read a file of the working directory. Raises FileNotFoundError."""
        ...

    def export(self) -> bytes:
        """The writable layer as bytes, equal for equal content."""
        ...

    def fork(self) -> Sandbox:
        """A copy that shares nothing with this one."""
        ...

    def close(self) -> None: ...


class SandboxRuntime(Protocol):
    """Makes sandboxes."""

    def check(self) -> None:
        """Raise SandboxUnavailable, saying what is missing and how to get it, unless this machine can isolate."""
        ...

    def create(self, files: Mapping[str, str] | None = None, *, beside: Sandbox | None = None) -> Sandbox:
        """A sandbox that holds `files`. It shares the loopback of the one that it lies `beside`, and nothing else."""
        ...

    def restore(self, exported: bytes) -> Sandbox: ...

    def close(self) -> None:
        """End everything that this runtime started."""
        ...


# --------------------------------------------------------------------------------------------------- worlds and families


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool in canonical form; a harness may show it under another name."""

    name: str
    description: str
    parameters: Mapping[str, str]
    """Parameter → JSON type (string, number, boolean, object, array); all are required."""
    optional: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters that may be left out, which only harnesses with views of their own show; the same types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a tool call returned."""

    text: str
    images: tuple[bytes, ...] = ()
    """PNG pictures."""
    done: bool = False
    """The world ended the episode."""
    data: Mapping[str, Any] | None = None
    """What `text` was made of, as JSON, for harnesses that lay results out their own way (`agent.harness.executor`)."""


class World(Protocol):
    """The state that a task's tools act on."""

    def call(self, call: Call) -> Observation:
        """Execute one call in canonical names. Whatever the policy sends, it answers with text; it raises only SandboxError."""
        ...

    def final(self, response: str | None) -> Mapping[str, Any]:
        """JSON of the final observable state, the last response included: all that a verifier may look at."""
        ...

    def save(self) -> bytes:
        """Everything needed to go on elsewhere."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a scripted policy does in one turn: it thinks, then calls tools or answers."""

    think: str = ""
    calls: tuple[Call, ...] = ()
    """In canonical names."""
    response: str | None = None


class ScriptedPolicy(Protocol):
    """Plays one task from what it observes; made anew for each episode."""

    def move(self, observations: Sequence[Observation]) -> Move:
        """The next turn, given what the last turn's calls returned ([] at first)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a demonstrator works."""

    effort: Effort
    """How much it thinks or checks."""
    seed: int
    slip: float = 0.0
    """Probability that this demonstration holds a mistake, so that RL has something to mend."""


class Family(Protocol):
    """One kind of task: generator, world, verifier, and the scripted policies that prove it sound."""

    @property
    def name(self) -> str: ...

    @property
    def domain(self) -> Domain: ...

    @property
    def levels(self) -> int:
        """Number of difficulty levels."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool its worlds may offer, in canonical form."""
        ...

    @property
    def isolated(self) -> bool:
        """True where its worlds or verifier run untrusted code: they need a sandbox runtime."""
        ...

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; no content occurs in two splits. Equal arguments give equal tasks."""
        ...

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> World: ...

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> World: ...

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Judge the final state, and nothing else."""
        ...

    def gold(self, task: Task) -> ScriptedPolicy:
        """Scores full marks."""
        ...

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        """A demonstrator of the style; need not succeed."""
        ...

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """Name → an attempt to be rewarded without solving; each must score 0 or invalid."""
        ...

    def phrases(self) -> Sequence[str]:
        """Fixed phrases of its prompts and observations, for a small tokenizer to know as one token."""
        ...


@runtime_checkable
class Lacking(Protocol):
    """A family that needs what a machine may not have: a browser, a compiler, a GPU. Where it lacks it, it is skipped with the
    reason and never counts as passed; a family without this method runs wherever ninefold does."""

    def lacks(self, level: int = 0) -> str | None:
        """What this machine lacks for tasks of the level, and how to get it, in a sentence; None where they can be played.

        Tasks can be generated all the same, and asking is cheap.
        """
        ...


@runtime_checkable
class Bringing(Protocol):
    """A family of imported tasks, each of which brings tools of its own."""

    def brings(self, task: Task) -> tuple[Tool, ...]:
        """The task's tools, in canonical form."""
        ...


def offered(family: Family, task: Task) -> tuple[Tool, ...]:
    """The tools that a task offers: those of its family that it names, or those that it brings."""
    tools = family.brings(task) if isinstance(family, Bringing) else family.tools
    return tuple(tool for tool in tools if tool.name in task.tools)


class Verify(Protocol):
    """Judges a final state in a process that the policy could not touch."""

    def __call__(self, task: Task, final: Mapping[str, Any]) -> Result: ...


# --------------------------------------------------------------------------------------------------------------- harness


class Harness(Protocol):
    """How an agent meets a world: tool interface, prompt, context policy, stop rule, composed of modules."""

    @property
    def composition(self) -> Mapping[str, Any]:
        """JSON that makes this harness again."""
        ...

    def messages(self, task: Task) -> list[Message]:
        """System and user messages that open the conversation."""
        ...

    def schemas(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """OpenAI function declarations as the policy sees them."""
        ...

    def to_wire(self, move: Move, tools: Sequence[Tool]) -> Message:
        """A scripted move as the assistant message that this harness's policy would write."""
        ...

    def to_world(self, call: Call, tools: Sequence[Tool]) -> Call:
        """The policy's call in canonical names; with `error` set where it cannot be dispatched."""
        ...

    def observation(self, call: Call, observation: Observation, tools: Sequence[Tool]) -> str:
        """What came of a call in the names of the wire, as the policy sees it (layout and output limit applied)."""
        ...

    @property
    def patience(self) -> int:
        """Messages of bad form in a row that end the episode; 0 where there is no such rule."""
        ...

    @property
    def once(self) -> bool:
        """Whether equal calls of one message are executed once."""
        ...

    def refusal(self, message: ParsedMessage, errors: Sequence[str | None]) -> str:
        """What is said, as a user, to a message of bad form, whose calls have these errors; empty: it is acted on."""
        ...

    def submission(self, observation: Observation) -> str | None:
        """The answer, where a tool's result hands one in and so ends the episode."""
        ...

    def reminder(self, turns: Sequence[Turn]) -> str:
        """What is said behind the last result to a policy that repeats itself; empty where nothing is."""
        ...

    def stuck(self, turns: Sequence[Turn]) -> bool:
        """Whether it has repeated itself so often that the episode ends."""
        ...

    def finished(self, message: ParsedMessage, turns: int) -> bool:
        """Stop rule: whether this assistant message ends the episode."""
        ...
