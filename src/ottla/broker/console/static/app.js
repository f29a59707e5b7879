// The frame around all pages: navigation, who is logged in, light and dark, keys, and which page an address is.

import { post, refreshSession, session } from "./api.js";
import { h, replace, toast } from "./dom.js";

// Addresses are #/name/rest. A page is a module with `show(main, parts, query, live)`, loaded when it is first needed.
const PAGES = {
  overview: { title: "Overview", key: "o" },
  brokers: { title: "Brokers", key: "b" },
  topics: { title: "Topics", key: "t" },
  groups: { title: "Groups", key: "g" },
  transactions: { title: "Transactions", key: "x" },
  access: { title: "Access", key: "a" },
  doctor: { title: "Doctor", key: "d" },
  flow: { title: "Live picture", key: "l" },
  clients: { title: "Clients", key: "c" },
  queries: { title: "Spark queries", key: "s" },
};
const GROUPS = [["", ["overview", "brokers", "topics", "groups", "transactions", "access"]], ["The inside", ["flow", "clients", "queries", "doctor"]]];

let leave = [];

/** The address of a file beside this one; it has the version of all files in it. */
const file = (name) => new URL(name, import.meta.url).href;

/** Which page an address is: its name, the parts after it, and what stands behind the question mark. */
function address() {
  const [path, query = ""] = (location.hash.slice(2) || "overview").split("?");
  const [name, ...parts] = path.split("/").map(decodeURIComponent);
  return { page: PAGES[name] ? name : "overview", parts, query: new URLSearchParams(query) };
}

/** What a page may use while it is open: repeated work that ends with the page and rests while nobody sees it. */
function lifetime() {
  const ends = [];
  leave = ends;
  const isOpen = () => leave === ends;
  return {
    isOpen,
    onleave: (end) => ends.push(end),
    every(ms, work) {
      let timer = null;
      const turn = async () => {
        if (!isOpen()) return;
        if (!document.hidden) await Promise.resolve(work()).catch(() => {});
        if (isOpen()) timer = setTimeout(turn, ms);
      };
      ends.push(() => clearTimeout(timer));
      return turn();
    },
  };
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
  const main = h("main", { class: "main", id: "main", tabindex: -1 });
  const links = GROUPS.map(([title, names]) => [
    title ? h("div", { class: "group-title" }, title) : null,
    h("ul", {}, names.map((name) => h("li", {}, h("a", { href: `#/${name}`, "data-page": name }, PAGES[name].title)))),
  ]);
  const theme = h("button", { type: "button", onclick: () => {
    const next = themeNow() === "dark" ? "light" : "dark";
    localStorage.setItem("ottla-theme", next);
    setTheme(next);
  } }, "Light or dark");
  const side = h("div", { class: "side" },
    h("a", { class: "brand", href: "#/overview" }, h("img", { src: file("ottla.svg"), alt: "" }), "Ottla"),
    h("nav", { "aria-label": "Pages" }, links),
    h("div", { class: "foot" },
      session.readOnly ? h("span", { class: "chip warn" }, "read-only") : null,
      session.loginNeeded ? h("span", {}, session.user.replace(/^User:/, "")) : null,
      h("div", { class: "row" }, theme, session.loginNeeded ? h("button", { type: "button", onclick: logOut }, "Log out") : null),
      h("div", {}, h("span", { class: "keys" }, h("kbd", {}, "?"), " keys · "), h("a", { href: "/api/openapi.json" }, "API"))));
  replace(document.getElementById("app"), h("div", { class: "frame" }, side, main));
  return main;
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
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const live = lifetime();
  const module = await import(`./pages/${page}.js`);
  if (!live.isOpen()) return;
  try {
    await module.show(main, parts, query, live);
    main.querySelector("h1")?.focus({ preventScroll: true });
  } catch (error) {
    if (error.status !== 401) replace(main, h("h1", { tabindex: -1 }, PAGES[page].title), h("p", { class: "note bad", role: "alert" }, error.message));
  }
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
    h("dl", { class: "facts" }, rows, h("div", {}, h("dt", {}, h("kbd", {}, "/")), h("dd", {}, "search")), h("div", {}, h("dt", {}, h("kbd", {}, "?")), h("dd", {}, "this list"))),
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
window.addEventListener("ottla-login", () => { for (const end of leave) end(); leave = []; showLogin(); });
start();
