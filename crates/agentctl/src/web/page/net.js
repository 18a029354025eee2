// The connection to the server: pairing, the token, requests, the stream.

const STORE = "agentctl.token";

// A pairing code is taken out of the address bar before any other code of the page runs.
export let code = takeCode();

export function takeCode() {
	const found = /^#k=(.+)$/.exec(location.hash)?.[1];
	if (found) history.replaceState(null, "", "/#/");
	return found;
}

// Only over https: on this machine another program could take over the port and read what is kept.
export const canKeep = location.protocol === "https:";
const stores = canKeep ? [sessionStorage, localStorage] : [sessionStorage];

let token = null;
// A token was kept whose time is over.
export let hasEnded = false;
for (const store of stores) {
	const found = JSON.parse(store.getItem(STORE));
	if (found && Date.parse(found.until) > Date.now()) token ??= found.token;
	else if (found) hasEnded = true;
}
export const isPaired = () => token !== null;

class Refusal extends Error {
	constructor(status, error) {
		super(error?.message ?? (status ? `the server answered ${status}` : "agentctl web does not answer"));
		this.status = status;
		this.hint = error?.hint;
		this.code = error?.code;
		// The order may have been carried out: its answer was lost, or the server says so.
		this.isUnclear = error ? error.code === "unclear" : !status || status >= 500;
	}
}

// A hint that names a flag is for the command line.
const isForFlags = (hint) => /(^|\s)--\w/.test(hint.replace(/\x60[^\x60]*\x60/g, ""));

export const wordsOf = (error) => (error.hint && !isForFlags(error.hint) ? `${error.message} (${error.hint})` : error.message);

const LOST = "; whether it arrived is not known: look before you try again";

// Says that an order failed, or that it may have been carried out.
export const failure = (refusal, done) => (refusal.isUnclear ? `Perhaps ${done}: ${wordsOf(refusal)}${refusal.code ? "" : LOST}` : `Not ${done}: ${wordsOf(refusal)}`);

export async function pair(given, keep) {
	const answer = await request("/api/pair", { code: given, keep: keep && canKeep });
	token = answer.token;
	stores[keep && canKeep ? 1 : 0].setItem(STORE, JSON.stringify({ token, until: answer.until }));
}

let unpaired;
export const whenUnpaired = (call) => (unpaired = call);

async function request(path, body, signal) {
	const headers = body ? { "Content-Type": "application/json" } : {};
	if (token && path !== "/api/pair") headers.Authorization = `Bearer ${token}`;
	const options = { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body), cache: "no-store", credentials: "omit", redirect: "error" };
	const answer = await fetch(path, options).catch(() => {
		throw new Refusal(0);
	});
	if (answer.ok && answer.headers.get("content-type").startsWith("text/event-stream")) return answer;
	const document = await answer.json().catch(() => null);
	if (answer.ok && document) return document;
	if (answer.status === 401 && path !== "/api/pair") {
		token = null;
		for (const store of stores) store.removeItem(STORE);
		unpaired();
	}
	throw new Refusal(answer.ok ? 0 : answer.status, document?.error);
}

export const post = request;
export const get = (path, values = {}, signal) => request(`${path}?${new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null))}`, null, signal);

const QUIET_MS = 50_000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000, 15_000];

// The live stream. It connects again by itself; the first look after each connection is whole.
export class Stream {
	constructor(handlers) {
		Object.assign(this, { handlers, talk: null, failures: 0, generation: 0 });
		setInterval(() => this.check(), 5000);
		document.addEventListener("visibilitychange", () => this.check());
		addEventListener("online", () => this.connect());
	}

	// Connects anew if nothing was heard for longer than two beats.
	check() {
		if (this.abort && Date.now() - this.heard > QUIET_MS) this.connect();
	}

	follow(key) {
		if (this.talk === key) return;
		this.talk = key;
		this.connect();
	}

	close() {
		this.generation += 1;
		clearTimeout(this.timer);
		this.abort?.abort();
		this.abort = null;
	}

	async connect() {
		this.close();
		if (!isPaired()) return;
		const { generation } = this;
		this.abort = new AbortController();
		this.heard = Date.now();
		let refusal = null;
		try {
			const answer = await get("/api/stream", { talk: this.talk }, this.abort.signal);
			await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), generation);
		} catch (error) {
			refusal = error;
		}
		if (generation !== this.generation || !isPaired()) return;
		this.abort = null;
		// Without the session that was to be followed, everything else is still shown.
		if (refusal?.status === 404 && this.talk) return this.follow(null);
		const wait = WAITS_MS[Math.min(this.failures, WAITS_MS.length - 1)];
		this.failures += 1;
		this.handlers.lost(refusal, wait);
		this.timer = setTimeout(() => this.connect(), wait);
	}

	async read(reader, generation) {
		let rest = "";
		for (;;) {
			const { done, value } = await reader.read();
			if (done || generation !== this.generation) return;
			this.heard = Date.now();
			rest += value;
			if (!/\n\r?\n/.test(rest.slice(-value.length - 3))) continue;
			const blocks = rest.split(/\r?\n\r?\n/);
			rest = blocks.pop();
			for (const block of blocks) this.event(block);
		}
	}

	event(block) {
		const field = (name) => block.split(/\r?\n/).filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join("\n");
		this.failures = 0;
		const handler = this.handlers[field("event")];
		try {
			handler?.(JSON.parse(field("data")));
		} catch (error) {
			reportError(error);
		}
	}
}
