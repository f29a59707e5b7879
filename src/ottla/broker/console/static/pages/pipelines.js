// Pipelines that a service publishes (ottla pipeline serve --publish) in a compacted topic, which is read as any other is:
// the graph of each with rates and lag, its rules and errors, and a button that asks the service to replay dead letters.

import { get, part, post, session } from "../api.js";
import { card, chip, dialog, empty, h, heading, replace, s, table, toast, wide } from "../dom.js";
import { age, bytes, count, rate, some } from "../format.js";

const TOPIC = "ottla-pipelines";
const NEWEST = 200;
const SILENT_MS = 75_000;
const BOX = { width: 200, height: 62, gapX: 60, gapY: 18 };

export async function show(main, parts, query, live) {
  const list = h("div", {});
  replace(main, heading("Pipelines", { sub: "What services with --publish tell of their pipelines." }), list);
  await live.every(2500, async () => {
    const found = await published();
    if (!live.isOpen()) return;
    replace(list, found.length ? found.map(drawPipeline) : empty("No service publishes a pipeline. ottla pipeline serve --publish does."));
  });
}

/** The last word of every pipeline, whole: a list shows only the beginning of a long value. */
async function published() {
  const { topics } = await get("/api/topics", { contains: TOPIC });
  if (!topics.some((topic) => topic.name === TOPIC)) return [];
  const page = await get(`/api/topics/${part(TOPIC)}/records`, { limit: NEWEST, isolation: "committed" });
  const last = new Map();
  for (const record of page.records) if (record.key.text && !record.key.text.startsWith("replay/")) last.set(record.key.text, record.offset);
  const whole = await Promise.all([...last.values()].map((offset) => get(`/api/topics/${part(TOPIC)}/partitions/0/records/${offset}`).catch(() => null)));
  return whole.map(valueOf).filter((value) => value?.version === 1).sort((one, other) => one.pipeline.localeCompare(other.pipeline));
}

function valueOf(record) {
  try { return JSON.parse(record.value.text); } catch { return null; }
}

function drawPipeline(value) {
  const isSilent = Date.now() - value.at_ms > SILENT_MS && value.phase !== "stopped";
  const state = isSilent ? chip(`nothing heard for ${age(Date.now() - value.at_ms)}`, "bad") : value.trouble ? chip(value.trouble, "bad") : chip("runs", "good");
  const flows = value.status?.flows ?? [];
  const letters = flows.filter((flow) => flow.flow.endsWith("__dead")).reduce((sum, flow) => sum + flow.rows_out, 0);
  return card(value.pipeline,
    h("p", { class: "chips" }, state, value.restarts ? chip(`started again ${some(value.restarts, "time")}`, "warn") : null, value.status?.error ? chip(value.status.error, "bad") : null),
    value.picture.nodes.length ? wide(`Graph of ${value.pipeline}`, drawGraph(value, flows)) : null,
    flows.length ? table(`Flows of ${value.pipeline}`, FLOWS, flows) : null,
    value.status?.rules.length ? table(`Rules of ${value.pipeline}`, RULES, value.status.rules) : null,
    letters && !session.readOnly ? h("div", { class: "tools" }, h("button", { type: "button", onclick: () => replay(value.pipeline) }, `Replay dead letters of ${value.pipeline}`)) : null);
}

const FLOWS = [
  { title: "Flow", cell: (row) => row.flow },
  { title: "State", cell: (row) => row.state },
  { title: "Lag", right: true, cell: (row) => count(row.behind) },
  { title: "Rows read", right: true, cell: (row) => count(row.rows_in) },
  { title: "Written", right: true, cell: (row) => count(row.rows_out) },
  { title: "Late", right: true, cell: (row) => count(row.late) },
  { title: "Rate", right: true, cell: (row) => rate(row.rows_per_s) },
  { title: "State rows", right: true, cell: (row) => `${count(row.state_rows)}, ${bytes(row.state_bytes)}` },
  { title: "Error", cell: (row) => row.error ?? "" },
];
const RULES = [
  { title: "Dataset", cell: (row) => row.dataset },
  { title: "Rule", cell: (row) => row.rule },
  { title: "Else", cell: (row) => row.action.replace("_", " ") },
  { title: "Broken", right: true, cell: (row) => count(row.broken) },
  { title: "Of", right: true, cell: (row) => count(row.rows) },
];

/** The boxes as `ottla pipeline graph` has them; those of flows say their rate and lag. */
function drawGraph({ pipeline, picture }, flows) {
  const columns = 1 + Math.max(...picture.nodes.map((node) => node.column)), rows = 1 + Math.max(...picture.nodes.map((node) => node.row));
  const width = columns * (BOX.width + BOX.gapX) - BOX.gapX + 4, height = rows * (BOX.height + BOX.gapY) - BOX.gapY + 4;
  const places = new Map(picture.nodes.map((node) => [node.name, [2 + node.column * (BOX.width + BOX.gapX), 2 + node.row * (BOX.height + BOX.gapY)]]));
  const edges = picture.edges.map(([begin, end]) => {
    const [x, y] = places.get(begin), [toX, toY] = places.get(end);
    const fromX = x + BOX.width, middle = (fromX + toX) / 2, up = BOX.height / 2;
    return s("path", { class: "edge", d: `M${fromX} ${y + up}C${middle} ${y + up} ${middle} ${toY + up} ${toX} ${toY + up}` });
  });
  const boxes = picture.nodes.map((node) => {
    const [x, y] = places.get(node.name);
    const lines = [node.name.replace(/^sink /, ""), node.text, noteOf(node, flows)];
    return [s("rect", { class: "box", x, y, width: BOX.width, height: BOX.height, rx: 6 }),
      lines.map((line, at) => s("text", { class: at ? "dim" : "", x: x + 8, y: y + 18 + at * 17 }, cut(line)))];
  });
  return s("svg", { class: "draw", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${pipeline}: sources, steps and sinks` }, edges, boxes);
}

const cut = (text) => (text.length > 31 ? `${text.slice(0, 30)}…` : text);

function noteOf(node, flows) {
  const mine = flows.filter((flow) => (node.kind === "dead" ? flow.flow.endsWith("__dead") : node.kind === "sink" && `sink ${flow.flow}` === node.name));
  if (!mine.length) return "";
  const written = mine.reduce((sum, flow) => sum + flow.rows_out, 0), lag = Math.max(...mine.map((flow) => flow.behind ?? 0));
  if (node.kind === "dead") return some(written, "letter");
  return `${rate(mine[0].rows_per_s)}, lag ${count(lag)}`;
}

function replay(pipeline) {
  const what = "All that were not replayed yet go back to the topics that they came from, and the pipeline reads them again.";
  dialog(`Replay dead letters of ${pipeline}?`, [h("p", {}, what)], "Replay", async () => {
    const key = `replay/${pipeline}/${Date.now()}`;
    const { offset } = await post(`/api/topics/${part(TOPIC)}/records`, { key, value: JSON.stringify({ rule: null, step: null }), partition: 0 });
    toast(`The service of ${pipeline} is asked`);
    answer(key, offset).catch((error) => toast(error.message, "bad"));
  });
}

/** The service answers under the key of the request. */
async function answer(key, offset) {
  for (let turn = 0; turn < 60; turn += 1) {
    const page = await get(`/api/topics/${part(TOPIC)}/records`, { after: `0:${offset + 1}`, limit: NEWEST });
    const done = page.records.find((record) => record.key.text === key);
    if (done) return toast(valueOf(done)?.message ?? "done");
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  return toast("No service has answered: does one run with --publish?", "bad");
}
