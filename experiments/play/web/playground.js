// The playground: an editor, the simulator in a worker, and links.

import { Editor } from "./editor.js";
import { fragmentOf, scenarioOf } from "./link.js";
import { $, clear, page, receive, say, showError, stopped } from "./view.js";

const BAD_LINE = /mine\.py>?(?::|", line )(\d+)/;
const FIRST = "mine";
const HUNG = "The simulator was stopped: it did not answer, so this version has an endless loop, or does too much work per report.";

const slow = (waitedS) =>
  `The simulator did not answer for ${waitedS} s. It starts again, and has twice the time.
If this version has an endless loop, edit it, and run it.`;

let engine = null;
let editor = null;
let sources = {};
let setting = {};
let opened = null; // what the address says, until the first version begins
let notice = null; // shown in place of errors until the next version

export function open(simulator, algorithms) {
  $("what").textContent = "Edit a congestion control and see what it does. All of it runs in this page.";
  document.title = "ccplane playground";
  for (const id of ["write", "copy"]) $(id).hidden = false;
  editor = new Editor($("editor"), run);
  page.onError = (text) => {
    const line = text?.match(BAD_LINE)?.[1];
    editor.bad(line ? Number(line) : null);
  };
  opened = load(algorithms);
  engine = simulator;
  engine.listen(take);
  $("run").addEventListener("click", run);
  $("copy").addEventListener("click", copy);
  $("algorithm").addEventListener("change", () => {
    editor.text = sources[$("algorithm").value];
    begin({}); // flows of one algorithm may be unable to continue with another
  });
}

async function load(file) {
  const [answer, asked] = await Promise.all([fetch(file), scenarioOf(location.hash)]);
  sources = await answer.json();
  $("algorithm").append(...Object.keys(sources).map((name) => new Option(name, name)));
  const name = asked.algorithm in sources ? asked.algorithm : FIRST;
  $("algorithm").value = name;
  editor.text = asked.source ?? sources[name];
  setting = asked.setting;
  return asked.params;
}

function begin(params) {
  notice = null;
  stopped();
  clear();
  say("starting");
  engine.begin(setting, editor.text, params, Number($("speed").value));
}

function run() {
  if ($("run").disabled) return;
  notice = null;
  if (page.state === null) begin({});
  else engine.send({ type: "edit", source: editor.text });
}

async function take(message) {
  switch (message.type) {
    case "ready":
      if (opened === null) break;
      begin(await opened.catch(refused));
      opened = null;
      break;
    case "accepted":
      showError(notice);
      break;
    case "begun":
      $("run").disabled = false;
      if (page.state === null) say("not running");
      break;
    case "answered":
      break;
    case "hung":
      hung(message);
      break;
    case "broken":
      say("not running");
      showError(`The simulator could not be loaded: ${message.text}`);
      break;
    default:
      if (message.type === "state") setting = message.setting;
      receive(message);
  }
}

function refused(error) {
  showError(`The address could not be read: ${error}`);
  return {};
}

// The worker is a new one. The version before, or a slow first version, begins again.
function hung({ source, waitedS }) {
  stopped();
  clear();
  say("restarting");
  notice = waitedS
    ? null // until it runs
    : `${HUNG}\n${source === null ? "Edit it, and run it." : "The version before runs again, from time 0."}`;
  showError(notice ?? slow(waitedS));
  $("run").disabled = source !== null && !waitedS;
  if (source !== null) engine.begin(setting, source, {}, Number($("speed").value));
}

async function copy() {
  const changed = page.state.params.filter((one) => one.value !== one.default).map((one) => [one.name, one.value]);
  const name = Object.keys(sources).find((one) => sources[one] === editor.text);
  const params = Object.fromEntries(changed);
  const fragment = await fragmentOf({ setting, params, algorithm: name, source: name ? null : editor.text });
  history.replaceState(null, "", `#${fragment}`);
  try {
    await navigator.clipboard.writeText(location.href);
    $("copy").textContent = "copied";
  } catch {
    $("copy").textContent = "it is in the address bar";
  }
  setTimeout(() => ($("copy").textContent = "copy link"), 2000);
}
