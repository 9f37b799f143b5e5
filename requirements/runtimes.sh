#!/usr/bin/env bash
# Makes the lock files of runtimes anew (src/brickyard/runtime/data): requirements/runtimes.sh [4.0 ...]
# What is locked stays as it is as far as the .in files allow; without its lock file, everything is the newest.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../src/brickyard/runtime/data"

compile=(uv pip compile --universal --generate-hashes --no-annotate --no-emit-index-url --quiet
  --custom-compile-command "requirements/runtimes.sh")
if ((!$#)); then
  set -- spark-*.in
fi
for name in "$@"; do
  name="${name#spark-}" name="${name%.in}"
  case "$name" in 4.3) python=3.11 ;; *) python=3.10 ;; esac
  [[ ${LAYERS_ONLY:-} ]] || "${compile[@]}" --python-version "$python" "spark-$name.in" -o "spark-$name.txt"
  # The second layer: what goes with the first, without what is there already. What other systems alone need does not count.
  own=()
  while read -r package; do
    own+=(--no-emit-package "$package")
  done < <(grep -E '^[a-z0-9._-]+==' "spark-$name.txt" | grep -vE "== '(pypy|win32|darwin)'" | sed 's/==.*//' | sort -u)
  "${compile[@]}" --python-version "$python" -c "spark-$name.txt" "${own[@]}" packages.in -o "packages-spark-$name.txt"
done
