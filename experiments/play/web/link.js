// The scenario in the address's fragment: setting, parameters, and the name of the algorithm or its source.

const NUMBERS = ["rate_bytes_per_s", "rtt_us", "loss", "buffer_bdp", "flows", "seed", "duration_s"];
const PARAM = "p.";

async function through(bytes, stream) {
  const out = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(out).arrayBuffer());
}

async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(word) {
  const binary = atob(word.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (one) => one.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

export async function fragmentOf({ setting, params, algorithm, source }) {
  const words = new URLSearchParams();
  for (const name of NUMBERS) if (setting[name] !== null && setting[name] !== undefined) words.set(name, setting[name]);
  if (setting.against) words.set("against", setting.against);
  for (const [name, value] of Object.entries(params)) words.set(PARAM + name, JSON.stringify(value));
  if (source === null) words.set("algorithm", algorithm);
  else words.set("source", await packed(source));
  return words.toString();
}

export async function scenarioOf(fragment) {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const setting = {};
  for (const name of NUMBERS) if (words.has(name) && words.get(name) !== "") setting[name] = Number(words.get(name));
  if (words.has("against")) setting.against = words.get("against");
  const params = {};
  for (const [name, value] of words) if (name.startsWith(PARAM)) params[name.slice(PARAM.length)] = JSON.parse(value);
  const source = words.has("source") ? await unpacked(words.get("source")) : null;
  return { setting, params, algorithm: words.get("algorithm"), source };
}
