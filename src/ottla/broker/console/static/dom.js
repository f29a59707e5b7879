// Making elements. Children that are not elements become text nodes, so that nothing of a record is ever markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** An element: h("a", {href: "#/topics"}, "Topics"). */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** The same for drawings. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** What an element of a page is known by when the page is drawn anew. */
const nameOf = (element) => `${element.tagName} ${element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent}`;

/** Put these in the place of what an element has. A page that draws itself anew every second leaves the keyboard where
 * it was, and what was scrolled aside stays so. */
export function replace(element, ...children) {
  const active = element !== document.activeElement && element.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = new Map([...element.querySelectorAll(".scroll")].filter((each) => each.scrollLeft).map((each) => [nameOf(each), each.scrollLeft]));
  element.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  if (scrolled.size) for (const each of element.querySelectorAll(".scroll")) each.scrollLeft = scrolled.get(nameOf(each)) ?? 0;
  if (active !== null) [...element.querySelectorAll("a, button, [tabindex]")].find((each) => nameOf(each) === active)?.focus({ preventScroll: true });
  return element;
}

/** A table. Columns are {name, title, right, cell(row)}; rows may have attributes by `attributes(row)`. */
export function table(caption, columns, rows, { attributes, after, sort, onsort } = {}) {
  const head = columns.map((column) => {
    const title = onsort && column.sort ? h("button", { type: "button", onclick: () => onsort(column.sort) }, column.title) : column.title;
    const order = onsort && column.sort ? { "aria-sort": sort === column.sort ? (column.sort === "name" ? "ascending" : "descending") : "none" } : {};
    return h("th", { scope: "col", class: column.right && "right", ...order }, title, sort && sort === column.sort ? (sort === "name" ? " ↑" : " ↓") : null);
  });
  const body = rows.map((row) => {
    const line = h("tr", attributes?.(row) ?? {}, columns.map((column) => h("td", { class: column.right && "right" }, column.cell(row))));
    return after ? [line, after(row, line)] : line;
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

/** Something wide that is scrolled by itself where the window is narrow. */
export const wide = (label, element) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, element);

export const chip = (text, kind = "") => h("span", { class: `chip ${kind}` }, text);

export const stat = (name, value, more, kind = "") =>
  h("div", { class: `stat ${kind}` }, h("div", { class: "name" }, name), h("div", { class: "value" }, value), more ? h("div", { class: "more" }, more) : null);

export const card = (title, ...children) => h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);

export const empty = (text) => h("div", { class: "empty" }, text);

export const facts = (pairs) => h("dl", { class: "facts" }, Object.entries(pairs).map(([name, value]) => h("div", { class: name === "File" ? "wide" : null }, h("dt", {}, name), h("dd", {}, value))));

/** A field with its label. */
export const field = (label, input, grow) => h("label", { class: grow ? "grow" : null }, label, input);

export const select = (options, value, onchange) =>
  h("select", { onchange: (event) => onchange?.(event.target.value) }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));

/** The head of a page: where it is, what it is called, and what can be done. */
export function heading(title, { crumbs = [], sub, actions = [] } = {}) {
  return h("div", { class: "top" },
    h("div", {},
      crumbs.length ? h("nav", { class: "crumbs", "aria-label": "Where you are" }, crumbs.map(([text, href], at) => [at ? " / " : null, h("a", { href }, text)])) : null,
      h("h1", { tabindex: -1 }, title), sub ? h("div", { class: "sub" }, sub) : null),
    h("div", { class: "tools" }, actions));
}

/** A line that comes and goes. */
export function toast(text, kind = "") {
  document.querySelector(".toast")?.remove();
  const line = h("div", { class: `toast ${kind}`, role: "status" }, text);
  document.body.append(line);
  setTimeout(() => line.remove(), 6000);
}

/** A dialog with a form; `act` gets its fields, and the dialog closes when it did not throw. */
export function dialog(title, fields, action, act, kind = "main-action") {
  const failure = h("p", { role: "alert" });
  const form = h("form", { method: "dialog" }, h("h2", {}, title), fields, failure,
    h("div", { class: "actions" },
      h("button", { type: "button", onclick: () => box.close() }, "Cancel"),
      h("button", { class: kind, type: "submit" }, action)));
  const box = h("dialog", { "aria-label": title }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await act(new FormData(form), box);
      box.close();
    } catch (error) {
      failure.className = "note bad";
      failure.textContent = error.message;
    }
  });
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}
