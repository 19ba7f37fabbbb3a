"""``rebll``: one command for every way from a recipe to an answer.

Nothing heavy is imported here; each command imports what it needs when it is called.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

# In the order of a day's work; the texts are here so that --help imports no command.
COMMANDS = {
    "run": "train and evaluate one recipe; continues where it was stopped",
    "table": "run methods, scenarios and seeds, and compare them",
    "report": "write one HTML page from run folders",
    "learn": "teach a learner from a table of pictures; the old ones may be gone",
    "predict": "labels of images, by a learner or the model of a run",
    "evaluate": "how right a learner is on a table of pictures",
    "correct": "other labels for what a learner has learned",
    "forget": "make a learner forget pictures, classes or a lesson",
    "undo": "a learner as before its last lesson",
    "suggest": "which pictures to label next, by a learner",
    "audit": "labels of a learner that are probably wrong",
    "cam": "where in test images a run's model sees each class",
    "export": "write the model of a run or a learner as ONNX",
    "extend": "let a run learn new classes from new images",
    "show": "draw what each experience of a recipe holds; list what a learner knows",
    "verify": "check every byte of runs and caches",
    "doctor": "check versions, data folders, disk and speed",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()  # here, where it can still be seen that nobody reads
    except BrokenPipeError:
        # `rebll predict ... | head` has seen enough. What is still buffered goes nowhere, silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell calls the end by SIGPIPE


def _main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from rebll_avalanche import __version__

        print(__version__)
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        from rebll_avalanche.words import nearest

        near = nearest(name, COMMANDS, 3)
        print(f"rebll: there is no command {name!r}; the nearest are {near}", file=sys.stderr)
        return 2
    from rebll_avalanche.process import keep_freed_memory, pass_on_warnings
    from rebll_avalanche.words import printable

    keep_freed_memory()
    command = importlib.import_module(f"rebll_avalanche.commands.{name}")
    pass_on_warnings(lambda message: print(f"warning: {printable(message)}", file=sys.stderr))
    try:
        return int(command.run(_parse(command, name, arguments[1:])))
    except BrokenPipeError:
        raise  # nobody reads, so nobody is told
    except (ValueError, OSError) as error:
        print(f"rebll {name}: {printable(_in_a_line(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nrebll {name}: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _parse(command: Any, name: str, argv: list[str]) -> Any:
    """Arguments by the command's own parser, or by one that it fills."""
    if hasattr(command, "parse"):
        return command.parse(argv)
    parser = argparse.ArgumentParser(prog=f"rebll {name}", description=command.HELP)
    command.add_arguments(parser)
    return parser.parse_args(argv)


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: rebll COMMAND ...",
            "",
            "Multi-label class-incremental learning.",
            "",
            *lines,
            "",
            "rebll COMMAND --help tells more about a command.",
        ]
    )


def _in_a_line(error: Exception) -> str:
    """What the system says about a file, with the file first; or what we say ourselves."""
    if isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            said += "; make room, and the same command goes on"
        return said
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
