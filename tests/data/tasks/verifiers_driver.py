"""Runs in the interpreter of verifiers: its own evaluation of several packages, one after another, in one process."""

import sys

from verifiers.v1.cli.eval.main import main

if __name__ == "__main__":
    url, out, *names = sys.argv[1:]
    for name in names:
        taskset, _, harness = name.partition(":")
        options = ["--model", "scripted", "--client.base-url", url, "--client.api-key-var", "NINEFOLD_TEST_KEY"]
        options += ["--no-push", "--no-rich", "-o", out, "--run.dir", name.replace(":", "-")]
        options += ["--env.agent.runtime.type", "subprocess"]
        options += ["--env.agent.harness.id", harness] if harness else []
        main([taskset, *options])
