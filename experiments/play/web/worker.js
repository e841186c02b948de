// The simulator and the agent in a worker: Pyodide, ccplane's compiled part, and one `Session`.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const FOLDER = "/lib/ccplane";
const TURN_MS = 50;
const MAX_TURN_S = 0.1; // a slow machine falls behind real time instead of freezing

let session = null;
let lastMs = 0;

async function unzipped(url) {
  const { body } = await fetch(url);
  return new Response(body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function compiled(url) {
  try {
    return await WebAssembly.compileStreaming(fetch(url));
  } catch {
    return WebAssembly.compile(await (await fetch(url)).arrayBuffer()); // a server that calls it another type
  }
}

// Everything is fetched and compiled at the same time; Pyodide alone would begin to compile once it has the memory.
async function load({ files, memory, extensions }) {
  const main = compiled(new URL("./pyodide/pyodide.asm.wasm", import.meta.url));
  const packed = unzipped(files);
  const more = Object.entries(extensions).map(async ([name, url]) => [`${FOLDER}/${name}`, await compiled(url)]);
  WebAssembly.instantiateStreaming = async (_, imports) => {
    const module = await main;
    return { module, instance: await WebAssembly.instantiate(module, imports) };
  };
  const python = await loadPyodide({
    indexURL: new URL("./pyodide/", import.meta.url).href,
    _loadSnapshot: unzipped(memory),
  });
  unpack(python.FS, new Uint8Array(await packed));
  const { loadWebAssemblyModule, preloadedWasm } = python._module;
  for (const [path, module] of await Promise.all(more))
    preloadedWasm[path] = await loadWebAssemblyModule(module, { loadAsync: true, nodelete: true }, path, {});
  python.runPython(`import sys; sys.path.insert(0, "${FOLDER}")`);
  session = python.pyimport("experiments.play.page");
  postMessage({ type: "ready" });
  setInterval(turn, TURN_MS);
}

// The first line is a JSON list of names and sizes; then come the contents.
function unpack(files, bytes) {
  let at = bytes.indexOf("\n".charCodeAt());
  const index = JSON.parse(new TextDecoder().decode(bytes.subarray(0, at++)));
  for (const [name, size] of index) {
    const path = `${FOLDER}/${name}`;
    files.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    files.writeFile(path, bytes.subarray(at, (at += size)), { canOwn: true });
  }
}

function turn() {
  const now = performance.now();
  const passedS = Math.min((now - lastMs) / 1000, MAX_TURN_S);
  lastMs = now;
  const said = session.advance(passedS);
  if (said !== "[]") postMessage(said);
}

onmessage = async ({ data }) => {
  if (data.type === "load") {
    try {
      await load(data);
    } catch (error) {
      postMessage({ type: "broken", text: String(error) });
    }
  } else if (data.type === "ping") postMessage({ type: "pong" });
  else {
    postMessage(session.handle(JSON.stringify(data)));
    postMessage({ type: data.type === "begin" ? "begun" : "answered" });
  }
};
