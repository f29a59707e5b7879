// Who may what: users, access rules, quotas and delegation tokens.

import { get, part, post, remove, session } from "../api.js";
import { card, chip, dialog, empty, field, h, heading, replace, select, table, toast } from "../dom.js";
import { byteRate, time } from "../format.js";

const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"].map((each) => [each, each.toLowerCase().replace("_", " ")]);
const OPERATIONS = ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "ALL", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "CLUSTER_ACTION", "IDEMPOTENT_WRITE"].map((each) => [each, each.toLowerCase().replace("_", " ")]);
const LIMITS = [["producer_byte_rate", "bytes a second written"], ["consumer_byte_rate", "bytes a second read"], ["request_percentage", "percent of a thread"], ["controller_mutation_rate", "changes a second"]];

export async function show(main, parts, query, live) {
  const content = h("div", {});
  replace(main, heading("Access"), content);
  const load = async () => { const found = await get("/api/access"); if (live.isOpen()) replace(content, draw(found, load)); };
  await live.every(10000, load);
}

const button = (text, act, kind = "") => (session.readOnly ? null : h("button", { type: "button", class: kind, onclick: act }, text));
const orWhy = (value, error, make) => (value === null ? h("p", { class: "note" }, error) : make(value));

function draw(found, load) {
  const after = (work, text) => async (...sent) => { await work(...sent); toast(text); await load(); };
  return [
    found.has_rules ? null : h("p", { class: "note warn" }, "There is no authorizer: everybody may do everything. ", h("code", {}, "ottla broker start --secure"), " starts a broker with a lock."),
    card("Users", orWhy(found.users, found.users_error, (users) => [
      users.length ? table("Users", [
        { title: "User", cell: (row) => row.name }, { title: "Passwords", cell: (row) => h("span", { class: "chips" }, row.credentials.map((each) => chip(`${each.mechanism}, ${each.iterations} rounds`))) },
        { title: "", right: true, cell: (row) => button("Delete", () => dialog(`Delete the user ${row.name}?`, [h("p", {}, "Its rules stay.")], "Delete", after(() => remove(`/api/users/${part(row.name)}`), "deleted"), "danger"), "danger") }], users) : empty("No user has a password."),
      button("Make a user", () => dialog("Make a user, or change a password", [field("Name", h("input", { name: "name", required: true, autocomplete: "off" })), field("Password", h("input", { name: "password", type: "password", required: true, autocomplete: "new-password" }))],
        "Save", after((sent) => post("/api/users", { name: sent.get("name"), password: sent.get("password") }), "saved")))])),
    card("Access rules", orWhy(found.rules, found.rules_error, (rules) => [
      rules.length ? table("Access rules", ruleColumns((row) => after(() => post("/api/rules/remove", row), "removed")()), rules) : empty("There are no rules."),
      button("Add a rule", () => addRule(after))])),
    card("Quotas", orWhy(found.quotas, found.quotas_error, (quotas) => [
      quotas.length ? table("Quotas", [
        { title: "Who", cell: (row) => Object.entries(row.entity).map(([kind, name]) => `${kind} ${name ?? "(default)"}`).join(", ") },
        { title: "Limits", cell: (row) => h("span", { class: "chips" }, Object.entries(row.limits).map(([key, value]) => chip(`${key} ${key.endsWith("byte_rate") ? byteRate(value) : value}`))) },
        { title: "", right: true, cell: (row) => button("Remove", () => after(() => Promise.all(Object.keys(row.limits).map((key) => post("/api/quotas", { entity: row.entity, key, limit: null }))), "removed")(), "danger") }], quotas) : empty("Nobody is limited."),
      button("Set a limit", () => setQuota(after))])),
    card("Delegation tokens", orWhy(found.tokens, found.tokens_error, (tokens) => (tokens.length ? table("Delegation tokens", [
      { title: "Token", cell: (row) => h("span", { class: "mono" }, row.id) }, { title: "Owner", cell: (row) => row.owner }, { title: "Issued", cell: (row) => time(row.issued_ms) },
      { title: "Expires", cell: (row) => time(row.expires_ms) }, { title: "Ends for good", cell: (row) => time(row.ends_ms) }, { title: "Renewers", cell: (row) => row.renewers.join(", ") || "–" }], tokens) : empty("There are no tokens.")))),
  ];
}

const ruleColumns = (removal) => [
  { title: "Who", cell: (row) => row.principal }, { title: "", cell: (row) => chip(row.permission === "ALLOW" ? "may" : "may not", row.permission === "ALLOW" ? "good" : "bad") },
  { title: "Operation", cell: (row) => row.operation.toLowerCase().replace("_", " ") },
  { title: "On", cell: (row) => `${row.resource.toLowerCase().replace("_", " ")} ${row.name}${row.pattern === "PREFIXED" ? "…" : ""}` }, { title: "From", cell: (row) => (row.host === "*" ? "anywhere" : row.host) },
  { title: "", right: true, cell: (row) => button("Remove", () => removal(row), "danger") },
];

function named(options, name) {
  const made = select(options, options[0][0]);
  made.name = name;
  return made;
}

function addRule(after) {
  dialog("Add an access rule", [
    field("Who", h("input", { name: "principal", value: "User:", required: true })), field("", named([["ALLOW", "may"], ["DENY", "may not"]], "permission")), field("Operation", named(OPERATIONS, "operation")),
    field("On a", named(RESOURCES, "resource")), field("Name (* is all)", h("input", { name: "name", value: "*", required: true })), field("Compared", named([["LITERAL", "as it is"], ["PREFIXED", "by the beginning"]], "pattern")), field("From (* is anywhere)", h("input", { name: "host", value: "*" })),
  ], "Add", after((sent) => post("/api/rules", Object.fromEntries(sent)), "added"));
}

function setQuota(after) {
  dialog("Set a limit", [field("For", named([["user", "a user"], ["client-id", "a client id"], ["ip", "an address"]], "kind")), field("Name (the default for all when empty)", h("input", { name: "name" })),
    field("What", named(LIMITS, "key")), field("At most", h("input", { name: "limit", type: "number", min: 0, step: "any", required: true }))],
  "Set", after((sent) => post("/api/quotas", { entity: { [sent.get("kind")]: sent.get("name") || null }, key: sent.get("key"), limit: Number(sent.get("limit")) }), "set"));
}
