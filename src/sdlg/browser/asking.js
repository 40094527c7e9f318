// One question at a time, from asking to its result, and two methods side by side.

import { showArriving } from "./arriving.js";
import { copyButton, make, table, visible } from "./elements.js";
import { linkOf } from "./form.js";
import { recall, remember } from "./history.js";
import { fetchResult, key } from "./server.js";
import { settings } from "./settings.js";
import { at, busy, say, startClock } from "./status.js";
import { figures, reading } from "./verdict.js";
import { METHODS, showResult } from "./view.js";

let running = null; // the AbortController of the question on its way
export let shown = null; // { asked, result }
export let pending = null; // what to do once there is a key

/** End the question on its way. */
export const stop = () => running?.abort();

/** Run `work(signal)` as the only thing on its way; tell what becomes of it. */
async function alone(work, again) {
  if (settings.needs_key && !key()) return askForKey(again);
  stop();
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

export function ask(asked) {
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

/** A question that came with a link: nothing is asked before the visitor wants it. */
export function suggest() {
  shown = null;
  at("sheet").classList.remove("two");
  for (const place of ["result", "share"]) at(place).replaceChildren();
  at("compare").hidden = true;
  say("This question came with a link. Press Ask to have it answered.");
  at("submit").focus();
}

export function show(asked, result) {
  shown = { asked, result };
  at("sheet").classList.remove("two");
  showResult(at("result"), result);
  say(`Done: ${reading(result)}.`);
  offer(asked);
}

function offer(asked, compared = false) {
  const link = new URL(linkOf(asked, compared), location.href).href;
  at("share").replaceChildren(copyButton("Copy link", () => link));
  at("compare").textContent = `Compare with ${otherMethod(asked).method === "sdlg" ? "SDLG" : "multinomial sampling"}`;
  at("compare").hidden = compared || !settings.methods.includes(otherMethod(asked).method);
}

/** The same question with the method that it is compared with. */
export const otherMethod = (asked) => ({ ...asked, method: asked.method === "multinomial" ? "sdlg" : "multinomial" });

export function compare(first) {
  return alone(async (signal, clock) => {
    const asked = otherMethod(first.asked);
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

export function fail(error, again) {
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
