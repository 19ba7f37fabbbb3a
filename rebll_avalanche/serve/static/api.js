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
    throw new Error("The server does not answer.");
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
const post = (path, value) => json(ask(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value ?? {}),
}));

export const api = {
  classes: () => json(ask("classes")),
  lessons: () => json(ask("lessons")),
  audit: () => json(ask("audit")),
  predict: (files) => json(ask("predict", form(files))),
  suggest: (files, count) => json(ask(`suggest?count=${count}`, form(files))),
  map: async (file, name) => (await ask("map", form([file], { name }, "picture"))).blob(),
  learn: (files, labels) => json(ask("learn", form(files, { labels: JSON.stringify(labels) }))),
  job: (number) => json(ask(`jobs/${number}`)),
  undo: () => post("undo"),
  forget: (what) => post("forget", what),
  rename: (old, name) => post("rename", { old, new: name }),
  correct: (corrections) => post("correct", { corrections }),
  file: async () => (await ask("file")).blob(),
};
