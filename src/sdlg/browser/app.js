// The page: a form, an answer as it comes, what was asked before. What a result looks like is in view.js.

import { copyButton, make, visible } from "./elements.js";
import { call, fetchResult, key, stored, wholeNumber } from "./server.js";
import { showResult } from "./view.js";

const at = (id) => document.getElementById(id);
const say = (text) => (at("status").textContent = text);

// What the server offers: something to begin with, and its own word for it once that is there.
const settings = {
  methods: ["sdlg", "multinomial"],
  presets: ["default"],
  defaults: { method: "sdlg", preset: "default", samples: 10, max_tokens: 64, seed: 0 },
  limits: {},
};

// -- what is asked: in the form, and in a link -----------------------------------------------------------------------

const CHOICES = ["method", "preset"];
const NUMBERS = ["samples", "draws", "max_tokens", "seed"]; // no draws: as many as the server's default

function askedInForm() {
  const asked = { question: at("question").value.trim(), context: at("context").value.trim() };
  for (const name of CHOICES) asked[name] = at(name).value;
  for (const name of NUMBERS) if (at(name).value !== "") asked[name] = Number(at(name).value);
  return asked;
}

function fillForm(asked) {
  for (const name of ["question", "context", ...CHOICES, ...NUMBERS]) {
    const value = asked[name] ?? "";
    if (CHOICES.includes(name) && ![...at(name).options].some((option) => option.value === value))
      at(name).append(make("option", { value }, value)); // the server says if it does not know it
    at(name).value = value;
  }
  if (asked.context) at("with-context").open = true;
}

/** The fragment that stands for a question and its options. */
function linkOf({ question, context, ...options }) {
  const fields = new URLSearchParams({ q: question, ...(context ? { context } : {}), ...options });
  return `#${fields}`;
}

function askedInLink(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const asked = { question: fields.get("q")?.trim(), context: fields.get("context") ?? "" };
  for (const name of CHOICES) asked[name] = fields.get(name) || settings.defaults[name];
  for (const name of NUMBERS) {
    const value = wholeNumber(fields.get(name), settings.defaults[name]);
    if (value !== undefined) asked[name] = value;
  }
  return asked.question ? asked : null;
}

function applySettings() {
  for (const [name, choices] of [["method", settings.methods], ["preset", settings.presets]])
    at(name).replaceChildren(...choices.map((choice) => make("option", { value: choice }, choice)));
  for (const [name, value] of Object.entries(settings.defaults)) if (at(name)) at(name).value = value;
  for (const name of NUMBERS) if (settings.limits[name]) at(name).max = settings.limits[name];
  const about = [settings.model, `judge ${settings.nli}`, ...(settings.calibrated ? ["calibrated"] : [])];
  if (settings.model) at("about").textContent = visible(about.join(" · "));
}

// -- what was asked before, kept in this browser ---------------------------------------------------------------------

const HISTORY = "sdlg.history";
const ENTRIES = 50;
const CHARACTERS = 3_000_000; // browsers give about five million

/** Whatever else may lie there under our name is passed over. */
const isEntry = (entry) => typeof entry?.link === "string" && entry.link.startsWith("#")
  && typeof entry.question === "string" && entry.result?.format === "sdlg.result/1" && entry.result.said;

function entries() {
  try {
    const list = JSON.parse(stored(localStorage, HISTORY) ?? "[]");
    return Array.isArray(list) ? list.filter(isEntry) : [];
  } catch {
    return [];
  }
}

/** Keep what fits; the oldest go first. */
function keep(list) {
  for (const kept = list.slice(0, ENTRIES); ; kept.pop()) {
    const text = JSON.stringify(kept);
    try {
      if (text.length <= CHARACTERS) localStorage.setItem(HISTORY, text);
      if (text.length <= CHARACTERS) break;
    } catch {
      if (!kept.length) break;
    }
  }
  listHistory();
}

function remember(asked, result) {
  const link = linkOf(asked);
  keep([{ link, question: asked.question, when: Date.now(), result }, ...entries().filter((other) => other.link !== link)]);
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
  const when = make("span", { class: "faint" }, ` ${entry.result.method} · ${new Date(entry.when).toLocaleString()}`);
  const button = make("button", { type: "button", class: "quiet", "aria-label": `Delete: ${question}` }, "Delete");
  button.addEventListener("click", () => {
    keep(entries().filter((other) => other.link !== entry.link));
    (at("history").hidden ? at("question") : at("forget")).focus();
  });
  return make("li", {}, make("div", {}, make("a", { href: entry.link, dir: "auto" }, question), when), button);
}

// -- one question at a time ------------------------------------------------------------------------------------------

const PATIENCE = 15; // seconds without news before we say that it is slow
let running = null; // the AbortController of the question on its way
let pending = null; // what to do once there is a key

async function ask(asked) {
  const again = () => ask(asked);
  if (settings.needs_key && !key()) return askForKey(again);
  running?.abort();
  const mine = (running = new AbortController());
  const clock = startClock();
  at("error").replaceChildren();
  busy(true);
  say("Waiting for the server …");
  try {
    const arriving = showArriving(asked);
    const result = await fetchResult(asked, mine.signal, (event) => (clock.news(), arriving[event.type]?.(event)));
    remember(asked, result);
    show(asked, result);
  } catch (error) {
    if (mine === running) fail(error, again);
  } finally {
    clock.stop();
    if (mine === running) busy(false);
  }
}

function busy(is) {
  at("stop").hidden = !is;
  at("submit").textContent = is ? "Ask anew" : "Ask";
  at("result").setAttribute("aria-busy", is);
  if (is) at("share").replaceChildren();
}

function startClock() {
  const begun = performance.now();
  let last = begun;
  const timer = setInterval(() => {
    at("clock").textContent = `${Math.round((performance.now() - begun) / 1000)} s`;
    if (performance.now() - last < PATIENCE * 1000) return;
    say("Still waiting. The server may be busy with other questions.");
    last = performance.now();
  }, 1000);
  return { news: () => (last = performance.now()), stop: () => (clearInterval(timer), (at("clock").textContent = "")) };
}

/** The answer as it comes, one text that grows, then the others; a handler for each type of event. */
function showArriving({ question }) {
  const text = document.createTextNode("");
  const line = make("p", { class: "text busy", dir: "auto" }, text);
  const others = make("ul", { class: "wordings" });
  const title = make("header", { class: "asked" }, make("h2", { dir: "auto" }, visible(question)));
  at("result").replaceChildren(title, make("section", { class: "answer arriving" }, line), others);
  at("result").classList.add("view");
  return {
    token(event) {
      if (!text.data) say("Answering …");
      text.appendData(visible(event.text));
    },
    answer(event) {
      text.data = visible(event.answer.text) || "(an empty answer)";
      line.classList.remove("busy");
      say("The answer is there. Looking for other meanings …");
    },
    sentence({ sentence, said }) {
      if (!sentence.clusters.length) return;
      say("Measuring sentence by sentence …");
      others.append(make("li", { dir: "auto" }, `${said.share} `, visible(sentence.text.slice(0, 400))));
    },
    branch(event) {
      if (!text.data) say("Sampling answers …");
      others.append(make("li", { dir: "auto" }, visible(event.sample.text.slice(0, 400)) || "(empty)"));
    },
  };
}

function show(asked, result) {
  showResult(at("result"), result);
  say("Done.");
  at("share").replaceChildren(copyButton("Copy link", () => new URL(linkOf(asked), location.href).href));
}

function fail(error, again) {
  at("result").querySelector(".busy")?.classList.remove("busy");
  if (error.name === "AbortError") return say("Stopped.");
  say("");
  if (error.status === 401) return askForKey(again, error.message);
  const wait = error.wait === null || error.wait === undefined ? "" : ` The server asks to wait ${error.wait} s.`;
  const title = error.status === 429 ? "The server is busy." : "That did not work.";
  const retry = make("button", { type: "button", class: "quiet" }, "Try again");
  retry.addEventListener("click", again);
  const sentence = visible(error.message).replace(/([^.!?…])$/, "$1.");
  const message = make("p", {}, make("strong", {}, title), ` ${sentence}${wait}`);
  at("error").replaceChildren(make("div", { class: "error" }, message, make("div", { class: "actions" }, retry)));
}

function askForKey(again, why = "") {
  pending = again;
  at("key").hidden = false;
  at("key-text").focus();
  say(key() && why ? `The key was not accepted: ${why}` : "This server asks for a key.");
}

function useKey() {
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
}

/** Show what the address asks for, from the history. What is not there waits for a click: a link on any page leads here. */
function openLink() {
  const asked = askedInLink(location.hash);
  if (!asked) return;
  fillForm(asked);
  running?.abort();
  for (const place of ["error", "result", "share"]) at(place).replaceChildren();
  const result = recall(asked);
  if (result) return show(asked, result);
  say("This question came with a link. Press Ask to have it answered.");
  at("submit").focus();
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
  at("stop").addEventListener("click", () => (running?.abort(), at("question").focus()));
  at("forget").addEventListener("click", () => (keep([]), at("question").focus()));
  at("key").addEventListener("submit", (event) => (event.preventDefault(), useKey()));
  addEventListener("popstate", openLink);
}

async function loadSettings() {
  try {
    Object.assign(settings, await (await call("v1/settings")).json());
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
