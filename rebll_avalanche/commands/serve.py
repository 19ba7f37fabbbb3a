"""``rebll serve``: a learner in the browser, and over HTTP."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Teach and ask a learner in the browser, for example: rebll serve city.rebll. The file is made
with the first lesson if it is not there. Programs use the same address; it describes itself under /docs."""

# Nobody can open a link to these.
EVERY_ADDRESS = ("0.0.0.0", "::")
# Beyond so many, those who have no token yet could use up the memory.
MOST_CONNECTIONS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which learner, where."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at; others than this machine's need a token",
    )
    parser.add_argument("--port", type=int, default=8765, help="0 for any that is free")


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ValueError(f"{error}; run: pip install 'rebll-avalanche[serve]'") from error
    import secrets
    import socket

    from rebll_avalanche.learner import Learner
    from rebll_avalanche.learner.held import held
    from rebll_avalanche.serve.app import make_app
    from rebll_avalanche.serve.guard import LOOPBACK

    path: Path = arguments.learner
    token = None if arguments.host in LOOPBACK else secrets.token_urlsafe(32)
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    with socket.socket(family) as listener, held(path):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((arguments.host, arguments.port))
        port = listener.getsockname()[1]
        learner = Learner.load(path) if path.exists() else Learner()
        app = make_app(learner, path, token=token)
        host = socket.gethostname() if arguments.host in EVERY_ADDRESS else arguments.host
        host = f"[{host}]" if ":" in host else host
        # After the hash, so that no browser sends it and no log keeps it.
        print(f"http://{host}:{port}/" + (f"#token={token}" if token else ""), flush=True)
        config = uvicorn.Config(
            app,
            log_level="warning",
            server_header=False,
            lifespan="on",
            limit_concurrency=MOST_CONNECTIONS,
        )
        uvicorn.Server(config).run(sockets=[listener])
    return 0
