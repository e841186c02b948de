// What both pages show: controls, curves, marks and errors.

import { Params, Path, speeds } from "./controls.js";
import { Plots } from "./plots.js";

export const $ = (id) => document.getElementById(id);
const MARKS = 50; // that are listed
const COMPETITORS = ["kernel/cubic", "kernel/reno", "cubic", "bbr3", "lt_cubic", "aimd"];

const plots = new Plots($("plots"), $("now"));

// `engine` takes messages of the user.
export const page = { engine: null, state: null, onError: () => {} };

const send = (message) => page.engine.send(message);
const restart = (setting) => send({ type: "restart", setting });
const path = new Path($("path"), COMPETITORS, (fields) => send({ type: "path", ...fields }), restart);
const params = new Params($("params"), (name, value) => send({ type: "param", name, value }));
speeds($("speed"), (value) => send({ type: "speed", value }));
$("pause").addEventListener("click", () => send({ type: page.state.running ? "pause" : "resume" }));
$("restart").addEventListener("click", () => restart(page.state.setting));

export function say(text) {
  $("status").textContent = text;
}

export function showError(text) {
  $("error").hidden = text === null;
  $("error").textContent = text ?? "";
  page.onError(text);
}

// Forgets a session: there is none, or another one begins.
export function clear() {
  plots.clear();
  $("marks").replaceChildren();
}

export function stopped() {
  page.state = null;
  for (const id of ["pause", "restart", "speed", "copy"]) $(id).disabled = true;
}

// Messages of `Session`.
export function receive(message) {
  switch (message.type) {
    case "samples":
      if (message.t_s[0] <= plots.lastS) clear(); // begun again
      plots.append(message);
      break;
    case "mark":
      mark(message);
      break;
    case "error":
      showError(message.text);
      break;
    case "state":
      showState(message);
      break;
  }
}

function mark(message) {
  plots.mark(message);
  const item = document.createElement("li");
  item.textContent = `${message.t_s.toFixed(2)} s: ${message.text}`;
  item.className = message.kind;
  $("marks").prepend(item);
  while ($("marks").childElementCount > MARKS) $("marks").lastChild.remove();
  if (message.kind === "save") showError(null);
}

function showState(message) {
  const { setting, running, speed, t_s, algorithm, datapath, digest } = message;
  page.state = message;
  plots.path = setting;
  path.show(setting);
  params.show(message.params);
  const over = setting.duration_s !== null && t_s >= setting.duration_s;
  for (const id of ["restart", "speed", "copy"]) $(id).disabled = false;
  $("pause").disabled = over;
  $("speed").disabled = datapath === "kernel"; // real time
  $("pause").textContent = running ? "pause" : "continue";
  if (document.activeElement !== $("speed")) $("speed").value = speed;
  const how = over ? "ended" : running ? "running" : "paused";
  say(`${algorithm} ${how} at ${t_s.toFixed(1)} s, ${datapath === "kernel" ? "on real sockets" : "simulated"}`);
  $("status").title = `digest of all samples: ${digest}`;
  $("status").dataset.digest = digest;
  $("status").dataset.t_s = t_s;
}
