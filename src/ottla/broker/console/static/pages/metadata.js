// The metadata log: who leads it, how far it is, and what the cluster has decided lately, as sentences.

import { get } from "../api.js";
import { card, chip, empty, facts, h, heading, replace, table } from "../dom.js";
import { bytes, count, time } from "../format.js";

const EVERY_MS = 2000;

export async function show(main, parts, query, live) {
  const list = h("div", {});
  replace(main, heading("Metadata log", { sub: "What the controllers of the cluster have decided: topics, leaders, brokers, settings, users and rules, record by record." }), list);
  await live.every(EVERY_MS, async () => {
    const found = await get("/api/metadata-log");
    if (live.isOpen()) replace(list, found.is_kept ? kept(found) : empty("This broker keeps no metadata log: the cluster's metadata is elsewhere."));
  });
}

function kept(log) {
  const columns = [
    { title: "Offset", right: true, cell: (row) => count(row.offset) },
    { title: "Time", cell: (row) => h("span", { class: "nowrap" }, time(row.timestamp_ms)) },
    { title: "What was decided", cell: (row) => row.sentence },
    { title: "Record", cell: (row) => h("span", { class: "mono nowrap" }, row.type) },
  ];
  const behind = log.high_watermark - 1 - log.applied_offset;
  return [
    card("Now", facts({
      Leader: log.leader < 0 ? chip("nobody leads", "bad") : `controller ${log.leader}, epoch ${log.epoch}`,
      Voters: count(log.voters), Committed: `up to offset ${count(log.high_watermark - 1)}`,
      "Applied here": behind > 0 ? chip(`${count(behind)} records behind`, "warn") : "all of it",
      "Newest snapshot": log.snapshot_written_ms === null ? "none yet" : `${bytes(log.snapshot_bytes)}, of ${time(log.snapshot_written_ms)}`,
      "metadata.version": String(log.metadata_version) })),
    card("The last records", table("The last records of the metadata log", columns, log.records)),
  ];
}
