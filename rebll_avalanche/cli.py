"""The ``rebll`` command line.

Nothing heavy is imported here; each command imports what it needs when it is called.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

# In order of typical use; the texts are here so that --help imports no command.
COMMANDS = {
    "run": "train and evaluate one recipe; continues where it was stopped",
    "table": "run methods, scenarios and seeds, and compare them",
    "tune": "search for good settings on held-out training images",
    "features": "compute and keep the features of a frozen backbone",
    "report": "write one HTML page from run folders",
    "predict": "predict labels of images with a learner or a run's model",
    "cam": "draw class activation maps of a run's model",
    "export": "write the model of a run or a learner as ONNX",
    "extend": "teach a finished run more, as a learner",
    "card": "write a model card and a data card of a run, or a learner's card",
    "show": "draw example images of each experience; list what a learner knows",
    "learn": "teach a learner from a table of pictures; earlier pictures may be gone",
    "evaluate": "measure a learner on a table of pictures",
    "correct": "correct labels that a learner was taught",
    "forget": "make a learner forget pictures, classes or a lesson",
    "undo": "undo a learner's last lesson",
    "suggest": "suggest pictures to label next",
    "audit": "list labels that are probably wrong or missing",
    "serve": "teach and ask a learner in the browser, or over HTTP",
    "verify": "check every byte of runs, learners and caches",
    "doctor": "check versions, data folders, disk and speed",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()  # here, where a closed pipe can still be handled
    except BrokenPipeError:
        # The reader, as in `rebll predict ... | head`, has closed the pipe: discard buffered output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # exit code of a process ended by SIGPIPE


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
        print(f"rebll: unknown command {name!r}; the nearest are {near}", file=sys.stderr)
        return 2
    from rebll_avalanche.process import keep_freed_memory, pass_on_warnings, speaks_for_all
    from rebll_avalanche.words import told

    keep_freed_memory()
    command = importlib.import_module(f"rebll_avalanche.commands.{name}")
    first = os.environ.get("RANK", "0") == "0"  # of the processes of a job
    pass_on_warnings(
        lambda message: print(f"warning: {told(message)}", file=sys.stderr) if first else None
    )
    try:
        return int(command.run(_parse(command, name, arguments[1:])))
    except BrokenPipeError:
        raise  # no message: the output is closed
    except (ValueError, OSError) as error:
        if speaks_for_all():
            print(f"rebll {name}: {told(_in_a_line(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        if speaks_for_all():
            after = str(stop) or "run the same command to continue"
            print(f"\nrebll {name}: stopped; {after}", file=sys.stderr)
        return 130


def _parse(command: Any, name: str, argv: list[str]) -> Any:
    """Parse arguments with the command's own ``parse``, or with its ``add_arguments``."""
    if hasattr(command, "parse"):
        return command.parse(argv)
    from rebll_avalanche.words import Parser

    parser = Parser(prog=f"rebll {name}", description=command.HELP)
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
            "rebll COMMAND --help describes a command.",
        ]
    )


def _in_a_line(error: Exception) -> str:
    """The message of an error; for an operating-system error, the file name first."""
    if isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            said += "; free some space, then run the same command to continue"
        return said
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
