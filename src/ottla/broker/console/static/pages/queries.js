// Spark queries that commit to groups (commitGroupId): their offsets carry a note of the query, with the number of batches.

import { get, part } from "../api.js";
import { lineChart } from "../chart.js";
import { card, chip, empty, h, heading, replace, table } from "../dom.js";
import { age, count, rate } from "../format.js";

const KEPT = 200;
const SHOWN = 20;

export async function show(main, parts, query, live) {
  const chart = lineChart("Records a second that all queries commit", [{ name: "committed", key: "k2" }], rate);
  const list = h("div", {});
  const before = new Map();
  const history = [];
  replace(main, heading("Spark queries", { sub: "A query with the option commitGroupId commits to a group whenever a batch is done." }),
    card("Progress", chart.element), card("Queries", list));
  await live.every(2500, async () => {
    const { groups } = await get("/api/groups", { limit: 500 });
    const quiet = groups.filter((each) => each.state === "Empty" && (each.note === null || each.note.startsWith("spark "))).slice(0, SHOWN);
    const found = (await Promise.all(quiet.map((each) => get(`/api/groups/${part(each.id)}`).catch(() => null)))).filter((each) => each && each.offsets.length);
    if (!live.isOpen()) return;
    const rows = found.filter((group) => batchOf(group) !== null).map((group) => progress(group, before));
    history.push([Date.now(), rows.reduce((sum, row) => sum + row.speed, 0)]);
    history.splice(0, Math.max(0, history.length - KEPT));
    chart.draw(history.map(([at]) => at), [history.map(([, speed]) => speed)]);
    replace(list, rows.length ? table("Queries", columns, rows) : empty("No Spark query commits to a group. The option commitGroupId of a stream makes one do it."));
  });
}

/** How many batches this run of the query has finished; null where the group is of something else. */
function batchOf(group) {
  const notes = group.offsets.map((each) => /^spark batch=(\d+)$/.exec(each.metadata)).filter(Boolean);
  return notes.length ? Math.max(...notes.map((each) => Number(each[1]))) : null;
}

function progress(group, before) {
  const sum = group.offsets.reduce((total, each) => total + each.committed, 0);
  const was = before.get(group.id) ?? { sum, at: group.at_ms, batch: batchOf(group), moved: null };
  const isMoved = sum > was.sum;
  const batch = batchOf(group);
  const now = isMoved ? { sum, at: group.at_ms, batch, moved: { records: sum - was.sum, batches: Math.max(1, batch - was.batch), took: group.at_ms - was.at, at: group.at_ms } } : { ...was, batch };
  before.set(group.id, now);
  return { ...group, batch, moved: now.moved, speed: isMoved ? (now.moved.records * 1000) / Math.max(1, now.moved.took) : 0 };
}

const columns = [
  { title: "Group", cell: (row) => h("a", { href: `#/groups/${part(row.id)}` }, row.id) },
  { title: "Topics", cell: (row) => h("span", { class: "chips" }, [...new Set(row.offsets.map((each) => each.topic))].map((each) => chip(each))) },
  { title: "Lag", right: true, cell: (row) => count(row.lag) },
  { title: "Behind in time", right: true, cell: (row) => (row.lag ? age(row.lag_ms) : "0 s") },
  { title: "Batches of this run", right: true, cell: (row) => count(row.batch) },
  { title: "Last batch", cell: (row) => (row.moved ? `${count(Math.round(row.moved.records / row.moved.batches))} records, ${age(Date.now() - row.moved.at)} ago` : chip("none while this page is open")) },
];
