// The frame around all pages: navigation, who is logged in, light and dark, keys, and which page an address is.

import { post, refreshSession, session } from "./api.js";
import { h, replace, s, toast } from "./dom.js";
import { clock } from "./format.js";

// Addresses are #/name/rest. A page is a module with `show(main, parts, query, live)`, loaded when it is first needed.
// `icon` is drawn with strokes in a square of 16.
const PAGES = {
  overview: { title: "Overview", key: "o", icon: "M2.5 2.5h4v4h-4z M9.5 2.5h4v4h-4z M2.5 9.5h4v4h-4z M9.5 9.5h4v4h-4z" },
  brokers: { title: "Brokers", key: "b", icon: "M2.5 3h11v4h-11z M2.5 9h11v4h-11z M5 5h.01 M5 11h.01" },
  topics: { title: "Topics", key: "t", icon: "M2.5 4h11 M2.5 8h11 M2.5 12h7" },
  schemas: { title: "Schemas", key: "m", icon: "M6 2.5c-3 0-.5 5.5-3.5 5.5 3 0 .5 5.5 3.5 5.5 M10 2.5c3 0 .5 5.5 3.5 5.5-3 0-.5 5.5-3.5 5.5" },
  groups: { title: "Groups", key: "g", icon: "M6 7.5a2.4 2.4 0 1 0 0-4.8 2.4 2.4 0 0 0 0 4.8z M1.8 13.3c0-2.4 1.8-3.8 4.2-3.8s4.2 1.4 4.2 3.8 M10.6 2.9a2.4 2.4 0 0 1 0 4.4 M11.8 9.8c1.5.5 2.4 1.7 2.4 3.5" },
  transactions: { title: "Transactions", key: "x", icon: "M2.5 5.5h11 M10.5 2.5l3 3-3 3 M13.5 10.5h-11 M5.5 7.5l-3 3 3 3" },
  access: { title: "Access", key: "a", icon: "M3.5 7.5h9v6h-9z M5.5 7.5v-2a2.5 2.5 0 0 1 5 0v2" },
  doctor: { title: "Doctor", key: "d", icon: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12z M8 5.2v5.6 M5.2 8h5.6" },
  flow: { title: "Live picture", key: "l", icon: "M1.5 8.5h3l2-5.5 3 10 2-4.5h3" },
  metadata: { title: "Metadata log", key: "k", icon: "M3.5 2.5h9v11h-9z M5.8 5.5h4.4 M5.8 8h4.4 M5.8 10.5h2.6" },
  clients: { title: "Clients", key: "c", icon: "M2.5 3h11v7.5h-11z M5.5 13.5h5 M8 10.5v3" },
  pipelines: { title: "Pipelines", key: "p", icon: "M2 3.5h4v3h-4z M10 2h4v3h-4z M10 10.5h4v3h-4z M6 5h2.5M8.5 3.5v8.5M8.5 3.5h1.5M8.5 12h1.5" },
  queries: { title: "Spark queries", key: "s", icon: "M9 1.8L3.2 9h4.2l-.9 5.2L12.8 7H8.4z" },
};
const MOON = "M13.3 9.7A5.7 5.7 0 0 1 6.3 2.7a5.7 5.7 0 1 0 7 7z";
const GROUPS = [["", ["overview", "brokers", "topics", "schemas", "groups", "transactions", "access", "doctor"]], ["The inside", ["flow", "metadata", "clients", "pipelines", "queries"]]];

const icon = (d) => s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d }));

let leave = [];

/** The address of a file beside this one; it has the version of all files in it. */
const file = (name) => new URL(name, import.meta.url).href;

/** Which page an address is: its name, the parts after it, and what stands behind the question mark. */
function address() {
  const [path, query = ""] = (location.hash.slice(2) || "overview").split("?");
  const [name, ...parts] = path.split("/").map(decodeURIComponent);
  return { page: PAGES[name] ? name : "overview", parts, query: new URLSearchParams(query) };
}

/** What a page may use while it is open: repeated work that ends with the page and rests while nobody sees it. What goes
 * wrong in it is said above the page, with the time of what still stands there, until it works again. */
function lifetime() {
  const ends = [];
  leave = ends;
  const isOpen = () => leave === ends;
  const troubles = new Map();
  let lastGood = null;
  say(null);
  const settle = (work, error) => {
    if (!isOpen() || error?.status === 401) return;
    if (error) troubles.set(work, error.message);
    else { troubles.delete(work); lastGood = Date.now(); }
    const [message] = troubles.values();
    say(message && (lastGood === null ? message : `${message} What is shown here is of ${clock(lastGood)}.`));
  };
  return {
    isOpen,
    onleave: (end) => ends.push(end),
    every(ms, work) {
      let timer = null;
      const turn = async () => {
        if (!isOpen()) return;
        if (!document.hidden) await Promise.resolve(work()).then(() => settle(work), (error) => settle(work, error));
        if (isOpen()) timer = setTimeout(turn, ms);
      };
      ends.push(() => clearTimeout(timer));
      return turn();
    },
  };
}

/** A line above the page, or none. */
function say(message) {
  const line = document.querySelector(".trouble");
  if (line === null || line.textContent === (message ?? "")) return;
  line.textContent = message ?? "";
  line.hidden = !message;
}

function themeNow() {
  const kept = localStorage.getItem("ottla-theme");
  return kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  window.dispatchEvent(new Event("ottla-theme"));
}

function frame() {
  const page = h("div", {});
  const main = h("main", { class: "main", id: "main", tabindex: -1 }, h("p", { class: "note bad trouble", role: "alert", hidden: true }), page);
  const links = GROUPS.map(([title, names]) => [
    title ? h("div", { class: "group-title" }, title) : null,
    h("ul", {}, names.map((name) => h("li", {}, h("a", { href: `#/${name}`, "data-page": name }, icon(PAGES[name].icon), PAGES[name].title)))),
  ]);
  const theme = h("button", { type: "button", class: "icon-button", "aria-label": "Light or dark", title: "Light or dark", onclick: () => {
    const next = themeNow() === "dark" ? "light" : "dark";
    localStorage.setItem("ottla-theme", next);
    setTheme(next);
  } }, icon(MOON));
  const side = h("div", { class: "side" },
    h("a", { class: "brand", href: "#/overview" }, h("img", { src: file("ottla.svg"), alt: "" }), "Ottla"),
    h("nav", { "aria-label": "Pages" }, links),
    h("div", { class: "foot" },
      session.readOnly ? h("span", { class: "chip warn" }, "read-only") : null,
      session.loginNeeded ? h("span", {}, session.user.replace(/^User:/, "")) : null,
      session.loginNeeded ? h("div", {}, h("button", { type: "button", onclick: logOut }, "Log out")) : null,
      h("div", { class: "row" }, theme, h("button", { type: "button", class: "quiet keys", onclick: showKeys }, h("kbd", {}, "?"), " keys"), h("a", { href: "/api/openapi.json" }, "API"))));
  replace(document.getElementById("app"), h("div", { class: "frame" }, side, main));
  return page;
}

async function logOut() {
  await post("/api/logout", {}).catch(() => {});
  location.hash = "#/overview";
  location.reload();
}

async function route(main) {
  for (const end of leave) end();
  const { page, parts, query } = address();
  document.title = `${PAGES[page].title} · Ottla`;
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === page) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" }); // in a narrow window the pages are one line that scrolls
    } else link.removeAttribute("aria-current");
  }
  const [live, asked] = [lifetime(), location.hash];
  delete main.dataset.shown;
  const module = await import(`./pages/${page}.js`);
  if (!live.isOpen()) return;
  try {
    await module.show(main, parts, query, live);
    main.querySelector("h1")?.focus({ preventScroll: true });
  } catch (error) {
    if (error.status !== 401) replace(main, h("h1", { tabindex: -1 }, PAGES[page].title), h("p", { class: "note bad", role: "alert" }, error.message));
  }
  if (live.isOpen()) main.dataset.shown = asked; // for whoever waits until a page stands there
}

// -- keys -------------------------------------------------------------------------------------------------------------

let pending = "";

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "?") showKeys();
  else if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) { event.preventDefault(); search.focus(); }
  } else if (pending === "g") {
    const found = Object.entries(PAGES).find(([, page]) => page.key === event.key);
    if (found) location.hash = `#/${found[0]}`;
  }
  pending = event.key === "g" && pending !== "g" ? "g" : "";
}

function showKeys() {
  const rows = Object.values(PAGES).map((page) => h("div", {}, h("dt", {}, h("kbd", {}, "g"), " ", h("kbd", {}, page.key)), h("dd", {}, page.title)));
  const box = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("dl", { class: "key-list" }, rows, h("div", {}, h("dt", {}, h("kbd", {}, "/")), h("dd", {}, "search")), h("div", {}, h("dt", {}, h("kbd", {}, "?")), h("dd", {}, "this list"))),
    h("form", { method: "dialog", class: "actions" }, h("button", { class: "main-action" }, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

// -- start ------------------------------------------------------------------------------------------------------------

async function showLogin() {
  const { showLogin: show } = await import("./pages/login.js");
  show(start);
}

async function start() {
  setTheme(themeNow());
  import(`./pages/${address().page}.js`).catch(() => {}); // it comes while the session is asked for; route() says what is wrong
  try {
    await refreshSession();
  } catch (error) {
    toast(error.message, "bad");
  }
  if (session.loginNeeded && !session.isKnown) return showLogin();
  const main = frame();
  window.onhashchange = () => route(main);
  await route(main);
}

document.addEventListener("keydown", onKey);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(themeNow()));
window.addEventListener("ottla-login", () => { for (const end of leave) end(); leave = []; showLogin(); });
start();
