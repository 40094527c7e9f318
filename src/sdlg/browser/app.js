// The page: it listens to its form and its address. What a result looks like is in view.js.

import { ask, compare, fail, otherMethod, pending, show, shown, stop, suggest } from "./asking.js";
import { applySettings, askedInForm, askedInLink, fillForm, linkOf } from "./form.js";
import { keep, listHistory, recall } from "./history.js";
import { call } from "./server.js";
import { settings } from "./settings.js";
import { at, say } from "./status.js";

/** Show what the address asks for, from the history. What is not there waits for a click: a link on any page leads here. */
async function openLink() {
  const link = askedInLink(location.hash);
  if (!link) return;
  const { asked, compared } = link;
  fillForm(asked);
  stop();
  at("error").replaceChildren();
  const result = recall(asked);
  if (!result) return suggest();
  show(asked, result);
  if (compared && recall(otherMethod(asked))) await compare(shown);
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
    stop();
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
