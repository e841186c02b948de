// Saves the page time: packs ccplane's Python files as bytecode of Pyodide's Python, and writes an image of Python's
// memory in which the modules of the standard library that they import are imported already.
// prepare.mjs PLAYGROUND FOLDER

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const [out, folder] = process.argv.slice(2).map((word) => resolve(word));
const { loadPyodide } = await import(`${out}/pyodide/pyodide.mjs`);
const indexURL = `${out}/pyodide/`;

const compiler = await loadPyodide({ indexURL });
compiler.mountNodeFS("/files", folder);
const imported = compiler.runPython(`
import json, pathlib, py_compile, sys
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for file in pathlib.Path("/files").rglob("*.py"):
    is_read = file.is_relative_to("/files/ccp_algs")  # a source is part of an algorithm's version
    compiled = None if is_read else str(file.with_suffix(".pyc"))
    py_compile.compile(str(file), compiled, doraise=True, invalidation_mode=mode)
    if not is_read:
        file.unlink()
before = set(sys.modules)
sys.path.insert(0, "/files")
import experiments.play.page
json.dumps(sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in sys.stdlib_module_names))
`);

const python = await loadPyodide({ indexURL, _makeSnapshot: true });
python.runPython(`
import importlib
for name in ${imported}:
    importlib.import_module(name)
del importlib, name
`);
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((one) => one.isFile())
  .map((one) => join(one.parentPath, one.name));
// The page compiles extensions while it loads the rest; Python only looks whether they exist.
const contents = files.map((file) => (file.endsWith(".so") ? Buffer.alloc(0) : readFileSync(file)));
const index = files.map((file, i) => [relative(folder, file), contents[i].length]);
writeFileSync(`${out}/ccplane.gz`, gzipSync(Buffer.concat([Buffer.from(`${JSON.stringify(index)}\n`), ...contents])));
writeFileSync(`${out}/python.gz`, gzipSync(python.makeMemorySnapshot()));
process.exit(0);
