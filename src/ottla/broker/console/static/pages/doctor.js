// What is wrong, why, what to do; and what was looked at.

import { get } from "../api.js";
import { card, chip, empty, h, heading, replace } from "../dom.js";

export async function show(main, parts, query, live) {
  const list = h("div", {});
  const checked = h("div", {});
  replace(main, heading("Doctor", { sub: ["What this broker sees. ", h("code", {}, "ottla doctor"), " walks a client's way from outside: names, ports, TLS, logins."] }), list, checked);
  await live.every(5000, async () => {
    const { findings, checks } = await get("/api/findings");
    if (!live.isOpen()) return;
    replace(list, findings.length ? findings.map(finding) : h("div", { class: "card" }, empty("Nothing is wrong. All partitions have leaders and all of their copies, nobody holds back readers, no group is left alone with work.")));
    replace(checked, card("What was looked at", h("ul", { class: "checks" }, checks.map((each) => h("li", {}, each.count ? chip(each.count === 1 ? "1 finding" : `${each.count} findings`, "warn") : chip("fine", "good"), " ", each.title)))));
  });
}

function finding(each) {
  return h("section", { class: `card finding ${each.severity}` },
    h("h2", {}, each.what[0].toUpperCase() + each.what.slice(1), " ", chip(each.severity, each.severity === "bad" ? "bad" : "warn")),
    each.why ? h("p", {}, `${each.why}.`) : null, each.remedy ? h("p", {}, h("strong", {}, `${each.remedy}.`)) : null,
    h("a", { href: each.page, "aria-label": `Show it: ${each.what}` }, "Show it"));
}
