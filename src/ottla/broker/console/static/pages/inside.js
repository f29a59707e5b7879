// The inside of a partition: its segments drawn to scale, with the offsets that matter, epochs and aborted ranges.

import { get, part } from "../api.js";
import { card, chip, empty, facts, h, heading, replace, s, select, table, wide } from "../dom.js";
import { age, bytes, count, some, time } from "../format.js";

const WIDTH = 1200;
const EDGE = 14;
const COLOURS = ["--c1", "--c2", "--c3", "--c4"];

export async function showInside(main, name, index, query, live) {
  const path = `/api/topics/${part(name)}/partitions/${index}`;
  const offset = query.get("offset");
  const picture = h("div", {});
  const tables = h("div", {});
  const topic = await get(`/api/topics/${part(name)}`);
  const choice = select(topic.partition_list.map((each) => [String(each.partition), `partition ${each.partition}`]), String(index), (value) => { location.hash = `#/topics/${part(name)}/inside/${value}`; });
  choice.setAttribute("aria-label", "Partition");
  replace(main, heading(`${name}-${index}`, { crumbs: [["Topics", "#/topics"], [name, `#/topics/${part(name)}`]], actions: [choice] }), picture, tables);
  const place = offset ? await get(`${path}/place/${offset}`).catch(() => null) : null;
  await live.every(2000, async () => {
    const found = await get(`${path}/inside`);
    if (!live.isOpen()) return;
    replace(picture, card("Its log", wide("Its log", drawing(found, offset === null ? null : Number(offset))), legend()), place ? card(`Where offset ${offset} lies`, placed(place)) : null);
    replace(tables, details(found));
  });
}

function drawing(log, wanted) {
  const [first, end] = [Math.min(log.log_start_offset, log.segments[0]?.base_offset ?? 0), Math.max(log.log_end_offset, log.log_start_offset + 1)];
  const x = (offset) => EDGE + ((offset - first) / Math.max(1, end - first)) * (WIDTH - 2 * EDGE);
  const marks = [["log start", log.log_start_offset, "m5"], ["last stable", log.last_stable_offset, "m3"], ["high watermark", log.high_watermark, "m2"], ["on the disk", log.flushed_offset, "m4"], ["end", log.log_end_offset, "m1"]];
  if (wanted !== null) marks.push([`offset ${wanted}`, wanted, "m3"]);
  const { rows, labels } = arrange(marks, x);
  const top = 20 + rows * 17;
  const height = top + 138;
  const segments = log.segments.map((segment, at) => drawSegment(segment, log.segments[at + 1]?.base_offset ?? end, x, top));
  return s("svg", { class: "draw", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": describe(log) },
    segments.map((each) => each.box),
    log.aborted.map((each) => s("rect", { class: "aborted", x: x(each.first_offset), y: top + 62, width: Math.max(2, x(each.last_offset + 1) - x(each.first_offset)), height: 8 }, s("title", {}, `aborted: ${each.first_offset} to ${each.last_offset}, producer ${each.producer_id}`))),
    log.epochs.map(([epoch, start], at) => drawEpoch(epoch, start, log.epochs[at + 1]?.[1] ?? end, at, x, top + 78)),
    s("line", { class: "rule", x1: EDGE, x2: WIDTH - EDGE, y1: top + 118, y2: top + 118 }),
    scale(first, end).map((at) => s("text", { class: "dim", x: x(at), y: top + 133, "text-anchor": at === first ? "start" : at === end ? "end" : "middle" }, count(at))),
    labels.map((each) => [s("line", { class: `mark ${each.kind}`, x1: each.x, x2: each.x, y1: 8 + each.row * 17, y2: top }), s("line", { class: `through ${each.kind}`, x1: each.x, x2: each.x, y1: top, y2: top + 72 }),
      s("text", { class: each.kind, x: each.x + (each.isLeft ? -5 : 5), y: 16 + each.row * 17, "text-anchor": each.isLeft ? "end" : "start" }, each.text)]),
    segments.map((each) => each.label)); // over the lines
}

/** Marks at the same offset share a line. A label gets the first row in which it meets no other one, is crossed by no
 * other's line and has its own line cross nobody: those that read to the left are placed from the right end on. */
function arrange(marks, x) {
  const byOffset = new Map();
  for (const [text, offset, kind] of marks) {
    const known = byOffset.get(offset);
    byOffset.set(offset, known ? { ...known, texts: [...known.texts, text] } : { texts: [text], kind });
  }
  const found = [...byOffset].sort(([one], [other]) => one - other).map(([offset, { texts, kind }]) => {
    const text = texts.some((each) => each.startsWith("offset")) ? texts.join(" = ") : `${texts.join(" = ")} ${count(offset)}`;
    const [at, wide] = [x(offset), text.length * 6.7 + 10];
    const isLeft = at + wide > WIDTH;
    return { x: at, text, kind, isLeft, from: isLeft ? at - wide : at, to: isLeft ? at : at + wide };
  });
  const labels = [];
  for (const each of [...found.filter((one) => !one.isLeft), ...found.filter((one) => one.isLeft).reverse()]) {
    let row = 0;
    while (labels.some((other) => disturbs(each, row, other))) row += 1;
    labels.push({ ...each, row });
  }
  return { rows: 1 + Math.max(...labels.map((each) => each.row)), labels };
}

const disturbs = (label, row, other) =>
  (other.row === row && label.from < other.to + 4 && other.from < label.to + 4)
  || (other.row <= row && label.from < other.x && other.x < label.to)
  || (other.row >= row && other.from < label.x && label.x < other.to);

/** The box with the strokes of its index, and its label. */
function drawSegment(segment, next, x, top) {
  const [left, wide] = [x(segment.base_offset), Math.max(3, x(next) - x(segment.base_offset) - 2)];
  const name = wide > 185 ? segment.file : `…${segment.file.slice(-10)}`;
  const more = wide > 210 ? `${bytes(segment.size_bytes)}, ${count(segment.offset_index)} + ${count(segment.time_index)} index entries` : bytes(segment.size_bytes);
  const label = wide > 95 ? [s("text", { x: left + 8, y: top + 21 }, name), s("text", { class: "dim", x: left + 8, y: top + 39 }, more)] : null;
  const ticks = Array.from({ length: Math.min(segment.offset_index, Math.floor(wide / 4)) }, (_, at, of = Math.min(segment.offset_index, Math.floor(wide / 4))) =>
    s("line", { class: "tick", x1: left + ((at + 0.5) / of) * wide, x2: left + ((at + 0.5) / of) * wide, y1: top + 46, y2: top + 54 }));
  const box = s("g", {}, s("rect", { class: `seg ${segment.is_active ? "active" : ""}`, x: left, y: top, width: wide, height: 56, rx: 4 },
    s("title", {}, `${segment.file}: ${bytes(segment.size_bytes)}, from offset ${segment.base_offset}, ${segment.offset_index} offset and ${segment.time_index} time index entries, ${segment.transaction_index} aborted`)), ticks);
  return { box, label };
}

function drawEpoch(epoch, start, next, at, x, y) {
  const box = s("rect", { class: "epoch", x: x(start), y, width: Math.max(2, x(next) - x(start)), height: 22, rx: 3, opacity: 0.35 }, s("title", {}, `leader epoch ${epoch} from offset ${start}`));
  box.style.fill = `var(${COLOURS[at % COLOURS.length]})`;
  return [box, x(next) - x(start) > 60 ? s("text", { x: x(start) + 8, y: y + 15 }, `epoch ${epoch}`) : null];
}

function scale(first, end) {
  const found = [first, ...[1, 2, 3].map((at) => Math.round(first + (at * (end - first)) / 4)), end];
  return [...new Set(found)];
}

const describe = (log) => `Log of ${log.topic}-${log.partition}: ${log.segment_count} segments, offsets ${log.log_start_offset} to ${log.log_end_offset}, high watermark ${log.high_watermark}, last stable offset ${log.last_stable_offset}`;

const legend = () => h("p", { class: "sub" }, "Each box is a segment file, the green one still grows; small strokes are entries of its offset index. Red is what transactions gave up. The band below shows the leaders' epochs.");

function placed(found) {
  return facts({ File: h("span", { class: "mono" }, found.directory ? `${found.directory}/${found.file}` : found.file), "Position in the file": count(found.position), Batch: `${count(found.base_offset)} to ${count(found.last_offset)} (${some(found.record_count, "record")}, ${bytes(found.batch_size_bytes)})`,
    Compression: found.compression, "CRC-32C": found.crc, "Leader epoch": String(found.leader_epoch), Producer: found.producer_id < 0 ? "none" : `${found.producer_id}, epoch ${found.producer_epoch}, sequence ${found.base_sequence}`,
    "Found by the index entry": `offset ${count(found.index_entry.offset)} at ${count(found.index_entry.position)}` });
}

/** A producer that only ended transactions has no batch here. */
const known = (value) => (value < 0 ? "–" : count(value));

function details(log) {
  const segments = [
    { title: "File", cell: (row) => [h("span", { class: "mono nowrap" }, row.file), " ", row.is_active ? chip("grows", "good") : null] }, { title: "From offset", right: true, cell: (row) => count(row.base_offset) }, { title: "Size", right: true, cell: (row) => bytes(row.size_bytes) },
    { title: "Offset index", right: true, cell: (row) => count(row.offset_index) }, { title: "Time index", right: true, cell: (row) => count(row.time_index) }, { title: "Aborted", right: true, cell: (row) => count(row.transaction_index) }, { title: "Latest record", cell: (row) => h("span", { class: "nowrap" }, time(row.latest_ms)) }];
  const followers = [
    { title: "Follower", cell: (row) => [`broker ${row.broker_id} `, row.is_in_sync ? chip("in sync", "good") : chip("behind", "warn")] }, { title: "Its end", right: true, cell: (row) => count(row.log_end_offset) }, { title: "Lag", right: true, cell: (row) => count(row.lag) },
    { title: "Last fetch", right: true, cell: (row) => age(row.fetched_ago_ms) }, { title: "Caught up", right: true, cell: (row) => `${age(row.caught_up_ago_ms)} ago` }];
  const producers = [
    { title: "Producer id", right: true, cell: (row) => String(row.id) }, { title: "Epoch", right: true, cell: (row) => String(row.epoch) }, { title: "Last sequence", right: true, cell: (row) => known(row.last_sequence) }, { title: "Last offset", right: true, cell: (row) => known(row.last_offset) },
    { title: "Last write", cell: (row) => h("span", { class: "nowrap" }, time(row.last_ms)) }, { title: "Transaction", cell: (row) => (row.transaction_first_offset === null ? "–" : chip(`open since offset ${row.transaction_first_offset}`, "warn")) }];
  return [
    card("Now", facts({ Leader: `broker ${log.leader}, epoch ${log.leader_epoch}${log.is_leader ? "" : " (this is a follower's copy)"}`, "In sync": `${log.in_sync.join(", ")} (at least ${log.min_in_sync})`, Durability: log.is_durable ? "acknowledged when it is on the disk" : "acknowledged when the copies have it",
      "Requests that wait for it": count(log.waiting_commits), "Recovery point": count(log.recovery_point), Size: bytes(log.size_bytes), Segments: count(log.segment_count), "Known producers": count(log.producer_count) })),
    log.followers.length ? card("Followers", table("Followers", followers, log.followers)) : null,
    card("Segments", table("Segments", segments, [...log.segments].reverse())),
    card("Producers", log.producers.length ? table("Producers", producers, log.producers) : empty("No idempotent or transactional producer wrote here lately.")),
  ];
}
