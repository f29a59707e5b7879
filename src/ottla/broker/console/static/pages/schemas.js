// Schemas of the registry: the subjects, and one of them with its versions. Nothing is changed here: that is the
// registry's own interface, which every tool speaks.

import { get, part } from "../api.js";
import { card, chip, empty, h, heading, replace, stat, table } from "../dom.js";
import { count, pretty } from "../format.js";

const PAGE = 50;
const KINDS = { AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf" };

export async function show(main, parts, query, live) {
  return parts.length ? showSubject(main, parts.join("/"), query, live) : showList(main, query, live);
}

async function showList(main, query, live) {
  const state = { first: 0, asked: 0 };
  const list = h("div", {});
  const sub = h("span", {});
  const search = h("input", { type: "search", "data-search": true, value: query.get("contains") ?? "", placeholder: "part of a name", oninput: () => { state.first = 0; load(); } });

  async function load() {
    const asked = (state.asked += 1);
    const found = await get("/api/schemas", { contains: search.value, first: state.first, limit: PAGE });
    if (!live.isOpen() || asked !== state.asked) return;
    replace(sub, where(found));
    replace(list, draw(found));
  }

  function draw({ subjects, total, is_served: isServed }) {
    if (!total) return empty(search.value ? "No subject has that in its name." : isServed ? "There are no schemas yet. A serializer registers one with its first record." : h("span", {}, "There are no schemas yet, and this broker does not serve a registry. A broker that is started so does:", h("code", {}, "--set ottla.schema.registry.listener=127.0.0.1:8081")));
    const last = Math.min(state.first + PAGE, total);
    const move = (by) => () => { state.first = Math.max(0, state.first + by); load(); };
    return [table("Subjects", columns, subjects),
      h("div", { class: "tools" }, h("span", { class: "sub", role: "status" }, `${count(state.first + 1)} to ${count(last)} of ${count(total)}`),
        total > PAGE && h("button", { type: "button", disabled: state.first === 0, onclick: move(-PAGE) }, "Before"),
        total > PAGE && h("button", { type: "button", disabled: last >= total, onclick: move(PAGE) }, "Next"))];
  }

  const columns = [
    { title: "Subject", cell: (row) => h("a", { href: `#/schemas/${part(row.name)}` }, row.name) },
    { title: "Kind", cell: (row) => chip(KINDS[row.kind] ?? row.kind) },
    { title: "Versions", right: true, cell: (row) => count(row.versions) },
    { title: "Latest", right: true, cell: (row) => String(row.version) },
    { title: "Schema id", right: true, cell: (row) => String(row.id) },
  ];
  replace(main, heading("Schemas", { sub }), card(null, h("div", { class: "tools" }, field(search)), list));
  await live.every(5000, load);
}

const field = (search) => h("label", { class: "grow" }, "Find", search);

const where = ({ address, level }) => (address ? ["Serializers find the registry at ", h("code", {}, address), `. New versions must be compatible: ${level}.`] : `New versions must be compatible: ${level}.`);

async function showSubject(main, name, query, live) {
  const content = h("div", {});
  replace(main, heading(name, { crumbs: [["Schemas", "#/schemas"]] }), content);
  let drawn = "";
  await live.every(5000, async () => {
    const found = await get(`/api/schemas/${part(name)}`);
    const text = JSON.stringify(found); // a text that somebody reads or selects is not drawn anew for nothing
    if (!live.isOpen() || text === drawn) return;
    drawn = text;
    replace(content, subject(found));
  });
}

function subject(found) {
  const topic = /^(.+)-(?:key|value)$/.exec(found.name)?.[1];
  const [latest] = found.versions;
  return [
    h("div", { class: "cards" }, stat("Kind", KINDS[kindOf(latest)] ?? kindOf(latest)), stat("Versions", count(found.total), `latest ${latest.version}`),
      stat("Compatibility", found.level.toLowerCase().replace("_", " "), "what a new version must be"), stat("Mode", found.mode.toLowerCase().replace("_", " ")),
      topic ? stat("Topic", h("a", { href: `#/topics/${part(topic)}` }, topic), "by the name of the subject") : null),
    found.versions.map((each) => version(each, found.used_by[each.version] ?? [])),
    found.total > found.versions.length ? h("p", { class: "sub" }, `The newest ${count(found.versions.length)} of ${count(found.total)} versions.`) : null,
  ];
}

const kindOf = (each) => each.schemaType ?? "AVRO";

function version(each, users) {
  const references = (each.references ?? []).map((one) => h("a", { class: "chip accent", href: `#/schemas/${part(one.subject)}` }, `${one.name}: ${one.subject} ${one.version}`));
  const extra = Object.entries({ Metadata: each.metadata, Rules: each.ruleSet }).filter(([, value]) => value);
  return card(null, h("h2", {}, `Version ${each.version}`, " ", h("span", { class: "sub" }, `id ${each.id}`)),
    references.length ? h("p", { class: "chips" }, "Refers to ", references) : null,
    users.length ? h("p", { class: "chips" }, "Used by ", users.map((id) => chip(`schema ${id}`))) : null,
    h("pre", { class: "code tall", tabindex: 0, "aria-label": `Version ${each.version}` }, kindOf(each) === "PROTOBUF" ? each.schema : pretty(each.schema)),
    extra.map(([title, value]) => h("details", {}, h("summary", {}, title), h("pre", { class: "code" }, JSON.stringify(value, null, 2)))));
}
