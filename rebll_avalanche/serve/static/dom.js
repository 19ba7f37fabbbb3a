// Elements from text only: whatever a label or a file name holds, it is shown and never run.

export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function say(text, wrong = false) {
  const place = byId("message");
  place.textContent = text;
  place.classList.toggle("error", wrong);
}

// An event handler that tells what went wrong instead of failing silently.
export const careful = (action) => async (...given) => {
  try {
    await action(...given);
  } catch (error) {
    say(error.message, true);
  }
};

export const percent = (number) => (number === null || number === undefined ? "–" : (100 * number).toFixed(1));

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function table(header, rows) {
  const line = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
  return element("table", {}, element("thead", {}, line("th", header)),
    element("tbody", {}, ...rows.map((row) => line("td", row))));
}

// A place that takes dropped files and folders, and inputs that choose them.
export function takesPictures(place, inputs, take) {
  for (const input of inputs) {
    input.addEventListener("change", careful(async () => {
      const files = [...input.files];
      input.value = "";
      await take(files.filter(isPicture));
    }));
  }
  if (!place) return;
  place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", careful(async (event) => {
    event.preventDefault();
    place.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = entries.length ? (await Promise.all(entries.map(filesIn))).flat() : [...event.dataTransfer.files];
    await take(files.filter(isPicture));
  }));
}

const isPicture = (file) => file.type.startsWith("image/") || /\.(jp2|pcx|p[gp]m|qoi|sgi|tga|tiff?)$/i.test(file.name);

async function filesIn(entry) {
  if (entry.isFile) return [await new Promise((found, failed) => entry.file(found, failed))];
  const reader = entry.createReader(), files = [];
  for (;;) { // it gives a hundred at a time
    const some = await new Promise((found, failed) => reader.readEntries(found, failed));
    if (!some.length) return files;
    files.push(...(await Promise.all(some.map(filesIn))).flat());
  }
}
