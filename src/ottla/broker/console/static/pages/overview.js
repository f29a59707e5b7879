// The cluster at a glance: counts, what goes through, and what is wrong.

import { get } from "../api.js";
import { lineChart } from "../chart.js";
import { card, h, heading, replace, stat } from "../dom.js";
import { bytes, byteRate, count, milliseconds, rate, some } from "../format.js";

const KEPT = 450;
const last = (values) => values?.[values.length - 1] ?? 0;

/** Columns of rates: what was there before, and what came since. */
function joined(before, news) {
  return Object.fromEntries(Object.entries(news).map(([name, values]) => [name, [...(before[name] ?? []), ...values].slice(-KEPT)]));
}

export async function show(main, parts, query, live) {
  const records = lineChart("Records a second", [{ name: "records in", key: "k1" }], rate);
  const traffic = lineChart("Bytes a second", [{ name: "in", key: "k2" }, { name: "out", key: "k3" }], byteRate, { isBinary: true });
  const requests = lineChart("Requests a second", [{ name: "requests", key: "k4" }], rate);
  const times = lineChart("Milliseconds", [{ name: "a produce request", key: "k1" }, { name: "a sync of the disk", key: "k3" }], milliseconds, { fill: false });
  const stats = h("div", { class: "cards" });
  const findings = h("div", {});
  const sub = h("span", {});
  replace(main, heading("Overview", { sub }), findings, stats,
    h("div", { class: "two" }, card("Records", records.element), card("Bytes", traffic.element)),
    h("div", { class: "two" }, card("Requests", requests.element), card("Times", times.element)));

  let rates = {};
  await live.every(2000, async () => {
    const now = await get("/api/overview", { after: last(rates.at_ms) });
    if (!live.isOpen()) return;
    rates = joined(rates, now.rates);
    sub.textContent = `cluster ${now.cluster_id}, seen from broker ${now.broker_id}`;
    replace(stats,
      stat("Brokers", `${now.active_brokers} of ${now.brokers}`, `controller ${now.controller_id}`, now.active_brokers < now.brokers ? "warn" : ""),
      stat("Topics", count(now.topics), some(now.partitions, "partition")),
      stat("Under-replicated", count(now.under_replicated), "partitions", now.under_replicated ? "warn" : "good"),
      stat("Without a leader", count(now.without_leader), "partitions", now.without_leader ? "bad" : "good"),
      stat("Records in", rate(last(rates.messages_in)), `${byteRate(last(rates.bytes_in))} in, ${byteRate(last(rates.bytes_out))} out`),
      stat("On this disk", bytes(now.size_bytes), `broker ${now.broker_id}'s copies`));
    records.draw(rates.at_ms, [rates.messages_in]);
    traffic.draw(rates.at_ms, [rates.bytes_in, rates.bytes_out]);
    requests.draw(rates.at_ms, [rates.requests]);
    times.draw(rates.at_ms, [rates.produce_ms, rates.sync_ms]);
  });
  live.every(15000, async () => {
    const { findings: found } = await get("/api/findings");
    const bad = found.filter((each) => each.severity === "bad").length;
    if (!found.length) return replace(findings);
    replace(findings, h("p", { class: `note ${bad ? "bad" : "warn"}` },
      `${found[0].what[0].toUpperCase()}${found[0].what.slice(1)}. `, h("a", { href: "#/doctor" }, found.length > 1 ? `All findings (${found.length})` : "All findings")));
  });
}
