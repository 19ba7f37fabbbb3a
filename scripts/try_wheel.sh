#!/usr/bin/env bash
# Installs the built wheel into clean environments, once with the lowest versions of what it depends on directly and once
# with the newest, and uses it there, outside of this checkout. Needs uv, about 15 GB in TMPDIR and PyPI.
#   scripts/try_wheel.sh [python version, 3.11 if not given]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-3.11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv build --wheel --out-dir "$work/dist"
wheel=$(ls "$work"/dist/*.whl)
for versions in lowest-direct highest; do
  env="$work/$versions"
  uv venv --quiet --python "$python" "$env"
  uv pip install --quiet --python "$env/bin/python" --resolution "$versions" "$wheel"
  uv pip freeze --python "$env/bin/python" | grep -iE '^(torch|torchvision|avalanche-lib|timm|numpy)=='
  (
    cd "$work"
    "$env/bin/rebll" doctor
    "$env/bin/rebll" table --folder "$work/runs-$versions" --methods fine-tuning rebll closed-form \
      --benchmark.train_size 60 --benchmark.test_size 40 --training.epochs 1
    "$env/bin/rebll" report "$work/runs-$versions" -o "$work/$versions.html"
  )
  echo "$versions: works"
done
