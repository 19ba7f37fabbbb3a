// Pictures that lie on this page, and pictures that the learner remembers.
import { api } from "./api.js";
import { careful, element } from "./dom.js";

const here = new Map(); // by name

export class Picture {
  constructor(file) {
    this.file = file;
    this.name = file.name;
    this.url = URL.createObjectURL(file);
    this.scores = {};
    this.answeredBy = null; // the version of the learner that gave the scores
    this.labels = new Map(); // what the person has said: true, false, or null for not annotated
    this.wanted = []; // classes that the learner would like to know about
    this.taught = false;
    here.set(file.name, this);
  }

  close() {
    URL.revokeObjectURL(this.url);
    if (here.get(this.name) === this) here.delete(this.name);
  }
}

// An image of a picture that was learned: its small copy, or the file if it lies on this page.
export function learnedImage({ name, id, thumbnail }) {
  const image = element("img", { alt: name, className: "small" });
  if (thumbnail) careful(async () => { image.src = await api.thumbnail(id); })();
  else if (here.has(name)) image.src = here.get(name).url;
  else return element("span", { className: "small missing" }, "no small copy");
  return image;
}
