// The simulator and the agent in a worker: Pyodide, ccplane's compiled part, and one `Session`.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const TURN_MS = 50;
const MAX_TURN_S = 0.1; // a slow machine falls behind real time instead of freezing

let session = null;
let lastMs = 0;

async function load(files) {
  const archive = fetch(files).then((answer) => answer.arrayBuffer());
  const python = await loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href });
  python.unpackArchive(await archive, "zip", { extractDir: "/lib/ccplane" });
  python.runPython("import sys; sys.path.insert(0, '/lib/ccplane')");
  session = python.pyimport("experiments.play.page");
  postMessage({ type: "ready" });
  setInterval(turn, TURN_MS);
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
      await load(data.files);
    } catch (error) {
      postMessage({ type: "broken", text: String(error) });
    }
  } else if (data.type === "ping") postMessage({ type: "pong" });
  else {
    postMessage(session.handle(JSON.stringify(data)));
    postMessage({ type: data.type === "begin" ? "begun" : "answered" });
  }
};
