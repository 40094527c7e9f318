// Elements. No text ever becomes markup: everything goes through textContent.

const SHOWN = 400; // characters of a text before it is folded

/** An element with attributes and children; text stays text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Control and direction-changing characters made visible, one for one: offsets stay right. */
export function visible(text) {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(/[\u0080-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

let lastId = 0;
export const newId = (name) => `${name}-${++lastId}`;
export const faint = (...children) => make("p", { class: "faint" }, ...children);
export const folded = (summary, ...children) => make("details", {}, make("summary", {}, summary), ...children);

/** A text; a long one's beginning, and a button that shows the rest. */
export function clipped(text) {
  const characters = Array.from(text);
  if (characters.length <= SHOWN * 1.25) return text ? [visible(text)] : [make("em", {}, "(empty)")];
  const rest = make("span", { hidden: true }, visible(characters.slice(SHOWN).join("")));
  const button = make("button", { type: "button", class: "more" }, `… ${characters.length - SHOWN} more characters`);
  button.addEventListener("click", () => {
    rest.hidden = false;
    button.remove();
  });
  return [visible(characters.slice(0, SHOWN).join("")), rest, button];
}

/** A table that scrolls by itself on a narrow screen. The first cell of a row is its head. */
export function table(caption, heads, rows) {
  const head = heads.map(([name, why]) => make("th", { scope: "col", title: why }, name));
  const body = rows.map(([first, ...cells]) =>
    make("tr", {}, make("th", { scope: "row", dir: "auto" }, first), ...cells.map((cell) => make("td", {}, cell))));
  const title = make("caption", { class: "unseen" }, caption);
  const whole = make("table", {}, title, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  return make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": caption }, whole);
}

/** A button that copies a text and says so. */
export function copyButton(label, textOf) {
  const button = make("button", { class: "quiet", type: "button" }, label);
  button.addEventListener("click", async () => {
    const done = await navigator.clipboard?.writeText(textOf()).then(() => true, () => false);
    button.textContent = done ? "Copied" : "Copying is not allowed here";
    setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}

// -- numbers ---------------------------------------------------------------------------------------------------------

export const decimal = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : "not known");

/** What rounds to 0 % or 100 % and is not is said to be below 1 % or above 99 %. */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1%";
  return share >= 0.995 && share < 1 ? ">99%" : `${Math.round(100 * share)}%`;
}
