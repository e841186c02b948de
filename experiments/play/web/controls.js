// The controls: the path and the flows, and the parameters of the algorithm.

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10];
const UNITS = { rate_bytes_per_s: 8e-6, rtt_us: 1e-3, loss: 100, buffer_bdp: 1, flows: 1, seed: 1, duration_s: 1 };
const FIELDS = [
  { name: "rate_bytes_per_s", label: "rate [Mbit/s]", min: 0.01, max: 10_000 },
  { name: "rtt_us", label: "RTT [ms]", min: 0.01, max: 10_000 },
  { name: "loss", label: "random loss [%]", min: 0, max: 99 },
  { name: "buffer_bdp", label: "buffer [BDP]", min: 0.001, max: 1000 },
  { name: "flows", label: "flows", min: 1, max: 8, step: 1, again: true },
  { name: "against", label: "competitor", again: true },
  { name: "seed", label: "seed", min: 0, max: 2 ** 53 - 1, step: 1, again: true },
  { name: "duration_s", label: "stop after [s]", min: 0.05, again: true, optional: true },
];

const rounded = (value) => Number(value.toPrecision(12));

export class Path {
  // onChange(fields) for what can change while flows run; onRestart(setting) for the rest.
  constructor(form, competitors, onChange, onRestart) {
    this.fields = new Map();
    this.setting = null;
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const { name, label, again, optional, ...limits } of FIELDS) {
      const field = name === "against" ? select(["", ...competitors], (one) => one || "none") : number(limits);
      field.name = name;
      field.disabled = true;
      if (again) field.title = "begins again at time 0";
      field.required = name !== "against" && !optional;
      field.addEventListener("change", () => {
        if (!field.reportValidity() || !this.setting) return;
        const value = this.read(name);
        if (again) onRestart({ ...this.setting, [name]: value });
        else onChange({ [name]: value });
      });
      this.fields.set(name, field);
      form.append(labelled(label, field));
    }
  }

  read(name) {
    const { value } = this.fields.get(name);
    if (name === "against") return value || null;
    return value === "" ? null : name === "rtt_us" ? Math.round(Number(value) / UNITS[name]) : rounded(Number(value) / UNITS[name]);
  }

  show(setting) {
    this.setting = setting;
    for (const [name, field] of this.fields) {
      field.disabled = false;
      if (field === document.activeElement && field.type === "number") continue;
      const value = setting[name];
      if (name === "against" && value && ![...field.options].some((one) => one.value === value)) field.add(new Option(value, value));
      field.value = value === null ? "" : name === "against" ? value : rounded(value * UNITS[name]);
    }
  }
}

export class Params {
  constructor(place, onChange) {
    this.place = place;
    this.onChange = onChange;
    this.known = "";
    this.fields = new Map();
  }

  show(params) {
    const known = JSON.stringify(params.map(({ value, ...rest }) => rest));
    if (known !== this.known) this.build(params, known);
    for (const { name, value } of params) {
      const field = this.fields.get(name);
      if (field === document.activeElement) continue;
      if (field.type === "checkbox") field.checked = value;
      else field.value = value;
    }
  }

  build(params, known) {
    this.known = known;
    this.fields.clear();
    this.place.replaceChildren(
      ...params.map(({ name, value, min, max, unit, doc }) => {
        const field = typeof value === "boolean" ? check() : typeof value === "number" ? number({ min, max }) : text();
        field.title = [doc, min !== null && max !== null ? `${min} to ${max}` : ""].filter(Boolean).join("; ");
        field.addEventListener("change", () => {
          if (!field.reportValidity()) return;
          const is = field.type === "checkbox" ? field.checked : field.type === "number" ? Number(field.value) : field.value;
          this.onChange(name, is);
        });
        this.fields.set(name, field);
        return labelled(unit ? `${name} [${unit}]` : name, field);
      }),
    );
  }
}

export function speeds(field, onChange) {
  field.append(...SPEEDS.map((speed) => new Option(`${speed}×`, speed, speed === 1, speed === 1)));
  field.addEventListener("change", () => onChange(Number(field.value)));
}

function labelled(text, field) {
  const label = document.createElement("label");
  label.append(`${text} `, field);
  return label;
}

function number({ min, max, step }) {
  return Object.assign(document.createElement("input"), { type: "number", min: min ?? "", max: max ?? "", step: step ?? "any" });
}

function select(values, shown) {
  const field = document.createElement("select");
  field.append(...values.map((value) => new Option(shown(value), value)));
  return field;
}

const check = () => Object.assign(document.createElement("input"), { type: "checkbox" });
const text = () => Object.assign(document.createElement("input"), { type: "text" });
