// The metadata log: its quorum, who led when, how far it is, and what the cluster has decided lately, as sentences.

import { get } from "../api.js";
import { card, chip, empty, facts, h, heading, replace, table } from "../dom.js";
import { age, bytes, count, some, time } from "../format.js";

const EVERY_MS = 2000;
const SILENT_MS = 3000;

export async function show(main, parts, query, live) {
  const list = h("div", {});
  replace(main, heading("Metadata log", { sub: "What the controllers of the cluster have decided: topics, leaders, brokers, settings, users and rules, record by record; and who decides." }), list);
  await live.every(EVERY_MS, async () => {
    const found = await get("/api/metadata-log");
    if (live.isOpen()) replace(list, found.is_kept ? kept(found) : empty("This broker keeps no metadata log: the cluster's metadata is elsewhere."));
  });
}

function kept(log) {
  const behind = log.high_watermark - 1 - log.applied_offset;
  return [
    log.troubles.map((each) => h("p", { class: `note ${each.severity === "bad" ? "bad" : "warn"}` },
      h("strong", {}, `${each.what[0].toUpperCase()}${each.what.slice(1)}.`), ` ${each.still}. `, `${each.remedy}.`)),
    card("Now", facts({
      Leader: leader(log), Voters: count(log.voters.length), Committed: `up to offset ${count(log.high_watermark - 1)}`,
      "Applied here": behind > 0 ? chip(`${count(behind)} records behind`, "warn") : "all of it",
      "Newest snapshot": log.snapshot_written_ms === null ? "none yet" : `${bytes(log.snapshot_bytes)}, of ${time(log.snapshot_written_ms)}`,
      "metadata.version": String(log.metadata_version) })),
    card("Voters", table("Voters of the metadata log", [...node(log), { title: `Vote in epoch ${log.epoch}`, cell: vote }, ...progress(log)], log.voters)),
    log.observers.length ? card("Observers", table("Nodes that follow the metadata log", [...node(log), ...progress(log)], log.observers), rest(log)) : null,
    card("Elections", log.elections.length ? table("Elections, newest first", elections(log), log.elections) : empty("A snapshot has taken their place.")),
    card("The last records", table("The last records of the metadata log", records(), log.records)),
  ];
}

function leader(log) {
  if (!log.silence) return log.leader < 0 ? chip("nobody leads", "bad") : `controller ${log.leader}, epoch ${log.epoch}`;
  return [chip("nobody answers", "bad"), ` ${log.silence}. `, log.leader < 0 ? "This node knows of no leader" : `Known here last: controller ${log.leader}`, `, epoch ${log.epoch}`];
}

const node = (log) => [
  { title: "Node", cell: (row) => [h("strong", {}, String(row.id)), " ", row.is_leader ? chip("leads", "accent") : null, " ", row.is_broker === true ? "broker" : row.is_broker === false ? "controller without a vote" : null, " ", row.id === log.node ? chip("this one") : null] },
];

const vote = (row) => (row.voted_for === null ? "–" : row.voted_for === row.id ? "for itself" : `for ${row.voted_for}`);

/** What the leader knows of everybody; where nobody answers, there is nothing. */
const progress = (log) => [
  { title: "Fetched", right: true, cell: (row) => fetched(log, row) },
  { title: "Had everything", right: true, cell: (row) => ago(log, row, row.caught_up_ms) },
  { title: "Log end", right: true, cell: (row) => count(row.end_offset) },
  { title: "Lag", right: true, cell: (row) => (row.lag ? chip(count(row.lag), row.caught_up_ms === null || row.caught_up_ms >= SILENT_MS ? "warn" : "") : count(row.lag)) },
  { title: "Endpoints", cell: (row) => h("span", { class: "mono" }, row.endpoints.join(", ") || "–") },
  { title: "Directory", cell: (row) => h("span", { class: "mono" }, row.directory ?? "–") },
];

function fetched(log, row) {
  if (row.is_leader || log.silence) return row.is_leader ? "leads" : "–";
  if (row.silent_ms === null) return chip("not heard of", "bad");
  return row.silent_ms >= SILENT_MS ? chip(`${age(row.silent_ms)} ago`, "bad") : `${age(row.silent_ms)} ago`;
}

const ago = (log, row, ms) => (row.is_leader ? "always" : log.silence || ms === null ? "–" : `${age(ms)} ago`);

const rest = (log) => (log.observers_count > log.observers.length ? h("p", { class: "sub" }, `${some(log.observers_count - log.observers.length, "node")} more`) : null);

const elections = (log) => [
  { title: "Epoch", right: true, cell: (row) => count(row.epoch) },
  { title: "Since", cell: (row) => h("span", { class: "nowrap" }, time(row.timestamp_ms)) },
  { title: "Leader", cell: (row) => `controller ${row.leader}` },
  { title: "Led", right: true, cell: (row) => (row.led_ms !== null ? age(row.led_ms) : log.silence || row.epoch !== log.epoch ? "–" : chip("leads", "accent")) },
  { title: "Nothing decided before", right: true, cell: (row) => age(row.quiet_ms) },
  { title: "Votes of", cell: (row) => `${row.granted.join(", ")} (of ${row.voters.join(", ")})` },
  { title: "From offset", right: true, cell: (row) => count(row.offset) },
];

const records = () => [
  { title: "Offset", right: true, cell: (row) => count(row.offset) },
  { title: "Time", cell: (row) => h("span", { class: "nowrap" }, time(row.timestamp_ms)) },
  { title: "What was decided", cell: (row) => row.sentence },
  { title: "Record", cell: (row) => h("span", { class: "mono nowrap" }, row.type) },
];
