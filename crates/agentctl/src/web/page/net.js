// The connection to the server: pairing, the token, requests, the stream.

const STORE = "agentctl.token";

// A pairing code is taken out of the address bar before any other code of the page runs.
let code = takeCode();

/// Takes the pairing code of a link out of the address bar.
export function takeCode() {
	const found = /^#k=(.+)$/.exec(location.hash);
	if (!found) return null;
	history.replaceState(null, "", `${location.pathname}#/`);
	return found[1];
}

export function pendingCode(next) {
	const taken = next ?? code;
	code = null;
	return taken;
}

export const canKeep = location.protocol === "https:";

/// What a request was refused for.
export class Refusal extends Error {
	constructor(status, error) {
		super(error?.message ?? (status ? `the server answered ${status}` : "the server cannot be reached"));
		this.status = status;
		this.code = error?.code ?? null;
		this.hint = error?.hint ?? null;
	}
}

/// The message and the hint of an error in one text.
export const wordsOf = (error) => (error.hint ? `${error.message} (${error.hint})` : error.message);

function stored() {
	for (const store of [sessionStorage, canKeep ? localStorage : null]) {
		try {
			const found = JSON.parse(store?.getItem(STORE) ?? "null");
			if (found && !(Date.parse(found.until) <= Date.now())) return found.token;
		} catch {
			// A store that cannot be read has no token.
		}
	}
	return null;
}

let token = stored();
export const isPaired = () => token !== null;

export function forget() {
	token = null;
	sessionStorage.removeItem(STORE);
	if (canKeep) localStorage.removeItem(STORE);
}

/// Exchanges the code of a link for a token.
export async function pair(given, keep) {
	const kept = keep && canKeep;
	const answer = await request("/api/pair", { method: "POST", body: { code: given, keep: kept }, bare: true });
	token = answer.token;
	const store = kept ? localStorage : sessionStorage;
	store.setItem(STORE, JSON.stringify({ token, until: answer.until }));
	return answer;
}

let onUnpaired = () => {};
export function whenUnpaired(call) {
	onUnpaired = call;
}

async function request(path, { method = "GET", body, bare = false, signal } = {}) {
	const headers = bare ? {} : { Authorization: `Bearer ${token}` };
	if (body !== undefined) headers["Content-Type"] = "application/json";
	const options = { method, headers, signal, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" };
	let answer;
	try {
		answer = await fetch(path, { ...options, body: body === undefined ? undefined : JSON.stringify(body) });
	} catch (error) {
		if (signal?.aborted) throw error;
		throw new Refusal(0, null);
	}
	if (answer.ok && answer.headers.get("content-type")?.startsWith("text/event-stream")) return answer;
	const document = await answer.json().catch(() => null);
	if (answer.ok) return document;
	if (answer.status === 401 && !bare) {
		forget();
		onUnpaired();
	}
	throw new Refusal(answer.status, document?.error);
}

function query(values) {
	const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
	return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

export const get = (path, values = {}, signal) => request(path + query(values), { signal });
export const post = (path, body) => request(path, { method: "POST", body });

const QUIET_MS = 50_000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000, 15_000];

/// The live stream. It connects again by itself; after every connection the first look is whole.
export class Stream {
	constructor(handlers) {
		this.handlers = handlers;
		this.talk = null;
		this.failures = 0;
		this.heard = 0;
		this.generation = 0;
		setInterval(() => this.check(), 5000);
		document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.check());
		addEventListener("online", () => this.connect());
		addEventListener("pagehide", () => this.close());
		addEventListener("pageshow", (event) => event.persisted && this.connect());
	}

	/// Connects anew if nothing was heard for longer than two beats.
	check() {
		if (this.abort && this.heard && Date.now() - this.heard > QUIET_MS) this.connect();
	}

	/// Follows the conversation of a session, or of none.
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
		const generation = this.generation;
		this.abort = new AbortController();
		this.heard = Date.now();
		let refusal = null;
		try {
			const answer = await get("/api/stream", { talk: this.talk }, this.abort.signal);
			if (generation !== this.generation) return;
			await this.read(answer.body.getReader(), generation);
		} catch (error) {
			refusal = error instanceof Refusal ? error : null;
		}
		if (generation !== this.generation || !isPaired()) return;
		this.abort = null;
		const wait = WAITS_MS[Math.min(this.failures, WAITS_MS.length - 1)];
		this.failures += 1;
		this.handlers.lost(refusal, wait);
		this.timer = setTimeout(() => this.connect(), wait);
	}

	async read(reader, generation) {
		const decoder = new TextDecoder();
		let rest = "";
		for (;;) {
			const { done, value } = await reader.read();
			if (done || generation !== this.generation) return;
			this.heard = Date.now();
			const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
			rest = blocks.pop();
			for (const block of blocks) this.event(block);
		}
	}

	event(block) {
		let name = "message";
		const data = [];
		for (const line of block.split(/\r?\n/)) {
			if (line.startsWith("event:")) name = line.slice(6).trim();
			else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
		}
		if (this.failures) this.failures = 0;
		if (name !== "look" && name !== "said") return;
		try {
			this.handlers[name](JSON.parse(data.join("\n")));
		} catch (error) {
			reportError(error);
		}
	}
}
