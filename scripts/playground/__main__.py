"""Put page, editor, Pyodide, and ccplane's files together: `python -m scripts.playground CACHE OUT`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from ccplane.agent.commands import first

ROOT: Final = Path(__file__).parents[2]
WEB: Final = ROOT / "experiments/play/web"
UPLOT: Final = ROOT / "ccplane/agent/panel/front/uplot"

ALGORITHMS: Final = {
    "mine": first.FILE,
    "cubic": ROOT / "ccp_algs/cubic.py",
    "lt_cubic": ROOT / "ccp_algs/lt_cubic.py",
    "bbr3": ROOT / "ccp_algs/bbr3.py",
    "empty": ROOT / "experiments/play/empty.py",
}
"""Sources to begin with."""

PACKAGES: Final = ("broker", "ccp_algs", "ccplane", "telemetry")
EXPERIMENTS: Final = ("experiments/*.py", "experiments/netlab", "experiments/play", "experiments/runs")
LEFT_OUT: Final = ("ccp_algs/hyvar", "ccplane/agent/panel", "experiments/play/web")
"""Python files of the page; none of those left out works there."""

PYODIDE: Final = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)

EXTENSIONS: Final = {
    "ccplane/base/_native.abi3.so": "target/wasm32-unknown-emscripten/release/_native.wasm",
    "msgspec/_core.cpython-314-wasm32-emscripten.so": "python/msgspec/_core.cpython-314-wasm32-emscripten.so",
}
"""Extension module -> its file in the cache."""

CONNECTION: Final[dict[str, Any]] = {
    "worker": "worker.js",
    "files": "ccplane.gz",
    "memory": "python.gz",
    "extensions": {name: f"{Path(name).name.partition('.')[0]}.wasm" for name in EXTENSIONS},
    "algorithms": "algorithms.json",
}


def main() -> None:
    """Assemble the playground."""
    cache, out = (Path(word).resolve() for word in sys.argv[1:3])
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(WEB, out, ignore=shutil.ignore_patterns("editor.js"))
    shutil.copytree(UPLOT, out / "uplot")
    modules = cache / "npm/node_modules"
    (out / "pyodide").mkdir()
    for name in PYODIDE:
        shutil.copyfile(modules / "pyodide" / name, out / "pyodide" / name)
    _bundle(modules, out)
    texts = {name: file.read_text(encoding="utf-8") for name, file in ALGORITHMS.items()}
    (out / "algorithms.json").write_text(json.dumps(texts), encoding="utf-8")
    (out / "connection.json").write_text(json.dumps(CONNECTION), encoding="utf-8")
    _files(cache, out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    where = out.relative_to(ROOT)
    print(f"{where}: {size / 1e6:.1f} MB; serve it: python -m http.server -d {where}")


def _bundle(modules: Path, out: Path) -> None:
    subprocess.run(
        [
            modules / ".bin/esbuild",
            WEB / "editor.js",
            "--bundle",
            "--minify",
            "--format=esm",
            "--log-level=warning",
            "--legal-comments=linked",
            f"--outfile={out / 'editor.js'}",
        ],
        env=os.environ | {"NODE_PATH": str(modules)},
        check=True,
    )


def _files(cache: Path, out: Path) -> None:
    """Write the archive that the page unpacks, with bytecode of Pyodide's Python."""
    staged = cache / "files"
    shutil.rmtree(staged, ignore_errors=True)
    for pattern in (*PACKAGES, *EXPERIMENTS):
        for path in sorted(ROOT.glob(pattern)):
            for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
                name = file.relative_to(ROOT)
                if not any(name.is_relative_to(folder) for folder in LEFT_OUT):
                    _copy(file, staged / name)
    for file in sorted((cache / "python/msgspec").glob("*.py")):
        _copy(file, staged / "msgspec" / file.name)
    for name, file in EXTENSIONS.items():
        _copy(cache / file, staged / name)
        _copy(cache / file, out / CONNECTION["extensions"][name])
    subprocess.run(["node", Path(__file__).with_name("prepare.mjs"), out, staged], check=True)


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


if __name__ == "__main__":
    main()
