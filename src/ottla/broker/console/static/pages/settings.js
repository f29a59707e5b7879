// Settings with their documentation; each can be changed where it stands.

import { get, part, post, session } from "../api.js";
import { card, chip, dialog, empty, field, h, replace, table, toast } from "../dom.js";
import { age, bytes } from "../format.js";

/** What a number of milliseconds or bytes is for people: "7 days" beside 604800000; nothing where that says no more. */
function inWords(name, value) {
  const number = Number(value);
  if (value === null || value === "" || !Number.isFinite(number)) return "";
  if (number >= 2 ** 62) return "no limit";
  if (name.endsWith("ms") && number >= 1000) return age(number);
  return name.endsWith("bytes") && number >= 1024 ? bytes(number) : "";
}

export async function settingsCard(kind, name, title) {
  const path = `/api/settings/${kind}/${part(name)}`;
  const list = h("div", {});
  const search = h("input", { type: "search", "data-search": true, placeholder: "retention", oninput: () => draw() });
  const changed = h("input", { type: "checkbox", onchange: () => draw() });
  let settings = [];

  function draw() {
    const text = search.value.toLowerCase();
    const shown = settings.filter((each) => (each.name.includes(text) || each.doc.toLowerCase().includes(text)) && (!changed.checked || !each.is_default));
    replace(list, shown.length ? table(title, columns(), shown) : empty("No setting like that."));
  }

  const columns = () => [
    { title: "Setting", cell: (row) => [h("div", { class: "mono" }, row.name), h("div", { class: "setting-doc" }, row.doc)] },
    { title: "Value", cell: (row) => [h("span", { class: "mono" }, row.is_sensitive ? "••••" : row.value || "–"), " ", h("span", { class: "words" }, row.is_sensitive ? "" : inWords(row.name, row.value)), " ", row.is_default ? null : chip(row.source, "accent")] },
    { title: "", right: true, cell: (row) => (row.is_read_only || session.readOnly ? null : h("button", { type: "button", "aria-label": `Change ${row.name}`, onclick: () => change(row) }, "Change")) },
  ];

  function change(row) {
    const input = h("input", { name: "value", value: row.value ?? "", class: "mono", "aria-describedby": "setting-doc" });
    const back = h("input", { type: "checkbox", name: "back" });
    dialog(row.name, [h("p", { class: "setting-doc", id: "setting-doc" }, row.doc), field(`New value (${row.type})`, input),
      row.is_default ? null : h("label", { class: "check" }, back, "Take it back to the default")], "Save", async () => {
      await post(path, { setting: row.name, value: back.checked ? null : input.value });
      toast(`${row.name} is changed`);
      await load();
    });
  }

  async function load() {
    settings = (await get(path)).settings;
    draw();
  }

  await load().catch((error) => replace(list, h("p", { class: "note warn" }, error.message)));
  return card(title, h("div", { class: "tools" }, field("Find a setting", search, true), h("label", { class: "check" }, changed, "only what was changed")), list);
}
