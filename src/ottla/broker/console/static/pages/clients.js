// Clients that push their own numbers: the accumulator of a producer drawn as it is now, and what a consumer does.

import { get, post, session } from "../api.js";
import { card, chip, empty, facts, h, heading, replace, s, table, toast, wide } from "../dom.js";
import { bytes, byteRate, count, milliseconds, rate } from "../format.js";

const STEP_MS = 1000;

export async function show(main, parts, query, live) {
  const content = h("div", {});
  const actions = h("div", { class: "tools" });
  replace(main, heading("Clients", { sub: "What clients say about themselves: the batches of a producer before they reach the broker, and how a consumer keeps up.", actions }), content);
  await live.every(STEP_MS, async () => {
    const found = await get("/api/clients");
    if (!live.isOpen()) return;
    if (!session.readOnly) replace(actions, watch(found));
    replace(content, draw(found));
  });
}

function watch({ is_watching: isOn }) {
  return h("button", { type: "button", class: isOn ? null : "main-action", "aria-pressed": String(isOn), onclick: async () => {
    try {
      await post("/api/clients/watch", { watch: !isOn });
      toast(isOn ? "Clients are not asked any more" : "Clients are asked for their numbers once a second");
    } catch (error) { toast(error.message, "bad"); }
  } }, isOn ? "Stop asking clients" : "Ask clients for their numbers");
}

function draw(found) {
  const known = found.clients.filter((each) => Object.keys(each.numbers).length);
  const libraries = [
    { title: "Library", cell: (row) => row.name }, { title: "Version", cell: (row) => row.version }, { title: "Connections", right: true, cell: (row) => count(row.connections) }];
  return [
    known.length ? known.map(drawClient) : card(null, empty(why(found))),
    found.total > found.clients.length ? h("p", { class: "sub" }, `The ${count(found.clients.length)} that were heard last, of ${count(found.total)}.`) : null,
    card("Connected with", found.software.length ? table("Libraries of connected clients", libraries, found.software) : empty("Nobody is connected.")),
  ];
}

function why({ is_watching: isOn, clients }) {
  if (!isOn) return "Nobody asks clients for their numbers. Ask them: every client that allows it (enable.metrics.push) then sends them once a second.";
  if (clients.length) return `${count(clients.length)} clients know that they are asked; their first numbers come in a moment.`;
  return "Clients are asked. One that starts now sends its first numbers within seconds; one that runs already hears of it when it asks again, which is every five minutes.";
}

function drawClient(client) {
  const has = (name) => client.numbers[name] !== undefined;
  const kind = has("producer.buffer.total.bytes") ? "producer" : "consumer";
  return h("section", { class: "card" }, h("h2", {}, client.client_id || "(without a name)", " ", chip(kind, "accent"), " ", h("span", { class: "sub" }, `${client.software}, ${client.address}`)),
    kind === "producer" ? accumulator(client.numbers, client.client_id) : consumer(client.numbers));
}

const known = (format) => (value) => (value === undefined ? "–" : format(value));

function step(x, title, big, small, isBusy) {
  return s("g", {}, s("rect", { class: isBusy ? "box hot" : "box", x, y: 14, width: 232, height: 96, rx: 10 }),
    s("text", { class: "dim", x: x + 14, y: 38 }, title), s("text", { class: "big", x: x + 14, y: 64 }, big), s("text", { class: "dim", x: x + 14, y: 88 }, small));
}

/** send() → batches in the pool → in flight → acknowledged. */
function accumulator(numbers, name) {
  const n = (name) => numbers[`producer.${name}`];
  const [total, free] = [n("buffer.total.bytes") ?? 0, n("buffer.available.bytes") ?? 0];
  const used = Math.max(0, total - free);
  const share = total ? used / total : 0;
  const [batches, inFlight] = [n("incomplete.batches"), n("requests.in.flight") ?? 0];
  const waiting = batches === undefined ? undefined : Math.max(0, batches - inFlight);
  const label = `${count(waiting)} batches wait, ${bytes(used)} of ${bytes(total)} used, ${count(inFlight)} in flight, ${known(rate)(n("record.send.rate"))} records sent`;
  const edges = [252, 552, 852].map((x) => s("path", { class: "edge", d: `M ${x} 62 L ${x + 66} 62` }));
  const picture = s("svg", { class: "draw", viewBox: "0 0 1170 124", role: "img", "aria-label": label }, edges,
    step(20, "send()", known(rate)(n("record.send.rate")), `${known(bytes)(n("record.size.avg"))} a record`, n("record.send.rate") > 0),
    step(318, "Batches that wait", known(count)(waiting), `${known(milliseconds)(n("record.queue.time.avg"))} in the queue`, waiting > 0),
    step(618, "In flight", count(inFlight), `${known(bytes)(n("batch.size.avg"))} a batch`, inFlight > 0),
    step(918, "Acknowledged", known(milliseconds)(n("request.latency.avg")), "from request to answer", n("record.send.rate") > 0));
  const fill = h("i", {});
  fill.style.width = `${Math.max(share > 0 ? 1 : 0, Math.round(100 * share))}%`;
  return [wide(`The accumulator of ${name}`, picture),
    h("div", { class: "pool" }, h("span", {}, "Buffer pool"), h("div", { class: `bar ${share > 0.9 ? "bad" : share > 0.7 ? "warn" : ""}`, role: "img", "aria-label": `${Math.round(100 * share)} % of the buffer pool is used` }, fill),
      h("span", { class: "num" }, `${bytes(used)} of ${bytes(total)}`)),
    facts({ "Callers that wait for memory": known(count)(n("waiting.threads")), "Records in a request": known(count)(n("records.per.request.avg")), "Sent again": known(rate)(n("record.retry.rate")), "Failed": known(count)(n("record.error.total")) })];
}

function consumer(numbers) {
  const n = (name) => numbers[`consumer.${name}`] ?? numbers[`consumer.fetch.manager.${name}`] ?? numbers[`consumer.coordinator.${name}`];
  return facts({ "Records read": known(rate)(n("records.consumed.rate")), "Bytes read": known(byteRate)(n("bytes.consumed.rate")), "Most records behind": known(count)(n("records.lag.max")),
    "A fetch takes": known(milliseconds)(n("fetch.latency.avg")), "Records in a fetch": known(count)(n("records.per.request.avg")), "Partitions": known(count)(n("assigned.partitions")), "Last heartbeat": n("last.heartbeat.seconds.ago") === undefined ? "–" : `${count(n("last.heartbeat.seconds.ago"))} s ago` });
}
