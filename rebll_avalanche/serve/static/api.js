// The one place that talks to the server.

const fromLink = new URLSearchParams(location.hash.slice(1)).get("token");
if (fromLink) {
  sessionStorage.setItem("token", fromLink);
  history.replaceState(null, "", location.pathname); // out of sight, and out of the history
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  let answer;
  try {
    answer = await fetch(`api/${path}`, { ...options, headers });
  } catch {
    throw Object.assign(new Error("The server does not answer."), { unreachable: true });
  }
  if (answer.status === 429) { // it has more to do than it should; it says so before it reads anything
    await new Promise((go) => setTimeout(go, 1000));
    return ask(path, options);
  }
  if (answer.ok) return answer;
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    const told = (await answer.json()).detail;
    detail = typeof told === "string" ? told : told.map((each) => each.msg).join("; ");
  } catch { /* no JSON */ }
  throw new Error(detail);
}

function form(files, fields = {}, name = "pictures") {
  const body = new FormData();
  for (const file of files) body.append(name, file, file.name);
  for (const [key, value] of Object.entries(fields)) body.append(key, value);
  return { method: "POST", body };
}

const json = async (answer) => (await answer).json();
const send = (method) => (path, value) => json(ask(path, {
  method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value ?? {}),
}));
const post = send("POST");
const put = send("PUT");

const limits = json(ask("limits"));
limits.catch(() => {}); // told when somebody needs them

// Files in groups that one request may hold. A request that is too large is refused before it is read, and a
// browser then says no more than that the connection broke.
export async function groups(files) {
  const { body, pictures } = await limits;
  const found = [[]];
  let bytes = 0;
  for (const file of files) {
    if (found.at(-1).length && (bytes + file.size > 0.9 * body || found.at(-1).length >= pictures)) {
      found.push([]);
      bytes = 0;
    }
    found.at(-1).push(file);
    bytes += file.size;
  }
  return found;
}

const thumbnails = new Map();

export const api = {
  about: () => json(ask("about")),
  classes: () => json(ask("classes")),
  lessons: () => json(ask("lessons")),
  audit: () => json(ask("audit")),
  worst: (name, count) => json(ask(`worst?${new URLSearchParams({ name, count })}`)),
  predict: (files) => json(ask("predict", form(files))),
  suggest: (files, count) => json(ask(`suggest?count=${count}`, form(files))),
  map: async (file, name) => (await ask("map", form([file], { name }, "picture"))).blob(),
  learn: (files, labels) => json(ask("learn", form(files, { labels: JSON.stringify(labels) }))),
  job: (number) => json(ask(`jobs/${number}`)),
  undo: () => post("undo"),
  forget: (what) => post("forget", what),
  rename: (old, name) => post("rename", { old, new: name }),
  correct: (corrections) => post("correct", { corrections }),
  keepThresholds: (thresholds) => put("thresholds", thresholds),
  chooseThresholds: (precision) => post("thresholds/choose", { precision }),
  file: async () => (await ask("file")).blob(),
  // The address of a small copy of a picture that was learned; asked for once.
  thumbnail(id) {
    if (!thumbnails.has(id)) {
      const query = new URLSearchParams({ picture: id });
      const found = ask(`thumbnail?${query}`).then((answer) => answer.blob()).then((blob) => URL.createObjectURL(blob));
      found.catch(() => thumbnails.delete(id));
      thumbnails.set(id, found);
    }
    return thumbnails.get(id);
  },
};
