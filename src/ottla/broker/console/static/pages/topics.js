// The list of topics, and one topic with its partitions, records, settings; the inside of a partition. What one of these
// needs is loaded with it: the list, which most come for, waits for this file alone.

import { get, part, post, remove, session } from "../api.js";
import { card, chip, dialog, empty, field, h, heading, replace, stat, table, toast } from "../dom.js";
import { bytes, count, some } from "../format.js";

const PAGE = 100;

export async function show(main, parts, query, live) {
  const [name, view, ...rest] = parts;
  if (!name) return showList(main, query, live);
  if (view === "inside") return (await import("./inside.js")).showInside(main, name, Number(rest[0] ?? 0), query, live);
  return showTopic(main, name, view ?? "partitions", query, live);
}

async function showList(main, query, live) {
  const state = { contains: query.get("contains") ?? "", sort: "name", internal: false, first: 0, asked: 0 };
  const list = h("div", {});
  const search = h("input", { type: "search", "data-search": true, value: state.contains, placeholder: "part of a name", oninput: () => { state.contains = search.value; state.first = 0; load(); } });
  const internal = h("input", { type: "checkbox", onchange: () => { state.internal = internal.checked; state.first = 0; load(); } });

  async function load() {
    const asked = (state.asked += 1); // what is typed faster than answers come: the last one is shown
    const found = await get("/api/topics", { contains: state.contains, sort: state.sort, internal: state.internal || "", first: state.first, limit: PAGE });
    if (live.isOpen() && asked === state.asked) replace(list, draw(found));
  }

  function draw({ topics, total }) {
    if (!total) return empty(state.contains ? "No topic has that in its name." : "There are no topics yet. Create one, or let a producer do it.");
    const columns = [
      { title: "Topic", sort: "name", cell: (row) => [h("a", { href: `#/topics/${part(row.name)}` }, row.name), " ", row.is_internal ? chip("internal") : null] },
      { title: "In sync", sort: "under_replicated", cell: (row) => (row.without_leader ? chip(`${row.without_leader} without a leader`, "bad") : row.under_replicated ? chip(`${row.under_replicated} behind`, "warn") : chip("all", "good")) },
      { title: "Partitions", sort: "partitions", right: true, cell: (row) => count(row.partitions) },
      { title: "Copies", right: true, cell: (row) => count(row.replication_factor) },
      { title: "Records", sort: "records", right: true, cell: (row) => count(row.records) },
      { title: "Size", sort: "size_bytes", right: true, cell: (row) => bytes(row.size_bytes) },
    ];
    const onsort = (sort) => { state.sort = sort; state.first = 0; load(); };
    const last = Math.min(state.first + PAGE, total);
    const isPaged = total > PAGE;
    return [table("Topics", columns, topics, { sort: state.sort, onsort }),
      h("div", { class: "tools" }, h("span", { class: "sub", role: "status" }, `${count(state.first + 1)} to ${count(last)} of ${count(total)}`),
        isPaged && h("button", { type: "button", disabled: state.first === 0, onclick: () => { state.first = Math.max(0, state.first - PAGE); load(); } }, "Before"),
        isPaged && h("button", { type: "button", disabled: last >= total, onclick: () => { state.first += PAGE; load(); } }, "Next"))];
  }

  const actions = session.readOnly ? [] : [h("button", { class: "main-action", type: "button", onclick: () => create(load) }, "Create a topic")];
  replace(main, heading("Topics", { actions }), card(null, h("div", { class: "tools" }, field("Find", search, true), h("label", { class: "check" }, internal, "internal topics")), list));
  await live.every(5000, load);
}

function create(done) {
  dialog("Create a topic", [
    field("Name", h("input", { name: "name", required: true, pattern: "[A-Za-z0-9._\\-]+", autocomplete: "off" })),
    field("Partitions", h("input", { name: "partitions", type: "number", min: 1, value: 3 })),
    field("Copies (the broker's default when empty)", h("input", { name: "copies", type: "number", min: 1 })),
  ], "Create", async (sent) => {
    await post("/api/topics", { name: sent.get("name"), partitions: Number(sent.get("partitions")), replication_factor: sent.get("copies") ? Number(sent.get("copies")) : -1 });
    toast(`${sent.get("name")} is created`);
    await done();
  });
}

async function showTopic(main, name, view, query, live) {
  const base = `#/topics/${part(name)}`;
  const tabs = [["partitions", "Partitions"], ["records", "Records"], ["settings", "Settings"]].map(([key, title]) =>
    h("a", { href: key === "partitions" ? base : `${base}/${key}`, "aria-current": key === view ? "page" : null }, title));
  const content = h("div", {});
  const actions = session.readOnly ? [] : [h("button", { class: "danger", type: "button", onclick: () => deletion(name) }, "Delete")];
  replace(main, heading(name, { crumbs: [["Topics", "#/topics"]], actions }), h("nav", { class: "tabs", "aria-label": "Parts of the topic" }, tabs), content);
  if (view === "records") return (await import("./records.js")).showRecords(content, name, query, live);
  if (view === "settings") return replace(content, await (await import("./settings.js")).settingsCard("topic", name, "Settings"));
  await live.every(3000, async () => replace(content, partitions(name, await get(`/api/topics/${part(name)}`))));
}

function partitions(name, topic) {
  const columns = [
    { title: "Partition", cell: (row) => h("a", { href: `#/topics/${part(name)}/inside/${row.partition}`, "aria-label": `The inside of partition ${row.partition}` }, String(row.partition)) },
    { title: "Leader", cell: (row) => (row.leader === null ? chip("none", "bad") : h("span", { class: "nowrap" }, `${row.leader} (epoch ${row.leader_epoch})`)) },
    { title: "Copies, in sync", cell: (row) => h("span", { class: "chips" }, row.replicas.map((each) => chip(String(each), row.in_sync.includes(each) ? "good" : "warn"))) },
    { title: "First offset", right: true, cell: (row) => count(row.log_start_offset) },
    { title: "Last stable", right: true, cell: (row) => (row.last_stable_offset < row.high_watermark ? chip(count(row.last_stable_offset), "warn") : count(row.last_stable_offset)) },
    { title: "High watermark", right: true, cell: (row) => count(row.high_watermark) },
    { title: "End", right: true, cell: (row) => count(row.log_end_offset) },
    { title: "Segments", right: true, cell: (row) => count(row.segments) },
    { title: "Size", right: true, cell: (row) => (row.offline ? chip("offline", "bad") : bytes(row.size_bytes)) },
    { title: "", right: true, cell: (row) => h("span", { class: "links" }, h("a", { href: `#/topics/${part(name)}/records?partition=${row.partition}` }, "records"), h("a", { href: `#/topics/${part(name)}/inside/${row.partition}`, "aria-label": `Inside, partition ${row.partition}` }, "inside")) },
  ];
  return [
    h("div", { class: "cards" },
      stat("Records", count(topic.records)), stat("Size", bytes(topic.size_bytes)), stat("Partitions", count(topic.partitions), topic.replication_factor === 1 ? "one copy of each" : `${topic.replication_factor} copies of each`),
      stat("Behind", count(topic.under_replicated), "partitions", topic.under_replicated ? "warn" : "good"),
      stat("Written since the start", bytes(topic.bytes_in), some(topic.messages_in, "record"))),
    card("Partitions", table("Partitions", columns, topic.partition_list), h("p", { class: "sub" }, `Topic id ${topic.id}. Offsets and sizes are of broker ${topic.broker_id}'s copies.`)),
  ];
}

function deletion(name) {
  dialog(`Delete ${name}?`, [h("p", {}, "Its records are gone for good. Type its name to go on."), field("Name", h("input", { name: "name", required: true, autocomplete: "off" }))], "Delete", async (sent) => {
    if (sent.get("name") !== name) throw new Error("That is not its name.");
    await remove(`/api/topics/${part(name)}`);
    location.hash = "#/topics";
  }, "danger");
}
