// The list of sessions: order, filter, rows that are changed in place.

import { ageOf, byId, folder, h, mark, setText, shortPath } from "./dom.js";

const PAGE = 300;

// The server makes the same keys (board.rs). Two homes may hold sessions of the same id.
export function keyOf(row) {
	const id = row.session_id === undefined ? row.id : row.session_id;
	return `${row.adapter}:${id ? `${id}@${row.root}` : `pid:${row.pid}`}`;
}

export const routeOf = (key, tab) => `#/session/${encodeURIComponent(key).replaceAll("%3A", ":").replaceAll("%40", "@")}${tab ? `/${tab}` : ""}`;
export const shortId = (row) => (row.session_id ?? row.id)?.slice(0, 8) ?? `pid ${row.pid}`;
// The name that the user gave comes first.
export const titleOf = ({ name, title, prompt }) => [name, title ?? prompt ?? (name ? null : "no title yet")].filter(Boolean).join(": ");
// A group names no session, so it is never part of the title.
export const groupOf = ({ group }) => group && h("span", `group ${group}`);
export const isLive = (row) => row.status !== "error" && row.status !== "stopped";

// The status and its detail: `running  tool: npm test`.
export function stateOf(row) {
	return [h(`span.status.${row.status}`, row.status), h("span.reason", { dir: "auto" }, reasonOf(row))];
}

function reasonOf({ reason, outcome }) {
	return reason?.detail ? `${reason.kind}: ${reason.detail}` : reason?.kind ?? outcome ?? "";
}

export const newest = (row) => row.last_activity_at ?? row.started_at;

export class SessionList {
	constructor() {
		Object.assign(this, { live: new Map(), ended: new Map(), items: new Map(), order: [], limit: PAGE, words: [] });
		byId("filter").oninput = ({ target }) => {
			this.words = target.value.toLowerCase().split(/\s+/);
			this.limit = PAGE;
			this.paint();
		};
		byId("more-rows").onclick = () => {
			this.limit += PAGE;
			this.paint();
		};
	}

	get(key) {
		return this.live.get(key) ?? this.ended.get(key);
	}

	// The key that an address without a home means.
	whole(key) {
		const fitting = this.get(key) ? [] : [...new Set([...this.live.keys(), ...this.ended.keys()])].filter((one) => one.startsWith(`${key}@`));
		return fitting.length === 1 ? fitting[0] : key;
	}

	// Takes the rows of a look. Returns the sessions whose status changed.
	take({ full, rows, gone, order }) {
		const before = this.live;
		if (full) this.live = new Map();
		const changed = rows.filter((row) => (before.get(keyOf(row))?.status ?? row.status) !== row.status);
		for (const row of rows) this.live.set(keyOf(row), row);
		for (const key of gone) this.live.delete(key);
		this.order = order ?? this.order;
		this.paint();
		return changed;
	}

	takeEnded(rows) {
		this.ended = new Map(rows.map((row) => [keyOf(row), row]));
		this.paint();
	}

	select(key) {
		this.current = key;
		for (const [its, item] of this.items) mark(item.firstChild, its === key);
	}

	fits(row) {
		if (!this.words.join("")) return true;
		const fields = [row.status, reasonOf(row), row.adapter, row.id, row.cwd, shortPath(row.cwd), row.title, row.prompt, row.name, row.group, row.model];
		const text = fields.join(" ").toLowerCase();
		return this.words.every((word) => text.includes(word));
	}

	paint() {
		// The server says the order, which is that of `agentctl list`.
		const live = this.order.map((key) => this.live.get(key));
		const all = [...live, ...[...this.ended].map(([key, row]) => !this.live.has(key) && row)].filter(Boolean);
		const fitting = all.filter((row) => this.fits(row));
		const shown = fitting.slice(0, this.limit);
		const ids = new Set(shown.map(({ root, id }) => root + id));
		const list = byId("rows");
		const kept = new Set(shown.map(keyOf));
		for (const [key, item] of this.items) {
			if (kept.has(key)) continue;
			item.remove();
			this.items.delete(key);
		}
		let place = list.firstChild;
		for (const row of shown) {
			const item = this.item(row);
			item.className = row.parent && ids.has(row.root + row.parent) ? "below" : "";
			// A row that stands in its place already is not touched: it keeps the focus and is not laid out again.
			if (item === place) place = place.nextSibling;
			else list.insertBefore(item, place);
		}
		const more = fitting.length - shown.length;
		byId("more-rows").hidden = more <= 0;
		setText(byId("more-rows"), `Show ${Math.min(more, PAGE)} of ${more} more`);
		setText(byId("rows-note"), !all.length ? `No session is running. Start one with ${this.control ? "New session, or with " : ""}agentctl launch in a terminal.` : !fitting.length ? "No session fits the filter." : "");
	}

	item(row) {
		const key = keyOf(row);
		let item = this.items.get(key);
		if (!item) {
			item = h("li", h("a.row", { href: routeOf(key), "data-key": key }));
			this.items.set(key, item);
			mark(item.firstChild, key === this.current);
		}
		const digest = JSON.stringify([row.status, reasonOf(row), row.cwd, titleOf(row), row.group, newest(row)]);
		if (item.digest !== digest) item.firstChild.replaceChildren(...parts(row));
		item.digest = digest;
		return item;
	}
}

function parts(row) {
	return [
		h("span.head", h("span.title", { dir: "auto" }, titleOf(row)), ageOf(newest(row))),
		h("span.state", stateOf(row)),
		h("span.meta", groupOf(row), h("span", row.adapter), h("code", shortId(row)), folder(row.cwd)),
	];
}
