"""Ask `rebll serve` about pictures: python examples/serve_client.py http://127.0.0.1:8765 street.jpg"""

import sys
from pathlib import Path

import httpx

address, *paths = sys.argv[1:]
pictures = [("pictures", (Path(path).name, Path(path).read_bytes())) for path in paths]
answer = httpx.post(f"{address}/api/predict", files=pictures, timeout=60)
for picture in answer.raise_for_status().json()["pictures"]:
    print(picture["name"], picture["labels"])
