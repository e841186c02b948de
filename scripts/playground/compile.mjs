// Compiles Python files to bytecode of Pyodide's Python, next to them: compile.mjs PLAYGROUND FOLDER

import { resolve } from "node:path";

const [out, folder] = process.argv.slice(2).map((word) => resolve(word));
const { loadPyodide } = await import(`${out}/pyodide/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${out}/pyodide/` });
python.mountNodeFS("/files", folder);
python.runPython(`
import compileall, py_compile
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
assert compileall.compile_dir("/files", quiet=1, invalidation_mode=mode)
`);
process.exit(0);
