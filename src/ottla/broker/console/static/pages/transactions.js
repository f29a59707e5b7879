// Transactions: who holds back readers, which are open, and ending one.

import { get, part, post, remove, session } from "../api.js";
import { card, chip, dialog, empty, facts, h, heading, replace, table, toast } from "../dom.js";
import { age, count, time } from "../format.js";

const STATES = { Ongoing: "accent", PrepareCommit: "warn", PrepareAbort: "warn", CompleteCommit: "good", CompleteAbort: "", Empty: "" };

export async function show(main, parts, query, live) {
  if (parts.length) return showOne(main, parts.join("/"), live);
  const content = h("div", {});
  replace(main, heading("Transactions", { sub: "A reader of committed records waits for the oldest open transaction of its partition." }), content);
  const load = async () => { const found = await get("/api/transactions"); if (live.isOpen()) replace(content, draw(found, load)); };
  await live.every(4000, load);
}

function draw({ transactions, total, holders, leads_all: leadsAll }, load) {
  const held = [
    { title: "Partition", cell: (row) => h("a", { href: `#/topics/${part(row.topic)}/inside/${row.partition}` }, `${row.topic}-${row.partition}`) },
    { title: "Readers stop at", right: true, cell: (row) => count(row.last_stable_offset) },
    { title: "Held back", right: true, cell: (row) => (row.held_records === 1 ? "1 record" : `${count(row.held_records)} records`) },
    { title: "By", cell: (row) => (row.transactional_id ? h("a", { href: `#/transactions/${part(row.transactional_id)}` }, row.transactional_id) : chip("no coordinator knows it: it hangs", "bad")) },
    { title: "Producer id", right: true, cell: (row) => `${row.producer_id} (epoch ${row.producer_epoch})` },
    { title: "Since its last write", right: true, cell: (row) => (row.silent_ms === null ? `open for ${age(row.open_ms)}` : chip(age(row.silent_ms), row.silent_ms > 60000 ? "bad" : "warn")) },
    { title: "", right: true, cell: (row) => (session.readOnly || row.transactional_id ? null : h("button", { class: "danger", type: "button", onclick: () => abortHanging(row, load) }, "Abort here")) },
  ];
  const known = [
    { title: "Transactional id", cell: (row) => h("a", { href: `#/transactions/${part(row.id)}` }, row.id) },
    { title: "State", cell: (row) => chip(row.state, STATES[row.state] ?? "") },
    { title: "Producer id", right: true, cell: (row) => String(row.producer_id) },
    { title: "Coordinator", right: true, cell: (row) => String(row.coordinator) },
  ];
  return [
    card("Who holds back readers", holders.length ? table("Partitions whose readers are held back", held, holders) : empty(leadsAll ? "Nobody. All committed records can be read." : "Nobody that a coordinator knows. A transaction that hangs in a partition is shown by the console of the broker that leads it.")),
    card("Known to coordinators", transactions.length ? table("Transactions", known, transactions) : empty("There are no transactions yet."), total > transactions.length ? h("p", { class: "sub" }, `${count(transactions.length)} of ${count(total)}, open ones first.`) : null),
  ];
}

async function showOne(main, id, live) {
  const content = h("div", {});
  const path = `/api/transactions/${part(id)}`;
  const abort = session.readOnly ? [] : [h("button", { class: "danger", type: "button", onclick: () => dialog(`Abort ${id}?`,
    [h("p", {}, "What it wrote since it began is given up, and the program that has it open is fenced: its next call fails.")], "Abort", async () => { await remove(path); toast(`${id} is aborted`); }, "danger") }, "Abort")];
  replace(main, heading(id, { crumbs: [["Transactions", "#/transactions"]], actions: abort }), content);
  await live.every(3000, async () => {
    const found = await get(path);
    if (!live.isOpen()) return;
    replace(content, card("Now", facts({ State: chip(found.state, STATES[found.state] ?? ""), "Producer id": String(found.producer_id), "Producer epoch": String(found.producer_epoch),
      Began: time(found.started_ms), "Open for": age(found.age_ms), "Ends by itself after": age(found.timeout_ms) })),
      card("Partitions in it", found.partitions.length ? h("div", { class: "chips" }, found.partitions.map((each) => chip(each))) : empty("none")));
  });
}

function abortHanging(row, load) {
  dialog(`Abort in ${row.topic}-${row.partition}?`, [h("p", {}, `The marker of an abort is written for producer ${row.producer_id}. Do this only when its coordinator does not know the transaction any more; otherwise abort it by its id.`)], "Abort", async () => {
    await post(`/api/topics/${part(row.topic)}/partitions/${row.partition}/abort`, { producer_id: row.producer_id, producer_epoch: row.producer_epoch, coordinator_epoch: row.coordinator_epoch });
    await load();
  }, "danger");
}
