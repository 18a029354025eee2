// The list of sessions: order, filter, rows that are changed in place.

import { ageOf, byId, folder, h, setText, shortPath } from "./dom.js";

/// The order of `agentctl list`: what needs a person first.
const ORDER = ["waiting", "running", "idle", "unknown", "error", "stopped"];
const PAGE = 300;

/// The key of a session, or of the session of an ask.
export function keyOf(row) {
	const id = row.session_id === undefined ? row.id : row.session_id;
	return id === null ? `${row.adapter}:pid:${row.pid}` : `${row.adapter}:${id}`;
}

/// The address of a session in this page.
export function routeOf(key, tab = "") {
	return `#/session/${encodeURIComponent(key).replaceAll("%3A", ":")}${tab ? `/${tab}` : ""}`;
}

export const shortId = (row) => (row.session_id ?? row.id)?.slice(0, 8) ?? `pid ${row.pid}`;
export const titleOf = (row) => row.title ?? row.prompt ?? row.name ?? "no title yet";
export const isLive = (row) => row.status !== "error" && row.status !== "stopped";

/// The detail of a status, as in `agentctl list`: `tool: npm test`.
export function reasonOf(row) {
	if (!row.reason) return row.outcome ?? "";
	return row.reason.detail ? `${row.reason.kind}: ${row.reason.detail}` : row.reason.kind;
}

export function statusWord(row) {
	return h(`span.status.${row.status}`, row.status);
}

const newest = (row) => Date.parse(row.last_activity_at ?? row.started_at ?? 0) || 0;

function inOrder(a, b) {
	const byStatus = ORDER.indexOf(a.status) - ORDER.indexOf(b.status);
	return byStatus || newest(b) - newest(a) || (keyOf(a) < keyOf(b) ? -1 : 1);
}

/// Puts subagents right behind their parent, as `agentctl list` does.
function belowParents(rows) {
	const children = new Map();
	const ids = new Set(rows.map((row) => row.id));
	const tops = [];
	for (const row of rows) {
		if (!row.parent || row.parent === row.id || !ids.has(row.parent)) tops.push([row, 0]);
		else if (children.has(row.parent)) children.get(row.parent).push(row);
		else children.set(row.parent, [row]);
	}
	const ordered = [];
	const pending = tops.reverse();
	while (pending.length) {
		const [row, depth] = pending.pop();
		ordered.push([row, depth]);
		const below = children.get(row.id) ?? [];
		children.delete(row.id);
		for (const child of below.reverse()) pending.push([child, depth + 1]);
	}
	return ordered;
}

export class SessionList {
	constructor() {
		this.live = new Map();
		this.ended = new Map();
		this.items = new Map();
		this.limit = PAGE;
		this.current = null;
		this.words = [];
		byId("filter").addEventListener("input", () => {
			this.words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
			this.limit = PAGE;
			this.paint();
		});
		byId("more-rows").addEventListener("click", () => {
			this.limit += PAGE;
			this.paint();
		});
	}

	get(key) {
		return this.live.get(key) ?? this.ended.get(key) ?? null;
	}

	/// Takes the rows of a look. Returns the sessions whose status changed.
	take(look) {
		const changed = [];
		if (look.full) {
			const seen = new Set(look.rows.map(keyOf));
			for (const key of this.live.keys()) if (!seen.has(key)) this.live.delete(key);
		}
		for (const row of look.rows) {
			const key = keyOf(row);
			const before = this.live.get(key);
			if (before && before.status !== row.status) changed.push(row);
			this.live.set(key, row);
			this.ended.delete(key);
		}
		for (const key of look.gone) this.live.delete(key);
		this.paint();
		return changed;
	}

	/// Takes the ended sessions; an empty list hides them.
	takeEnded(rows) {
		this.ended = new Map(rows.map((row) => [keyOf(row), row]));
		for (const key of this.live.keys()) this.ended.delete(key);
		this.paint();
	}

	/// Builds every row anew, for example when the home directory became known.
	repaint() {
		for (const item of this.items.values()) item.digest = null;
		this.paint();
	}

	select(key) {
		this.current = key;
		for (const [itsKey, item] of this.items) mark(item, itsKey === key);
	}

	fits(row) {
		if (!this.words.length) return true;
		const fields = [row.status, reasonOf(row), row.adapter, row.id, row.cwd, shortPath(row.cwd), row.title, row.prompt, row.name, row.group, row.model];
		const text = fields.filter(Boolean).join(" ").toLowerCase();
		return this.words.every((word) => text.includes(word));
	}

	paint() {
		const all = [...this.live.values(), ...this.ended.values()];
		const fitting = all.filter((row) => this.fits(row)).sort(inOrder);
		const shown = belowParents(fitting).slice(0, this.limit);
		const kept = new Set();
		let place = byId("rows").firstElementChild;
		for (const [row, depth] of shown) {
			const item = this.item(row, depth);
			kept.add(keyOf(row));
			// A row that stands in its place already is not touched: it keeps the focus and is not laid out again.
			if (item === place) place = place.nextElementSibling;
			else byId("rows").insertBefore(item, place);
		}
		for (const [key, item] of this.items) {
			if (kept.has(key)) continue;
			item.remove();
			this.items.delete(key);
		}
		const more = fitting.length - shown.length;
		byId("more-rows").hidden = more <= 0;
		setText(byId("more-rows"), `Show ${Math.min(more, PAGE)} of ${more} more`);
		const note = all.length === 0 ? "No session is running." : fitting.length === 0 ? "No session fits the filter." : "";
		setText(byId("rows-note"), note);
	}

	item(row, depth) {
		const key = keyOf(row);
		const digest = JSON.stringify([row.status, reasonOf(row), row.adapter, row.id, row.cwd, titleOf(row), row.name, row.group, newest(row), depth]);
		let item = this.items.get(key);
		if (!item) {
			item = h("li", h("a.row", { href: routeOf(key), "data-key": key }));
			this.items.set(key, item);
			mark(item, key === this.current);
		}
		if (item.digest !== digest) {
			item.digest = digest;
			item.className = depth ? "below" : "";
			item.firstElementChild.replaceChildren(...rowParts(row));
		}
		return item;
	}
}

function mark(item, isCurrent) {
	if (isCurrent) item.firstElementChild.setAttribute("aria-current", "page");
	else item.firstElementChild.removeAttribute("aria-current");
}

function rowParts(row) {
	const reason = reasonOf(row);
	return [
		h("span.head",
			h("span.title", { dir: "auto" }, titleOf(row)),
			ageOf(row.last_activity_at ?? row.started_at)),
		h("span.state", statusWord(row), reason && h("span.reason", { dir: "auto" }, reason)),
		h("span.meta",
			h("span.agent", row.adapter), h("code", shortId(row)),
			row.name && h("span.name", row.name),
			folder(row.cwd)),
	];
}
