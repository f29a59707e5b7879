// The brokers of the cluster, the disks of this one, and its settings.

import { get } from "../api.js";
import { card, chip, empty, h, heading, replace, table } from "../dom.js";
import { bytes, count } from "../format.js";
import { settingsCard } from "./settings.js";

export async function show(main, parts, query, live) {
  const list = h("div", {});
  const found = await get("/api/brokers");
  replace(main, heading("Brokers"), list, await settingsCard("broker", String(found.broker_id), `Settings of broker ${found.broker_id}`));
  await live.every(4000, async () => replace(list, brokers(await get("/api/brokers"))));
}

function brokers({ brokers: all, directories }) {
  const columns = [
    { title: "Broker", cell: (row) => [h("strong", {}, String(row.id)), " ", row.is_controller ? chip("controller", "accent") : null, " ", row.is_here ? chip("this one") : null] },
    { title: "State", cell: (row) => (row.is_active ? chip("serving", "good") : chip("not serving", "bad")) },
    { title: "Listeners", cell: (row) => h("span", { class: "mono" }, row.endpoints.join(", ")) },
    { title: "Rack", cell: (row) => row.rack ?? "–" },
    { title: "Leads", right: true, cell: (row) => count(row.leads) },
    { title: "Copies", right: true, cell: (row) => count(row.replicas) },
    { title: "Behind in", right: true, cell: (row) => (row.behind ? chip(count(row.behind), "warn") : "0") },
  ];
  const disks = [
    { title: "Directory", cell: (row) => h("span", { class: "mono" }, row.path) },
    { title: "State", cell: (row) => (row.failure ? chip(row.failure, "bad") : chip("fine", "good")) },
    { title: "Partitions", right: true, cell: (row) => count(row.partitions) },
    { title: "Records", right: true, cell: (row) => bytes(row.size_bytes) },
    { title: "Disk", cell: (row) => fullness(row) },
  ];
  return [
    troubles(all).map((text) => h("p", { class: "note warn" }, text)),
    card("In the cluster", table("Brokers of the cluster", columns, all)),
    card("Log directories of this broker", directories.length ? table("Log directories", disks, directories) : empty("none")),
  ];
}

/** Which broker is behind, in words. */
function troubles(all) {
  const behind = all.filter((each) => each.behind).sort((one, other) => other.behind - one.behind);
  return behind.map((each) => `Broker ${each.id} is behind: ${count(each.behind)} of its ${count(each.replicas)} copies do not have all records. ${each.is_active
    ? "It runs; see whether its disk and network keep up." : "It does not serve; start it again, and it catches up by itself."}`);
}

function fullness({ total_bytes: total, free_bytes: free }) {
  if (total === null) return "in memory";
  const share = Math.round(100 * (1 - free / total));
  const fill = h("i", {});
  fill.style.width = `${share}%`;
  return h("div", {}, h("div", { class: `bar ${share > 95 ? "bad" : share > 90 ? "warn" : ""}`, role: "img", "aria-label": `${share} % full` }, fill), h("span", { class: "sub" }, `${share} % of ${bytes(total)}`));
}
