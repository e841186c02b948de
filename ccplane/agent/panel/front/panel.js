// The panel: lays out the parts, and passes the kernel's messages to them.

const TABLE_MS = 500;
const CONFIRM_EVERY = 5; // messages
const RATE_MS = 2000;
const WINDOWS_S = [10, 30, 60, 120];
const REPORTED = "reported";

function render({ model, el: place }) {
  const root = el("div", { className: "ccp-panel", onkeydown: (event) => event.stopPropagation() });
  root.dataset.lmSuppressShortcuts = "true"; // no keyboard shortcuts of JupyterLab here
  place.append(root);
  const store = new Store();
  const colours = new Colours(root);
  const waiting = new Map();
  let lastId = 0;
  const me = Math.random().toString(36).slice(2); // to ignore other pages' answers
  const ask = (what) =>
    new Promise((answer) => {
      const id = `${me}-${++lastId}`;
      waiting.set(id, answer);
      model.send({ ...what, id });
    });

  const title = el("span", { className: "title" });
  const rate = el("span", { className: "rate" });
  const hovered = el("span", { className: "hovered" });
  const trouble = el("div");
  const canvas = el("div", { className: "canvas" });
  const legend = el("div", { className: "legend" });
  const peak = el("span", { className: "dim" });
  const highlight = (column) => {
    plot.highlight(column);
    table.highlight(column);
    reportHovered(column);
  };
  const plot = new Plot(canvas, store, colours, highlight);
  const table = new FlowTable(store, colours, {
    onHover: highlight,
    onHide: (columns) => (columns.forEach((column) => plot.showColumn(column)), draw()),
  });
  const controls = new Controls(ask);
  const editor = new Editor(ask);
  const happened = new Happened();

  const quantity = el("select", { ariaLabel: "quantity", onchange: () => chooseQuantity(quantity.value) });
  const span = el(
    "select",
    { ariaLabel: "time window", onchange: () => ((plot.windowS = Number(span.value)), plot.reset()) },
    ...WINDOWS_S.map((s) => el("option", { value: s, textContent: `${s} s`, selected: s === plot.windowS })),
  );
  const pause = el("button", { textContent: "pause", onclick: () => togglePause() });
  const live = el("button", { textContent: "live", title: "return to the live view (double click)", hidden: true, onclick: () => plot.reset() });
  root.append(
    el("header", { className: "bar" }, title, el("span", { className: "space" }), rate),
    trouble,
    el(
      "div",
      { className: "columns" },
      el(
        "div",
        { className: "main" },
        el("div", { className: "bar tools" }, quantity, span, pause, live, el("span", { className: "space" }), legend),
        canvas,
        el("div", { className: "under" }, hovered, peak),
        table.root,
      ),
      el("aside", {}, controls.root, happened.root),
    ),
    editor.root,
  );

  let dirty = false;
  let paused = false;
  let painted = 0;
  let received = 0;
  let bytes = 0;
  const draw = () => {
    if (dirty || !store.quantities.length) return;
    dirty = true;
    requestAnimationFrame(() => {
      dirty = false;
      if (!store.quantities.length || paused) return;
      plot.draw();
      live.hidden = !plot.zoom;
      const { unit } = store.quantities[plot.quantity];
      peak.textContent = plot.peak && !plot.zoom?.y ? `clipped peak: ${shortNumber(plot.peak)} ${unit}` : "";
      root.dataset.painted = ++painted;
    });
  };

  function togglePause() {
    paused = !paused;
    pause.textContent = paused ? "resume" : "pause";
    draw();
  }

  function reportHovered(column) {
    const flow = store.flows.get(column);
    if (!flow) return hovered.replaceChildren();
    const { scale, unit } = store.quantities[plot.quantity];
    const value = shortNumber(store.last(plot.quantity, column) * scale);
    hovered.replaceChildren(`${flow.src} → ${flow.dst} · ${flow.algorithm} · `, el("b", { textContent: `${value} ${unit}` }));
  }

  function chooseQuantity(value) {
    const [name, field] = value.split("/");
    plot.quantity = store.quantities.findIndex((one) => one.name === name);
    plot.drawn = -1;
    if (name === REPORTED) {
      store.forgetQuantity(plot.quantity);
      store.quantities[plot.quantity].label = field;
    }
    model.send({ do: "field", name: name === REPORTED ? field : "" });
    plot.zoom &&= { ...plot.zoom, y: null };
    draw();
  }

  function setState(state) {
    trouble.replaceChildren();
    if (!store.quantities.length) store.quantities = state.quantities;
    const chosen = quantity.value;
    quantity.replaceChildren(
      ...store.quantities.filter(({ name }) => name !== REPORTED).map(({ name, label }) => el("option", { value: name, textContent: label })),
      el("optgroup", { label: "fields of reports" }, ...state.fields.map((name) => el("option", { value: `${REPORTED}/${name}`, textContent: name }))),
    );
    if (chosen) quantity.value = chosen;
    for (const part of [controls, editor, happened]) part.setState(state);
    draw();
  }

  function setFlows(message) {
    store.setFlows(message);
    const there = [...store.flows.values()].filter((flow) => !flow.gone);
    const more = store.turnedAway ? ` of ${there.length + store.turnedAway}` : "";
    const idle = message.idle ? el("small", { textContent: `${message.idle} receive-only flows not shown` }) : "";
    title.replaceChildren("ccplane", el("b", { textContent: `${there.length}${more} flow${there.length === 1 ? "" : "s"}` }), idle);
    showLegend(there);
  }

  function showLegend(there) {
    const names = store.flows.size > FEW ? store.algorithms() : [];
    legend.replaceChildren(
      ...names.map((name) =>
        el(
          "span",
          {},
          el("i", { className: "swatch", style: `background:${colours.ofAlgorithm(name)}` }),
          `${name} ${there.filter((flow) => flow.algorithm === name).length}`,
        ),
      ),
      ...(names.length ? [el("span", { className: "dim", textContent: "line: median; bands: quartiles, extremes", title: "hover over a flow in the table to see its curve" })] : []),
    );
  }

  const onMessage = (message, buffers) => {
    root.dataset.messages = ++received;
    if (message.kind === "rows" || message.kind === "past") {
      root.dataset.bytes = bytes += buffers.reduce((sum, one) => sum + one.byteLength, 0);
      if (message.kind === "past" || message.number % CONFIRM_EVERY === 0) model.send({ do: "got", number: message.number });
      store.add(message, buffers);
      store.dropGone();
      draw();
    } else if (message.kind === "flows") setFlows(message);
    else if (message.kind === "state") setState(message);
    else if (message.kind === "marks") ((store.marks = message.marks), draw());
    else if (message.kind === "happened") happened.add(message);
    else if (message.kind === "trouble") trouble.replaceChildren(errorBox(message.errors));
    else if (message.kind === "answer") {
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    }
  };
  model.on("msg:custom", onMessage);

  const slow = setInterval(() => table.refresh(), TABLE_MS);
  let before = { painted, received, bytes, at: performance.now() };
  const counting = setInterval(() => {
    const now = { painted, received, bytes, at: performance.now() };
    const passed = (now.at - before.at) / 1000;
    const perS = (name) => (now[name] - before[name]) / passed;
    rate.replaceChildren(el("i", { className: perS("painted") > 0 ? "dot on" : "dot" }), `${perS("painted").toFixed(1)} updates/s · ${shortNumber(perS("bytes") / 1000)} kB/s`);
    before = now;
  }, RATE_MS);
  const themed = () => {
    colours.read();
    store.version++;
    setFlowsColours();
  };
  const setFlowsColours = () => {
    showLegend([...store.flows.values()].filter((flow) => !flow.gone));
    draw();
  };
  const themes = new MutationObserver(themed);
  themes.observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-vscode-theme-kind"] });
  const preference = matchMedia("(prefers-color-scheme: dark)");
  preference.addEventListener("change", themed);
  const sizes = new ResizeObserver(draw);
  sizes.observe(canvas);
  requestAnimationFrame(themed); // the styles may not be loaded yet
  model.send({ do: "hello" });

  return () => {
    model.off("msg:custom", onMessage);
    clearInterval(slow);
    clearInterval(counting);
    themes.disconnect();
    preference.removeEventListener("change", themed);
    sizes.disconnect();
    plot.destroy();
  };
}

export default { render };
