#!/usr/bin/env bash
# Installs the dependencies of pyproject.toml and of the given extras into .venv, without ccplane itself.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=$(mktemp)
trap 'rm -f "$requirements"' EXIT
.venv/bin/python - "$@" >"$requirements" <<'END'
import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
wanted, extras = list(project["dependencies"]), sys.argv[1:]
for extra in extras:
    for one in project["optional-dependencies"][extra]:
        if one.startswith("ccplane["):
            extras += one.removeprefix("ccplane[").removesuffix("]").split(",")
        else:
            wanted.append(one)
print(*dict.fromkeys(wanted), sep="\n")
END
.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
