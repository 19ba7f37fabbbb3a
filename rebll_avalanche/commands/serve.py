"""``rebll serve``: a learner in the browser, and over HTTP."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Teach and ask a learner in the browser, for example: rebll serve city.rebll. The file is created
with the first lesson if it does not exist. Programs use the same address; /docs describes the calls."""

# A server can listen on these, but a browser cannot open them.
EVERY_ADDRESS = ("0.0.0.0", "::")
# Limits the memory that clients without a token can use up.
MOST_CONNECTIONS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; clients of other machines need a token (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port", type=int, default=8765, help="0 for any free port (default: 8765)"
    )


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
