// Parameters: a slider if both bounds are known, else an input that fits the type.

const EVERY_MS = 100; // while a slider moves
const STEPS = 200;

class Controls {
  constructor(ask) {
    this.ask = ask;
    this.shown = new Map();
    this.list = el("div");
    this.root = el("section", { className: "params" }, el("div", { className: "bar" }, el("h3", { textContent: "Parameters" })), this.list);
  }

  setState({ params, flow }) {
    const names = params.map((param) => JSON.stringify({ ...param, value: 0 }));
    if (names.join() !== this.names) {
      this.names = names.join();
      this.build(params, flow);
    }
    for (const param of params) this.shown.get(param.full).show(param.value);
  }

  build(params, flow) {
    this.shown.clear();
    const owners = [...new Set(params.map((param) => param.owner))];
    this.list.replaceChildren(
      ...owners.flatMap((owner) => [
        el("h4", { textContent: flow === null ? owner : `${owner}, only this flow` }),
        ...params.filter((param) => param.owner === owner).map((param) => this.row(param)),
      ]),
    );
    if (!params.length) this.list.append(el("p", { className: "dim", textContent: "The running algorithms have no parameters." }));
  }

  row(param) {
    const problem = el("div");
    let number = 0;
    const set = async (value) => {
      const mine = ++number;
      const answer = await this.ask({ do: "set", name: param.full, value });
      if (mine === number) problem.replaceChildren(...(answer.errors ? [errorBox(answer.errors)] : []));
    };
    const { parts, show } = control(param, set);
    this.shown.set(param.full, { show });
    return el(
      "div",
      { className: "param" },
      el("label", { title: `${param.doc}\ndefault: ${param.default}` }, el("span", { textContent: param.name }), el("small", { textContent: param.unit })),
      ...parts,
      problem,
    );
  }
}

function control(param, set) {
  const common = { ariaLabel: param.full, title: param.doc };
  if (typeof param.default === "boolean") {
    const box = el("input", { ...common, type: "checkbox", onchange: () => set(box.checked) });
    return { parts: [box], show: (value) => (box.checked = value) };
  }
  if (param.choices.length) {
    const options = param.choices.map((choice) => el("option", { textContent: choice, value: choice }));
    const select = el("select", { ...common, onchange: () => set(select.value) }, ...options);
    return { parts: [select], show: (value) => (select.value = value) };
  }
  const field = el("input", { ...common, type: "text", spellcheck: false, onchange: () => set(field.value) });
  const showField = (value) => {
    if (document.activeElement !== field) field.value = value ?? "";
  };
  if (typeof param.default !== "number" || param.low === null || param.high === null) {
    return { parts: [field], show: showField };
  }
  const scale = scaleOf(param);
  let sentAt = 0;
  let sent = "";
  const moved = (last) => () => {
    field.value = scale.value(Number(slider.value));
    if (field.value !== sent && (last || performance.now() > sentAt + EVERY_MS)) {
      sentAt = performance.now();
      set((sent = field.value));
    }
  };
  const slider = el("input", { ...common, type: "range", min: 0, max: scale.steps, step: 1, oninput: moved(false), onchange: moved(true) });
  return {
    parts: [slider, field],
    show: (value) => {
      showField(value);
      sent = "";
      if (!slider.matches(":active")) slider.value = scale.place(value);
    },
  };
}

// Converts between slider positions and values; logarithmic if the range spans at least three decades.
function scaleOf({ low, high, whole }) {
  const wide = low > 0 && high / low >= 1000;
  const steps = whole && !wide ? Math.min(STEPS, high - low) : STEPS;
  const exact = (value) => (whole ? String(Math.round(value)) : String(Number(value.toPrecision(4))));
  const at = (share) => (wide ? low * (high / low) ** share : low + share * (high - low));
  return {
    steps,
    value: (place) => (place <= 0 ? String(low) : place >= steps ? String(high) : exact(at(place / steps))),
    place: (value) => Math.round(steps * (wide ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low))),
  };
}
