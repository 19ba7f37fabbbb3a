// Pictures that this page has seen. They stay here, in the browser; the server keeps none of them.

const seen = new Map();

export class Picture {
  constructor(file) {
    this.file = file;
    this.name = file.name;
    this.url = URL.createObjectURL(file);
    this.scores = {};
    this.labels = new Map(); // what the person has said: true, false, or null for not annotated
    seen.set(file.name, this);
  }
}

export const named = (name) => seen.get(name);
