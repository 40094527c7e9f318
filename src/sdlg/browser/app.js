// The page: a form, a stream of events, a history in the browser, links. What a result looks like is in view.js.

import { METHODS, copyButton, figures, make, reading, showResult, table, visible } from "./view.js";

const HISTORY = "sdlg.history";
const ENTRIES = 50;
const CHARACTERS = 3_000_000; // browsers give about five million
const PATIENCE = 15; // seconds without news before we say that it is slow
const FALLBACK = {
  methods: ["sdlg", "multinomial"],
  presets: ["default"],
  defaults: { method: "sdlg", preset: "default", samples: 10, max_tokens: 64, seed: 0 },
  limits: {},
};
const NUMBERS = ["samples", "max_tokens", "seed"];
const at = (id) => document.getElementById(id);

let settings = FALLBACK;
let running = null; // the AbortController of the question on its way
let shown = null; // { asked, result }
let pending = null; // what to do once there is a key

/** Something went wrong, in words for the reader. */
class Failure extends Error {
  constructor(message, { status = 0, wait = null } = {}) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

// -- what is asked: form, link ----------------------------------------------------------------------------------

function askedInForm() {
  const asked = { question: at("question").value.trim(), context: at("context").value.trim() };
  for (const name of ["method", "preset"]) asked[name] = at(name).value;
  for (const name of NUMBERS) asked[name] = Number(at(name).value);
  return asked;
}

function fillForm(asked) {
  for (const [name, value] of Object.entries(asked)) {
    if (at(name).tagName === "SELECT" && ![...at(name).options].some((option) => option.value === value))
      at(name).append(make("option", { value }, value)); // the server says if it does not know it
    at(name).value = value;
  }
  if (asked.context) at("with-context").open = true;
}

/** The fragment that stands for a question and its options. */
function linkOf({ question, context, ...options }, compared = false) {
  const fields = new URLSearchParams({ q: question });
  if (context) fields.set("context", context);
  for (const [name, value] of Object.entries(options)) fields.set(name, value);
  if (compared) fields.set("compare", "1");
  return `#${fields}`;
}

function askedInLink(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const question = fields.get("q")?.trim();
  if (!question) return null;
  const asked = { question, context: fields.get("context") ?? "" };
  for (const name of ["method", "preset"]) asked[name] = fields.get(name) || settings.defaults[name];
  for (const name of NUMBERS) asked[name] = wholeNumber(fields.get(name), settings.defaults[name]);
  return { asked, compared: fields.has("compare") };
}

const wholeNumber = (text, otherwise) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : otherwise);

// -- the server -------------------------------------------------------------------------------------------------

const key = () => stored(sessionStorage, "sdlg.key") ?? "";

async function call(path, options = {}) {
  const headers = { "Content-Type": "application/json", ...(key() ? { Authorization: `Bearer ${key()}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached. Is `sdlg serve` still running?");
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

async function failureOf(response) {
  const told = await response.json().catch(() => null);
  const message = told?.error?.message ?? `The server said ${response.status} ${response.statusText}`;
  return new Failure(message, { status: response.status, wait: wholeNumber(response.headers.get("Retry-After"), null) });
}

/** Ask, hand every event on, return the result. */
async function fetchResult({ context, ...asked }, signal, tell) {
  const body = JSON.stringify({ ...asked, context: context || null, stream: true });
  const response = await call("v1/uncertainty", { method: "POST", body, signal });
  for await (const event of eventsOf(response)) {
    if (event.type === "result") return event.result;
    if (event.type === "error") throw new Failure(event.error?.message ?? "The server could not answer.");
    tell(event);
  }
  throw new Failure("The connection ended before the result was there.");
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Failure("The connection broke before the result was there.");
    });
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : ""; // others are heartbeats
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

// -- one question -----------------------------------------------------------------------------------------------

/** Run `work(signal)` as the only thing on its way; tell what becomes of it. */
async function alone(work, again) {
  if (settings.needs_key && !key()) return askForKey(again);
  running?.abort();
  const mine = (running = new AbortController());
  const clock = startClock();
  busy(true);
  at("error").replaceChildren();
  try {
    await work(mine.signal, clock);
  } catch (error) {
    if (mine === running) fail(error, again);
  } finally {
    clock.stop();
    if (mine === running) busy(false);
  }
}

function ask(asked) {
  const again = () => ask(asked);
  return alone(async (signal, clock) => {
    shown = null;
    at("sheet").classList.remove("two");
    const arriving = showArriving(asked);
    say("Waiting for the server …");
    const result = await fetchResult(asked, signal, (event) => {
      clock.news();
      arriving.tell(event);
    });
    remember(asked, result);
    show(asked, result);
  }, again);
}

function show(asked, result) {
  shown = { asked, result };
  at("sheet").classList.remove("two");
  showResult(at("result"), result);
  say(`Done: ${reading(result)}.`);
  offer(asked);
}

function offer(asked, compared = false) {
  const link = new URL(linkOf(asked, compared), location.href).href;
  at("share").replaceChildren(copyButton("Copy link", () => link));
  at("compare").textContent = `Compare with ${otherMethod(asked) === "sdlg" ? "SDLG" : "multinomial sampling"}`;
  at("compare").hidden = compared || !settings.methods.includes(otherMethod(asked));
}

/** The answer as it comes: one text node that grows, then a count of branches. */
function showArriving(asked) {
  const text = document.createTextNode("");
  const line = make("p", { class: "text busy", dir: "auto" }, text);
  const found = make("ul", { class: "branches" });
  const others = make("section", { hidden: true }, make("h3", {}, "Other answers so far"), found);
  const answer = make("section", { class: "answer" }, make("h3", {}, "Answer"), line);
  const title = make("header", { class: "asked" }, make("h2", { dir: "auto" }, visible(asked.question)));
  const place = make("div", { class: "arriving" }, title, answer, others);
  at("result").classList.remove("view");
  at("result").replaceChildren(place);
  const tells = {
    token(event) {
      if (!text.data) say("Answering …");
      text.appendData(visible(event.text));
    },
    answer(event) {
      text.data = visible(event.answer.text) || "(an empty answer)";
      line.classList.remove("busy");
      say("The answer is there. Looking for other meanings …");
    },
    branch(event) {
      if (!text.data) say("Sampling answers …");
      others.hidden = false;
      answer.hidden = !text.data; // without an answer stage there is nothing to wait for
      found.append(make("li", { class: "sentence", dir: "auto" }, visible(event.sample.text.slice(0, 400)) || "(empty)"));
      at("clock").dataset.found = `${found.children.length} found`;
    },
  };
  return { tell: (event) => tells[event.type]?.(event) };
}

// -- two methods, side by side ----------------------------------------------------------------------------------

const otherMethod = (asked) => (asked.method === "multinomial" ? "sdlg" : "multinomial");

function compare(first) {
  return alone(async (signal, clock) => {
    const asked = { ...first.asked, method: otherMethod(first.asked) };
    say("Asking the same with the other method …");
    const result = recall(asked) ?? (await fetchResult(asked, signal, () => clock.news()));
    remember(asked, result);
    showBoth(first, { asked, result });
  }, () => compare(first));
}

function showBoth(first, second) {
  const columns = [first, second].map(({ result }) => {
    const place = make("article", { "aria-label": result.method });
    showResult(place, result);
    return place;
  });
  const rows = figures(first.result).map(([name, value], number) => {
    const other = figures(second.result)[number][1];
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value), make("td", {}, other));
  });
  const names = [first, second].map(({ result }) => METHODS[result.method] ?? result.method);
  const compared = table("The two methods compared", ["Number", ...names], rows);
  const both = make("div", { class: "compared" }, make("h2", {}, "Side by side"), compared);
  both.append(make("div", { class: "columns" }, ...columns));
  at("result").classList.remove("view");
  at("result").replaceChildren(both);
  at("sheet").classList.add("two");
  history.replaceState(null, "", linkOf(first.asked, true));
  offer(first.asked, true);
  say(`Compared: ${names.join(" and ")}.`);
}

// -- what is going on -------------------------------------------------------------------------------------------

const say = (text) => (at("status").textContent = text);

function busy(is) {
  at("stop").hidden = !is;
  at("submit").textContent = is ? "Ask anew" : "Ask";
  at("result").setAttribute("aria-busy", is);
  if (is) at("compare").hidden = true;
  if (is) at("share").replaceChildren();
}

function startClock() {
  const begun = performance.now();
  let last = begun;
  delete at("clock").dataset.found;
  const tick = () => {
    const now = performance.now();
    const found = at("clock").dataset.found;
    at("clock").textContent = `${Math.round((now - begun) / 1000)} s${found ? ` · ${found}` : ""}`;
    if (now - last < PATIENCE * 1000) return;
    say("Still waiting. The server may be busy with other questions.");
    last = now;
  };
  const timer = setInterval(tick, 1000);
  return { news: () => (last = performance.now()), stop: () => (clearInterval(timer), (at("clock").textContent = "")) };
}

function fail(error, again) {
  if (shown) offer(shown.asked); // a comparison that failed leaves the first result as it was
  const waiting = at("result").querySelector(".busy");
  waiting?.classList.remove("busy");
  if (waiting && !waiting.textContent) waiting.closest(".answer").hidden = true;
  if (error.name === "AbortError") return say("Stopped.");
  say("");
  if (error.status === 401) return askForKey(again, error.message);
  const wait = error.wait === null || error.wait === undefined ? "" : ` The server asks to wait ${error.wait} s.`;
  const title = error.status === 429 ? "The server is busy." : "That did not work.";
  const retry = make("button", { type: "button", class: "quiet" }, "Try again");
  retry.addEventListener("click", again);
  const told = visible(error.message).replace(/([^.!?…])$/, "$1.");
  const message = make("p", {}, make("strong", {}, title), ` ${told}${wait}`);
  at("error").replaceChildren(make("div", { class: "error" }, message, make("div", { class: "actions" }, retry)));
}

function askForKey(again, why = "") {
  pending = again;
  at("key").hidden = false;
  at("key-text").focus();
  say(key() && why ? `The key was not accepted: ${why}` : "This server asks for a key.");
}

// -- history ----------------------------------------------------------------------------------------------------

function stored(storage, name) {
  try {
    return storage.getItem(name);
  } catch {
    return null; // a browser that keeps nothing
  }
}

/** Whatever else may lie there under our name is passed over. */
const isEntry = (entry) =>
  typeof entry?.link === "string" && entry.link.startsWith("#") && typeof entry.question === "string"
  && Array.isArray(entry.result?.clusters) && Array.isArray(entry.result.samples);

function entries() {
  try {
    const found = JSON.parse(stored(localStorage, HISTORY) ?? "[]");
    return Array.isArray(found) ? found.filter(isEntry) : [];
  } catch {
    return [];
  }
}

/** Keep what fits; the oldest go first. */
function keep(list) {
  const kept = list.slice(0, ENTRIES);
  for (;;) {
    const text = JSON.stringify(kept);
    try {
      if (text.length > CHARACTERS && kept.length) throw new RangeError("too much");
      localStorage.setItem(HISTORY, text);
      break;
    } catch {
      if (!kept.length) break;
      kept.pop();
    }
  }
  listHistory();
}

function remember(asked, result) {
  const link = linkOf(asked);
  const entry = { link, question: asked.question, method: asked.method, when: Date.now(), result };
  if (JSON.stringify(entry).length > CHARACTERS) return;
  keep([entry, ...entries().filter((other) => other.link !== link)]);
}

/** Of the same models only: another server may stand at this address today. */
const recall = (asked) => entries().find(({ link, result }) => link === linkOf(asked)
  && (!settings.model || (result.model === settings.model && result.nli === settings.nli)))?.result;

function listHistory() {
  const list = entries();
  at("history").hidden = !list.length;
  at("history-list").replaceChildren(...list.map(historyRow));
}

function historyRow(entry) {
  const question = visible(entry.question.length > 140 ? `${entry.question.slice(0, 140)}…` : entry.question);
  const when = `${entry.method} · ${new Date(entry.when).toLocaleString()}`;
  const link = make("a", { href: entry.link, dir: "auto" }, question);
  const text = make("div", {}, link, make("span", { class: "faint" }, when));
  const button = make("button", { type: "button", class: "quiet", "aria-label": `Delete: ${question}` }, "Delete");
  button.addEventListener("click", () => {
    keep(entries().filter((other) => other.link !== entry.link));
    (at("history").hidden ? at("question") : at("forget")).focus();
  });
  return make("li", {}, text, button);
}

// -- the beginning ----------------------------------------------------------------------------------------------

/** Show what the address asks for: from the history if it is there, else by asking again. */
async function openLink() {
  const found = askedInLink(location.hash);
  if (!found) return;
  const { asked, compared } = found;
  fillForm(asked);
  const result = recall(asked);
  if (result) {
    running?.abort();
    at("error").replaceChildren();
    show(asked, result);
  } else await ask(asked);
  if (compared && shown) await compare(shown);
}

function applySettings() {
  for (const [name, choices] of [["method", settings.methods], ["preset", settings.presets]])
    at(name).replaceChildren(...choices.map((choice) => make("option", { value: choice }, choice)));
  for (const [name, value] of Object.entries(settings.defaults)) if (at(name)) at(name).value = value;
  for (const name of ["samples", "max_tokens"]) if (settings.limits[name]) at(name).max = settings.limits[name];
  const about = [settings.model, `judged by ${settings.nli}`, ...(settings.calibrated ? ["calibrated"] : [])];
  if (settings.model) at("about").textContent = visible(about.join(" · "));
}

function listen() {
  at("ask").addEventListener("submit", async (event) => {
    event.preventDefault();
    await ready; // the server's own methods and defaults
    const asked = askedInForm();
    if (!asked.question) return at("question").focus();
    if (linkOf(asked) !== location.hash) history.pushState(null, "", linkOf(asked));
    ask(asked);
  });
  const reveal = (event) => event.target.closest("details")?.setAttribute("open", ""); // else nobody sees what is wrong
  at("ask").addEventListener("invalid", reveal, true);
  at("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    at("ask").requestSubmit();
  });
  at("stop").addEventListener("click", () => {
    running?.abort();
    at("question").focus();
  });
  at("compare").addEventListener("click", () => shown && compare(shown));
  at("forget").addEventListener("click", () => {
    keep([]);
    at("question").focus();
  });
  at("key").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = at("key-text").value.trim();
    if (!/^[\x21-\x7e]+$/.test(typed)) return say("That key holds characters that cannot be sent; copy it again.");
    try {
      sessionStorage.setItem("sdlg.key", typed);
    } catch {
      return say("This browser keeps nothing, so a key cannot be used.");
    }
    at("key").hidden = true;
    at("key-text").value = "";
    pending?.();
  });
  addEventListener("popstate", openLink);
}

async function loadSettings() {
  try {
    settings = { ...FALLBACK, ...(await (await call("v1/settings")).json()) };
    applySettings();
  } catch (error) {
    fail(error, () => location.reload());
  }
}

applySettings();
listHistory();
const ready = loadSettings();
listen();
ready.then(openLink);
