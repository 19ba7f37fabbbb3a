"""Ask a server about pictures, from any program: python examples/serve_client.py street.jpg

Start it first: rebll serve city.rebll. Any HTTP client will do; this one is pip install httpx.
"""

import os
import sys
from pathlib import Path

import httpx

address = os.environ.get("REBLL_ADDRESS", "http://127.0.0.1:8765")
pictures = [("pictures", (path, Path(path).read_bytes())) for path in sys.argv[1:]]
answer = httpx.post(f"{address}/api/predict", files=pictures, timeout=60)
for picture in answer.raise_for_status().json()["pictures"]:
    print(picture["name"], picture["labels"])
