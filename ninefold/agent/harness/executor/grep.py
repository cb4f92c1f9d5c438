"""Runs inside the sandbox: grep over its working directory, asked by JSON on standard input. Exit code 2: a bad pattern."""

import json
import os
import re
import sys

KINDS = {
    "py": (".py", ".pyi"),
    "python": (".py", ".pyi"),
    "js": (".js", ".jsx", ".mjs", ".cjs"),
    "ts": (".ts", ".tsx", ".mts", ".cts"),
    "rust": (".rs",),
    "go": (".go",),
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".hpp", ".hh"),
    "java": (".java",),
    "md": (".md", ".markdown"),
    "json": (".json",),
    "html": (".html", ".htm"),
    "css": (".css",),
    "sh": (".sh", ".bash"),
    "toml": (".toml",),
    "yaml": (".yaml", ".yml"),
    "txt": (".txt",),
}


def walk(path):
    if os.path.isfile(path):  # noqa: PTH113
        yield os.path.normpath(path)
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            yield os.path.normpath(os.path.join(folder, name))  # noqa: PTH118


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def matching(text, pattern, multiline):
    """Indices of the lines that a match touches."""
    lines = text.splitlines()
    if not multiline:
        return lines, [i for i, line in enumerate(lines) if pattern.search(line)]
    touched = set()
    for match in pattern.finditer(text):
        first = text.count("\n", 0, match.start())
        touched.update(range(first, first + match.group().rstrip("\n").count("\n") + 1))
    return lines, sorted(i for i in touched if i < len(lines))


def content(path, lines, found, ask):
    around = ask.get("context")
    before = int(ask.get("before", around) or 0)
    after = int(ask.get("after", around) or 0)
    hits, last = set(found), None
    shown = {j for i in found for j in range(max(0, i - before), min(len(lines), i + after + 1))}
    for i in sorted(shown):
        if (before or after) and last is not None and i > last + 1:
            print("--")
        mark = ":" if i in hits else "-"
        print(f"{path}{mark}" + (f"{i + 1}{mark}" if ask.get("numbers", True) else "") + lines[i])
        last = i


def main():
    ask = json.load(sys.stdin)
    flags = (re.IGNORECASE if ask.get("ignore_case") else 0) | (re.DOTALL | re.MULTILINE if ask.get("multiline") else 0)
    try:
        pattern = re.compile(re.escape(ask["pattern"]) if ask.get("literal") else ask["pattern"], flags)
    except re.error as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    allowed = re.compile(ask["glob"], re.DOTALL) if ask.get("glob") else None
    endings, mode = KINDS.get(ask.get("kind", "")), ask.get("mode", "content")
    if ask.get("kind") and endings is None:
        print(f"unknown kind of file {ask['kind']}", file=sys.stderr)
        sys.exit(2)
    for path in walk(ask["path"]):
        if (allowed and not allowed.fullmatch(path)) or (endings and not path.endswith(endings)):
            continue
        text = text_of(path)
        if text is None:
            continue
        lines, found = matching(text, pattern, ask.get("multiline"))
        if not found:
            continue
        if mode == "files":
            print(path)
        elif mode == "count":
            print(f"{path}:{len(found)}")
        elif ask.get("only"):
            for i in found:
                for match in pattern.finditer(lines[i]):
                    print(f"{path}:" + (f"{i + 1}:" if ask.get("numbers", True) else "") + match.group())
        else:
            content(path, lines, found, ask)


if __name__ == "__main__":
    main()
