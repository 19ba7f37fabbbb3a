#!/usr/bin/env bash
# Installs the built wheel into clean environments, with the lowest and with the newest versions of what it depends on
# directly, and uses it there, outside of this checkout. Needs uv, PyPI and about 8 GB in TMPDIR.
#   scripts/try_wheel.sh [python version, 3.11 if not given]
set -euo pipefail
cd "$(dirname "$0")/.."
examples=$PWD/examples
python=${1:-3.11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
uv build --quiet --wheel --out-dir "$work/dist"

try() { # resolution, extras
  echo "== $1, with $2"
  local extras=() extra
  for extra in $2; do extras+=(--extra "$extra"); done
  # From pyproject.toml: what a wheel depends on counts as indirect, and would always be the newest.
  # With --upgrade, because otherwise versions that the file holds already would be kept.
  uv pip compile --quiet pyproject.toml "${extras[@]}" --resolution "$1" --python-version "$python" \
    --upgrade --output-file "$work/versions.txt"
  uv venv --quiet --clear --python "$python" "$work/env"
  uv pip install --quiet --python "$work/env/bin/python" -r "$work/versions.txt"
  uv pip install --quiet --python "$work/env/bin/python" --no-deps "$work"/dist/*.whl
  rm -rf "$work/elsewhere" && mkdir "$work/elsewhere"
  (
    cd "$work/elsewhere"
    rebll=$work/env/bin/rebll
    "$rebll" doctor
    "$rebll" table --folder runs --methods fine-tuning rebll rebll-best gem closed-form \
      --benchmark.train_size 60 --benchmark.test_size 40 --training.epochs 1
    "$rebll" report runs -o report.html
    "$rebll" cam runs/*_rebll_seed0
    case "$2" in *onnx*) "$rebll" export runs/*_rebll_seed0 --onnx model.onnx ;; esac
    "$work/env/bin/python" -W ignore - <<'PYTHON'  # the pictures and tables that the next example reads
import shutil
from rebll_avalanche import MultiLabelScenes
for seed, month in enumerate(("march", "april")):
    MultiLabelScenes(train_size=30, test_size=10, seed=seed).write_csv(month)
    shutil.move(f"{month}/labels.csv", f"{month}.csv")
    shutil.move(f"{month}/images", f"photos/{month}")
shutil.copy("photos/april/test_000003.png", "street.jpg")
PYTHON
    "$work/env/bin/python" -W ignore "$examples/own_images.py"
    "$work/env/bin/python" -W ignore "$examples/drop_in.py"
    "$work/env/bin/python" -W ignore -c "import rebll_avalanche.serve.app"
  )
  echo "== works"
}

try lowest-direct "weights cam serve"
try lowest-direct "onnx serve"  # it needs a newer torch
try highest "weights cam serve onnx"
