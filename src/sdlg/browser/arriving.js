// A result as it comes: the answer word by word, then the other answers.

import { make, visible } from "./elements.js";
import { at, say } from "./status.js";

/** The answer as it comes: one text node that grows, then a count of branches. */
export function showArriving(asked) {
  const text = document.createTextNode("");
  const line = make("p", { class: "text busy", dir: "auto" }, text);
  const list = make("ul", { class: "branches" });
  const others = make("section", { hidden: true }, make("h3", {}, "Other answers so far"), list);
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
      list.append(make("li", { class: "sentence", dir: "auto" }, visible(event.sample.text.slice(0, 400)) || "(empty)"));
      at("clock").dataset.count = `${list.children.length} found`;
    },
  };
  return { tell: (event) => tells[event.type]?.(event) };
}
