// Records of a topic: browse, search, follow, write one. What a record holds is text on the screen, never markup.

import { get, part, post, session } from "../api.js";
import { card, chip, dialog, empty, facts, field, h, replace, select, table, toast } from "../dom.js";
import { age, bytes, count, pretty, some, time } from "../format.js";

const TAIL_LIMIT = 500;

export async function showRecords(content, name, query, live) {
  const path = `/api/topics/${part(name)}/records`;
  const topic = await get(`/api/topics/${part(name)}`);
  const state = { records: [], before: "", after: "", partition: query.get("partition") ?? "", from: query.get("from") ?? "latest", isTail: false, opened: new Set() };
  const list = h("div", {});
  const status = h("span", { class: "sub", role: "status" });
  const at = h("input", { name: "at", value: query.get("at") ?? "", size: 20 });
  const atField = field("Offset", at);
  const text = h("input", { type: "search", "data-search": true, placeholder: "any text in key, value, headers" });
  const filter = h("input", { type: "search", class: "mono", placeholder: 'value.total > 100 and key startswith "user-"', "aria-describedby": "filter-help" });
  const committed = h("input", { type: "checkbox" });
  const tail = h("button", { type: "button", "aria-pressed": "false", onclick: () => setTail(!state.isTail) }, "Follow");

  function parameters() {
    const found = { partition: state.partition, text: text.value, filter: filter.value, isolation: committed.checked ? "committed" : "", limit: 50 };
    if (state.from === "offset") return { ...found, from: "offset", offset: at.value || 0 };
    if (state.from === "time") return { ...found, from: "time", timestamp: at.value ? new Date(at.value).getTime() : 0 };
    return { ...found, from: state.from };
  }

  async function load(extra = {}) {
    try {
      const asked = { ...parameters(), ...extra };
      if (extra.before || extra.after) { delete asked.from; delete asked.offset; delete asked.timestamp; }
      const found = await get(path, asked);
      if (!live.isOpen()) return;
      Object.assign(state, { records: found.records, before: found.before, after: found.after });
      const tired = found.is_tired ? ", and there is more to search" : "";
      status.textContent = `${some(found.records.length, "record")}, ${count(found.scanned)} read${tired}`;
      draw();
    } catch (error) {
      replace(list, h("p", { class: "note bad", role: "alert" }, error.message));
    }
  }

  function draw() {
    const shown = [...state.records].reverse();
    replace(list, shown.length ? table("Records, newest first", columns, shown, { attributes, after: detailRow })
      : empty(text.value || filter.value ? "Nothing here is like that; the older page goes on searching." : "No records here."));
  }

  const columns = [
    { title: "Partition", right: true, cell: (row) => String(row.partition) },
    { title: "Offset", right: true, cell: (row) => h("button", { class: "quiet", type: "button", "aria-expanded": state.opened.has(id(row)) ? "true" : "false", onclick: (event) => { event.stopPropagation(); toggle(row); } }, count(row.offset)) },
    { title: "Time", cell: (row) => h("span", { class: "num" }, time(row.timestamp_ms)) },
    { title: "Key", cell: (row) => preview(row.key) },
    { title: "Value", cell: (row) => preview(row.value) },
  ];
  const id = (row) => `${row.partition}:${row.offset}`;
  const attributes = (row) => ({ class: `record ${row.isNew ? "new" : ""}`, onclick: () => toggle(row) });
  const toggle = (row) => { state.opened.has(id(row)) ? state.opened.delete(id(row)) : state.opened.add(id(row)); row.isNew = false; draw(); };
  const detailRow = (row) => (state.opened.has(id(row)) ? h("tr", {}, h("td", { colspan: columns.length }, detail(name, row))) : null);

  function setTail(isTail) {
    state.isTail = isTail;
    tail.setAttribute("aria-pressed", String(isTail));
    tail.textContent = isTail ? "Following" : "Follow";
  }

  async function follow() {
    if (!state.isTail || !state.after) return;
    const found = await get(path, { ...parameters(), from: "", after: state.after, limit: 200 });
    if (!live.isOpen() || !state.isTail) return;
    state.after = found.after;
    if (!found.records.length) return;
    state.records = [...state.records, ...found.records.map((each) => ({ ...each, isNew: true }))].slice(-TAIL_LIMIT);
    status.textContent = `following, ${count(state.records.length)} records`;
    draw();
  }

  function choose(from) {
    state.from = from;
    atField.hidden = from !== "offset" && from !== "time";
    at.type = from === "time" ? "datetime-local" : "number";
    atField.firstChild.textContent = from === "time" ? "Time" : "Offset";
  }

  const partitions = [["", "all"], ...topic.partition_list.map((each) => [String(each.partition), String(each.partition)])];
  const form = h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); setTail(false); load(); } },
    field("Partition", select(partitions, state.partition, (value) => { state.partition = value; load(); })),
    field("From", select([["latest", "the newest"], ["earliest", "the oldest"], ["offset", "an offset"], ["time", "a time"]], state.from, choose)),
    atField, field("Text", text, true), field("Filter", filter, true),
    h("label", { class: "check" }, committed, "committed only"),
    h("button", { class: "main-action", type: "submit" }, "Show"));
  const write = session.readOnly ? null : h("button", { type: "button", onclick: () => produce(name, path, topic.partitions, load) }, "Write a record");
  choose(state.from);
  replace(content, card(null, form, h("p", { class: "help", id: "filter-help" }, "A filter compares key, value, headers.name, offset, partition, timestamp and size; value.user.id goes into JSON. Operators: == != < <= > >= contains startswith endswith in, and, or, not."),
    h("div", { class: "tools" }, status, h("button", { type: "button", onclick: () => { setTail(false); load({ before: state.before }); } }, "Older"),
      h("button", { type: "button", onclick: () => { setTail(false); load({ after: state.after }); } }, "Newer"), tail, write), list));
  await load();
  live.every(1000, follow);
}

function preview(shown) {
  if (shown.kind === "null") return chip("null");
  const text = h("span", { class: "preview" }, shown.text.slice(0, 400) || "(empty)");
  if (shown.kind !== "schema" && shown.schema_id !== undefined) return [chip(schemaName(shown)), text];
  return shown.kind === "bytes" || shown.kind === "schema" ? [chip(shown.kind === "schema" ? `schema ${shown.schema_id}` : `${count(shown.size)} bytes`), text] : text;
}

// "clicks-value 3": the version of a subject that a record was written with; its id where nobody knows more.
const schemaName = (shown) => shown.schema?.subject ? `${shown.schema.subject} ${shown.schema.version}` : `schema ${shown.schema_id}`;

function whole(title, shown) {
  const schema = shown.schema?.subject ? [`, ${shown.schema.kind} of `, h("a", { href: `#/schemas/${part(shown.schema.subject)}` }, shown.schema.subject), `, version ${shown.schema.version}, id ${shown.schema_id}`] : null;
  const size = `${shown.kind}, ${bytes(shown.size)}${shown.is_cut ? ", the beginning" : ""}`;
  return h("div", {}, h("div", { class: "sub" }, `${title}: ${size}`, schema, shown.problem ? `; not decoded: ${shown.problem}` : null), shown.kind === "null" ? null : h("pre", {}, shown.kind === "json" ? pretty(shown.text) : shown.text));
}

function detail(name, row) {
  const place = h("div", {});
  const where = h("button", { type: "button", onclick: async () => {
    const found = await get(`/api/topics/${part(name)}/partitions/${row.partition}/place/${row.offset}`).catch((error) => ({ Problem: error.message }));
    replace(place, facts(found.Problem ? found : placeFacts(found)));
  } }, "Where does it lie?");
  const more = row.value.is_cut ? h("button", { type: "button", onclick: async (event) => {
    const found = await get(`/api/topics/${part(name)}/partitions/${row.partition}/records/${row.offset}`);
    event.target.closest(".detail").replaceWith(detail(name, found));
  } }, "All of it") : null;
  return h("div", { class: "detail" },
    whole("Key", row.key), whole("Value", row.value),
    row.headers.length ? h("div", {}, h("div", { class: "sub" }, "Headers"), facts(Object.fromEntries(row.headers.map((each) => [each.name, h("span", { class: "mono" }, each.text)])))) : null,
    facts({ Time: time(row.timestamp_ms) + (row.is_append_time ? " (of the broker)" : ""), Age: age(Date.now() - row.timestamp_ms), "Producer id": row.producer_id ?? "none", Transaction: row.is_transactional ? "yes" : "no" }),
    h("div", { class: "tools" }, where, more, h("a", { href: `#/topics/${part(name)}/inside/${row.partition}?offset=${row.offset}` }, "The inside of its partition")), place);
}

function placeFacts(found) {
  return {
    File: h("span", { class: "mono" }, found.directory ? `${found.directory}/${found.file}` : found.file), "Position in the file": count(found.position),
    Batch: `${count(found.base_offset)} to ${count(found.last_offset)}, ${some(found.record_count, "record")}, ${bytes(found.batch_size_bytes)}`,
    Compression: found.compression, "CRC-32C": h("span", { class: "mono" }, found.crc), "Leader epoch": found.leader_epoch,
    "Index entry before it": `offset ${count(found.index_entry.offset)} at ${count(found.index_entry.position)}`,
  };
}

function produce(name, path, partitions, done) {
  const options = [["", "by the key"], ...Array.from({ length: partitions }, (_, index) => [String(index), String(index)])];
  const choice = select(options, "");
  choice.name = "partition";
  const nothing = h("input", { type: "checkbox", name: "tombstone" });
  dialog(`Write a record to ${name}`, [
    field("Partition", choice), field("Key (none when empty)", h("input", { name: "key", class: "mono" })), field("Value", h("textarea", { name: "value" })),
    h("label", { class: "check" }, nothing, "no value: a tombstone"), field("Headers, one name=value a line", h("textarea", { name: "headers" })),
  ], "Write", async (sent) => {
    const headers = Object.fromEntries(sent.get("headers").split("\n").filter((line) => line.includes("=")).map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1)]));
    const answer = await post(path, { key: sent.get("key") || null, value: nothing.checked ? null : sent.get("value"), headers, partition: sent.get("partition") === "" ? null : Number(sent.get("partition")) });
    toast(`Written at offset ${answer.offset} of partition ${answer.partition}`);
    await done();
  });
}
