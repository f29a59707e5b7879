// A record's way through the broker, live: requests, the log, group commit, followers, and who waits.

import { get } from "../api.js";
import { card, empty, facts, h, heading, replace, s, table, wide } from "../dom.js";
import { byteRate, count, milliseconds, rate, short } from "../format.js";

const STEP_MS = 1000;

export async function show(main, parts, query, live) {
  const picture = h("div", {});
  const tables = h("div", {});
  let was = null;
  replace(main, heading("Live picture", { sub: "A record comes in on the left, is acknowledged when the disk and the copies have it, and goes out on the right." }), picture, tables);
  await live.every(STEP_MS, async () => {
    const now = await get("/api/flow");
    if (!live.isOpen()) return;
    const moved = differences(was ?? now, now);
    replace(picture, card(null, wide("The way of a record", draw(now, moved))));
    replace(tables, lists(now, was ?? now, moved));
    was = now;
  });
}

function differences(was, now) {
  const seconds = Math.max(0.001, (now.at_ms - was.at_ms) / 1000);
  const a = (name) => (now[name] - was[name]) / seconds;
  const mean = (total, number) => (now[number] > was[number] ? (now[total] - was[total]) / (now[number] - was[number]) : 0);
  return { seconds, requests: a("requests"), produceMs: mean("produce_ms", "produces"), records: a("messages_in"), bytesIn: a("bytes_in"), bytesOut: a("bytes_out"), syncs: a("syncs"), syncMs: mean("sync_ms", "syncs") };
}

function box(x, y, title, big, small, isHot, kind = "box") {
  return s("g", {}, s("rect", { class: `${kind} ${isHot ? "hot" : ""}`, x, y, width: 200, height: 92, rx: 10 }),
    s("text", { class: "dim", x: x + 14, y: y + 24 }, title), s("text", { class: "big", x: x + 14, y: y + 50 }, big), s("text", { class: "dim", x: x + 14, y: y + 74 }, small));
}

function edge(d, speed) {
  const dots = Array.from({ length: Math.min(5, Math.ceil(Math.log10(speed + 1) * 1.6)) }, (_, at, of = Math.min(5, Math.ceil(Math.log10(speed + 1) * 1.6))) =>
    s("circle", { class: "dot", r: 4 }, s("animateMotion", { dur: "1.8s", repeatCount: "indefinite", path: d, begin: `${(-1.8 * at) / of}s` })));
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  return [s("path", { class: "edge", d, "marker-end": "url(#arrow)" }), isStill ? null : dots];
}

function draw(now, moved) {
  const lag = now.followers.reduce((most, each) => Math.max(most, each.lag), 0);
  const label = `${rate(moved.records)} records in, ${count(now.produce_waiting)} requests wait for a commit, ${rate(moved.syncs)} syncs, ${count(now.fetch_waiting)} fetches wait for records`;
  return s("svg", { class: "draw", viewBox: "0 0 1155 310", role: "img", "aria-label": label },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" }, s("path", { class: "arrow", d: "M 0 0 L 8 4 L 0 8 z" }))),
    edge("M 220 66 L 325 66", moved.requests), edge("M 525 66 L 630 66", moved.records), edge("M 830 66 L 935 66", moved.bytesOut / 1000),
    edge("M 730 112 L 730 196", moved.syncs), edge("M 630 242 L 525 242", moved.syncs), edge("M 325 242 C 250 242 120 242 120 112", moved.records), edge("M 1035 196 L 1035 112", now.fetch_waiting ? moved.records : 0),
    box(20, 20, `Clients, ${count(now.connections)} connections`, rate(moved.requests), `requests, ${count(now.requests_in_flight + now.requests_unbegun)} in flight`, moved.requests > 0),
    box(325, 20, "Handled", milliseconds(moved.produceMs), "a produce request", moved.requests > 0),
    box(630, 20, "Appended to logs", rate(moved.records), byteRate(moved.bytesIn), moved.records > 0),
    box(935, 20, "Fetched", byteRate(moved.bytesOut), "by consumers", moved.bytesOut > 0),
    box(630, 196, "Group commit", rate(moved.syncs), `${milliseconds(moved.syncMs)} a sync, ${count(now.sync_marked)} logs wait`, now.sync_rounds_running > 0),
    box(325, 196, "Wait for their commit", count(now.produce_waiting), now.followers.length ? `followers at most ${short(lag)} behind` : "no followers here", false, now.produce_waiting ? "wait" : "box"),
    box(935, 196, "Wait for records", count(now.fetch_waiting), `fetches, ${count(now.watched_keys)} partitions`, false, now.fetch_waiting ? "wait" : "box"),
    s("text", { class: "dim", x: 158, y: 176 }, "acknowledged"));
}

function lists(now, was, moved) {
  const before = new Map(was.apis.map((each) => [each.name, each]));
  const apis = [
    { title: "API", cell: (row) => row.name }, { title: "A second", right: true, cell: (row) => rate((row.count - (before.get(row.name)?.count ?? row.count)) / moved.seconds) },
    { title: "Since the start", right: true, cell: (row) => count(row.count) }, { title: "Mean", right: true, cell: (row) => milliseconds(row.count ? row.total_ms / row.count : 0) }];
  const followers = [{ title: "Partition", cell: (row) => row.partition }, { title: "Follower", right: true, cell: (row) => `broker ${row.broker_id}` }, { title: "Behind", right: true, cell: (row) => count(row.lag) }];
  const following = [{ title: "Partition", cell: (row) => row.partition }, { title: "Leader", right: true, cell: (row) => `broker ${row.leader}` }, { title: "Behind", right: true, cell: (row) => count(row.lag) }];
  const inside = facts({ "Connections": count(now.connections), "Requests not begun": count(now.requests_unbegun), "Requests in work or waiting": count(now.requests_in_flight), "Answers on their way": count(now.answers_unsent),
    "Produce requests that wait": count(now.produce_waiting), "Fetches that wait": count(now.fetch_waiting), "Group commit rounds running": count(now.sync_rounds_running), "Logs marked for the next": count(now.sync_marked), "Window of a round": milliseconds(now.sync_window_ms) });
  return h("div", { class: "two" }, card("Requests", now.apis.length ? table("Requests by API", apis, now.apis) : empty("No request yet.")),
    h("div", {}, card("In the broker now", inside), card("Followers of what is led here", now.followers.length ? table("Followers", followers, now.followers) : empty("Nobody follows: partitions have one copy.")),
      now.following.length ? card("What this broker follows", table("Followed", following, now.following)) : null));
}
