// Groups of all kinds: the list, and one of them with members, lag and a way to move it.

import { get, part, post, remove, session } from "../api.js";
import { lineChart } from "../chart.js";
import { card, chip, dialog, empty, facts, field, h, heading, replace, select, stat, table, toast } from "../dom.js";
import { age, count, short } from "../format.js";

const STATES = { Stable: "good", NotReady: "warn", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Reconciling: "warn", Assigning: "warn" };

export async function show(main, parts, query, live) {
  return parts.length ? showGroup(main, parts.join("/"), live) : showList(main, query, live);
}

async function showList(main, query, live) {
  const list = h("div", {});
  let last = 0;
  const search = h("input", { type: "search", "data-search": true, value: query.get("contains") ?? "", placeholder: "part of a name", oninput: () => load() });
  async function load() {
    const asked = (last += 1);
    const found = await get("/api/groups", { contains: search.value, limit: 200 });
    if (!live.isOpen() || asked !== last) return;
    const missing = found.missing_brokers.length ? h("p", { class: "note warn" }, `Broker ${found.missing_brokers.join(", ")} did not answer; its groups are missing here.`) : null;
    replace(list, missing, found.groups.length ? table("Groups", columns, found.groups) : empty(search.value ? "No group has that in its name." : "There are no groups yet. A consumer with a group.id makes one."),
      found.total > found.groups.length ? h("p", { class: "sub" }, `${count(found.groups.length)} of ${count(found.total)}; search for the others.`) : null);
  }
  const columns = [
    { title: "Group", cell: (row) => h("a", { href: `#/groups/${part(row.id)}` }, row.id || "(without a name)") },
    { title: "Kind", cell: (row) => chip(row.kind) },
    { title: "State", cell: (row) => chip(row.state, STATES[row.state] ?? "") },
    { title: "Coordinator", right: true, cell: (row) => String(row.coordinator) },
    { title: "Lag", right: true, cell: (row) => (row.lag === null ? "–" : row.lag ? chip(count(row.lag), row.state === "Empty" ? "warn" : "accent") : "0") },
    { title: "Behind in time", right: true, cell: (row) => (row.lag === null ? "–" : row.lag ? age(row.lag_ms) : "0 s") },
  ];
  replace(main, heading("Groups"), card(null, h("div", { class: "tools" }, field("Find", search, true)), list));
  await live.every(4000, load);
}

async function showGroup(main, name, live) {
  const path = `/api/groups/${part(name)}`;
  const chart = lineChart("Lag in records", [{ name: "records behind", key: "k3" }], short);
  const late = lineChart("Lag in time", [{ name: "age of the oldest unread record", key: "k1" }], age);
  const [content, details] = [h("div", {}), h("div", {})];
  const actions = session.readOnly ? [] : [
    h("button", { type: "button", onclick: () => move(name, path) }, "Move its offsets"),
    h("button", { type: "button", class: "danger", onclick: () => deletion(name, path) }, "Delete")];
  replace(main, heading(name, { crumbs: [["Groups", "#/groups"]], actions }), content,
    h("div", { class: "two" }, card("Lag in records", chart.element), card("Lag in time", late.element)), details);
  const before = (await get(`/api/lag/${part(name)}`).catch(() => ({ lag: [] }))).lag;
  const samples = new Map(before.map(([at, records, ms]) => [at, [records, ms]]));
  await live.every(3000, async () => {
    const group = await get(path);
    if (!live.isOpen()) return;
    samples.set(group.at_ms, [group.lag, group.lag ? group.lag_ms : 0]);
    const times = [...samples.keys()].sort((one, other) => one - other).slice(-400);
    chart.draw(times, [times.map((at) => samples.get(at)[0])]);
    late.draw(times, [times.map((at) => samples.get(at)[1])]);
    replace(content, summary(group));
    replace(details, lists(group));
  });
}

function summary(group) {
  const why = reason(group);
  return [
    why ? h("p", { class: `note ${why[0]}` }, why.slice(1)) : null,
    h("div", { class: "cards" },
      stat("State", group.state, `${group.kind} group`, STATES[group.state] ?? ""), stat("Members", count(group.members.length), group.facts.assignor ? `assigned by ${group.facts.assignor}` : null),
      stat("Lag", count(group.lag), "records", group.lag ? "warn" : "good"), stat("Behind in time", group.lag ? age(group.lag_ms) : "0 s", "age of the first unread record")),
  ];
}

const titled = (name) => `${name[0].toUpperCase()}${name.slice(1).replaceAll("_", " ")}`;

function lists(group) {
  const members = [
    { title: "Member", cell: (row) => [h("div", { class: "mono" }, row.id), row.instance_id ? chip(`static ${row.instance_id}`) : null] },
    { title: "Client", cell: (row) => row.client_id },
    { title: "Host", cell: (row) => row.host },
    { title: "Epoch", right: true, cell: (row) => row.epoch ?? "–" },
    { title: group.kind === "streams" ? "Tasks" : "Has", cell: (row) => h("span", { class: "chips" }, row.assigned.slice(0, 60).map((each) => chip(each)), row.assigned.length > 60 ? `and ${row.assigned.length - 60} more` : null) },
  ];
  const offsets = [
    { title: "Topic", cell: (row) => h("a", { href: `#/topics/${part(row.topic)}` }, row.topic) },
    { title: "Partition", right: true, cell: (row) => String(row.partition) },
    { title: group.kind === "share" ? "Done before" : "Committed", right: true, cell: (row) => count(row.committed) },
    { title: "End", right: true, cell: (row) => count(row.end) },
    { title: "Lag", right: true, cell: (row) => (row.lag ? chip(count(row.lag), "accent") : count(row.lag)) },
    { title: "Oldest unread", right: true, cell: (row) => (row.lag ? age(row.lag_ms) : "–") },
    { title: "", right: true, cell: (row) => h("a", { href: `#/topics/${part(row.topic)}/records?partition=${row.partition}&from=offset&at=${row.committed}` }, "next record") },
  ];
  const isNews = ([name, value]) => name !== "assignor" && value !== "" && value !== null && !(name === "protocol" && value === "consumer");
  const more = Object.entries(group.facts).filter(isNews);
  return [
    card("Offsets", group.offsets.length ? table("Offsets", offsets, group.offsets) : empty("Nothing is committed.")),
    card("Members", group.members.length ? table("Members", members, group.members) : empty("Nobody is in the group now."), more.length ? facts(Object.fromEntries(more.map(([name, value]) => [titled(name), String(value)]))) : null),
  ];
}

const REBALANCING = ["PreparingRebalance", "CompletingRebalance", "Reconciling", "Assigning"];

/** Why a group does not move, in words: a colour, and what is said. */
function reason(group) {
  const spark = group.offsets.some((each) => each.metadata.startsWith("spark "));
  const held = group.offsets.filter((each) => each.is_held);
  if (held.length) return ["warn", `Readers of committed records cannot go on in ${named(held)}: a transaction is open there. `, h("a", { href: "#/transactions" }, "Who holds them back")];
  if (group.lag && !group.members.length && spark) return ["", "A Spark query commits to this group when a batch is done; it has no members. If the lag only grows, see whether the query runs."];
  if (group.lag && group.state === "Empty") return ["warn", "It does not move because nobody is in it. Start its consumers. (A Spark query that commits to a group has no members either.)"];
  if (group.state === "NotReady") return ["warn", "It waits for topics that its topology needs and that are not there, or have the wrong number of partitions."];
  if (REBALANCING.includes(group.state)) return ["warn", "Members are getting their partitions. If it stays so, one of them does not answer in time: look for long work between two polls."];
  if (!["classic", "consumer"].includes(group.kind)) return null;
  const owned = new Set(group.members.flatMap((each) => each.assigned));
  const orphans = group.offsets.filter((each) => each.lag && !owned.has(`${each.topic}-${each.partition}`));
  if (group.members.length && orphans.length) return ["warn", `Nobody reads ${named(orphans)} any more, and there are unread records.`];
  return null;
}

const named = (rows) => `${rows[0].topic}-${rows[0].partition}${rows.length > 1 ? ` and ${rows.length - 1} more` : ""}`;

function move(name, path) {
  const preview = h("div", {});
  const to = select([["earliest", "the beginning"], ["latest", "the end"], ["offset", "an offset"], ["time", "a time"], ["shift", "by so many records"]], "earliest", (value) => {
    wanted.type = value === "time" ? "datetime-local" : "number";
    wantedField.hidden = value === "earliest" || value === "latest";
  });
  const wanted = h("input", { type: "number", value: 0 });
  const wantedField = field("Where", wanted);
  wantedField.hidden = true;
  const topic = h("input", { placeholder: "all that it has offsets of" });
  const body = (dry) => ({ to: to.value, value: to.value === "time" ? new Date(wanted.value).getTime() : Number(wanted.value), topic: topic.value || null, dry_run: dry });
  const see = h("button", { type: "button", onclick: async () => {
    try {
      const found = await post(`${path}/reset`, body(true));
      replace(preview, table("What would be moved", [
        { title: "Partition", cell: (row) => `${row.topic}-${row.partition}` }, { title: "From", right: true, cell: (row) => count(row.from) },
        { title: "To", right: true, cell: (row) => count(row.to) }, { title: "Change", right: true, cell: (row) => (row.from === null ? "–" : (row.to > row.from ? "+" : "") + count(row.to - row.from)) }], found.offsets));
    } catch (error) { replace(preview, h("p", { class: "note bad", role: "alert" }, error.message)); }
  } }, "Preview");
  dialog(`Move ${name}`, [h("p", { class: "sub" }, "Its members must have left: stop the consumers first."), field("To", to), wantedField, field("Topic", topic), see, preview], "Move", async () => {
    await post(`${path}/reset`, body(false));
    toast(`${name} is moved`);
  });
}

function deletion(name, path) {
  dialog(`Delete the group ${name}?`, [h("p", {}, "What it has committed is forgotten.")], "Delete", async () => { await remove(path); location.hash = "#/groups"; }, "danger");
}

