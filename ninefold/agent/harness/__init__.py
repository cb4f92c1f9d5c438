"""How an agent meets a world: harnesses as data, and the agent loop as a state machine.

**One executor.** `executor/` holds every operation once: files (read, write, edit, patch, list, glob, grep), shell, search,
fetch, media, todo, memory, cron. An operation is a canonical `Tool`; its result is text, and the data that the text was made
of. `env.workspace.Workspace` is the executor as a world, for families whose tools these are.

**Views.** What a policy sees are views of the operations (`view.py`): a name, parameters with JSON schemas, each with the
canonical parameter that it becomes (units, defaults, caps, other names of values), and a `Layout` (`layout.py`): templates
over the result's data, with numbers of lines, exit codes, and what is cut from a head, a tail or the middle. A `Toolset` shows
a task the views of the operations that it offers; tools of a world's own are shown by a naming convention (`tools.py`), so any
harness meets any family.

**Modules.** A `WhiteBox` (`whitebox.py`) is four of them, all plain data:

    toolset    the views                                                               view.py
    prompt     sections in their order, filled from the task's files                   sections.py
    context    when a row is compacted, how a summary is asked for, what survives      compaction.py
    rules      turns, a sentinel, errors of form, the ladder of repeated calls         rules.py

Its composition is their JSON without defaults: `compose` makes the harness of it again, every trajectory keeps it, and its
SHA-256 names it. `Composed` (`compose.py`) is the small harness that `nano` is trained under: conventions of names alone.

**Presets.** `presets/` has a file for each public harness, with the facts of spec 08 in words of our own: FULL, and NANO for
small contexts (at most four tools, real names, required parameters alone). What cannot be had here (commands that go on in the
background) is said in the file; a view without an operation is shown where a world offers one of that name.

**Sub-agents.** A task that offers `agent` or `swarm` (`delegation.py`) lets a policy begin conversations of their own in its
world: each an episode with fewer tools, of which the last message comes back. Their trajectories stand in the agent's, and
nothing of them is learned. A toolset's `Delegation` says what they lack and how much of them comes back.

**Sampling.** `sampler.py` draws a harness for a task group: tools, prompt, context and rules each of some public harness, as
far as they go together. Splits are by the hash of a composition's name; compositions with equal content have one name.

**The loop.** `episode.py` alternates request and completion, and is data in between. It is made of parts, each of which knows
only those above it:

    history         the token rows, and what a new one is opened with                      history.py
    agents          sub-agents: who is at work, what came back of the others               agents.py
    execution       what the calls of a message come to, in the world or by sub-agents     execution.py
    conversation    what is done about each message, and what stops it                     conversation.py
    saved           all of it as bytes                                                     saved.py

Rows only grow; whatever rewrites history opens a new one: old results cut down, a summary (the policy's own message, learned
from where it was written, and then context), a message of bad form that is dropped. History is kept in whole exchanges, a
message with all its results, so no call is parted from what came of it.
"""
