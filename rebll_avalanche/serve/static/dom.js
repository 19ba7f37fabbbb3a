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

export const many = (count, one) => `${count} ${one}${count === 1 ? "" : one.endsWith("s") ? "es" : "s"}`;
export const percent = (number) => (number === null || number === undefined ? "–" : (100 * number).toFixed(1));

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function table(header, rows) {
  const head = (scope) => (cell) => element("th", { scope }, cell);
  return element("table", {}, element("thead", {}, element("tr", {}, ...header.map(head("col")))),
    element("tbody", {}, ...rows.map(([name, ...cells]) =>
      element("tr", {}, head("row")(name), ...cells.map((cell) => element("td", {}, cell))))));
}

// A place that takes dropped files and folders, and inputs that choose them.
export function takesPictures(place, inputs, take) {
  const takeSome = (files) => {
    const pictures = files.filter(isPicture);
    if (files.length && !pictures.length) throw new Error(`None of ${files.length} files is a picture.`);
    return take(pictures);
  };
  for (const input of inputs) {
    input.addEventListener("change", careful(async () => {
      const files = [...input.files];
      input.value = "";
      await takeSome(files);
    }));
  }
  place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", careful(async (event) => {
    event.preventDefault();
    place.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = entries.length ? (await Promise.all(entries.map(filesIn))).flat() : [...event.dataTransfer.files];
    await takeSome(files);
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
